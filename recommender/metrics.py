"""The recommender's metrics, with the reference's names; recommender.md 15."""

import itertools
from collections.abc import Mapping
from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from common.api.autoscaling import UpdateMode
from common.kube.cache_metrics import CacheMetrics
from common.kube.client_metrics import ClientMetrics
from common.runtime.build_info import expose_build_info
from common.runtime.object_errors import ObjectErrors
from recommender.metric_types import PlainCounter
from recommender.model.oom_outcome import OomOutcome
from recommender.model.pods import RequestSource
from recommender.quality_metrics import QualityMetrics
from recommender.request_metrics import RequestMetrics

_STEP_BUCKETS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100),
    *(120, 150, 240, 300),
)
_LATENCY_BUCKETS = (
    *(1, 2, 5, 7.5, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180, 240, 300, 600, 900, 1800),
)
_PROMETHEUS_BUCKETS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10, 20, 30, 60),
    *(120, 300),
)
_API_VERSIONS = ("v1beta1", "v1beta2", "v1")
_CLIENT = "default-metrics-client"


class RecommenderMetrics:
    """All metrics of the recommender, in a separate registry.

    A metric is a public attribute, or has a method if it needs more than one call.
    """

    def __init__(self, *, per_container: bool = False) -> None:
        """Register all metrics; those of each container only with ``per_container``."""
        self.registry = CollectorRegistry()
        expose_build_info("recommender", self.registry)
        self.object_errors = ObjectErrors("recommender", self.registry)
        self._vpas = Gauge(
            "vpa_recommender_vpa_objects_count",
            "VPAs of the last cycle.",
            ("update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config"),
            registry=self.registry,
        )
        self._counted_modes: set[str] = set()
        self.first_recommendation = Histogram(
            "vpa_recommender_recommendation_latency_seconds",
            "From the creation of a VPA to its first recommendation.",
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._steps = Histogram(
            "vpa_recommender_execution_latency_seconds",
            "Time spent in the steps of a cycle.",
            ("step",),
            buckets=_STEP_BUCKETS,
            registry=self.registry,
        )
        self.aggregates = Gauge(
            "vpa_recommender_aggregate_container_states_count",
            "Aggregates in memory.",
            registry=self.registry,
        )
        self._responses = PlainCounter(
            "vpa_recommender_metric_server_responses",
            "Answers of the metrics server.",
            ("is_error", "client_name"),
            self.registry,
        )
        self.quality = QualityMetrics(self.registry)
        self._prometheus_answers = PlainCounter(
            "vpa_recommender_prometheus_client_api_requests_count",
            "Answers of Prometheus.",
            ("code", "method"),
            self.registry,
        )
        self._prometheus_seconds = Histogram(
            "vpa_recommender_prometheus_client_api_requests_duration_seconds",
            "Time until Prometheus had answered.",
            ("code", "method"),
            buckets=_PROMETHEUS_BUCKETS,
            registry=self.registry,
        )
        self._requests_read = PlainCounter(
            "vpa_resources_get_resources_count",
            "Containers whose requests were read, by where; once for each version of a pod.",
            ("source",),
            self.registry,
        )
        for source in RequestSource:
            self._requests_read.inc(source, by=0)
        # Metrics that the reference doesn't have.
        self._usage_requests = Counter(
            "vpa_recommender_usage_requests",
            "Questions for usage, and what came of them.",
            ("scope", "outcome"),
            registry=self.registry,
        )
        self._backfill_namespaces = Gauge(
            "vpa_recommender_history_namespaces",
            "Namespaces with VPAs, by whether their history from Prometheus is there.",
            ("state",),
            registry=self.registry,
        )
        self._backfill_samples = Counter(
            "vpa_recommender_history_samples",
            "Samples of Prometheus that counted.",
            ("resource",),
            registry=self.registry,
        )
        self.backfill_failures = Counter(
            "vpa_recommender_history_failures",
            "Failed attempts to fetch the history of a namespace from Prometheus.",
            ("reason",),
            registry=self.registry,
        )
        self._ooms_seen = Counter(
            "vpa_recommender_oom_seen",
            "OOM kills seen; recorded and discarded ones add up to these.",
            registry=self.registry,
        )
        self._ooms_recorded = Counter(
            "vpa_recommender_oom_recorded",
            "OOM kills that raised a memory peak, or that a higher peak covers.",
            registry=self.registry,
        )
        self._ooms_discarded = Counter(
            "vpa_recommender_oom_discarded",
            "OOM kills from which nothing was learnt.",
            ("reason",),
            registry=self.registry,
        )
        for outcome in OomOutcome:
            if outcome is not OomOutcome.RECORDED:
                self._ooms_discarded.labels(outcome)  # a zero for each, so that sums work
        self.ooms_postponed = Gauge(
            "vpa_recommender_ooms_postponed",
            "OOM kills with future timestamps, which are not counted as seen yet.",
            registry=self.registry,
        )
        self.failed_writes = Counter(
            "vpa_recommender_failed_writes",
            "Status patches, checkpoints and VPAs of namespaces that were not written, and why.",
            ("kind", "reason"),
            registry=self.registry,
        )
        self.checkpoint_conflicts = Counter(
            "vpa_recommender_checkpoint_conflicts",
            "Checkpoints that could not simply be replaced, and why.",
            ("reason",),
            registry=self.registry,
        )

        self.namespace_vpas = Counter(
            "vpa_recommender_namespace_vpas",
            "VPAs that were created, updated or deleted because of a namespace's label.",
            ("action",),
            registry=self.registry,
        )
        self._enabled_namespaces = Gauge(
            "vpa_recommender_enabled_namespaces",
            "Namespaces whose label asks for VPAs, by whether their annotations are valid.",
            ("state",),
            registry=self.registry,
        )
        self._failed_reads = Counter(
            "vpa_recommender_failed_reads",
            "Lists and watches that failed, and objects that can't be used as they are.",
            ("api_resource", "reason"),
            registry=self.registry,
        )
        self.usage_age = Gauge(
            "vpa_recommender_usage_age_seconds",
            "Age of the newest usage that was seen.",
            registry=self.registry,
        )
        self.cycles_without_writes = Counter(
            "vpa_recommender_cycles_without_writes",
            "Cycles that wrote nothing, because what is known might be behind the API server.",
            registry=self.registry,
        )
        self.clock_set_back = Counter(
            "vpa_recommender_clock_set_back",
            "Times that the clock was put back by more than five seconds.",
            registry=self.registry,
        )
        self.leading = Gauge(
            "vpa_recommender_leading",
            "1 if this replica acts: it holds the Lease, or needs none.",
            registry=self.registry,
        )
        self.last_success = Gauge(
            "vpa_recommender_last_successful_cycle_timestamp_seconds",
            "End of the last cycle that published recommendations, in Unix time; 0: none yet.",
            registry=self.registry,
        )
        self.interval = Gauge(
            "vpa_recommender_interval_seconds",
            "Time between the starts of two cycles (--recommender-interval).",
            registry=self.registry,
        )
        self.requests = RequestMetrics(self.registry, per_container=per_container)
        self.caches = CacheMetrics("recommender", self.registry)
        self.client = ClientMetrics(self.registry)

    def step(self, name: str) -> AbstractContextManager[None]:
        """Time a step of the cycle; ``name`` is the reference's."""
        return self._steps.labels(name).time()

    def count_vpas(self, vpas: Mapping[tuple[str, bool, bool, bool], int]) -> None:
        """Set the gauge of VPAs, with a zero for each combination without VPAs.

        Keys: update mode, has a recommendation, matches pods, has an unsupported configuration.
        """
        flags = (True, False)
        modes = {mode.value for mode in UpdateMode} | {mode for mode, *_ in vpas}
        if modes != self._counted_modes:  # an invalid mode came or went
            self._vpas.clear()
            self._counted_modes = modes
        for mode, has, api, matches, unsupported in itertools.product(
            sorted(modes), flags, _API_VERSIONS, flags, flags
        ):
            count = vpas.get((mode, has, matches, unsupported), 0) if api == "v1" else 0
            values = (mode, _text(has), api, _text(matches), _text(unsupported))
            self._vpas.labels(*values).set(count)

    def requests_read(self, counts: Mapping[RequestSource, int]) -> None:
        """Count containers by the source of their requests."""
        for source, count in counts.items():
            self._requests_read.inc(source, by=count)

    def metrics_answered(self, *, is_error: bool) -> None:
        self._responses.inc(_text(is_error), _CLIENT)

    def usage_requested(self, scope: str, outcomes: Mapping[str, int]) -> None:
        """Count requests for usage by outcome: ``ok``, or the reason of the failure."""
        for outcome, count in outcomes.items():
            self._usage_requests.labels(scope, outcome).inc(count)

    def prometheus_answered(self, code: str, method: str, seconds: float) -> None:
        self._prometheus_answers.inc(code, method)
        self._prometheus_seconds.labels(code, method).observe(seconds)

    def count_backfill(self, *, loaded: int, pending: int) -> None:
        self._backfill_namespaces.labels("loaded").set(loaded)
        self._backfill_namespaces.labels("pending").set(pending)

    def count_enabled_namespaces(self, *, valid: int, invalid: int) -> None:
        self._enabled_namespaces.labels("valid").set(valid)
        self._enabled_namespaces.labels("invalid").set(invalid)

    def backfill_joined(self, samples: Mapping[str, int]) -> None:
        for resource, count in samples.items():
            self._backfill_samples.labels(resource).inc(count)

    def oom_seen(self, outcome: OomOutcome, count: int = 1) -> None:
        """Count OOM kills as seen, and as either recorded or discarded."""
        self._ooms_seen.inc(count)
        if outcome is OomOutcome.RECORDED:
            self._ooms_recorded.inc(count)
        else:
            self._ooms_discarded.labels(outcome).inc(count)

    def read_failed(self, resource: str, reason: str) -> None:
        self._failed_reads.labels(resource, reason).inc()


def _text(value: object) -> str:
    return "true" if value else "false"
