"""From two looks at counters to usage; without I/O.

Source: ``storage.Store``, sigs.k8s.io/metrics-server pkg/storage.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sandbox.kubelet.usage import Usage
from sandbox.kubelet.usages import NodeUsage, PodUsage, Taken
from sandbox.metrics_server.exposition import Sample

Labels = Mapping[str, str]
Container = tuple[str, str, str]  # namespace, pod, container


@dataclass(frozen=True, slots=True)
class Point:
    """What a counter and a gauge said at one time."""

    at: datetime
    cpu: float  # seconds, since the start
    memory: int  # bytes
    started: float = 0.0  # Unix time; another one is another run


@dataclass(slots=True)
class Scrape:
    """What one kubelet said."""

    node: Point | None = None
    containers: dict[Container, Point] = field(default_factory=dict)


@dataclass(slots=True)
class Measurements:
    """The last two looks at each node, which are what usage is the difference of."""

    _last: dict[str, Scrape] = field(default_factory=dict)
    _before: dict[str, Scrape] = field(default_factory=dict)

    def add(self, node: str, scrape: Scrape) -> None:
        """Take a new look at a node."""
        if node in self._last:
            self._before[node] = self._last[node]
        self._last[node] = scrape

    def keep(self, nodes: Iterable[str]) -> None:
        """Forget all other nodes: they are gone, or didn't answer."""
        present = set(nodes)
        for kept in (self._last, self._before):
            for name in kept.keys() - present:
                del kept[name]

    def nodes(self, labels: Mapping[str, Labels]) -> Iterator[NodeUsage]:
        """The usage of nodes that were seen twice; ``labels`` by name."""
        for name, scrape in self._last.items():
            before = self._before.get(name)
            if before is None or before.node is None or scrape.node is None:
                continue
            measured = _measured(before.node, scrape.node)
            if measured is not None:
                usage, taken = measured
                yield NodeUsage(name=name, labels=labels.get(name, {}), usage=usage, taken=taken)

    def pods(self, labels: Mapping[tuple[str, str], Labels]) -> Iterator[PodUsage]:
        """The usage of pods of which every container was seen twice in its present run."""
        for node, scrape in self._last.items():
            before = self._before.get(node, Scrape())
            found: dict[tuple[str, str], dict[str, tuple[Usage, Taken] | None]] = {}
            for key, point in scrape.containers.items():
                earlier = before.containers.get(key)
                measured = None if earlier is None else _measured(earlier, point)
                found.setdefault(key[:2], {})[key[2]] = measured
            for (namespace, name), containers in found.items():
                known = {name: one for name, one in containers.items() if one is not None}
                if len(known) == len(containers) and (namespace, name) in labels:
                    yield PodUsage(
                        namespace=namespace,
                        name=name,
                        labels=labels[namespace, name],
                        containers={name: usage for name, (usage, _) in known.items()},
                        taken=min((taken for _, taken in known.values()), key=lambda one: one.at),
                    )


def read_scrape(samples: Iterable[Sample], *, now: datetime) -> Scrape:
    """What a kubelet's samples say; ``now`` is the time of those that have none."""
    cpu: dict[Container | None, tuple[float, datetime]] = {}
    memory: dict[Container | None, int] = {}
    started: dict[Container, float] = {}
    for one in samples:
        key = tuple(one.labels.get(name, "") for name in ("namespace", "pod", "container"))
        match one.name:
            case "node_cpu_usage_seconds_total":
                cpu[None] = (one.value, one.at or now)
            case "node_memory_working_set_bytes":
                memory[None] = int(one.value)
            case "container_cpu_usage_seconds_total":
                cpu[key[0], key[1], key[2]] = (one.value, one.at or now)
            case "container_memory_working_set_bytes":
                memory[key[0], key[1], key[2]] = int(one.value)
            case "container_start_time_seconds":
                started[key[0], key[1], key[2]] = one.value
    scrape = Scrape()
    for where, (seconds, at) in cpu.items():
        if where not in memory:
            continue
        if where is None:
            scrape.node = Point(at, seconds, memory[None])
        else:
            scrape.containers[where] = Point(at, seconds, memory[where], started.get(where, 0.0))
    return scrape


def _measured(before: Point, after: Point) -> tuple[Usage, Taken] | None:
    """CPU over the time between two looks at one run; None where there is nothing between."""
    window = after.at - before.at
    if window <= timedelta() or after.cpu < before.cpu or after.started != before.started:
        return None
    cores = (after.cpu - before.cpu) / (window / timedelta(seconds=1))
    usage = Usage(cpu_millicores=cores * 1000, memory_bytes=after.memory)
    return usage, Taken(after.at, window)
