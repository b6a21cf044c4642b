"""The StatefulSet controller: pods with stable names, in order.

Source: k8s.io/kubernetes pkg/controller/statefulset/stateful_set_control.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.api.core import Pod
from common.kube.endpoints import STATEFUL_SETS
from sandbox.controllers.actor import Actor
from sandbox.controllers.pods import (
    REVISION_HASH,
    is_finished,
    is_ready,
    owner_reference,
    pod_from_template,
    template_hash,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The next steps for a StatefulSet: pods to create, by ordinal, and pods to delete."""

    create: tuple[int, ...] = ()
    delete: tuple[Pod, ...] = field(default=())


class StatefulSets:
    """Keeps the pods ``name-0``, ``name-1``, … of StatefulSets."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> None:
        view = self._actor.view
        owner = view.get("StatefulSet", namespace, name)
        if owner is None:
            return
        uid = owner["metadata"]["uid"]
        revision = template_hash(owner["spec"]["template"])
        steps = next_steps(owner, view.owned.of(uid), revision)
        failure = None
        for ordinal in steps.create:
            failure = await self._actor.create_pods(owner, [ordinal_pod(owner, ordinal, revision)])
            if failure is not None:
                break
        await self._actor.delete_pods(owner, steps.delete)
        pods = view.owned.of(uid)
        await self._actor.write_status(
            STATEFUL_SETS, owner, stateful_set_status(owner, pods, revision)
        )
        if failure is not None:
            raise failure


def next_steps(owner: Json, pods: Sequence[Pod], revision: str) -> Steps:
    """Decide the next steps.

    With OrderedReady a pod is created after all before it are ready, and pods are deleted one at a
    time, the last first. A pod that has finished is deleted, and then replaced. A pod with an old
    template is replaced when all are ready, last first.
    """
    spec = owner["spec"]
    wanted = range(spec.get("replicas", 1))
    ordered = spec.get("podManagementPolicy") != "Parallel"
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
        if ordered and (pod is None or not _settled(pod)):
            return Steps(create=tuple(missing))
    extra = sorted((one for one in by_ordinal if one not in wanted), reverse=True)
    surplus = [by_ordinal[one] for one in extra]
    if surplus:
        if ordered:
            surplus = surplus[:1]
        leaving = tuple(pod for pod in surplus if pod.metadata.deletion_timestamp is None)
        return Steps(create=tuple(missing), delete=leaving)
    if missing:
        return Steps(create=tuple(missing))
    return _update_step([by_ordinal[one] for one in wanted], revision)


def _update_step(pods: Sequence[Pod], revision: str) -> Steps:
    for pod in reversed(pods):
        outdated = (pod.metadata.labels or {}).get(REVISION_HASH) != revision
        if outdated and pod.metadata.deletion_timestamp is None:
            return Steps(delete=(pod,))
        if not _settled(pod):
            return Steps()
    return Steps()


def _settled(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and is_ready(pod)


def ordinal_of(pod: Pod, owner: Mapping[str, Any]) -> int:
    """Return the number in the pod's name; -1 for another name."""
    number = pod.metadata.name.removeprefix(f"{owner['metadata']['name']}-")
    return int(number) if number.isdecimal() else -1


def ordinal_pod(owner: Json, ordinal: int, revision: str) -> Json:
    """Return the pod with its stable name and host name."""
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


def stateful_set_status(owner: Json, pods: Sequence[Pod], revision: str) -> Json:
    """Return counts and revisions. The new revision becomes current when all pods have it."""
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
        "readyReplicas": sum(is_ready(pod) for pod in present),
        "availableReplicas": sum(is_ready(pod) for pod in present),
        "currentReplicas": updated if current == latest else len(present) - updated,
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": latest,
    }
