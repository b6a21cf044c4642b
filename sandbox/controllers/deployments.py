"""The Deployment controller.

Source: k8s.io/kubernetes pkg/controller/deployment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from common.errors import ConflictError, NotFoundError
from common.kube.endpoints import DEPLOYMENTS, REPLICA_SETS
from common.kube.events import NORMAL
from sandbox.controllers.actor import Actor
from sandbox.controllers.conditions import with_condition
from sandbox.controllers.pods import TEMPLATE_HASH, is_finished, owner_reference, template_hash
from sandbox.controllers.rollout import (
    Replicas,
    Tolerance,
    first_replicas,
    recreate,
    rolling_update,
)

Json = dict[str, Any]

REVISION = "deployment.kubernetes.io/revision"

_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAXIMUM = "deployment.kubernetes.io/max-replicas"
# Reasons of the condition Progressing.
_CREATED = "NewReplicaSetCreated"
_UPDATED = "ReplicaSetUpdated"
_AVAILABLE = "NewReplicaSetAvailable"
_EXCEEDED = "ProgressDeadlineExceeded"

_DEFAULT_DEADLINE = 600  # seconds
_LOOK_AGAIN = 1.0  # seconds; pods that are gone at last change nothing that we are woken for


class Deployments:
    """Makes ReplicaSets for Deployments, and moves replicas between them."""

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
                return None  # the new ReplicaSet wakes us
            if new is not None:
                await self._number(deployment, new, old)
            await self._scale(deployment, new, old)
            if new is not None:
                await self._clean_up(deployment, old)
        elif new is not None and not any(one["spec"]["replicas"] for one in old):
            await self._scale_one(deployment, new, deployment["spec"]["replicas"])
        now = self._actor.clock.now()
        status = deployment_status(deployment, new, old, now)
        await self._actor.write_status(DEPLOYMENTS, deployment, status)
        return _LOOK_AGAIN if waits else _seconds_to_deadline(deployment, status, now)

    def _pods_left(self, replica_set: Json) -> int:
        """The pods of a ReplicaSet that have not ended, those included that are being deleted.

        With the strategy Recreate no new ReplicaSet is made while there are any.
        Source: ``oldPodsRunning``, k8s.io/kubernetes pkg/controller/deployment/recreate.go.
        """
        pods = self._actor.view.owned.all_of(replica_set["metadata"]["uid"])
        return sum(not is_finished(pod) for pod in pods)

    async def _create(self, deployment: Json, digest: str, old: Sequence[Json]) -> None:
        spec = deployment["spec"]
        count = first_replicas(spec["replicas"], [_replicas(one) for one in old], _tolerance(spec))
        body = new_replica_set(deployment, digest, count, _next_revision(old))
        namespace = deployment["metadata"]["namespace"]
        await self._actor.client.create(REPLICA_SETS.as_dicts(), body, namespace=namespace)
        name = body["metadata"]["name"]
        self._record_scaled(deployment, name, 0, count)
        conditions = with_condition(
            (deployment.get("status") or {}).get("conditions") or (),
            "Progressing",
            True,
            _CREATED,
            f'Created new replica set "{name}"',
            now=self._actor.clock.now(),
            timed=True,
        )
        status = {"conditions": conditions}
        await self._actor.write_status(DEPLOYMENTS, deployment, status)

    async def _number(self, deployment: Json, new: Json, old: Sequence[Json]) -> None:
        """Give the new ReplicaSet the highest revision, and tell it on the Deployment."""
        revision = _revision(new)
        if old and revision <= max(map(_revision, old)):
            revision = _next_revision(old)
            await self._actor.patch(REPLICA_SETS, new, _annotation(REVISION, str(revision)))
        if _revision(deployment) != revision:
            # Through the status: an annotation of its own would be a new generation.
            told = _annotation(REVISION, str(revision))
            await self._actor.patch(DEPLOYMENTS, deployment, told, subresource="status")

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
        """Scale a ReplicaSet, but only as we have seen it.

        Raises:
            ConflictError: it has changed since; the change will wake us.
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

    async def _clean_up(self, deployment: Json, old: Sequence[Json]) -> None:
        """Forget old ReplicaSets beyond the limit of the history."""
        idle = [one for one in old if not one["spec"].get("replicas") and not _present(one)]
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        for one in sorted(idle, key=_revision)[: max(len(idle) - limit, 0)]:
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


