"""The StatefulSet controller: pods with names that stay, one after the other.

Source: k8s.io/kubernetes pkg/controller/statefulset/stateful_set_control.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from common.api.core import Pod
from common.kube.endpoints import STATEFUL_SETS
from sandbox.controllers.actor import Actor
from sandbox.controllers.pods import (
    REVISION_HASH,
    is_finished,
    owner_reference,
    pod_from_template,
    ready_since,
    template_hash,
)
from sandbox.controllers.replica_sets import is_available, seconds_to_available

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What to do next for a StatefulSet: pods to make, by ordinal, and pods to delete."""

    create: tuple[int, ...] = ()
    delete: tuple[Pod, ...] = field(default=())


class StatefulSets:
    """Keeps the pods ``name-0``, ``name-1``, … of StatefulSets."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> float | None:
        view = self._actor.view
        owner = view.get("StatefulSet", namespace, name)
        if owner is None:
            return None
        uid = owner["metadata"]["uid"]
        revision = template_hash(owner["spec"]["template"])
        now = self._actor.clock.now()
        steps = next_steps(owner, view.owned.of(uid), revision, now)
        failure = None
        for ordinal in steps.create:
            failure = await self._actor.create_pods(owner, [ordinal_pod(owner, ordinal, revision)])
            if failure is not None:
                break
        await self._actor.delete_pods(owner, steps.delete)
        pods = view.owned.of(uid)
        await self._actor.write_status(
            STATEFUL_SETS, owner, stateful_set_status(owner, pods, revision, now)
        )
        if failure is not None:
            raise failure
        return seconds_to_available(pods, owner["spec"].get("minReadySeconds", 0), now)


def next_steps(owner: Json, pods: Sequence[Pod], revision: str, now: datetime) -> Steps:
    """Decide the next steps.

    With OrderedReady a pod is made when all before it are available, and one at a time goes,
    the last first. A pod that has finished is deleted, so that it is replaced. A pod with an
    old template is replaced when all are available, last first, down to the partition.
    """
    spec = owner["spec"]
    first = (spec.get("ordinals") or {}).get("start", 0)
    wanted = range(first, first + spec.get("replicas", 1))
    ordered = spec.get("podManagementPolicy") != "Parallel"
    least = spec.get("minReadySeconds", 0)
    by_ordinal = {ordinal_of(pod, owner): pod for pod in pods}
    finished = tuple(
        pod for pod in pods if is_finished(pod) and pod.metadata.deletion_timestamp is None
    )
    if finished:
        return Steps(delete=finished)
    missing = []
    for ordinal in wanted:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            missing.append(ordinal)
        if ordered and (pod is None or not _settled(pod, least, now)):
            return Steps(create=tuple(missing))
    extra = sorted((one for one in by_ordinal if one not in wanted), reverse=True)
    doomed = [by_ordinal[one] for one in extra]
    if doomed:
        if ordered:
            doomed = doomed[:1]
        leaving = tuple(pod for pod in doomed if pod.metadata.deletion_timestamp is None)
        return Steps(create=tuple(missing), delete=leaving)
    if missing:
        return Steps(create=tuple(missing))
    return _update_step(spec, [by_ordinal[one] for one in wanted], revision, now)


def _update_step(
    spec: Mapping[str, Any], pods: Sequence[Pod], revision: str, now: datetime
) -> Steps:
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return Steps()
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for pod in reversed(pods[partition:]):
        outdated = (pod.metadata.labels or {}).get(REVISION_HASH) != revision
        if outdated and pod.metadata.deletion_timestamp is None:
            return Steps(delete=(pod,))
        if not _settled(pod, spec.get("minReadySeconds", 0), now):
            return Steps()
    return Steps()


def _settled(pod: Pod, least: int, now: datetime) -> bool:
    return pod.metadata.deletion_timestamp is None and is_available(pod, least, now)


def ordinal_of(pod: Pod, owner: Mapping[str, Any]) -> int:
    """The number in the pod's name; -1 for a name that isn't one of ours."""
    number = pod.metadata.name.removeprefix(f"{owner['metadata']['name']}-")
    return int(number) if number.isdecimal() else -1


def ordinal_pod(owner: Json, ordinal: int, revision: str) -> Json:
    """The pod with its stable name and host name."""
    name = f"{owner['metadata']['name']}-{ordinal}"
    reference = owner_reference(owner, api_version="apps/v1", kind="StatefulSet")
    pod = pod_from_template(
        owner["spec"]["template"],
        reference,
        name=name,
        labels={
            REVISION_HASH: revision,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        },
    )
    pod["spec"]["hostname"] = name
    if owner["spec"].get("serviceName"):
        pod["spec"]["subdomain"] = owner["spec"]["serviceName"]
    return pod


def stateful_set_status(owner: Json, pods: Sequence[Pod], revision: str, now: datetime) -> Json:
    """Counts, and the revisions: the current one becomes the new one when all pods have it."""
    least = owner["spec"].get("minReadySeconds", 0)
    present = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    updated = sum((pod.metadata.labels or {}).get(REVISION_HASH) == revision for pod in present)
    name = owner["metadata"]["name"]
    latest = f"{name}-{revision}"
    current = (owner.get("status") or {}).get("currentRevision") or latest
    if updated == len(present) == owner["spec"].get("replicas", 1):
        current = latest
    return {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "replicas": len(pods),
        "readyReplicas": sum(ready_since(pod) is not None for pod in present),
        "availableReplicas": sum(is_available(pod, least, now) for pod in present),
        "currentReplicas": updated if current == latest else len(present) - updated,
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": latest,
    }
