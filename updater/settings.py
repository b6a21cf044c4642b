"""What an operator can tell the updater."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from common.flags import boolean, duration, flag, namespace, number, positive_duration, whole
from common.quantity import ZERO, Quantity, parse_unsigned
from common.recommendation.pod_level import PodLevelMode
from common.runtime.settings import CommonSettings, LeaderElectionSettings, debug_flag
from updater.disruption import DisruptionPolicy
from updater.resize import Timeouts
from updater.update_order import Thresholds
from updater.work import Rules


@dataclass(frozen=True, kw_only=True)
class UpdaterSettings(CommonSettings, LeaderElectionSettings):
    """The updater: brings running pods to their recommended resources.

    Names and defaults are upstream's: pkg/updater/config/config.go; updater.md 12.3.
    """

    interval: timedelta = flag(
        "--updater-interval",
        default=timedelta(minutes=1),
        parse=positive_duration,
        help="How often to look for pods to update.",
    )
    min_replicas: int = flag(
        "--min-replicas",
        default=2,
        parse=whole(),
        help="Fewest live replicas that a group needs before any of its pods is updated.",
    )
    eviction_tolerance: float = flag(
        "--eviction-tolerance",
        default=0.5,
        parse=number(least=0, most=1),
        help="Fraction of a group's replicas that may be down because of us.",
    )
    eviction_rate_limit: float = flag(
        "--eviction-rate-limit",
        default=-1.0,
        parse=number(),
        help="Evictions, and separately resizes, per second; 0 and below mean no limit.",
    )
    eviction_rate_burst: int = flag(
        "--eviction-rate-burst",
        default=1,
        parse=whole(),
        help="Evictions, and separately resizes, that may happen at once.",
    )
    min_change: float = flag(
        "--pod-update-threshold",
        default=0.1,
        parse=number(least=0),
        help="Relative drift below which a pod is left alone.",
    )
    min_lifetime: timedelta = flag(
        "--in-recommendation-bounds-eviction-lifetime-threshold",
        default=timedelta(hours=12),
        parse=duration,
        help="Age below which a pod inside its recommended range is left alone.",
    )
    quick_oom: timedelta = flag(
        "--evict-after-oom-threshold",
        default=timedelta(minutes=10),
        parse=duration,
        help="A pod is updated at once when an OOM kill comes sooner than this after the start.",
    )
    in_place_skip_disruption_budget: bool = flag(
        "--in-place-skip-disruption-budget",
        default=False,
        parse=boolean,
        help="Resize in place without regard to replicas, where no container restarts.",
    )
    in_place_deferred_timeout: timedelta = flag(
        "--in-place-deferred-timeout",
        alias="--in-place-deferred-resize-timeout",
        default=timedelta(minutes=5),
        parse=duration,
        help="How long a resize may be deferred before mode InPlaceOrRecreate evicts.",
    )
    in_place_in_progress_timeout: timedelta = flag(
        "--in-place-in-progress-timeout",
        alias="--in-place-resize-timeout",
        default=timedelta(hours=1),
        parse=duration,
        help="How long a resize may be in progress before mode InPlaceOrRecreate evicts.",
    )
    event_driven: bool = flag(
        "--event-driven",
        default=False,
        parse=boolean,
        help="Also look for pods to update, within seconds, when a recommendation changes or a pod "
        "becomes Ready, is OOM-killed, or ends a resize.",
    )
    eviction_outcome_check: bool = flag(
        "--eviction-outcome-check",
        default=True,
        parse=boolean,
        help="Evict at most three pods of a VPA at a time, until replacements came up with the "
        "recommendation, and after three that did not only one an hour.",
    )
    replacement_dry_run: bool = flag(
        "--replacement-dry-run",
        default=False,
        parse=boolean,
        help="Before the first eviction of a workload in a pass, create the replacement in a dry "
        "run, and don't evict if the API server refuses it or it lacks the recommendation. Needs "
        "deploy/components/dry-run-preflight.",
    )
    max_allowed_cpu_boost: Quantity = flag(
        "--max-allowed-cpu-boost",
        default=ZERO,
        parse=parse_unsigned,
        help="The same as of admission: by this the updater foresees which replacements the API "
        "server would refuse; 0 is no limit.",
    )
    pod_level_resources: PodLevelMode = flag(
        "--pod-level-resources",
        default=PodLevelMode.KEEP,
        parse=PodLevelMode.parse,
        help="What becomes of spec.resources of a pod: keep fits the containers into it, follow "
        "moves it in proportion to its containers. Admission needs the same value.",
    )
    use_admission_controller_status: bool = flag(
        "--use-admission-controller-status",
        default=True,
        parse=boolean,
        help="Evict only while the admission controller renews its status Lease.",
    )
    status_lease_name: str = flag(
        "--admission-controller-status-lease-name",
        default="vpa-admission-controller",
        parse=str,
        help="Name of the admission controller's status Lease.",
    )
    status_lease_namespace: str = flag(
        "--admission-controller-status-lease-namespace",
        default="",
        parse=namespace,
        help="Namespace of that Lease; else that of the environment variable NAMESPACE, "
        "else kube-system.",
    )
    status_lease_timeout: timedelta = flag(
        "--admission-controller-status-lease-timeout",
        default=timedelta(minutes=1),
        parse=positive_duration,
        help="Age at which the status Lease counts as stale.",
    )
    address: str = flag(
        "--address",
        default=":8943",
        parse=str,
        help="Where to serve /metrics, /health-check and /readyz.",
    )
    event_qps: float = flag(
        "--event-qps",
        default=50.0,
        parse=number(),
        help="Events per second, on average, beside --kube-api-qps; 0 and below mean no limit.",
    )
    event_burst: float = flag(
        "--event-burst",
        default=100.0,
        parse=number(),
        help="Events that may be sent at once.",
    )
    debug_endpoints: bool = debug_flag(
        "GET /debug/plan on --address: what the next pass would decide about each pod, and why."
    )
    leader_elect_resource_name: str = flag(
        "--leader-elect-resource-name",
        default="vpa-updater",
        parse=str,
        help="Name of the Lease.",
    )

    @property
    def rules(self) -> Rules:
        """The part that a pass needs; its decisions never see the whole."""
        return Rules(
            interval=self.interval,
            pace=self.interval if self.event_driven else timedelta(),
            thresholds=Thresholds(
                min_change=self.min_change,
                min_lifetime=self.min_lifetime,
                quick_oom=self.quick_oom,
            ),
            timeouts=Timeouts(
                deferred=self.in_place_deferred_timeout,
                in_progress=self.in_place_in_progress_timeout,
            ),
            disruption=DisruptionPolicy(
                min_replicas=self.min_replicas,
                tolerance_fraction=self.eviction_tolerance,
                in_place_skips_budget=self.in_place_skip_disruption_budget,
            ),
            features=self.feature_gates,
            checks_outcomes=self.eviction_outcome_check,
            boost_bound=self.max_allowed_cpu_boost,
            pod_level=self.pod_level_resources,
        )

    def lease_namespace(self, environ: Mapping[str, str]) -> str:
        """Where the admission controller's status Lease is."""
        return self.status_lease_namespace or environ.get("NAMESPACE", "") or "kube-system"
