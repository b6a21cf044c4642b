"""The assessment of a VPA's pods, once in a pass, before actions are planned."""

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias, TypeVar

from common.annotations import boosted_containers
from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.target.controlling import has_startup_boost
from common.target.owners import Controller
from updater.decision import Decision, Reason, wait
from updater.evaluate.recommendation_fit import RecommendationFit
from updater.evaluate.unlearnt_ooms import amounts_at_kills
from updater.evaluate.update_order import rank
from updater.eviction.breaker import BreakerObservation, observe
from updater.eviction.daemonset_desired_count import ObservedDaemons
from updater.eviction.disruption_budget import ReplicaGroup
from updater.eviction.replica_groups import count_groups
from updater.pass_context import PassContext
from updater.plan.candidate import (
    Candidate,
    is_out,
    judge_pod,
    note_kills,
    note_resizing,
)
from updater.plan.candidate_resize import Planner
from updater.plan.finished_resizes import last_resize
from updater.plan.memory_steps import MemorySteps
from updater.plan.pod_outcome import PodOutcome, Subject
from updater.plan.pod_readiness import is_becoming_ready
from updater.resize.failed_decrease import failed_decreases
from updater.resize.memory_decrease import (
    MemoryFloor,
    floors_after,
    merged_floors,
    with_reached,
)
from updater.resize.pending_resize import PENDING
from updater.resize.resize_plan import ResizePlan
from updater.resize.resize_status import resize_status
from updater.snapshot.cluster_snapshot import IN_PLACE, NEW_PODS_ONLY, AutoscaledPods
from updater.snapshot.live_pod import LivePod
from updater.state import IdleVpa, PodMemory
from updater.vpa_preflight import Preflight

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A computation in steps, between which its caller lets other tasks run."""

_STEP = 500  # pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A pod that may need an action, with the results of this pass's calls so far."""

    pod: LivePod
    memory: PodMemory
    candidate: Candidate | None = None  # None: the pod has a start-up boost
    plan: ResizePlan | None = None  # None: the VPA's mode evicts only
    evict_for: Reason | None = None  # None: no eviction is due
    refused: Decision | None = None  # after its eviction was refused in this pass
    waits_for: Decision | None = None  # the wait for a budget or the breaker


@dataclass(frozen=True, slots=True)
class DecreaseOom:
    """An OOM kill of a pod's container after a decrease of its memory limit, and the new floor."""

    pod: LivePod
    container: str
    floor: MemoryFloor


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A VPA's pods in one pass, before any action."""

    scaled: AutoscaledPods
    live: Sequence[LivePod]  # without pods whose eviction the cache doesn't show yet
    preflight: Preflight
    groups: Mapping[Controller, ReplicaGroup]  # empty if not needed
    observed_daemons: Mapping[Controller, ObservedDaemons]
    undecided: tuple[Undecided, ...]  # boosts, then candidates, best first
    decided: Sequence[PodOutcome]
    acts: bool  # the VPA's mode updates running pods
    rest: IdleVpa | None
    observation: BreakerObservation | None  # of new pods; None: there is no breaker yet
    memory_floors: Mapping[str, MemoryFloor]  # by container
    oom_kills: Sequence[DecreaseOom]  # that followed a decrease, new in this pass


def assess(scaled: AutoscaledPods, context: PassContext) -> Steps[Assessment]:
    """Judge each live pod of a VPA, plan the resizes of candidates, and count the groups."""
    observation = None
    if context.rules.checks_outcomes and scaled.vpa.metadata.uid in context.before.breakers:
        observation = observe_replacements(scaled, context)
    live = [pod for pod in scaled.pods if not context.before.of(pod.metadata.uid).evicted]
    boosted, others = _divide(scaled, live, context)
    preflight = Preflight(
        scaled,
        context.quotas,
        most_boost=context.rules.most_boost,
        pod_level=context.rules.pod_level,
    )
    judged, acts = _Judged(scaled, context, preflight), _acts_on_running_pods(scaled, context)
    if acts:
        yield from judged.judge(others)
        if scaled.mode in IN_PLACE:
            yield from judged.plan()
    undecided = (
        *(Undecided(pod=pod, memory=context.before.of(pod.metadata.uid)) for pod in boosted),
        *judged.candidates,
    )
    groups: Mapping[Controller, ReplicaGroup] = {}
    observed_daemons: Mapping[Controller, ObservedDaemons] = {}
    if undecided or _has_daemons(scaled):
        groups, observed_daemons = count_groups(
            scaled,
            live,
            out={pod.metadata.uid for pod in live if _counts_as_out(pod, context)},
            observed_daemons=context.before.observed_daemons,
            policy=context.rules.disruption,
            now=context.now,
        )
    return Assessment(
        scaled=scaled,
        live=live,
        preflight=preflight,
        groups=groups,
        observed_daemons=observed_daemons,
        undecided=undecided,
        decided=judged.decided,
        acts=acts,
        rest=judged.rest,
        observation=observation,
        memory_floors=judged.floors,
        oom_kills=judged.oom_kills,
    )


