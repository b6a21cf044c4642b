"""The recommender's flags for history from Prometheus and usage from external metrics."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from common.errors import ConfigError
from common.flags import boolean, duration, flag
from common.resources import CPU, MEMORY

EXTERNAL_METRICS = "Usage from external metrics"
PROMETHEUS = "History from Prometheus"
HISTORY_QUERIES = "Metrics and labels in Prometheus"

_DURATION = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?"
)
_UNITS = (
    *(timedelta(days=365), timedelta(days=7), timedelta(days=1), timedelta(hours=1)),
    *(timedelta(minutes=1), timedelta(seconds=1), timedelta(milliseconds=1)),
)


def prometheus_duration(text: str) -> timedelta:
    """Parse a duration of Prometheus: ``8d``, ``1w``, ``1h30m``.

    Raises:
        ValueError: the text is not a duration, or not positive.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"not a duration such as 8d or 1h30m: {text!r}")
    try:
        found = sum(
            (int(number) * unit for number, unit in zip(match.groups("0"), _UNITS, strict=True)),
            timedelta(),
        )
    except OverflowError as error:
        raise ValueError(f"too long: {text!r}") from error
    if not found:
        raise ValueError(f"must be positive: {text!r}")
    return found


def _text(name: str, default: str, *, group: str, metavar: str, help: str) -> str:
    found: str = flag(name, default=default, parse=str, group=group, metavar=metavar, help=help)
    return found


