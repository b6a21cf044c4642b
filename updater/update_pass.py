"""One pass over a snapshot: plan each VPA, execute its plan, and fold the results."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from common.kube.endpoints import VPAS
from common.runtime.object_errors import Boundary
from common.runtime.pausing import in_steps
from updater.actuation import PodActuator
from updater.decision import Reason, wait
from updater.decision_log import log_decrease_oom, log_refusal
from updater.eviction.breaker import BreakerObservation, BreakerTransition
from updater.eviction.breaker_report import sentence
from updater.execute import Executor, Target
from updater.fold import fold
from updater.metrics import UpdaterMetrics, VpaLabels, size_label
from updater.pass_context import PassContext
from updater.pass_results import PassResults
from updater.plan.assessment import Assessment, assess
from updater.plan.pod_outcome import PodOutcome
from updater.plan.progress import VpaProgress
from updater.plan.stages import plan_vpa
from updater.plan.vpa_plan import VpaPlan
from updater.snapshot.cluster_snapshot import AutoscaledPods, key_of
from updater.state import CallRefused, UpdaterState

logger = logging.getLogger(__name__)

_SLICE = 1000  # idle VPAs before other tasks run


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePass:
    """One pass over a snapshot.

    VPAs are assessed and planned one after the other, with pauses for other tasks. The actions of
    a VPA run in a task of their own, so that a slow call or a rate limit delays no other VPA.
    """

    context: PassContext
    executor: Executor
    actuator: PodActuator
    metrics: UpdaterMetrics

    async def run(self, *, first: int = 0) -> UpdaterState:
        """Visit every VPA once, starting with the one at ``first``, and return the next state.

        A start that moves on reaches every VPA even if rate limits end passes early. The pass
        waits for all calls that were sent.
        """
        results = PassResults(self.context)
        autoscaled = self.context.snapshot.autoscaled
        start = first % len(autoscaled) if autoscaled else 0
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._visit((*autoscaled[start:], *autoscaled[:start]), results, tasks)
        finally:
            self.metrics.publish(results.figures)
        if self.executor.over:
            logger.warning("pass ended early", extra={"cause": self.executor.over})
        return results.state(complete=not self.executor.over)

    async def _visit(
        self, autoscaled: Iterable[AutoscaledPods], results: PassResults, tasks: asyncio.TaskGroup
    ) -> None:
        at_rest = 0
        for scaled in autoscaled:
            if results.count_idle(scaled):
                at_rest += 1
                if at_rest % _SLICE == 0:
                    await asyncio.sleep(0)
                continue
            await asyncio.sleep(0)  # let other tasks run
            if self.executor.over:
                return
            with self._around("plan", scaled):
                await self._begin(scaled, results, tasks)

    async def _begin(
        self, scaled: AutoscaledPods, results: PassResults, tasks: asyncio.TaskGroup
    ) -> None:
        """Assess and plan a VPA, and start the task of its actions."""
        assessment = await in_steps(assess(scaled, self.context))
        target = _target(assessment)
        self._report_observation(scaled, assessment.observation)
        for kill in assessment.oom_kills:
            self.metrics.oom_after_decrease(target.labels)
            log_decrease_oom(scaled.vpa, kill)
        for outcome in assessment.decided:
            self._decide(target, outcome, results)
        progress = VpaProgress.begin(assessment)
        if not scaled.pods:
            results.finish(assessment, progress)
            return
        results.figures.count_controlled(target.labels, len(assessment.live))
        self.metrics.prepare(target.labels)
        plan = await in_steps(plan_vpa(assessment, progress, self.context))
        if assessment.acts:
            results.figures.count_due(target.labels, plan.updatable, plan.evictable)
        if any(each.action is not None for each in plan.pods):
            tasks.create_task(self._rounds(target, assessment, progress, plan, results))
        else:
            await self._rounds(target, assessment, progress, plan, results)

    async def _rounds(
        self,
        target: Target,
        assessment: Assessment,
        progress: VpaProgress,
        plan: VpaPlan,
        results: PassResults,
    ) -> None:
        """Execute the plan, and further ones while ``fold`` requires another."""
        with self._around("plan", assessment.scaled):
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
                    waiting[outcome.pod.metadata.uid] = replace(outcome, reports=())
                if not folded.again or self.executor.over:
                    break
                plan = await in_steps(plan_vpa(assessment, progress, self.context))
            for each in waiting.values():
                outcome = replace(each, decision=wait(Reason.NO_TURN)) if folded.again else each
                self._decide(target, outcome, results)
            results.figures.count_done(
                target.labels, evicted=progress.evicted, resized=progress.resized
            )
            results.finish(assessment, progress)

    # Reports

    def _decide(self, target: Target, outcome: PodOutcome, results: PassResults) -> None:
        self._report(target, outcome)
        if outcome.decision.reason is Reason.INFEASIBLE_CACHED:
            self.metrics.skipped_infeasible(target.labels)
        results.decide(outcome, target.scaled)

    def _report(self, target: Target, outcome: PodOutcome) -> None:
        for report in outcome.reports:
            if isinstance(report, CallRefused):
                log_refusal(outcome.pod, target.vpa, report)
            else:
                self.actuator.report(outcome.pod, target.vpa, report)

    def _report_observation(self, scaled: AutoscaledPods, found: BreakerObservation | None) -> None:
        for note in () if found is None else found.notes:
            self.metrics.came_out(note.result)
            self.executor.history.note_replacement(note, now=self.context.now)
        if found is not None and found.transition is not BreakerTransition.NONE:
            self.actuator.report_transition(scaled.vpa, found.transition, sentence(found))

    def _around(self, stage: str, scaled: AutoscaledPods) -> Boundary:
        return self.metrics.object_errors.around(stage, VPAS.kind, *key_of(scaled.vpa))


def _target(assessment: Assessment) -> Target:
    scaled = assessment.scaled
    meta = scaled.vpa.metadata
    labels = VpaLabels(size_label(len(assessment.live)), scaled.mode, meta.name, meta.namespace)
    return Target(scaled, labels)
