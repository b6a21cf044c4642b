"""Nodes, and pods on them, for tests of the updater's checks of room."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec import structs

from common.api.meta import ObjectMeta
from common.api.scheduling import Taint
from common.api.workloads import Condition
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_node import LiveNode, NodeSpec, NodeStatus
from updater.snapshot.live_pod import LivePod


def node(
    name: str,
    *,
    cpu: str = "2",
    memory: str = "8Gi",
    pods: str = "110",
    ready: bool = True,
    cordoned: bool = False,
    taints: tuple[Taint, ...] = (),
    **labels: str,
) -> LiveNode:
    """Return a node."""
    return LiveNode(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(unschedulable=cordoned, taints=taints),
        status=NodeStatus(
            allocatable={"cpu": cpu, "memory": memory, "pods": pods},
            conditions=(Condition(type="Ready", status="True" if ready else "Unknown"),),
        ),
    )


def on_nodes(
    given: ClusterSnapshot,
    nodes: Iterable[LiveNode],
    *,
    places: Mapping[str, str],
    others: Iterable[LivePod] = (),
) -> ClusterSnapshot:
    """Return the snapshot with these nodes and pods on them; ``places`` by name of the pod."""

    def placed(pod: LivePod) -> LivePod:
        return structs.replace(pod, node_name=places.get(pod.metadata.name, pod.node_name))

    autoscaled = tuple(
        replace(each, pods=tuple(map(placed, each.pods))) for each in given.autoscaled
    )
    pods = [*(pod for each in autoscaled for pod in each.pods), *map(placed, others)]
    by_namespace: dict[str, dict[str, LivePod]] = {}
    for pod in pods:
        by_namespace.setdefault(pod.metadata.namespace, {})[pod.metadata.name] = pod
    return replace(
        given,
        autoscaled=autoscaled,
        nodes={each.metadata.name: each for each in nodes},
        pods=by_namespace,
    )
