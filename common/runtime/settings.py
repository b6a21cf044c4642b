"""The flags that several programs share."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from common.errors import ConfigError
from common.features import FeatureGates
from common.flags import boolean, duration, flag, namespace, namespaces, number, whole

# Titles of groups to which several classes contribute.
CLUSTER_SCOPE = "Scope"
LEADER_ELECTION = "Leader election"
OPS = "Metrics, health and debugging"

# klog's flags with the reference's defaults. They set the log destination of a Go library. Our log
# goes to standard error, so they have no effect; manifests of the reference contain them.
KLOG_FLAGS: Mapping[str, str] = {
    "--add-dir-header": "false",
    "--alsologtostderr": "false",
    "--alsologtostderrthreshold": "0",
    "--legacy-stderr-threshold-behavior": "true",
    "--log-backtrace-at": ":0",
    "--log-dir": "",
    "--log-file": "",
    "--log-file-max-size": "1800",
    "--logtostderr": "true",
    "--one-output": "false",
    "--skip-headers": "false",
    "--skip-log-headers": "false",
    "--stderrthreshold": "0",
    "--vmodule": "",
}


def kubeconfig_flag(outside: str) -> Any:
    """Declare the flag ``--kubeconfig`` of a program that uses ``outside`` when not in a pod."""
    return flag(
        "--kubeconfig",
        default="",
        parse=str,
        group="API client",
        metavar="FILE",
        help="Path of the kubeconfig. Empty: use the service account of the pod, or outside of a "
        f"pod {outside}.",
    )


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """The settings of a program's connection to the API server."""

    kubeconfig: str = kubeconfig_flag("the files that the environment variable KUBECONFIG names")
    context: str = flag(
        "--context",
        default="",
        parse=str,
        group="API client",
        metavar="NAME",
        help="Use this context of the kubeconfig. Empty: the current context.",
    )
    kube_api_qps: float = flag(
        "--kube-api-qps",
        default=50.0,
        parse=number(),
        group="API client",
        metavar="RATE",
        help="Limit the average rate of requests to the API server, in requests per second.",
    )
    kube_api_burst: float = flag(
        "--kube-api-burst",
        default=100.0,
        parse=number(),
        group="API client",
        metavar="COUNT",
        help="Limit the number of requests to the API server that can be sent at once.",
    )


@dataclass(frozen=True, kw_only=True)
class LoggingSettings:
    """The settings of a program's log."""

    accepted_without_effect: ClassVar[Mapping[str, str]] = KLOG_FLAGS

    verbosity: int = flag(
        "--v",
        short="-v",
        default=4,
        parse=whole(),
        group="Logging",
        metavar="LEVEL",
        help="Set the log level: 0 logs warnings, 1 to 4 information, 5 and above debugging.",
    )
    logging_format: str = flag(
        "--logging-format",
        default="text",
        parse=str,
        group="Logging",
        metavar="FORMAT",
        help="Set the format of log lines: text (klog's) or json.",
    )

    def __post_init__(self) -> None:
        if self.logging_format not in ("text", "json"):
            raise ConfigError(f"--logging-format: {self.logging_format!r} is not text or json")