def observe_replacements(scaled: AutoscaledPods, context: PassContext) -> BreakerObservation:
    """Return ``breaker.observe`` of a VPA's new pods."""
    return observe(
        context.before.breakers.get(scaled.vpa.metadata.uid),
        scaled,
        terminating=context.snapshot.terminating,
        pod_level=context.rules.pod_level,
        now=context.now,
    )


def _acts_on_running_pods(scaled: AutoscaledPods, context: PassContext) -> bool:
    """Return whether the VPA's mode updates running pods."""
    if scaled.mode is UpdateMode.IN_PLACE:
        return context.rules.features.in_place
    return scaled.mode not in NEW_PODS_ONLY


def _divide(
    scaled: AutoscaledPods, live: Sequence[LivePod], context: PassContext
) -> tuple[Sequence[LivePod], Sequence[LivePod]]:
    """Return the pods with a start-up boost that will be removed, and the others.

    Source: updater.md 11.
    """
    if not (context.rules.features.cpu_startup_boost and has_startup_boost(scaled.vpa)):
        return (), live
    boosted: list[LivePod] = []
    others: list[LivePod] = []
    for pod in live:
        (boosted if boosted_containers(pod.metadata.annotations) else others).append(pod)
    return boosted, others


def _has_daemons(scaled: AutoscaledPods) -> bool:
    return any(owner.kind == "DaemonSet" for owner in scaled.sizes)


def _counts_as_out(pod: Pod, context: PassContext) -> bool:
    """Return whether the pod is out of service; True after an unexpected error."""
    meta, memory, pace = pod.metadata, context.before.of(pod.metadata.uid), context.rules.pace
    with context.errors.around("judge", "Pod", meta.namespace, meta.name):
        if is_out(pod, memory, now=context.now):
            return True
        return bool(pace) and is_becoming_ready(pod, memory, within=pace, now=context.now)
    return True


