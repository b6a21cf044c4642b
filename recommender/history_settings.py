"""The flags about usage from elsewhere: Prometheus history and external metrics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from common.errors import ConfigError
from common.flags import boolean, duration, flag
from common.resources import CPU, MEMORY
from recommender.sources.promql import (
    ContainerLabels,
    HistoryQuery,
    PodLabels,
    Queries,
    prometheus_duration,
)


def _text(name: str, default: str, help: str) -> str:
    found: str = flag(name, default=default, parse=str, help=help)
    return found


def _parsed(name: str, parse: Callable[[str], timedelta], text: str) -> timedelta:
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class HistorySettings:
    """Names and defaults are upstream's: recommender.md 14.2."""

    storage: str = _text(
        "--storage",
        "",
        "Where history comes from at start: prometheus for what no checkpoint knows, "
        "else checkpoints alone.",
    )
    use_external_metrics: bool = flag(
        "--use-external-metrics",
        default=False,
        parse=boolean,
        help="Take usage from external.metrics.k8s.io, pod by pod.",
    )
    external_metrics_cpu_metric: str = _text(
        "--external-metrics-cpu-metric",
        "",
        "Name of the external metric with CPU usage; empty: none is asked for.",
    )
    external_metrics_memory_metric: str = _text(
        "--external-metrics-memory-metric",
        "",
        "Name of the external metric with memory usage; empty: none is asked for.",
    )
    prometheus_address: str = _text(
        "--prometheus-address", "http://prometheus.monitoring.svc", "URL of Prometheus."
    )
    prometheus_insecure: bool = flag(
        "--prometheus-insecure",
        default=False,
        parse=boolean,
        help="Take any certificate of Prometheus.",
    )
    prometheus_cadvisor_job_name: str = _text(
        "--prometheus-cadvisor-job-name",
        "kubernetes-cadvisor",
        "Job label of the containers' usage; empty means any.",
    )
    prometheus_query_timeout: str = _text(
        "--prometheus-query-timeout", "5m", "How long one query may take."
    )
    prometheus_bearer_token: str = _text(
        "--prometheus-bearer-token", "", "Bearer token for Prometheus."
    )
    prometheus_bearer_token_file: str = _text(
        "--prometheus-bearer-token-file",
        "",
        "File with the bearer token for Prometheus; goes before the token.",
    )
    username: str = _text("--username", "", "User name for Prometheus.")
    password: str = _text("--password", "", "Password for Prometheus.")
    history_length: str = _text("--history-length", "8d", "How much history to ask for.")
    history_resolution: str = _text("--history-resolution", "1h", "Distance of its points.")
    history_cpu_metric: str = _text(
        "--history-cpu-metric", "container_cpu_usage_seconds_total", "Metric of CPU usage."
    )
    history_memory_metric: str = _text(
        "--history-memory-metric",
        "container_memory_working_set_bytes",
        "Metric of memory usage.",
    )
    pod_label_prefix: str = _text(
        "--pod-label-prefix", "pod_label_", "What stands before pod labels in metric labels."
    )
    metric_for_pod_labels: str = _text(
        "--metric-for-pod-labels", 'up{job="kubernetes-pods"}', "Metric that has pod labels."
    )
    pod_namespace_label: str = _text(
        "--pod-namespace-label", "kubernetes_namespace", "Label with a pod's namespace."
    )
    pod_name_label: str = _text(
        "--pod-name-label", "kubernetes_pod_name", "Label with a pod's name."
    )
    container_namespace_label: str = _text(
        "--container-namespace-label", "namespace", "Label with a container's namespace."
    )
    container_pod_name_label: str = _text(
        "--container-pod-name-label", "pod_name", "Label with the name of a container's pod."
    )
    container_name_label: str = _text(
        "--container-name-label", "name", "Label with a container's name, also of external metrics."
    )

    def __post_init__(self) -> None:
        """Refuse what can't work.

        Raises:
            ConfigError: three credentials exclude each other, or a duration is none.
        """
        if self.prometheus_bearer_token and self.prometheus_bearer_token_file and self.username:
            raise ConfigError(
                "--prometheus-bearer-token, --prometheus-bearer-token-file and --username "
                "exclude each other"
            )
        if self.has_past:
            _ = self.query_timeout, self.wanted

    @property
    def external_metrics(self) -> Mapping[str, str]:
        """The name of the external metric of each resource; empty: there is none."""
        return {
            CPU: self.external_metrics_cpu_metric,
            MEMORY: self.external_metrics_memory_metric,
        }

    @property
    def has_past(self) -> bool:
        """Whether there is history elsewhere than in checkpoints."""
        return self.storage == "prometheus"

    @property
    def query_timeout(self) -> timedelta:
        """How long one query may take."""
        found = _parsed("--prometheus-query-timeout", duration, self.prometheus_query_timeout)
        if found <= timedelta():
            raise ConfigError("--prometheus-query-timeout must be positive")
        return found

    @property
    def wanted(self) -> HistoryQuery:
        """How much history, and in which words it is asked for."""
        parse = prometheus_duration
        return HistoryQuery(
            length=_parsed("--history-length", parse, self.history_length),
            resolution=_parsed("--history-resolution", parse, self.history_resolution),
            queries=Queries(
                cpu_metric=self.history_cpu_metric,
                memory_metric=self.history_memory_metric,
                job=self.prometheus_cadvisor_job_name,
                resolution=self.history_resolution,
                container=ContainerLabels(
                    namespace=self.container_namespace_label,
                    pod=self.container_pod_name_label,
                    container=self.container_name_label,
                ),
                labels_metric=self.metric_for_pod_labels,
                pod=PodLabels(
                    namespace=self.pod_namespace_label,
                    pod=self.pod_name_label,
                    prefix=self.pod_label_prefix,
                ),
            ),
        )
