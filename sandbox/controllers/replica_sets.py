"""The ReplicaSet controller.

Source: k8s.io/kubernetes pkg/controller/replicaset/replica_set.go.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from common.api.core import Pod
from common.kube.endpoints import REPLICA_SETS
from sandbox.controllers.actor import MOST_AT_ONCE, Actor
from sandbox.controllers.pods import (
    is_active,
    is_ready,
    owner_reference,
    pod_from_template,
    to_delete,
)
from sandbox.objects.conditions import with_condition, without_condition

Json = dict[str, Any]

_FAILURE = "ReplicaFailure"


class ReplicaSets:
    """Keeps the desired number of pods of ReplicaSets."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> None:
        view = self._actor.view
        owner = view.get("ReplicaSet", namespace, name)
        if owner is None:
            return
        uid = owner["metadata"]["uid"]
        active = [pod for pod in view.owned.of(uid) if is_active(pod)]
        missing = owner["spec"].get("replicas", 1) - len(active)
        failure = None
        if missing > 0:
            reference = owner_reference(owner, api_version="apps/v1", kind="ReplicaSet")
            body = pod_from_template(owner["spec"]["template"], reference)
            failure = await self._actor.create_pods(owner, [body] * min(missing, MOST_AT_ONCE))
        elif missing < 0:
            await self._actor.delete_pods(owner, to_delete(active, -missing))
        active = [pod for pod in view.owned.of(uid) if is_active(pod)]
        now = self._actor.clock.now()
        status = replica_set_status(owner, active, now, failure=str(failure or ""))
        await self._actor.write_status(REPLICA_SETS, owner, status)
        if failure is not None:
            raise failure


def replica_set_status(
    owner: Mapping[str, Any], active: Sequence[Pod], now: datetime, *, failure: str = ""
) -> Json:
    """Return ``status`` over the active pods; ``failure`` is the error of a pod creation."""
    spec = owner["spec"]
    template = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    conditions = (owner.get("status") or {}).get("conditions") or ()
    return {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(
            template.items() <= (pod.metadata.labels or {}).items() for pod in active
        ),
        "readyReplicas": sum(is_ready(pod) for pod in active),
        "availableReplicas": sum(is_ready(pod) for pod in active),
        "observedGeneration": owner["metadata"].get("generation", 0),
        "conditions": _conditions(conditions, failure, now),
    }


def _conditions(old: Sequence[Json], failure: str, now: datetime) -> list[Json]:
    """Set or remove the condition ReplicaFailure.

    Each try names another pod in its text. The first text stays: otherwise every try would change
    the status, and every change would cause a try.
    """
    if not failure:
        return without_condition(old, _FAILURE)
    if any(one["type"] == _FAILURE for one in old):
        return [dict(one) for one in old]
    return with_condition(old, _FAILURE, True, "FailedCreate", failure, now=now)
