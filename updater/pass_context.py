"""The settings of a pass, and what the plans of all its VPAs depend on."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from common.features import FeatureGates
from common.quantity import ZERO, Quantity
from common.recommendation.pod_level import PodLevelMode
from common.runtime.object_errors import ObjectErrors
from common.target.owners import Controller
from updater.evaluate.update_order import Thresholds
from updater.eviction.disruption import DisruptionPolicy
from updater.preflight import QuotaUse
from updater.resize.resize_state import Timeouts
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_node import NodeCapacities
from updater.state import UpdaterState


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the flags say, in the groups that decisions take."""

    interval: timedelta = timedelta(minutes=1)
    pace: timedelta = timedelta()  # to leave between steps where passes may follow at once
    thresholds: Thresholds = field(default_factory=Thresholds)
    timeouts: Timeouts = field(default_factory=Timeouts)
    disruption: DisruptionPolicy = field(default_factory=DisruptionPolicy)
    features: FeatureGates = field(default_factory=FeatureGates)
    checks_outcomes: bool = True  # of evictions
    boost_bound: Quantity = ZERO  # of the CPU of a start-up boost; none is zero
    pod_level: PodLevelMode = PodLevelMode.KEEP

    @property
    def most_boost(self) -> Quantity | None:
        """Return the bound of the start-up boosts of new pods; None: there are no boosts."""
        return self.boost_bound if self.features.cpu_startup_boost else None


class Templates(Protocol):
    """The pod templates of controllers, as the caches hold them."""

    def supports(self, controller: Controller) -> bool:
        """Return whether the controller makes its pods from a template that can be read."""

    def generation(self, controller: Controller) -> int:
        """Return the generation of the controller, which changes with its template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """What the plans of all VPAs of a pass depend on, beside their own pods.

    All of it is constant during the pass, but for ``quotas``: planning an action takes its part.
    """

    rules: Rules
    before: UpdaterState  # what earlier passes left
    now: datetime
    admission_ready: bool
    terminating: frozenset[str]  # UIDs of pods
    nodes: NodeCapacities
    quotas: QuotaUse
    errors: ObjectErrors
    templates: Templates | None = None  # None: replacements are not tried in a dry run

    @classmethod
    def of(
        cls,
        snapshot: ClusterSnapshot,
        before: UpdaterState,
        *,
        rules: Rules,
        now: datetime,
        admission_ready: bool,
        errors: ObjectErrors,
        templates: Templates | None = None,
    ) -> "PassContext":
        """Return the context of a pass over this snapshot."""
        return cls(
            rules=rules,
            before=before,
            now=now,
            admission_ready=admission_ready,
            terminating=snapshot.terminating,
            nodes=NodeCapacities(snapshot.nodes),
            quotas=QuotaUse(snapshot.quotas),
            errors=errors,
            templates=templates,
        )
