"""What one pass decided: its figures, and the state that the next pass begins with."""

import functools
from dataclasses import replace

from common.target.owners import Controller
from updater.decision import Decision, Reason
from updater.decision_log import log_change
from updater.evaluate.recommendation_fit import KnownDrifts
from updater.eviction.breaker import Breaker
from updater.eviction.daemonset_desired_count import ObservedDaemons
from updater.eviction.dry_run_answer import DryRunRefusal
from updater.metrics import PassFigures
from updater.pass_context import PassContext
from updater.plan.assessment import Assessment
from updater.plan.pod_outcome import PodOutcome
from updater.plan.progress import VpaProgress
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot, key_of
from updater.state import NO_MEMORY, IdleVpa, PodMemory, UpdaterState


class PassResults:
    """Collects the outcomes of a pass; the state before it is never changed."""

    def __init__(self, context: PassContext) -> None:
        self._context = context
        self._pods: dict[str, PodMemory] = {}
        self._drifts: dict[tuple[str, str], KnownDrifts] = {}
        self._idle_vpas: dict[tuple[str, str], IdleVpa] = {}
        self._observed_daemons: dict[Controller, ObservedDaemons] = {}
        self._breakers: dict[str, Breaker] = {}
        self._tried: set[Controller] = set()
        self._refusals: dict[Controller, DryRunRefusal] = {}
        self.figures = PassFigures()

    def idle_vpas(self, scaled: AutoscaledPods) -> bool:
        """Return whether all pods of a VPA need nothing, as before; if so, that is counted.

        While its breaker waits for new pods, each pass looks at the VPA.
        """
        before, key = self._context.before, key_of(scaled.vpa)
        if self._context.rules.checks_outcomes:
            breaker = before.breakers.get(scaled.vpa.metadata.uid)
            if breaker is not None and breaker.watches:
                return False
        found = before.idle_vpas.get(key)
        if found is None or not found.goes_on(scaled, now=self._context.now):
            return False
        self._idle_vpas[key] = found
        self._drifts[key] = before.drifts[key]
        for decision, count in found.decisions:
            self.figures.candidates[decision] += count
        self.figures.left_alone(scaled.mode, len(scaled.pods))
        return True

    def decide(self, outcome: PodOutcome) -> None:
        """Count, remember and log the decision on a pod.

        That the pass has ended first says nothing about the pod: the decision before it stands.
        """
        pod, decision, memory = outcome.pod, outcome.decision, outcome.memory
        self.figures.candidates[decision] += 1
        before = memory.decision
        stands = before is not None and (
            decision.reason is Reason.NO_TURN
            or (before == decision and before.until == decision.until)
        )
        after = memory if stands else _deciding(memory, decision)
        uid = pod.metadata.uid
        if after is not self._context.before.of(uid):
            self._pods[uid] = after
        log_change(pod, decision, before, outcome.subject)

    def finish(self, assessment: Assessment, progress: VpaProgress) -> None:
        """Remember what was found about a VPA as a whole."""
        scaled = assessment.scaled
        key = key_of(scaled.vpa)
        if assessment.drifts is not None:
            self._drifts[key] = assessment.drifts
        if assessment.rest is not None:
            self._idle_vpas[key] = assessment.rest
        self._observed_daemons.update(assessment.observed_daemons)
        if progress.breaker is not None:
            self._breakers[scaled.vpa.metadata.uid] = progress.breaker
        self._tried.update(progress.dry_runs)
        self._refusals.update(progress.refusals)

    def state(self, snapshot: ClusterSnapshot, *, complete: bool) -> UpdaterState:
        """Return what to remember of the pods that live; ``complete``: all VPAs were visited."""
        before = self._context.before
        present = {each for scaled in snapshot.autoscaled for each in scaled.replicas}
        refusals = {each: at for each, at in before.dry_runs.items() if each not in self._tried}
        refusals |= self._refusals
        return replace(
            before.followed_by(self._pods, living=snapshot.living),
            breakers={**before.breakers, **self._breakers},
            drifts=self._drifts,
            idle_vpas=self._idle_vpas,
            observed_daemons=self._observed_daemons
            if complete
            else {**before.observed_daemons, **self._observed_daemons},
            dry_runs={each: found for each, found in refusals.items() if each in present},
        )


def _deciding(memory: PodMemory, decision: Decision) -> PodMemory:
    """Return the memory with the decision; most pods have nothing else, and share it."""
    if memory is NO_MEMORY and decision.until is None and not decision.detail:
        return _nothing_but(decision)
    return replace(memory, decision=decision)


@functools.lru_cache(maxsize=1024)
def _nothing_but(decision: Decision) -> PodMemory:
    return PodMemory(decision=decision)
