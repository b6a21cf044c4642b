"""The ReplicaSet controller, which also serves ReplicationControllers.

Source: k8s.io/kubernetes pkg/controller/replicaset/replica_set.go.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from common.api.core import Pod
from common.kube.endpoints import Endpoint
from sandbox.controllers.actor import MOST_AT_ONCE, Actor
from sandbox.controllers.conditions import with_condition, without_condition
from sandbox.controllers.pods import (
    available_in,
    is_active,
    owner_reference,
    pod_from_template,
    ready_since,
    to_delete,
)

Json = dict[str, Any]

_FAILURE = "ReplicaFailure"


class ReplicaSets:
    """Keeps as many pods as a ReplicaSet, or a ReplicationController, asks for."""

    def __init__(self, actor: Actor, endpoint: Endpoint[Any]) -> None:
        self._actor = actor
        self._endpoint = endpoint

    async def reconcile(self, namespace: str, name: str) -> float | None:
        view = self._actor.view
        owner = view.get(self._endpoint.kind, namespace, name)
        if owner is None:
            return None
        uid = owner["metadata"]["uid"]
        active = [pod for pod in view.owned.of(uid) if is_active(pod)]
        missing = owner["spec"].get("replicas", 1) - len(active)
        failure = None
        if missing > 0:
            reference = owner_reference(
                owner, api_version=self._endpoint.api_version, kind=self._endpoint.kind
            )
            body = pod_from_template(owner["spec"]["template"], reference)
            failure = await self._actor.create_pods(owner, [body] * min(missing, MOST_AT_ONCE))
        elif missing < 0:
            await self._actor.delete_pods(owner, to_delete(active, -missing))
        active = [pod for pod in view.owned.of(uid) if is_active(pod)]
        now = self._actor.clock.now()
        status = replica_set_status(owner, active, now, failure=str(failure or ""))
        await self._actor.write_status(self._endpoint, owner, status)
        if failure is not None:
            raise failure
        return seconds_to_available(active, owner["spec"].get("minReadySeconds", 0), now)


def replica_set_status(
    owner: Mapping[str, Any], active: Sequence[Pod], now: datetime, *, failure: str = ""
) -> Json:
    """``status`` over the active pods; ``failure`` is why pods could not be made."""
    spec = owner["spec"]
    template = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    least = spec.get("minReadySeconds", 0)
    conditions = (owner.get("status") or {}).get("conditions") or ()
    return {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(
            template.items() <= (pod.metadata.labels or {}).items() for pod in active
        ),
        "readyReplicas": sum(ready_since(pod) is not None for pod in active),
        "availableReplicas": sum(is_available(pod, least, now) for pod in active),
        "observedGeneration": owner["metadata"].get("generation", 0),
        "conditions": _conditions(conditions, failure, now),
    }


def _conditions(old: Sequence[Json], failure: str, now: datetime) -> list[Json]:
    """The condition ReplicaFailure comes and goes with the failure.

    Each try names another pod in its text. The first text stays: otherwise every try would
    change the status, and every change would cause a try.
    """
    if not failure:
        return without_condition(old, _FAILURE)
    if any(one["type"] == _FAILURE for one in old):
        return [dict(one) for one in old]
    return with_condition(old, _FAILURE, True, "FailedCreate", failure, now=now)


def is_available(pod: Pod, min_ready: int, now: datetime) -> bool:
    """Whether the pod has been ready for ``min_ready`` seconds."""
    wait = available_in(pod, min_ready, now)
    return wait is not None and not wait


def seconds_to_available(pods: Sequence[Pod], min_ready: int, now: datetime) -> float | None:
    """When the next ready pod becomes available; None when there is nothing to wait for."""
    waits = (available_in(pod, min_ready, now) for pod in pods)
    return min((wait.total_seconds() for wait in waits if wait), default=None)
