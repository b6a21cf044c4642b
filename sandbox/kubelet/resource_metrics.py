"""What a kubelet tells a metrics server: ``/metrics/resource``, in Prometheus' text form.

Source: k8s.io/kubernetes pkg/kubelet/metrics/collectors/resource_metrics.go.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sandbox.kubelet.containers import Container
from sandbox.kubelet.node import Node
from sandbox.kubelet.pod_lifecycle import PodRun
from sandbox.kubelet.usages import container_usage


@dataclass(frozen=True, slots=True)
class _Sample:
    name: str
    labels: str
    value: float
    at: datetime | None  # None: without a time


_FAMILIES = {
    "container_cpu_usage_seconds_total": (
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
    ),
    "container_memory_working_set_bytes": (
        "gauge",
        "Current working set of the container in bytes",
    ),
    "container_start_time_seconds": (
        "gauge",
        "Start time of the container since unix epoch in seconds",
    ),
    "node_cpu_usage_seconds_total": (
        "counter",
        "Cumulative cpu time consumed by the node in core-seconds",
    ),
    "node_memory_working_set_bytes": ("gauge", "Current working set of the node in bytes"),
    "resource_scrape_error": (
        "gauge",
        "1 if there was an error while getting container metrics, 0 otherwise",
    ),
}


@dataclass(slots=True)
class _Counter:
    seconds: float  # of CPU, so far
    at: datetime


@dataclass(slots=True)
class ResourceMetrics:
    """Counts CPU time; a counter moves on whenever somebody looks at it."""

    _counters: dict[str, _Counter] = field(default_factory=dict)  # by container ID
    _gone: dict[str, float] = field(default_factory=dict)  # by node: CPU of ended containers
    _homes: dict[str, str] = field(default_factory=dict)  # container ID -> node

    def text(self, nodes: Iterable[Node], now: datetime, *, named: bool) -> str:
        """What the kubelets of ``nodes`` say now; ``named`` labels what is about a node."""
        samples = [sample for node in nodes for sample in self._node(node, now, named=named)]
        if not named:
            samples.append(_Sample("resource_scrape_error", "", 0, None))
        lines: list[str] = []
        for name, (kind, told) in _FAMILIES.items():
            found = [one for one in samples if one.name == name]
            if found:
                lines += [f"# HELP {name} [STABLE] {told}", f"# TYPE {name} {kind}"]
                lines += map(_line, found)
        return "\n".join([*lines, ""])

    def _node(self, node: Node, now: datetime, *, named: bool) -> Iterator[_Sample]:
        running = [
            (pod, one) for pod in node.running for one in pod.containers.values() if one.running
        ]
        self._bury(node.name, {one.container_id for _, one in running})
        cpu, memory = self._gone.get(node.name, 0.0), 0
        for pod, container in running:
            meta = pod.object.metadata
            labels = _labels(container=container.name, namespace=meta.namespace, pod=meta.name)
            seconds = self._count(node, pod, container, now)
            used = container_usage(pod, container, node, now, 0.0).memory_bytes
            cpu += seconds
            memory += used
            yield _Sample("container_cpu_usage_seconds_total", labels, seconds, now)
            yield _Sample("container_memory_working_set_bytes", labels, used, now)
            if container.started is not None:
                started = container.started.timestamp()
                yield _Sample("container_start_time_seconds", labels, started, None)
        labels = _labels(node=node.name) if named else ""
        yield _Sample("node_cpu_usage_seconds_total", labels, cpu, now)
        yield _Sample("node_memory_working_set_bytes", labels, memory, now)

    def _count(self, node: Node, pod: PodRun, container: Container, now: datetime) -> float:
        key = container.container_id
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = _Counter(0.0, container.started or now)
            self._homes[key] = node.name
        passed = (now - counter.at) / timedelta(seconds=1)
        if passed > 0:
            used = container_usage(pod, container, node, now, passed)
            counter.seconds += used.cpu_millicores / 1000 * passed
            counter.at = now
        return counter.seconds

    def _bury(self, node: str, running: set[str]) -> None:
        """What ended containers have used stays used, as far as the node is asked."""
        for key in [key for key, home in self._homes.items() if home == node]:
            if key not in running:
                del self._homes[key]
                self._gone[node] = self._gone.get(node, 0.0) + self._counters.pop(key).seconds


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{text}"' for name, text in labels.items()) + "}"


def _line(sample: _Sample) -> str:
    at = "" if sample.at is None else f" {int(sample.at.timestamp() * 1000)}"
    return f"{sample.name}{sample.labels} {sample.value!r}{at}"
