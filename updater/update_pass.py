"""One pass over a snapshot: plan each VPA, execute its plan, and fold the results."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import Pod
from common.kube.endpoints import VPAS
from common.recommendation.changes import ResourceChange
from common.runtime.object_errors import Boundary
from common.runtime.pausing import in_steps
from updater.decision import Decision, Reason
from updater.decision_log import log_refusal
from updater.eviction.breaker import BreakerObservation, BreakerTransition
from updater.eviction.breaker_view import sentence
from updater.execute import Actuator, Executor, Target
from updater.fold import fold
from updater.metrics import UpdaterMetrics, VpaLabels, size_label
from updater.pass_context import PassContext
from updater.pass_results import PassResults
from updater.plan.actions import VpaPlan
from updater.plan.assessment import Assessment, assess
from updater.plan.pod_outcome import (
    CallRefused,
    EvictionSkipped,
    PodOutcome,
    PodReport,
    ResizeBlocked,
    ResizeUnblocked,
)
from updater.plan.progress import VpaProgress
from updater.plan.vpa_plan import plan_vpa
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot, key_of
from updater.state import UpdaterState

logger = logging.getLogger(__name__)

_SLICE = 1000  # VPAs that are left alone before other tasks may run


class Reporter(Protocol):
    """Emits Events; ``actuation.PodActuator`` and the fakes of tests."""

    def report_blocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
        *,
        detail: str,
        skipped: bool,
    ) -> None:
        """Report that a pod can't be updated in place; see ``actuation.PodActuator``."""

    def report_unblocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Report that what blocked a pod's in-place update is over."""

    def report_skipped_eviction(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        decision: Decision,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Report that a pod is not evicted because of the pod that would follow."""

    def report_transition(
        self, vpa: VerticalPodAutoscaler, transition: BreakerTransition, cause: str
    ) -> None:
        """Report that a VPA's evictions are suspended or go on."""


class ReportingActuator(Actuator, Reporter, Protocol):
    """Changes pods, and emits Events about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePass:
    """Works through one snapshot once.

    VPAs are assessed and planned one after the other, with pauses in which other tasks run. One
    with actions has a task of its own from then on: a slow call, or a rate limit, holds up the
    actions of its VPA and of no other one.
    """

    snapshot: ClusterSnapshot
    context: PassContext
    executor: Executor
    reporter: Reporter
    metrics: UpdaterMetrics

    async def run(self, *, first: int = 0) -> UpdaterState:
        """Visit every VPA once, starting with the one at ``first``; what to remember afterwards.

        Where a rate limit ends passes early, a start that moves on reaches every VPA sometime.
        The calls that were sent are waited for, however the pass ends.
        """
        results = PassResults(self.context)
        autoscaled = self.snapshot.autoscaled
        start = first % len(autoscaled) if autoscaled else 0
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._visit((*autoscaled[start:], *autoscaled[:start]), results, tasks)
        finally:
            self.metrics.publish(results.figures)
        if self.executor.over:
            logger.warning("pass ended early", extra={"cause": self.executor.over})
        return results.state(self.snapshot, complete=not self.executor.over)

    async def _visit(
        self, autoscaled: Iterable[AutoscaledPods], results: PassResults, tasks: asyncio.TaskGroup
    ) -> None:
        at_rest = 0
        for scaled in autoscaled:
            if results.idle_vpas(scaled):
                at_rest += 1
                if at_rest % _SLICE == 0:
                    await asyncio.sleep(0)
                continue
            await asyncio.sleep(0)  # watches, health and the Lease are served
            if self.executor.over:
                return
            with self._around("plan", scaled):
                await self._begin(scaled, results, tasks)

    async def _begin(
        self, scaled: AutoscaledPods, results: PassResults, tasks: asyncio.TaskGroup
    ) -> None:
        """Decide what can be decided now, and start the task that does the rest."""
        assessment = await in_steps(assess(scaled, self.context))
        target = _target(assessment)
        self._report_observation(scaled, assessment.observation)
        for outcome in assessment.decided:
            self._decide(target, outcome, results)
        progress = VpaProgress.begin(assessment, self.context)
        if not scaled.pods:
            results.finish(assessment, progress)
            return
        results.figures.count_controlled(target.labels, len(assessment.live))
        self.metrics.prepare(target.labels)
        plan = await in_steps(plan_vpa(assessment, progress, self.context))
        if assessment.acts_on_running_pods:
            results.figures.count_due(target.labels, plan.updatable, plan.evictable)
        if any(each.action is not None for each in plan.pods):
            tasks.create_task(self._act(target, assessment, progress, plan, results))
        else:
            await self._rounds(target, assessment, progress, plan, results)

    async def _act(
        self,
        target: Target,
        assessment: Assessment,
        progress: VpaProgress,
        plan: VpaPlan,
        results: PassResults,
    ) -> None:
        with self._around("plan", assessment.scaled):
            await self._rounds(target, assessment, progress, plan, results)

    async def _rounds(
        self,
        target: Target,
        assessment: Assessment,
        progress: VpaProgress,
        plan: VpaPlan,
        results: PassResults,
    ) -> None:
        """Execute the plan, and another one as long as actions leave something to others."""
        waiting: dict[str, PodOutcome] = {}
        while True:
            self._report_observation(assessment.scaled, plan.observation)
            answers = await self.executor.execute(target, plan.pods)
            folded = fold(assessment, progress, plan, answers, self.context)
            progress = folded.progress
            for outcome in folded.decided:
                waiting.pop(outcome.pod.metadata.uid, None)
                self._decide(target, outcome, results)
            for outcome in folded.waiting:
                self._report(target, outcome)
                waiting[outcome.pod.metadata.uid] = outcome.reported()
            if not folded.again or self.executor.over:
                break
            plan = await in_steps(plan_vpa(assessment, progress, self.context))
        for each in waiting.values():
            outcome = each.not_tried() if folded.again else each
            self._decide(target, outcome, results)
        results.figures.count_done(
            target.labels, evicted=progress.evicted, resized=progress.resized
        )
        results.finish(assessment, progress)

    # What is decided is counted, remembered, logged and reported

    def _decide(self, target: Target, outcome: PodOutcome, results: PassResults) -> None:
        self._report(target, outcome)
        if outcome.decision.reason is Reason.INFEASIBLE_CACHED:
            self.metrics.skipped_infeasible(target.labels)
        results.decide(outcome)

    def _report(self, target: Target, outcome: PodOutcome) -> None:
        for report in outcome.reports:
            self._send(target, outcome.pod, report)

    def _send(self, target: Target, pod: Pod, report: PodReport) -> None:
        vpa, reporter = target.vpa, self.reporter
        match report:
            case ResizeBlocked(reason, changes, detail):
                infeasible = reason is Reason.RESIZE_INFEASIBLE
                skipped = infeasible and target.mode is UpdateMode.IN_PLACE
                reporter.report_blocked(pod, vpa, reason, changes, detail=detail, skipped=skipped)
            case ResizeUnblocked(reason, changes):
                reporter.report_unblocked(pod, vpa, reason, changes)
            case EvictionSkipped(decision, changes):
                reporter.report_skipped_eviction(pod, vpa, decision, changes)
            case CallRefused():
                log_refusal(pod, vpa, report)

    def _report_observation(self, scaled: AutoscaledPods, found: BreakerObservation | None) -> None:
        for note in () if found is None else found.notes:
            self.metrics.came_out(note.result)
        if found is not None and found.transition is not BreakerTransition.NONE:
            self.reporter.report_transition(scaled.vpa, found.transition, sentence(found))

    def _around(self, stage: str, scaled: AutoscaledPods) -> Boundary:
        return self.metrics.object_errors.around(stage, VPAS.kind, *key_of(scaled.vpa))


def _target(assessment: Assessment) -> Target:
    scaled = assessment.scaled
    meta = scaled.vpa.metadata
    labels = VpaLabels(size_label(len(assessment.live)), scaled.mode, meta.name, meta.namespace)
    return Target(scaled.vpa, scaled.mode, labels)
