"""The settings of a pass, and the common inputs of the plans of all its VPAs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from common.features import FeatureGates
from common.quantity import ZERO, Quantity
from common.recommendation.pod_level import PodLevelMode
from common.runtime.object_errors import ObjectErrors
from common.target.owners import Controller
from updater.capacity.capacity_requests import NO_REQUESTS, CapacityMode, CapacityRequests
from updater.capacity.pass_rooms import PassRooms
from updater.evaluate.update_verdict import Thresholds
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.resize.memory_decrease import MemoryDecreaseRules, MemoryUse
from updater.resize.resize_rooms import ResizeRooms
from updater.resize.resize_timeouts import Timeouts
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.state import UpdaterState
from updater.vpa_preflight import QuotaUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of decisions, by group."""

    interval: timedelta = timedelta(minutes=1)
    pace: timedelta = timedelta()  # between updates of a group, if passes can follow at once
    thresholds: Thresholds = field(default_factory=Thresholds)
    timeouts: Timeouts = field(default_factory=Timeouts)
    disruption: DisruptionPolicy = field(default_factory=DisruptionPolicy)
    features: FeatureGates = field(default_factory=FeatureGates)
    checks_outcomes: bool = True  # of evictions, by the circuit breaker
    boost_bound: Quantity = ZERO  # of the CPU of a start-up boost; zero: no bound
    pod_level: PodLevelMode = PodLevelMode.KEEP
    capacity_timeout: timedelta = timedelta(minutes=10)  # of a request for capacity
    memory_decrease: MemoryDecreaseRules = field(default_factory=MemoryDecreaseRules)

    @property
    def most_boost(self) -> Quantity | None:
        """Return ``boost_bound``; None: start-up boosts are disabled."""
        return self.boost_bound if self.features.cpu_startup_boost else None


class Templates(Protocol):
    """The pod templates of controllers in the caches."""

    def supports(self, controller: Controller) -> bool:
        """Return whether the controller's kind has a known pod template."""

    def generation(self, controller: Controller) -> int:
        """Return the generation of the controller, which changes with its template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """The common inputs of the plans of all VPAs in a pass.

    They are constant during the pass except ``quotas``, ``rooms`` and ``resize_rooms``, which
    planned actions use.
    """

    rules: Rules
    snapshot: ClusterSnapshot
    before: UpdaterState  # of the pass before
    now: datetime
    admission_ready: bool
    quotas: QuotaUse
    rooms: PassRooms
    resize_rooms: ResizeRooms
    errors: ObjectErrors
    templates: Templates | None = None  # None: no dry runs
    capacity_mode: CapacityMode = CapacityMode.OFF  # never AUTO
    # Of workloads for which no capacity can be requested; WAIT or OFF.
    capacity_fallback: CapacityMode = CapacityMode.WAIT
    awaits_nodes: bool = False  # they aren't listed yet, so evictions that need room wait
    capacity_requests: CapacityRequests = NO_REQUESTS
    # By pod UID, then by container; only of pods whose memory limits are to go down in place.
    memory_use: Mapping[str, Mapping[str, MemoryUse]] = field(default_factory=dict)
