"""The usage of a node's containers, as its kubelet reports it to a metrics server."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from sandbox.kubelet.containers import Container, Kind
from sandbox.kubelet.node import Node
from sandbox.kubelet.pod_lifecycle import PodRun
from sandbox.kubelet.pod_resources import cpu_limit, memory_limit
from sandbox.kubelet.usage import Usage, throttled


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """The usage of a pod by container."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    containers: Mapping[str, Usage]


def pod_usages(node: Node, *, now: datetime, window: float) -> Iterator[PodUsage]:
    """Yield the usage over the last ``window`` seconds of every pod that ran all the time.

    A pod is missing if one of its containers is down or younger than the window, because a real
    server needs two samples; so are all pods of a frozen node (kubernetes-resize.md 7, "gaps").
    """
    if node.frozen:
        return
    for pod in node.running:
        running = [one for one in pod.containers.values() if one.kind is not Kind.INIT]
        if all(one.running and pod.moment(one, now).age >= window for one in running):
            meta = pod.object.metadata
            yield PodUsage(
                namespace=meta.namespace,
                name=meta.name,
                labels=meta.labels or {},
                containers={
                    one.name: container_usage(pod, one, node, now, window) for one in running
                },
            )


def container_usage(
    pod: PodRun, container: Container, node: Node, now: datetime, window: float
) -> Usage:
    """Return the usage of one running container over the last ``window`` seconds."""
    resources = pod.resources_of(container)
    limit = memory_limit(resources)
    return throttled(
        container.load,
        pod.moment(container, now),
        cpu_limit=cpu_limit(resources),
        memory_limit=node.shape.capacity.memory if limit is None else limit,
        node_cpu=node.shape.capacity.cpu,
        window=window,
    )
