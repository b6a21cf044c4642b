"""The updater's metrics, under the reference's names; updater.md 12.2."""

import asyncio
import contextlib
from collections import Counter as Tally
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from common.api.autoscaling import UpdateMode
from common.kube.cache_metrics import CacheMetrics
from common.kube.client_metrics import ClientMetrics
from common.runtime.build_info import expose_build_info
from common.runtime.object_errors import ObjectErrors
from updater.decision import Decision
from updater.eviction.replacement_result import ReplacementResult

_BUCKETS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100),
    *(120, 150, 240, 300),
)
_SIZES = 20  # label values 0..19 of the gauges by size alone
_LARGEST = 20

Labels: TypeAlias = tuple[str, ...]
"""Label values in the order of the metric's label names."""


def size_label(pods: int) -> str:
    """Return the value of ``vpa_size_log2`` for a number of pods."""
    return str(min(max(pods.bit_length() - 1, 0), _LARGEST))


@dataclass(frozen=True, slots=True)
class VpaLabels:
    """The labels of a VPA's counters."""

    size: str
    mode: UpdateMode
    name: str
    namespace: str


@dataclass(slots=True)
class PassFigures:
    """The counts of one pass; published at its end, so that scrapes see complete passes."""

    controlled: Tally[Labels] = field(default_factory=Tally)  # by size and mode
    evictable: Tally[Labels] = field(default_factory=Tally)
    vpas_evictable: Tally[Labels] = field(default_factory=Tally)
    vpas_evicted: Tally[Labels] = field(default_factory=Tally)
    updatable: Tally[str] = field(default_factory=Tally)
    vpas_updatable: Tally[str] = field(default_factory=Tally)
    vpas_updated: Tally[str] = field(default_factory=Tally)
    candidates: Tally[Decision] = field(default_factory=Tally)
    blocked: Tally[Labels] = field(default_factory=Tally)  # by reason, and name of the VPA

    def count_controlled(self, vpa: VpaLabels, pods: int) -> None:
        """Count the live pods of a VPA."""
        self.controlled[vpa.size, vpa.mode.value] += pods

    def count_due(self, vpa: VpaLabels, updatable: int | None, evictable: int | None) -> None:
        """Count the pods that are due for a resize or an eviction; None: not by the mode."""
        if updatable is not None:
            self.updatable[vpa.size] += updatable
            self.vpas_updatable[vpa.size] += updatable > 0
        if evictable is not None:
            key = (vpa.size, vpa.mode.value)
            self.evictable[key] += evictable
            self.vpas_evictable[key] += evictable > 0

    def count_done(self, vpa: VpaLabels, *, evicted: bool, resized: bool) -> None:
        """Count a VPA of which pods were evicted or resized in this pass."""
        self.vpas_evicted[vpa.size, vpa.mode.value] += evicted
        self.vpas_updated[vpa.size] += resized

    def count_idle(self, mode: UpdateMode, pods: int) -> None:
        """Count a VPA whose pods need nothing."""
        key = (size_label(pods), mode.value)
        self.controlled[key] += pods
        if mode not in (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE):
            self.evictable[key] += 0
            self.vpas_evictable[key] += 0
        self.vpas_evicted[key] += 0


