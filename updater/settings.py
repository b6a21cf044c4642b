"""The flags of the updater."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from common.flags import (
    boolean,
    duration,
    flag,
    namespace,
    number,
    one_of,
    positive_duration,
    whole,
)
from common.quantity import ZERO, Quantity, parse_unsigned
from common.recommendation.pod_level import PodLevelMode
from common.runtime.settings import (
    CommonSettings,
    LeaderElectionSettings,
    address_flag,
    debug_flag,
    lease_name_flag,
)
from updater.capacity.capacity_requests import CapacityMode
from updater.evaluate.update_verdict import Thresholds
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.pass_context import Rules
from updater.resize.memory_decrease import MemoryDecreaseRules
from updater.resize.resize_timeouts import Timeouts


@dataclass(frozen=True, kw_only=True)
class UpdaterSettings(CommonSettings, LeaderElectionSettings):
    """Bring running pods to their recommended resources, in place or by eviction.

    Names and defaults are upstream's: pkg/updater/config/config.go; updater.md 12.3.
    """

    interval: timedelta = flag(
        "--updater-interval",
        default=timedelta(minutes=1),
        parse=positive_duration,
        group="General",
        help="Start a pass over all VPAs at this interval.",
    )
    event_driven: bool = flag(
        "--event-driven",
        default=False,
        parse=boolean,
        group="General",
        help="Start a pass within seconds, too, when a recommendation changes, a pod becomes "
        "Ready, is OOM-killed or ends a resize, a node gets more capacity, or a node comes while "
        "pods wait for room.",
    )
    pod_level_resources: PodLevelMode = flag(
        "--pod-level-resources",
        default=PodLevelMode.KEEP,
        parse=one_of(PodLevelMode),
        group="General",
        metavar="MODE",
        help="Choose how spec.resources of a pod is handled: keep fits the containers into it, "
        "follow scales it in proportion to its containers. Admission needs the same value.",
    )
    min_change: float = flag(
        "--pod-update-threshold",
        default=0.1,
        parse=number(least=0),
        group="Eviction and resize",
        metavar="FRACTION",
        help="Update a pod in its recommended range only if its requests differ from the target by"
        " at least this fraction, summed over resources.",
    )
    min_lifetime: timedelta = flag(
        "--in-recommendation-bounds-eviction-lifetime-threshold",
        default=timedelta(hours=12),
        parse=duration,
        group="Eviction and resize",
        help="Update a pod in its recommended range only after it has run for this time.",
    )
    quick_oom: timedelta = flag(
        "--evict-after-oom-threshold",
        default=timedelta(minutes=10),
        parse=duration,
        group="Eviction and resize",
        help="Update a pod at once if it is OOM-killed within this time after its start.",
    )
    memory_decrease_margin: float = flag(
        "--memory-decrease-margin",
        default=0.1,
        parse=number(least=0),
        group="Eviction and resize",
        metavar="FRACTION",
        help="Lower a memory limit in place only if the largest usage of up to the last 15 "
        "minutes, increased by this fraction, is at most the new limit.",
    )
    memory_decrease_pause: timedelta = flag(
        "--memory-decrease-pause",
        default=timedelta(minutes=5),
        parse=duration,
        group="Eviction and resize",
        help="Watch usage for this time, 15 minutes at most, before each step of a memory limit "
        "that goes down in place.",
    )
    min_replicas: int = flag(
        "--min-replicas",
        default=2,
        parse=whole(),
        group="Eviction and resize",
        metavar="COUNT",
        help="Update pods of a group only if it has at least this number of live replicas. A VPA "
        "can set its own minimum.",
    )
    eviction_tolerance: float = flag(
        "--eviction-tolerance",
        default=0.5,
        parse=number(least=0, most=1),
        group="Eviction and resize",
        metavar="FRACTION",
        help="Keep evictions and resizes from taking down more than this fraction of a group's "
        "replicas, from 0 to 1.",
    )
    eviction_rate_limit: float = flag(
        "--eviction-rate-limit",
        default=-1.0,
        parse=number(),
        group="Eviction and resize",
        metavar="RATE",
        help="Limit the rate of evictions, and separately of resizes, per second. 0 or less: no "
        "limit.",
    )
    eviction_rate_burst: int = flag(
        "--eviction-rate-burst",
        default=1,
        parse=whole(),
        group="Eviction and resize",
        metavar="COUNT",
        help="Limit the number of evictions, and separately of resizes, that can be sent at once.",
    )
    in_place_skip_disruption_budget: bool = flag(
        "--in-place-skip-disruption-budget",
        default=False,
        parse=boolean,
        group="In-place resize",
        help="Resize pods in place without counting replicas if no container restarts.",
    )
    in_place_deferred_timeout: timedelta = flag(
        "--in-place-deferred-timeout",
        alias="--in-place-deferred-resize-timeout",
        default=timedelta(minutes=5),
        parse=duration,
        group="In-place resize",
        help="Evict a pod in mode InPlaceOrRecreate if its resize is deferred for this time.",
    )
    in_place_in_progress_timeout: timedelta = flag(
        "--in-place-in-progress-timeout",
        alias="--in-place-resize-timeout",
        default=timedelta(hours=1),
        parse=duration,
        group="In-place resize",
        help="Evict a pod in mode InPlaceOrRecreate if its resize is in progress for this time.",
    )
    eviction_outcome_check: bool = flag(
        "--eviction-outcome-check",
        default=True,
        parse=boolean,
        group="Checks of replacements",
        help="Keep at most three evictions of a VPA without a correct replacement. After three "
        "wrong replacements, evict one pod an hour.",
    )
    replacement_dry_run: bool = flag(
        "--replacement-dry-run",
        default=False,
        parse=boolean,
        group="Checks of replacements",
        help="Create the replacement in a dry run before the first eviction of a workload in each "
        "pass; don't evict if the API server refuses it or it lacks the recommendation. Needs"
        " deploy/components/dry-run-preflight.",
    )
    capacity_check: CapacityMode = flag(
        "--capacity-check",
        default=CapacityMode.AUTO,
        parse=one_of(CapacityMode),
        group="Room for replacements",
        metavar="MODE",
        help="Choose what happens before an eviction whose replacement would have no room on any "
        "node: provision requests capacity and evicts once it is there, wait evicts once a node "
        "has room, off evicts at once. auto: provision if the cluster serves CapacityBuffers or "
        "ProvisioningRequests, else off with Karpenter or the cluster autoscaler, else wait.",
    )
    capacity_timeout: timedelta = flag(
        "--capacity-timeout",
        default=timedelta(minutes=10),
        parse=positive_duration,
        group="Room for replacements",
        help="Withdraw a request for capacity if there is no room after this time; the pod isn't "
        "evicted, and the request is made again later.",
    )
    max_allowed_cpu_boost: Quantity = flag(
        "--max-allowed-cpu-boost",
        default=ZERO,
        parse=parse_unsigned,
        group="Checks of replacements",
        metavar="QUANTITY",
        help="Assume that admission caps the CPU of start-up boosts at this. Set the same value as"
        " for admission. 0: no cap.",
    )
    use_admission_controller_status: bool = flag(
        "--use-admission-controller-status",
        default=True,
        parse=boolean,
        group="Status Lease of admission",
        help="Evict only while admission renews its status Lease.",
    )
    status_lease_name: str = flag(
        "--admission-controller-status-lease-name",
        default="vpa-admission-controller",
        parse=str,
        group="Status Lease of admission",
        metavar="NAME",
        help="Set the name of admission's status Lease.",
    )
    status_lease_namespace: str = flag(
        "--admission-controller-status-lease-namespace",
        default="",
        parse=namespace,
        group="Status Lease of admission",
        help="Set the namespace of admission's status Lease. Empty: the environment variable "
        "NAMESPACE, or kube-system.",
    )
    status_lease_timeout: timedelta = flag(
        "--admission-controller-status-lease-timeout",
        default=timedelta(minutes=1),
        parse=positive_duration,
        group="Status Lease of admission",
        help="Treat the status Lease as stale this long after its last renewal.",
    )
    event_qps: float = flag(
        "--event-qps",
        default=50.0,
        parse=number(),
        group="Events",
        metavar="RATE",
        help="Limit the average rate of Events, per second, apart from --kube-api-qps. 0 or less: "
        "no limit.",
    )
    event_burst: float = flag(
        "--event-burst",
        default=100.0,
        parse=number(),
        group="Events",
        metavar="COUNT",
        help="Limit the number of Events that can be sent at once.",
    )
    address: str = address_flag(":8943")
    debug_endpoints: bool = debug_flag(
        "GET /debug/plan on --address, which explains the decision on each pod of the next pass."
    )
    leader_elect_resource_name: str = lease_name_flag("vpa-updater")

    @property
    def rules(self) -> Rules:
        """Return the part that a pass needs; its decisions never see the whole."""
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
            capacity_timeout=self.capacity_timeout,
            memory_decrease=MemoryDecreaseRules(
                margin=self.memory_decrease_margin, pause=self.memory_decrease_pause
            ),
        )

    def lease_namespace(self, environ: Mapping[str, str]) -> str:
        """Return where the admission controller's status Lease is."""
        return self.status_lease_namespace or environ.get("NAMESPACE", "") or "kube-system"