def _parsed(name: str, parse: Callable[[str], timedelta], text: str) -> timedelta:
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class UsageSourceSettings:
    """Names and defaults are upstream's: recommender.md 14.2."""

    use_external_metrics: bool = flag(
        "--use-external-metrics",
        default=False,
        parse=boolean,
        group=EXTERNAL_METRICS,
        help="Read usage from external.metrics.k8s.io, pod by pod, instead of metrics.k8s.io.",
    )
    external_metrics_cpu_metric: str = _text(
        "--external-metrics-cpu-metric",
        "",
        group=EXTERNAL_METRICS,
        metavar="METRIC",
        help="Read CPU usage from this external metric. Empty: don't read CPU usage.",
    )
    external_metrics_memory_metric: str = _text(
        "--external-metrics-memory-metric",
        "",
        group=EXTERNAL_METRICS,
        metavar="METRIC",
        help="Read memory usage from this external metric. Empty: don't read memory usage.",
    )
    storage: str = _text(
        "--storage",
        "",
        group=PROMETHEUS,
        metavar="SOURCE",
        help="Read history at start: prometheus reads what no checkpoint has from Prometheus, any "
        "other value reads checkpoints only.",
    )
    prometheus_address: str = _text(
        "--prometheus-address",
        "http://prometheus.monitoring.svc",
        group=PROMETHEUS,
        metavar="URL",
        help="Set the URL of Prometheus.",
    )
    prometheus_insecure: bool = flag(
        "--prometheus-insecure",
        default=False,
        parse=boolean,
        group=PROMETHEUS,
        help="Skip TLS verification for Prometheus.",
    )
    prometheus_bearer_token: str = _text(
        "--prometheus-bearer-token",
        "",
        group=PROMETHEUS,
        metavar="TOKEN",
        help="Authenticate to Prometheus with this bearer token.",
    )
    prometheus_bearer_token_file: str = _text(
        "--prometheus-bearer-token-file",
        "",
        group=PROMETHEUS,
        metavar="FILE",
        help="Authenticate to Prometheus with the bearer token in this file. Overrides "
        "--prometheus-bearer-token.",
    )
    username: str = _text(
        "--username",
        "",
        group=PROMETHEUS,
        metavar="NAME",
        help="Authenticate to Prometheus as this user.",
    )
    password: str = _text(
        "--password",
        "",
        group=PROMETHEUS,
        metavar="PASSWORD",
        help="Authenticate to Prometheus with this password.",
    )
    prometheus_query_timeout: str = _text(
        "--prometheus-query-timeout",
        "5m",
        group=PROMETHEUS,
        metavar="DURATION",
        help="Abort a query after this time.",
    )
    history_length: str = _text(
        "--history-length",
        "8d",
        group=PROMETHEUS,
        metavar="DURATION",
        help="Read history of this length.",
    )
    history_resolution: str = _text(
        "--history-resolution",
        "1h",
        group=PROMETHEUS,
        metavar="DURATION",
        help="Read one sample of history per interval of this length.",
    )
    prometheus_cadvisor_job_name: str = _text(
        "--prometheus-cadvisor-job-name",
        "kubernetes-cadvisor",
        group=HISTORY_QUERIES,
        metavar="JOB",
        help="Select usage with this job label. Empty: any job.",
    )
    history_cpu_metric: str = _text(
        "--history-cpu-metric",
        "container_cpu_usage_seconds_total",
        group=HISTORY_QUERIES,
        metavar="METRIC",
        help="Read CPU usage from this metric.",
    )
    history_memory_metric: str = _text(
        "--history-memory-metric",
        "container_memory_working_set_bytes",
        group=HISTORY_QUERIES,
        metavar="METRIC",
        help="Read memory usage from this metric.",
    )
    container_namespace_label: str = _text(
        "--container-namespace-label",
        "namespace",
        group=HISTORY_QUERIES,
        metavar="LABEL",
        help="Read the namespace of a container from this label.",
    )
    container_pod_name_label: str = _text(
        "--container-pod-name-label",
        "pod_name",
        group=HISTORY_QUERIES,
        metavar="LABEL",
        help="Read the pod name of a container from this label.",
    )
    container_name_label: str = _text(
        "--container-name-label",
        "name",
        group=HISTORY_QUERIES,
        metavar="LABEL",
        help="Read the name of a container from this label, also in external metrics.",
    )
    metric_for_pod_labels: str = _text(
        "--metric-for-pod-labels",
        'up{job="kubernetes-pods"}',
        group=HISTORY_QUERIES,
        metavar="SELECTOR",
        help="Read pod labels from the series of this selector.",
    )
    pod_namespace_label: str = _text(
        "--pod-namespace-label",
        "kubernetes_namespace",
        group=HISTORY_QUERIES,
        metavar="LABEL",
        help="Read the namespace of a pod from this label.",
    )
    pod_name_label: str = _text(
        "--pod-name-label",
        "kubernetes_pod_name",
        group=HISTORY_QUERIES,
        metavar="LABEL",
        help="Read the name of a pod from this label.",
    )
    pod_label_prefix: str = _text(
        "--pod-label-prefix",
        "pod_label_",
        group=HISTORY_QUERIES,
        metavar="PREFIX",
        help="Read pod labels from metric labels with this prefix.",
    )

    def __post_init__(self) -> None:
        """Validate the flags.

        Raises:
            ConfigError: three credentials exclude each other, or a duration is invalid.
        """
        if self.prometheus_bearer_token and self.prometheus_bearer_token_file and self.username:
            raise ConfigError(
                "--prometheus-bearer-token, --prometheus-bearer-token-file and --username "
                "exclude each other"
            )
        if self.reads_prometheus:
            _ = self.query_timeout, self.history_span

    @property
    def external_metrics(self) -> Mapping[str, str]:
        """Return the name of the external metric of each resource; empty: not read."""
        return {
            CPU: self.external_metrics_cpu_metric,
            MEMORY: self.external_metrics_memory_metric,
        }

    @property
    def reads_prometheus(self) -> bool:
        """Return True if history is also read from Prometheus."""
        return self.storage == "prometheus"

    @property
    def query_timeout(self) -> timedelta:
        """Return the timeout of one query."""
        found = _parsed("--prometheus-query-timeout", duration, self.prometheus_query_timeout)
        if found <= timedelta():
            raise ConfigError("--prometheus-query-timeout must be positive")
        return found

    @property
    def history_span(self) -> tuple[timedelta, timedelta]:
        """Return the length and resolution of the history."""
        return (
            _parsed("--history-length", prometheus_duration, self.history_length),
            _parsed("--history-resolution", prometheus_duration, self.history_resolution),
        )
