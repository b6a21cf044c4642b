"""The flags that the three processes share."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from common.errors import ConfigError
from common.features import FeatureGates
from common.flags import boolean, duration, flag, namespace, namespaces, number, whole


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """How a program reaches the API server."""

    kubeconfig: str = flag(
        "--kubeconfig",
        default="",
        parse=str,
        help="Path of a kubeconfig; without it the process expects to run in a pod.",
    )
    kube_api_qps: float = flag(
        "--kube-api-qps",
        default=50.0,
        parse=number(),
        help="Requests per second to the API server, on average.",
    )
    kube_api_burst: float = flag(
        "--kube-api-burst",
        default=100.0,
        parse=number(),
        help="Requests to the API server that may be sent at once.",
    )


@dataclass(frozen=True, kw_only=True)
class LoggingSettings:
    """How much a program says, and in which form."""

    verbosity: int = flag(
        "--v",
        short="-v",
        default=4,
        parse=whole(),
        help="Log detail as klog counts it: 0 warnings, 1-4 information, 5 and more debugging.",
    )
    logging_format: str = flag(
        "--logging-format",
        default="text",
        parse=str,
        help="How log lines look: text (klog's form) or json.",
    )

    def __post_init__(self) -> None:
        if self.logging_format not in ("text", "json"):
            raise ConfigError(f"--logging-format: {self.logging_format!r} is not text or json")


@dataclass(frozen=True, kw_only=True)
class CommonSettings(LoggingSettings, ClientSettings):
    """Names and defaults are upstream's: pkg/utils/../common/flags.go; updater.md 12.3."""

    vpa_object_namespace: str = flag(
        "--vpa-object-namespace",
        default="",
        parse=namespace,
        help="The one namespace to look at; empty means all.",
    )
    ignored_vpa_object_namespaces: tuple[str, ...] = flag(
        "--ignored-vpa-object-namespaces",
        default=(),
        parse=namespaces,
        help="Comma-separated namespaces to leave alone.",
    )
    profiling: bool = flag(
        "--profiling",
        default=False,
        parse=boolean,
        help="Serve profiles under /debug/pprof/ on the ops address.",
    )
    feature_gates: FeatureGates = flag(
        "--feature-gates",
        default=FeatureGates(),
        parse=FeatureGates.parse,
        help="Comma-separated Gate=true or Gate=false; gates: "
        "CPUStartupBoost, InPlace, NativeSidecar, PerVPAConfig, AllAlpha, AllBeta, all off.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vpa_object_namespace and self.ignored_vpa_object_namespaces:
            raise ConfigError(
                "--vpa-object-namespace and --ignored-vpa-object-namespaces exclude each other"
            )


def debug_flag(serves: str) -> Any:
    """Return the flag ``--debug-endpoints`` of a process that ``serves`` this."""
    return flag(
        "--debug-endpoints",
        default=False,
        parse=boolean,
        help=f"Serve {serves} It shows VPAs to every client of the address.",
    )


@dataclass(frozen=True, kw_only=True)
class LeaderElectionSettings:
    """Flags of a process of which one replica acts; upstream's ``--leader-elect*``.

    A subclass says the name of its lease: ``leader_elect_resource_name``.
    """

    leader_elect: bool = flag(
        "--leader-elect",
        default=False,
        parse=boolean,
        help="Act only while holding a Lease, so that several replicas may run.",
    )
    leader_elect_lease_duration: timedelta = flag(
        "--leader-elect-lease-duration",
        default=timedelta(seconds=15),
        parse=duration,
        help="How long others wait after the last renewal before they take over.",
    )
    leader_elect_renew_deadline: timedelta = flag(
        "--leader-elect-renew-deadline",
        default=timedelta(seconds=10),
        parse=duration,
        help="How long the leader tries to renew before it gives up and ends.",
    )
    leader_elect_retry_period: timedelta = flag(
        "--leader-elect-retry-period",
        default=timedelta(seconds=2),
        parse=duration,
        help="Pause between two tries to get or renew the Lease.",
    )
    leader_elect_resource_lock: str = flag(
        "--leader-elect-resource-lock",
        default="leases",
        parse=str,
        help="Kind of the lock; only leases is supported.",
    )
    leader_elect_resource_namespace: str = flag(
        "--leader-elect-resource-namespace",
        default="kube-system",
        parse=namespace,
        help="Namespace of the Lease.",
    )
