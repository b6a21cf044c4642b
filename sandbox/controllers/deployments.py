"""The Deployment controller.

Source: k8s.io/kubernetes pkg/controller/deployment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from common.errors import ConflictError, NotFoundError
from common.kube.endpoints import DEPLOYMENTS, REPLICA_SETS
from common.kube.events import NORMAL
from sandbox.controllers.actor import Actor
from sandbox.controllers.pods import TEMPLATE_HASH, is_finished, owner_reference, template_hash
from sandbox.controllers.rollout import (
    Replicas,
    Tolerance,
    first_replicas,
    recreate,
    rolling_update,
)
from sandbox.objects.conditions import with_condition

Json = dict[str, Any]

# Reasons of the condition Progressing.
_UPDATED = "ReplicaSetUpdated"
_AVAILABLE = "NewReplicaSetAvailable"

_HISTORY = 10  # old ReplicaSets that are kept
_RETRY = 1.0  # seconds; the end of a terminating pod wakes no Deployment


class Deployments:
    """Creates ReplicaSets for Deployments, and moves replicas between them.

    It numbers no revisions and has no progress deadline.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> float | None:
        view = self._actor.view
        deployment = view.get("Deployment", namespace, name)
        if deployment is None:
            return None
        owned = sorted(
            view.owned_by(deployment["metadata"]["uid"], "ReplicaSet", namespace), key=_age
        )
        digest = template_hash(deployment["spec"]["template"])
        new = next((one for one in owned if _hash_of(one) == digest), None)
        old = [one for one in owned if one is not new]
        waits = _tolerance(deployment["spec"]) is None and any(map(self._pods_left, old))
        if not deployment["spec"].get("paused"):
            if new is None and not waits:
                await self._create(deployment, digest, old)
                return None  # the new ReplicaSet wakes the Deployment
            await self._scale(deployment, new, old)
            if new is not None:
                await self._clean_up(old)
        elif new is not None and not any(one["spec"]["replicas"] for one in old):
            await self._scale_one(deployment, new, deployment["spec"]["replicas"])
        status = deployment_status(deployment, new, old, self._actor.clock.now())
        await self._actor.write_status(DEPLOYMENTS, deployment, status)
        return _RETRY if waits else None

    def _pods_left(self, replica_set: Json) -> int:
        """Return the number of a ReplicaSet's pods that have not ended, including terminating ones.

        With the strategy Recreate no ReplicaSet is created while there are any. Source:
        ``oldPodsRunning``, k8s.io/kubernetes pkg/controller/deployment/recreate.go.
        """
        pods = self._actor.view.owned.all_of(replica_set["metadata"]["uid"])
        return sum(not is_finished(pod) for pod in pods)

    async def _create(self, deployment: Json, digest: str, old: Sequence[Json]) -> None:
        spec = deployment["spec"]
        count = first_replicas(spec["replicas"], [_replicas(one) for one in old], _tolerance(spec))
        body = new_replica_set(deployment, digest, count)
        namespace = deployment["metadata"]["namespace"]
        await self._actor.client.create(REPLICA_SETS.as_dicts(), body, namespace=namespace)
        self._record_scaled(deployment, body["metadata"]["name"], 0, count)

    async def _scale(self, deployment: Json, new: Json | None, old: Sequence[Json]) -> None:
        spec = deployment["spec"]
        by_name = {one["metadata"]["name"]: one for one in old}
        if new is not None:
            by_name[new["metadata"]["name"]] = new
        newest = None if new is None else _replicas(new)
        tolerance = _tolerance(spec)
        if tolerance is None:
            before = [replace(_replicas(one), present=self._pods_left(one)) for one in old]
            changes = recreate(spec["replicas"], newest, before)
        elif newest is not None:
            before = [_replicas(one) for one in old if one["spec"].get("replicas") or _present(one)]
            changes = rolling_update(spec["replicas"], newest, before, tolerance)
        else:
            changes = {}
        for name, count in changes.items():
            await self._scale_one(deployment, by_name[name], count)

    async def _scale_one(self, deployment: Json, replica_set: Json, count: int) -> None:
        """Scale a ReplicaSet.

        Raises:
            ConflictError: it has changed since it was read; the change wakes the Deployment.
        """
        before = replica_set["spec"].get("replicas", 0)
        if before == count:
            return
        meta = replica_set["metadata"]
        patch = {
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "spec": {"replicas": count},
        }
        await self._actor.patch(REPLICA_SETS, replica_set, patch)
        self._record_scaled(deployment, meta["name"], before, count)

    async def _clean_up(self, old: Sequence[Json]) -> None:
        """Delete the oldest ReplicaSets without pods beyond the limit of the history."""
        idle = [one for one in old if not one["spec"].get("replicas") and not _present(one)]
        for one in idle[: max(len(idle) - _HISTORY, 0)]:
            meta = one["metadata"]
            try:
                await self._actor.client.delete(
                    REPLICA_SETS, meta["name"], namespace=meta["namespace"], uid=meta["uid"]
                )
            except (ConflictError, NotFoundError):
                continue

    def _record_scaled(self, deployment: Json, name: str, before: int, after: int) -> None:
        direction = "up" if after >= before else "down"
        self._actor.record_event(
            deployment,
            NORMAL,
            "ScalingReplicaSet",
            f"Scaled {direction} replica set {name} from {before} to {after}",
        )


