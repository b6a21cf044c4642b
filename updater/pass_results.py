"""The results of a pass: its figures, and the state of the next pass."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityDemand
from updater.capacity.reservations import Reservation
from updater.decision import Decision, Reason
from updater.decision_log import log_change
from updater.eviction.breaker import Breaker
from updater.eviction.daemonset_desired_count import ObservedDaemons
from updater.eviction.dry_run_answer import DryRunRefusal
from updater.metrics import PassFigures
from updater.pass_context import PassContext
from updater.plan.assessment import Assessment
from updater.plan.pod_outcome import PodOutcome
from updater.plan.progress import VpaProgress
from updater.resize.memory_decrease import MemoryFloor
from updater.snapshot.cluster_snapshot import AutoscaledPods, key_of
from updater.state import NO_MEMORY, IdleVpa, PodMemory, UpdaterState


class PassResults:
    """Collects the outcomes of a pass."""

    def __init__(self, context: PassContext) -> None:
        self._context = context
        self._pods: dict[str, PodMemory] = {}
        self._idle_vpas: dict[tuple[str, str], IdleVpa] = {}
        self._observed_daemons: dict[Controller, ObservedDaemons] = {}
        self._breakers: dict[str, Breaker] = {}
        self._tried: set[Controller] = set()
        self._refusals: dict[Controller, DryRunRefusal] = {}
        self._demands: dict[str, tuple[CapacityDemand, ...]] = {}
        self._reservations: dict[str, Reservation] = {}
        self._refused_evictions: set[Controller] = set()
        self._visited: set[str] = set()  # VPA UIDs
        self._memory_floors: dict[str, Mapping[str, MemoryFloor]] = {}
        self._watched: dict[str, tuple[str, str]] = {}
        self.figures = PassFigures()

    def count_idle(self, scaled: AutoscaledPods) -> bool:
        """Return whether a VPA is still idle, and count its pods if so.

        A VPA whose breaker watches new pods isn't idle.
        """
        before, key = self._context.before, key_of(scaled.vpa)
        if self._context.rules.checks_outcomes:
            breaker = before.breakers.get(scaled.vpa.metadata.uid)
            if breaker is not None and breaker.watches:
                return False
        found = before.idle_vpas.get(key)
        if found is None or not found.holds_for(scaled, now=self._context.now):
            return False
        self._idle_vpas[key] = found
        self._visited.add(scaled.vpa.metadata.uid)
        for decision, count in found.decisions:
            self.figures.candidates[decision] += count
        self.figures.count_idle(scaled.mode, len(scaled.pods))
        return True

    def decide(self, outcome: PodOutcome, scaled: AutoscaledPods) -> None:
        """Count, remember and log the decision on a pod.

        The last decision stays remembered if the pass didn't reach the pod.
        """
        pod, decision, memory = outcome.pod, outcome.decision, outcome.memory
        self.figures.candidates[decision] += 1
        controller = scaled.controllers.get(pod.metadata.uid)
        if controller is not None and self._is_refused(decision, controller):
            self._refused_evictions.add(scaled.workload(controller))
        if memory.blocked is not None:
            vpa = outcome.subject.vpa.metadata
            self.figures.blocked[memory.blocked.reason.value, vpa.name, vpa.namespace] += 1
        before = memory.decision
        stands = before is not None and (
            decision.reason is Reason.NO_TURN
            or (
                before == decision
                and before.until == decision.until
                and before.detail == decision.detail
            )
        )
        since = memory.decided_at if before == decision else self._context.now
        after = memory if stands else _deciding(memory, decision, since)
        uid = pod.metadata.uid
        if after.lowers_limit:
            self._watched[uid] = (pod.metadata.namespace, pod.metadata.name)
        if after is not self._context.before.of(uid):
            self._pods[uid] = after
        log_change(pod, decision, before, outcome.subject)

    def finish(self, assessment: Assessment, progress: VpaProgress) -> None:
        """Remember the state of a VPA."""
        scaled = assessment.scaled
        self._visited.add(scaled.vpa.metadata.uid)
        if progress.demands:
            self._demands[scaled.vpa.metadata.uid] = tuple(progress.demands.values())
        if assessment.rest is not None:
            self._idle_vpas[key_of(scaled.vpa)] = assessment.rest
        self._observed_daemons.update(assessment.observed_daemons)
        if progress.breaker is not None:
            self._breakers[scaled.vpa.metadata.uid] = progress.breaker
        self._memory_floors[scaled.vpa.metadata.uid] = assessment.memory_floors
        self._tried.update(progress.dry_runs)
        self._refusals.update(progress.refusals)
        self._refused_evictions.update(scaled.workload(each) for each in progress.refusals)
        self._reservations.update(progress.reservations)

    def state(self, *, complete: bool) -> UpdaterState:
        """Return the next state; ``complete``: all VPAs were visited."""
        before, snapshot = self._context.before, self._context.snapshot
        present = {each for scaled in snapshot.autoscaled for each in scaled.replicas}
        refusals = {each: at for each, at in before.dry_runs.items() if each not in self._tried}
        refusals |= self._refusals
        return replace(
            before.followed_by(self._pods, living=snapshot.living),
            breakers={**before.breakers, **self._breakers},
            idle_vpas=self._idle_vpas,
            observed_daemons=self._observed_daemons
            if complete
            else {**before.observed_daemons, **self._observed_daemons},
            reservations={**self._context.rooms.reserved, **self._reservations},
            waits_for_room=any(each.is_about_room for each in self.figures.candidates)
            or (before.waits_for_room and not complete),
            refused_evictions=frozenset(self._refused_evictions),
            demands={**self._earlier_demands(), **self._demands},
            memory_floors={
                uid: floors
                for uid, floors in {**before.memory_floors, **self._memory_floors}.items()
                if floors
            },
            watched=self._watched if complete else {**before.watched, **self._watched},
            dry_runs={each: found for each, found in refusals.items() if each in present},
        )

    def _is_refused(self, decision: Decision, controller: Controller) -> bool:
        """Return whether an eviction with room was refused, now or by an earlier dry run.

        A preflight decides before any room is looked for, so its refusal is none.
        """
        remembered = decision.is_preflight and controller in self._context.before.dry_runs
        return remembered or decision.is_refused_eviction

    def _earlier_demands(self) -> dict[str, tuple[CapacityDemand, ...]]:
        """Return the demands of VPAs that an incomplete pass didn't reach."""
        reached, demands = self._visited, self._context.before.demands
        if not demands:
            return {}
        present = {each.vpa.metadata.uid for each in self._context.snapshot.autoscaled}
        return {uid: each for uid, each in demands.items() if uid in present and uid not in reached}


def _deciding(memory: PodMemory, decision: Decision, since: datetime | None) -> PodMemory:
    """Return the memory with the decision; pods without other state share the object."""
    if memory is NO_MEMORY and decision.until is None and not decision.detail:
        return _nothing_but(decision, since)
    return replace(memory, decision=decision, decided_at=since)


@functools.lru_cache(maxsize=1024)
def _nothing_but(decision: Decision, since: datetime | None) -> PodMemory:
    return PodMemory(decision=decision, decided_at=since)