def new_replica_set(deployment: Json, digest: str, replicas: int, revision: int) -> Json:
    """The ReplicaSet for the Deployment's present template."""
    meta, spec = deployment["metadata"], deployment["spec"]
    template_meta = spec["template"].get("metadata") or {}
    labels = {**(template_meta.get("labels") or {}), TEMPLATE_HASH: digest}
    selector = spec["selector"]
    tolerance = _tolerance(spec)
    most = spec["replicas"] + (tolerance.surge if tolerance else 0)
    body: Json = {
        "metadata": {
            "name": f"{meta['name']}-{digest}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {
                _DESIRED: str(spec["replicas"]),
                _MAXIMUM: str(most),
                REVISION: str(revision),
            },
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
    if spec.get("minReadySeconds"):
        body["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    return body


def deployment_status(
    deployment: Json, new: Json | None, old: Sequence[Json], now: datetime
) -> Json:
    """``status`` with the conditions Available and Progressing."""
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
    least = spec["replicas"] - (tolerance.unavailable if tolerance else 0)
    enough = available >= least
    conditions = with_condition(
        (deployment.get("status") or {}).get("conditions") or (),
        "Available",
        enough,
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        now=now,
        timed=True,
    )
    status["conditions"] = _with_progress(deployment, status, conditions, new, now)
    return status


def _with_progress(
    deployment: Json, status: Json, conditions: list[Json], new: Json | None, now: datetime
) -> list[Json]:
    name = new["metadata"]["name"] if new is not None else deployment["metadata"]["name"]
    wanted = deployment["spec"]["replicas"]
    complete = (
        status["updatedReplicas"] == status["replicas"] == status["availableReplicas"] == wanted
    )
    if complete:
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return with_condition(
            conditions, "Progressing", True, _AVAILABLE, text, now=now, timed=True
        )
    present = next((one for one in conditions if one["type"] == "Progressing"), None)
    settled = status["replicas"] == status["updatedReplicas"]
    if settled and present is not None and present["reason"] == _AVAILABLE:
        return conditions  # a lost pod is no new rollout
    if not _progressed(deployment.get("status") or {}, status) and present is not None:
        if present["reason"] in (_AVAILABLE, _EXCEEDED):
            return conditions
        since = datetime.fromisoformat(present["lastUpdateTime"])
        if now < since + _deadline(deployment):
            return conditions
        text = f'ReplicaSet "{name}" has timed out progressing.'
        return with_condition(
            conditions, "Progressing", False, _EXCEEDED, text, now=now, timed=True
        )
    others = [one for one in conditions if one["type"] != "Progressing"]
    text = f'ReplicaSet "{name}" is progressing.'
    made = with_condition(others, "Progressing", True, _UPDATED, text, now=now, timed=True)
    if present is not None and present["status"] == "True":
        made[-1]["lastTransitionTime"] = present["lastTransitionTime"]
    return made


def _progressed(before: Json, status: Json) -> bool:
    """Whether there are more new pods, fewer old ones, or more that are ready or available.

    Source: ``DeploymentProgressing``, k8s.io/kubernetes pkg/controller/deployment/util.
    """
    counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
    old = before.get("replicas", 0) - before.get("updatedReplicas", 0)
    return status["replicas"] - status["updatedReplicas"] < old or any(
        status[one] > before.get(one, 0) for one in counts
    )


def _seconds_to_deadline(deployment: Json, status: Json, now: datetime) -> float | None:
    for one in status["conditions"]:
        if one["type"] == "Progressing" and one["reason"] in (_CREATED, _UPDATED):
            due = datetime.fromisoformat(one["lastUpdateTime"]) + _deadline(deployment)
            return max((due - now).total_seconds(), 1.0)
    return None


def _deadline(deployment: Json) -> timedelta:
    seconds = deployment["spec"].get("progressDeadlineSeconds", _DEFAULT_DEADLINE)
    return timedelta(seconds=seconds)


def _tolerance(spec: Mapping[str, Any]) -> Tolerance | None:
    """The bounds of a rolling update; None for the strategy Recreate."""
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


def _revision(obj: Json) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _next_revision(old: Sequence[Json]) -> int:
    return max(map(_revision, old), default=0) + 1


def _age(obj: Json) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], obj["metadata"]["name"]


def _annotation(name: str, value: str) -> Json:
    return {"metadata": {"annotations": {name: value}}}
