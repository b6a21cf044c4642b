"""The DaemonSet controller: one pod on every suitable node.

Source: k8s.io/kubernetes pkg/controller/daemon/daemon_controller.go, util/daemonset_util.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.api.core import Pod
from common.kube.endpoints import DAEMON_SETS
from sandbox.controllers.actor import Actor
from sandbox.controllers.placement import node_obstacle
from sandbox.controllers.pods import (
    REVISION_HASH,
    OwnedPodSpec,
    is_finished,
    is_ready,
    owner_reference,
    pod_from_template,
    template_hash,
)
from sandbox.controllers.rollout import resolved

Json = dict[str, Any]

_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/not-ready", "NoSchedule"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSteps:
    """The nodes that need a pod, and the pods to delete."""

    create_on: tuple[str, ...] = ()
    delete: tuple[Pod, ...] = ()


class DaemonSets:
    """Keeps one pod of each DaemonSet on each node."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> None:
        view = self._actor.view
        owner = view.get("DaemonSet", namespace, name)
        if owner is None:
            return
        uid = owner["metadata"]["uid"]
        revision = template_hash(owner["spec"]["template"])
        nodes = [
            node["metadata"]["name"]
            for node in view.nodes.snapshot.items()
            if node_obstacle(daemon_spec(owner), node) is None
        ]
        steps = daemon_steps(owner, nodes, view.owned.of(uid), revision)
        bodies = [daemon_pod(owner, node, revision) for node in steps.create_on]
        failure = await self._actor.create_pods(owner, bodies)
        await self._actor.delete_pods(owner, steps.delete)
        pods = view.owned.of(uid)
        await self._actor.write_status(
            DAEMON_SETS, owner, daemon_set_status(owner, nodes, pods, revision)
        )
        if failure is not None:
            raise failure


def daemon_steps(
    owner: Json, nodes: Sequence[str], pods: Sequence[Pod], revision: str
) -> DaemonSteps:
    """Decide the next steps.

    A rolling update deletes outdated pods while at most ``maxUnavailable`` nodes are without an
    available one. There is no surge. A pod that has finished is replaced.
    """
    create: list[str] = []
    delete: list[Pod] = []
    sound: list[Pod] = []
    broken: list[Pod] = []
    unavailable = 0
    by_node: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=_seniority):
        by_node.setdefault(node_of(pod), []).append(pod)
    for node in sorted(nodes):
        here = by_node.pop(node, [])
        delete += here[1:]
        if not here:
            create.append(node)
        elif is_finished(here[0]):
            delete.append(here[0])
        elif (here[0].metadata.labels or {}).get(REVISION_HASH) != revision:
            (sound if is_ready(here[0]) else broken).append(here[0])
        unavailable += not here or not is_ready(here[0])
    delete += [pod for left in by_node.values() for pod in left]
    strategy = owner["spec"].get("updateStrategy") or {}
    most = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
    allowed = resolved(most, len(nodes), up=True)
    delete += [*broken, *sound[: max(allowed - unavailable, 0)]]
    leaving = tuple(pod for pod in delete if pod.metadata.deletion_timestamp is None)
    return DaemonSteps(create_on=tuple(create), delete=leaving)


def node_of(pod: Pod) -> str:
    """Return the node of a pod, or the one that it is created for."""
    if pod.spec.node_name or not isinstance(pod.spec, OwnedPodSpec):
        return pod.spec.node_name
    affinity = (pod.spec.affinity or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name":
                name: str = field["values"][0]
                return name
    return ""


def daemon_spec(owner: Json) -> Json:
    """Return the template's spec with the tolerations of every daemon."""
    spec = dict(owner["spec"]["template"]["spec"])
    tolerations = list(spec.get("tolerations") or ())
    for key, effect in _TOLERATED:
        one = {"key": key, "operator": "Exists", "effect": effect}
        if one not in tolerations:
            tolerations.append(one)
    spec["tolerations"] = tolerations
    return spec


def daemon_pod(owner: Json, node: str, revision: str) -> Json:
    """Return a pod that fits no other node."""
    reference = owner_reference(owner, api_version="apps/v1", kind="DaemonSet")
    pod = pod_from_template(owner["spec"]["template"], reference, labels={REVISION_HASH: revision})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    pod["spec"] = {**daemon_spec(owner), "affinity": {"nodeAffinity": affinity}}
    return pod


def daemon_set_status(
    owner: Json, nodes: Sequence[str], pods: Sequence[Pod], revision: str
) -> Json:
    """Return the status, which counts nodes."""
    present = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    right = {node_of(pod): pod for pod in present if node_of(pod) in nodes}
    available = sum(is_ready(pod) for pod in right.values())
    return {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "desiredNumberScheduled": len(nodes),
        "currentNumberScheduled": len(right),
        "numberMisscheduled": sum(node_of(pod) not in nodes for pod in present),
        "numberReady": sum(is_ready(pod) for pod in right.values()),
        "numberAvailable": available,
        "numberUnavailable": len(nodes) - available,
        "updatedNumberScheduled": sum(
            (pod.metadata.labels or {}).get(REVISION_HASH) == revision for pod in right.values()
        ),
    }


def _seniority(pod: Pod) -> tuple[bool, str, str]:
    created = pod.metadata.creation_timestamp
    return (not pod.spec.node_name, created.isoformat() if created else "", pod.metadata.name)