@dataclass(frozen=True, kw_only=True)
class CommonSettings(LoggingSettings, ClientSettings):
    """The settings of all processes, with upstream's names and defaults.

    Source: vertical-pod-autoscaler/common/flags.go; updater.md 12.3.
    """

    vpa_object_namespace: str = flag(
        "--vpa-object-namespace",
        default="",
        parse=namespace,
        group=CLUSTER_SCOPE,
        help="Handle VPAs and pods of this namespace only. Empty: all namespaces.",
    )
    ignored_vpa_object_namespaces: tuple[str, ...] = flag(
        "--ignored-vpa-object-namespaces",
        default=(),
        parse=namespaces,
        group=CLUSTER_SCOPE,
        help="Ignore VPAs of these namespaces, separated by commas. Can't be combined with "
        "--vpa-object-namespace.",
    )
    feature_gates: FeatureGates = flag(
        "--feature-gates",
        default=FeatureGates(),
        parse=FeatureGates.parse,
        group="Feature gates",
        metavar="GATES",
        help="Switch features on or off, as in CPUStartupBoost=true,InPlace=false. Gates, all off "
        "by default: CPUStartupBoost, InPlace, NativeSidecar, PerVPAConfig, AllAlpha, AllBeta.",
    )
    profiling: bool = flag(
        "--profiling",
        default=False,
        parse=boolean,
        group=OPS,
        help="Serve CPU and heap profiles at /debug/pprof/ on --address.",
    )
    read_api: bool = flag(
        "--read-api",
        default=True,
        parse=boolean,
        group=OPS,
        help="Serve what the last pass found at /api/v1/ on --address, to callers on loopback, to "
        "API servers, and to bearer tokens whose owner may get VPAs.",
    )
    # The reference ignores positional arguments, so manifests may contain some.
    ignored_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vpa_object_namespace and self.ignored_vpa_object_namespaces:
            raise ConfigError(
                "--vpa-object-namespace and --ignored-vpa-object-namespaces exclude each other"
            )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a warning for each part of the command line without the expected effect."""
        if not self.ignored_arguments:
            return ()
        words = " ".join(self.ignored_arguments)
        return (f"positional arguments are ignored, Booleans need an equals sign: {words}",)


def address_flag(default: str) -> Any:
    """Declare the flag ``--address`` of a process with this default."""
    return flag(
        "--address",
        default=default,
        parse=str,
        group=OPS,
        metavar="ADDRESS",
        help="Serve /metrics, /health-check, /readyz, /version and /api/v1/ on this address, in "
        "plain HTTP.",
    )


def debug_flag(serves: str) -> Any:
    """Declare the flag ``--debug-endpoints`` of a process that ``serves`` this on --address."""
    return flag(
        "--debug-endpoints",
        default=False,
        parse=boolean,
        group=OPS,
        help=f"Serve {serves} The endpoint shows VPAs to every client that reaches the address.",
    )


def lease_name_flag(default: str) -> Any:
    """Declare the flag ``--leader-elect-resource-name`` of a process with this default."""
    return flag(
        "--leader-elect-resource-name",
        default=default,
        parse=str,
        group=LEADER_ELECTION,
        metavar="NAME",
        help="Set the name of the Lease for leader election.",
    )


@dataclass(frozen=True, kw_only=True)
class LeaderElectionSettings:
    """The settings of leader election; upstream's ``--leader-elect*``.

    A subclass declares the name of its Lease with :func:`lease_name_flag`.
    """

    leader_elect: bool = flag(
        "--leader-elect",
        default=False,
        parse=boolean,
        group=LEADER_ELECTION,
        help="Act only while holding the Lease. Needed to run several replicas.",
    )
    leader_elect_lease_duration: timedelta = flag(
        "--leader-elect-lease-duration",
        default=timedelta(seconds=15),
        parse=duration,
        group=LEADER_ELECTION,
        help="Let another replica take over this long after the last renewal.",
    )
    leader_elect_renew_deadline: timedelta = flag(
        "--leader-elect-renew-deadline",
        default=timedelta(seconds=10),
        parse=duration,
        group=LEADER_ELECTION,
        help="End the process if the leader can't renew the Lease for this long.",
    )
    leader_elect_retry_period: timedelta = flag(
        "--leader-elect-retry-period",
        default=timedelta(seconds=2),
        parse=duration,
        group=LEADER_ELECTION,
        help="Wait this long between attempts to acquire or renew the Lease.",
    )
    leader_elect_resource_lock: str = flag(
        "--leader-elect-resource-lock",
        default="leases",
        parse=str,
        group=LEADER_ELECTION,
        metavar="KIND",
        help="Set the kind of the lock. Only leases is supported.",
    )
    leader_elect_resource_namespace: str = flag(
        "--leader-elect-resource-namespace",
        default="kube-system",
        parse=namespace,
        group=LEADER_ELECTION,
        help="Set the namespace of the Lease.",
    )