class UpdaterMetrics:
    """All of the updater's metrics, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        expose_build_info("updater", registry)
        self.object_errors = ObjectErrors("updater", registry)
        self._series: dict[tuple[str, str], dict[tuple[Counter, Labels], Counter]] = {}
        by_mode, by_size = ("vpa_size_log2", "update_mode"), ("vpa_size_log2",)
        vpa = ("vpa_name", "vpa_namespace")
        self._controlled = self._gauge(
            "controlled_pods_total", "Pods that a VPA controls.", by_mode
        )
        self._evictable = self._gauge(
            "evictable_pods_total", "Pods that are due for an eviction.", by_mode
        )
        self._evicted = self._counter("evicted_pods", "Pods evicted.", (*by_mode, *vpa))
        self._vpas_evictable = self._gauge(
            "vpas_with_evictable_pods_total", "VPAs with a pod due for an eviction.", by_mode
        )
        self._vpas_evicted = self._gauge(
            "vpas_with_evicted_pods_total", "VPAs with an evicted pod.", by_mode
        )
        self._failed_evictions = self._counter(
            "failed_eviction_attempts", "Evictions that failed.", (*by_mode, "reason", *vpa)
        )
        self._updatable = self._gauge(
            "in_place_updatable_pods_total", "Pods that are due for a resize.", by_size
        )
        self._updated = self._counter(
            "in_place_updated_pods", "Pods resized in place.", (*by_size, *vpa)
        )
        self._infeasible_skips = self._counter(
            "in_place_infeasible_skip_pods",
            "Pods skipped because a resize was infeasible before.",
            (*by_size, *vpa),
        )
        self._ooms_after_decrease = self._counter(
            "oom_after_decrease",
            "OOM kills within an hour after the updater lowered a memory limit in place.",
            (*by_size, *vpa),
        )
        self._vpas_updatable = self._gauge(
            "vpas_with_in_place_updatable_pods_total", "VPAs with a pod due for a resize.", by_size
        )
        self._vpas_updated = self._gauge(
            "vpas_with_in_place_updated_pods_total", "VPAs with a resized pod.", by_size
        )
        self._failed_updates = self._counter(
            "failed_in_place_update_attempts",
            "Resizes that failed.",
            (*by_size, "reason", *vpa),
        )
        self._latency = Histogram(
            "execution_latency_seconds",
            "Time spent in the parts of a pass.",
            ("step",),
            namespace="vpa_updater",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._candidates = self._gauge(
            "candidate_pods",
            "Judged pods by what happens to them, and why.",
            ("decision", "reason"),
        )
        self._blocked = self._gauge(
            "blocked_pods",
            "Pods whose in-place update is blocked by the kubelet or the API server.",
            ("reason", *vpa),
        )
        self._suspended = self._gauge(
            "evictions_suspended",
            "VPAs whose evictions are suspended: replacements came up wrong, or not at all.",
            vpa,
        )
        self._outcomes = self._counter(
            "eviction_outcomes", "What became of evictions, by how the next pod came up.", ("came",)
        )
        for came in ReplacementResult:
            self._outcomes.labels(came.value)
        self.leading = self._gauge(
            "leading", "1 if this replica acts: it holds the Lease, or needs none.", ()
        )
        self.last_success = self._gauge(
            "last_successful_cycle_timestamp_seconds",
            "End of the last complete pass, in Unix time; 0: none yet.",
            (),
        )
        self.interval = self._gauge(
            "interval_seconds", "Time between the starts of two passes (--updater-interval).", ()
        )
        self.caches = CacheMetrics("updater", registry)
        self.client = ClientMetrics(registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(name, text, labels, namespace="vpa_updater", registry=self._registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, text, labels, namespace="vpa_updater", registry=self._registry)

    @contextlib.contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Measure a step of a pass, on the event loop's clock."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            yield
        finally:
            self._latency.labels(step).observe(loop.time() - started)

    def prepare(self, vpa: VpaLabels) -> None:
        """Create a VPA's two main counters with the value zero."""
        self._of(vpa, self._evicted, vpa.size, vpa.mode.value)
        self._of(vpa, self._updated, vpa.size)

    def evicted(self, vpa: VpaLabels) -> None:
        self._of(vpa, self._evicted, vpa.size, vpa.mode.value).inc()

    def eviction_failed(self, vpa: VpaLabels, reason: str) -> None:
        self._of(vpa, self._failed_evictions, vpa.size, vpa.mode.value, reason).inc()

    def resized(self, vpa: VpaLabels) -> None:
        self._of(vpa, self._updated, vpa.size).inc()

    def resize_failed(self, vpa: VpaLabels, reason: str) -> None:
        self._of(vpa, self._failed_updates, vpa.size, reason).inc()

    def oom_after_decrease(self, vpa: VpaLabels) -> None:
        self._of(vpa, self._ooms_after_decrease, vpa.size).inc()

    def came_out(self, result: ReplacementResult) -> None:
        self._outcomes.labels(result.value).inc()

    def skipped_infeasible(self, vpa: VpaLabels) -> None:
        self._of(vpa, self._infeasible_skips, vpa.size).inc()

    def _of(self, vpa: VpaLabels, counter: Counter, *labels: str) -> Counter:
        """Return the counter of one VPA, whose name and namespace are the last labels."""
        values = (*labels, vpa.name, vpa.namespace)
        series = self._series.setdefault((vpa.namespace, vpa.name), {})
        known = series.get((counter, values))
        if known is None:
            known = series[counter, values] = counter.labels(*values)
        return known

    def keep_only(self, vpas: Collection[tuple[str, str]]) -> None:
        """Drop the counters of all other VPAs; without this their series would accumulate."""
        for gone in self._series.keys() - vpas:
            for counter, labels in self._series.pop(gone):
                counter.remove(*labels)

    def publish_suspended(self, vpas: Iterable[tuple[str, str]]) -> None:
        """Set the gauge of suspended VPAs to these, by namespace and name."""
        _publish(self._suspended, {(name, namespace): 1 for namespace, name in vpas})

    def publish(self, figures: PassFigures) -> None:
        """Set the gauges to the counts of the last pass."""
        _publish(self._controlled, figures.controlled)
        _publish(self._evictable, figures.evictable)
        _publish(self._vpas_evictable, figures.vpas_evictable)
        _publish(self._vpas_evicted, figures.vpas_evicted)
        for gauge, tally in (
            (self._updatable, figures.updatable),
            (self._vpas_updatable, figures.vpas_updatable),
            (self._vpas_updated, figures.vpas_updated),
        ):
            every: dict[Labels, int] = {(str(size),): 0 for size in range(_SIZES)}
            every.update(((size,), count) for size, count in tally.items())
            _publish(gauge, every)
        _publish(self._blocked, figures.blocked)
        _publish(
            self._candidates,
            {
                (decision.action.value, decision.reason.value): count
                for decision, count in figures.candidates.items()
            },
        )


def _publish(gauge: Gauge, values: Mapping[Labels, int]) -> None:
    gauge.clear()
    for labels, value in values.items():
        gauge.labels(*labels).set(value)
