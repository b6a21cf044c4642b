"""The progress of a pass for one VPA."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityDemand
from updater.capacity.reservations import Reservations
from updater.decision import Decision
from updater.eviction.breaker import Breaker
from updater.eviction.disruption_budget import ReplicaGroup
from updater.eviction.dry_run_answer import DryRunRefusal
from updater.plan.assessment import Assessment, Undecided


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaProgress:
    """The remaining budgets, the breaker, the results of dry runs, and the undecided pods.

    ``fold`` returns the next one from the results of a plan.
    """

    groups: Mapping[Controller, ReplicaGroup]
    breaker: Breaker | None  # None: not observed by this process yet
    undecided: tuple[Undecided, ...]  # boosts, then candidates, best first
    dry_runs: Mapping[Controller, Decision | None] = field(default_factory=dict)  # of this pass
    refusals: Mapping[Controller, DryRunRefusal] = field(default_factory=dict)  # to remember
    demands: Mapping[Controller, CapacityDemand] = field(default_factory=dict)  # by workload
    reservations: Reservations = field(default_factory=dict)  # of this pass
    evicted: bool = False  # a pod of the VPA
    resized: bool = False

    @classmethod
    def begin(cls, assessment: Assessment) -> Self:
        """Return the progress before any call."""
        found = assessment.observation
        return cls(
            groups=assessment.groups,
            breaker=None if found is None else found.breaker,
            undecided=assessment.undecided,
        )