class _Judged:
    """Collects the judgements of one VPA's pods."""

    def __init__(self, scaled: AutoscaledPods, context: PassContext, preflight: Preflight) -> None:
        self._scaled = scaled
        self._preflight = preflight
        self._context = context
        self._subject = Subject(scaled.vpa)
        self._fit = RecommendationFit(
            scaled.vpa, scaled.limit_ranges, pod_level=context.rules.pod_level
        )
        uid, now = scaled.vpa.metadata.uid, context.now
        known = context.before.memory_floors.get(uid, {})
        self.floors = merged_floors(known, {}, now=now)
        self.oom_kills: list[DecreaseOom] = []
        self.candidates: Sequence[Undecided] = ()
        self.decided: list[PodOutcome] = []
        self._idle: Counter[Decision] = Counter()  # of pods that need nothing
        self._until: datetime | None = None  # the first end of one of these decisions

    def judge(self, pods: Iterable[LivePod]) -> Steps[None]:
        """Find the candidates, in the order of updates, and decide on the other pods."""
        found: list[tuple[Candidate, Undecided]] = []
        for number, pod in enumerate(pods, start=1):
            if number % _STEP == 0:
                yield
            with self._context.errors.around("judge", "Pod", *_named(pod)):
                judged = self._candidate(pod)
                if judged is not None:
                    candidate, memory = judged
                    undecided = Undecided(
                        pod=pod, memory=memory, candidate=candidate, evict_for=candidate.why
                    )
                    found.append((candidate, undecided))
        if len(found) > 1:
            found.sort(key=lambda each: rank(each[0].drift, each[0].pod))
        self.candidates = [undecided for _, undecided in found]

    def _candidate(self, pod: LivePod) -> tuple[Candidate, PodMemory] | None:
        context, status = self._context, resize_status(pod)
        memory = note_resizing(context.before.of(pod.metadata.uid), status, now=context.now)
        if memory.decreases:
            memory = self._note_reached(pod, self._note_oom_kills(pod, memory))
        if not memory.shows(pod):
            self.decided.append(PodOutcome(pod, wait(Reason.RESIZE_SENT), memory, self._subject))
            return None
        if memory.lowers_limit:
            memory = replace(memory, lowers_limit=False)  # set again if it still does
        judged = self._judge(pod, memory)
        if isinstance(judged, Decision):
            self._leave(pod, judged, memory)
            return None
        return judged, note_kills(memory, pod)

    def _judge(
        self, pod: LivePod, memory: PodMemory, held: Collection[str] = ()
    ) -> Candidate | Decision:
        """Return ``judge_pod`` of the pod, without the memory of ``held`` containers."""
        context, in_place = self._context, self._scaled.mode in IN_PLACE
        return judge_pod(
            pod,
            self._fit,
            memory=memory,
            resized_at=last_resize(pod, memory),
            thresholds=context.rules.thresholds,
            features=context.rules.features,
            pending=in_place and resize_status(pod) in PENDING,
            lowering={each.container for each in failed_decreases(pod)} if in_place else (),
            unfinished=memory.unfinished(held) if in_place else frozenset(),
            held=held,
            now=context.now,
        )

    def _note_reached(self, pod: LivePod, memory: PodMemory) -> PodMemory:
        """Return the memory after decreases whose target is reached: they have no next step."""
        measured = self._fit.measured(pod)
        if isinstance(measured, Decision):
            return memory
        containers, requests = measured.processed.containers, measured.requests
        return replace(memory, decreases=with_reached(memory.decreases, containers, requests))

    def _note_oom_kills(self, pod: LivePod, memory: PodMemory) -> PodMemory:
        """Return the memory without decreases that an OOM kill followed, and set floors (X140)."""
        found = floors_after(memory.decreases, amounts_at_kills(pod, memory.killed_at))
        if not found:
            return memory
        self.floors = merged_floors(self.floors, found, now=self._context.now)
        self.oom_kills += (DecreaseOom(pod, name, floor) for name, floor in found.items())
        left = {name: each for name, each in memory.decreases.items() if name not in found}
        return replace(memory, decreases=left)

    def _leave(self, pod: Pod, decision: Decision, memory: PodMemory) -> None:
        if memory.refusal is not None:  # later refusals are not in a row with it
            memory = replace(memory, refusal=None)
        if memory.refused is not None:  # the next refusal is logged again
            memory = replace(memory, refused=None)
        outcome = PodOutcome(pod, decision, memory, self._subject)
        self.decided.append(outcome if memory.blocked is None else outcome.noting_block())
        if decision.needs_nothing:
            self._idle[decision] += 1
            until = decision.until
            if until is not None and (self._until is None or until < self._until):
                self._until = until

    def plan(self) -> Steps[None]:
        """Plan the resizes of the candidates; decide on those that need none."""
        planner = Planner(self._scaled.vpa, self._scaled.limit_ranges)
        steps = MemorySteps(self._scaled, self._context, self._preflight, self.floors)
        planned: list[Undecided] = []
        for number, each in enumerate(self.candidates, start=1):
            if number % _STEP == 0:
                yield
            pod, candidate = each.pod, each.candidate
            if candidate is None:
                continue
            with self._context.errors.around("plan", "Pod", *_named(pod)):
                judged, plan = each, planner.plan(candidate)
                failed = failed_decreases(pod)
                if failed:
                    memory = replace(each.memory, lowers_limit=True)
                    judged = replace(each, memory=memory)
                    plan = steps.way_back(pod, failed) or plan
                elif isinstance(plan, ResizePlan) and plan.memory_decreases:
                    memory = replace(each.memory, lowers_limit=True)
                    candidate, plan = steps.plan(
                        candidate,
                        plan,
                        sent=memory.decreases,
                        judge=partial(self._judge, pod, memory),
                    )
                    judged = replace(each, candidate=candidate, memory=memory)
                if isinstance(plan, Decision):
                    subject = Subject(self._scaled.vpa, judged.candidate)
                    self.decided.append(PodOutcome(pod, plan, judged.memory, subject))
                else:
                    planned.append(replace(judged, plan=plan, evict_for=None))
        self.candidates = planned

    @property
    def rest(self) -> IdleVpa | None:
        """Return the idle state of the VPA; None: the next pass judges its pods again.

        A VPA is idle if no pod needs anything. VPAs with boosted pods aren't, nor those with a
        DaemonSet, whose pods each pass counts.
        """
        scaled = self._scaled
        if not scaled.pods or _has_daemons(scaled):
            return None
        if sum(self._idle.values()) < len(scaled.pods):
            return None
        return IdleVpa(
            scaled=scaled,
            since=self._context.now,
            until=self._until,
            decisions=tuple(self._idle.items()),
        )


def _named(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
