"""What the calls of a pass have come to so far for one VPA."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from common.api.core import Pod
from common.target.owners import Controller
from updater.decision import Decision
from updater.eviction.breaker import Breaker, record_eviction
from updater.eviction.disruption import ReplicaGroup
from updater.eviction.dry_run_answer import DryRunRefusal
from updater.pass_context import PassContext
from updater.plan.assessment import Assessment, Undecided
from updater.snapshot.cluster_snapshot import AutoscaledPods
from updater.snapshot.workload_size import tells


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaProgress:
    """The budgets that are left, the breaker, the answers to dry runs, and the undecided pods.

    ``fold`` makes the next one of the results of a plan's actions.
    """

    groups: Mapping[Controller, ReplicaGroup]
    breaker: Breaker | None  # None: the process hasn't looked at the VPA yet
    undecided: tuple[Undecided, ...]  # boosts, then candidates, best first
    dry_runs: Mapping[Controller, Decision | None] = field(default_factory=dict)  # of this pass
    refusals: Mapping[Controller, DryRunRefusal] = field(default_factory=dict)  # to be remembered
    evicted: bool = False  # a pod of the VPA
    resized: bool = False

    @classmethod
    def begin(cls, assessment: Assessment, context: PassContext) -> Self:
        """Return the progress before any call."""
        breaker = None
        if assessment.observation is not None:
            breaker = assessment.observation.breaker
        elif context.rules.checks_outcomes:
            breaker = context.before.breakers.get(assessment.scaled.vpa.metadata.uid)
        return cls(groups=assessment.groups, breaker=breaker, undecided=assessment.undecided)


def breaker_after_eviction(
    breaker: Breaker, pod: Pod, controller: Controller, scaled: AutoscaledPods, *, now: datetime
) -> Breaker:
    """Return the breaker after an eviction that the API server took, or may have taken."""
    workload = scaled.workload(controller)
    # A breaker that watches has seen the pods of this pass already.
    known = () if breaker.watches else [each.metadata.uid for each in scaled.pods]
    had = 0 if tells(workload) else list(scaled.controllers.values()).count(controller)
    return record_eviction(
        breaker, pod.metadata.uid, workload, scaled.vpa, known=known, now=now, among=had
    )