def new_replica_set(deployment: Json, digest: str, replicas: int) -> Json:
    """Return the ReplicaSet for the present template of a Deployment."""
    meta, spec = deployment["metadata"], deployment["spec"]
    template_meta = spec["template"].get("metadata") or {}
    labels = {**(template_meta.get("labels") or {}), TEMPLATE_HASH: digest}
    selector = spec["selector"]
    return {
        "metadata": {
            "name": f"{meta['name']}-{digest}",
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [
                owner_reference(deployment, api_version="apps/v1", kind="Deployment")
            ],
        },
        "spec": {
            "replicas": replicas,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: digest},
            },
            "template": {**spec["template"], "metadata": {**template_meta, "labels": labels}},
        },
    }


def deployment_status(
    deployment: Json, new: Json | None, old: Sequence[Json], now: datetime
) -> Json:
    """Return ``status`` with the conditions Available and Progressing."""
    spec = deployment["spec"]
    owned = [*old, new] if new is not None else list(old)
    total = sum(_present(one) for one in owned)
    available = sum(_count(one, "availableReplicas") for one in owned)
    updated = _present(new) if new is not None else 0
    status: Json = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": sum(_count(one, "readyReplicas") for one in owned),
        "availableReplicas": available,
        "unavailableReplicas": max(spec["replicas"] - available, 0),
    }
    tolerance = _tolerance(spec)
    enough = available >= spec["replicas"] - (tolerance.unavailable if tolerance else 0)
    conditions = with_condition(
        (deployment.get("status") or {}).get("conditions") or (),
        "Available",
        enough,
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        now=now,
    )
    status["conditions"] = _with_progress(status, conditions, spec["replicas"], now)
    return status


def _with_progress(status: Json, conditions: list[Json], wanted: int, now: datetime) -> list[Json]:
    """Set the condition Progressing. A pod that is lost after a rollout doesn't change it."""
    updated, replicas = status["updatedReplicas"], status["replicas"]
    was_complete = any(one.get("reason") == _AVAILABLE for one in conditions)
    complete = updated == replicas and (
        was_complete or replicas == status["availableReplicas"] == wanted
    )
    reason = _AVAILABLE if complete else _UPDATED
    text = "ReplicaSet has successfully progressed." if complete else "ReplicaSet is progressing."
    return with_condition(conditions, "Progressing", True, reason, text, now=now)


def _tolerance(spec: Mapping[str, Any]) -> Tolerance | None:
    """Return the bounds of a rolling update; None for the strategy Recreate."""
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return None
    return Tolerance.of(strategy.get("rollingUpdate") or {}, spec["replicas"])


def _replicas(replica_set: Json) -> Replicas:
    return Replicas(
        name=replica_set["metadata"]["name"],
        wanted=replica_set["spec"].get("replicas", 0),
        present=_present(replica_set),
        available=_count(replica_set, "availableReplicas"),
    )


def _count(replica_set: Json, name: str) -> int:
    count: int = (replica_set.get("status") or {}).get(name, 0)
    return count


def _present(replica_set: Json) -> int:
    return _count(replica_set, "replicas")


def _hash_of(replica_set: Json) -> str:
    digest: str = (replica_set["metadata"].get("labels") or {}).get(TEMPLATE_HASH, "")
    return digest


def _age(obj: Json) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], obj["metadata"]["name"]
