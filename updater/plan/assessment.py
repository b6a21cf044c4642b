"""Which pods of a VPA are worth an update; found once in a pass, before anything is planned."""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias, TypeVar

from common.annotations import boosted_containers
from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.target.controlling import has_startup_boost
from common.target.owners import Controller
from updater.decision import Decision, Reason, wait
from updater.evaluate.recommendation_fit import KnownDrifts, RecommendationFit
from updater.evaluate.update_order import rank
from updater.eviction.breaker import BreakerObservation, observe
from updater.eviction.breaker_view import view_of
from updater.eviction.budgets import GroupCount, count_groups
from updater.eviction.daemonset_desired_count import ObservedDaemons
from updater.eviction.disruption import ReplicaGroup
from updater.pass_context import PassContext
from updater.plan.candidate import (
    Candidate,
    is_out,
    judge_pod,
    note_kills,
    note_resizing,
    pending_candidate,
)
from updater.plan.candidate_resize import Planner
from updater.plan.finished_resizes import last_resize
from updater.plan.pod_outcome import PodOutcome, Subject, note_blocked
from updater.plan.readiness import is_becoming_ready
from updater.preflight import Preflight
from updater.resize.pending_resize import PENDING
from updater.resize.resize_plan import ResizePlan
from updater.resize.resize_state import resize_status
from updater.snapshot.cluster_snapshot import IN_PLACE, NEW_PODS_ONLY, AutoscaledPods, key_of
from updater.snapshot.live_pod import LivePod
from updater.state import IdleVpa, PodMemory

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A computation in small steps, between which its caller may let other tasks run."""

_STEP = 500  # pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A pod that something may be done to, and what calls of this pass have come to so far."""

    pod: LivePod
    memory: PodMemory
    candidate: Candidate | None = None  # None: the pod has a start-up boost to be taken back
    plan: ResizePlan | None = None  # None: the VPA's mode evicts only
    evict_for: Reason | None = None  # what is left is an eviction
    refused: Decision | None = None  # its eviction, in this pass
    waits_for: Decision | None = None  # for what others have used up


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A VPA's pods in one pass, before anything is done to them."""

    scaled: AutoscaledPods
    live: Sequence[LivePod]  # without those whose eviction the cache doesn't show yet
    preflight: Preflight
    groups: Mapping[Controller, ReplicaGroup]  # empty where nothing may be done
    observed_daemons: Mapping[Controller, ObservedDaemons]
    undecided: tuple[Undecided, ...]  # boosts, then candidates, best first
    decided: Sequence[PodOutcome]
    drifts: KnownDrifts | None  # None: the VPA changes no running pods but their boosts
    rest: IdleVpa | None
    observation: BreakerObservation | None  # of new pods, where the breaker waits for some

    @property
    def acts_on_running_pods(self) -> bool:
        """Return whether pods are resized or evicted for their VPA's sake."""
        return self.drifts is not None


def assess(scaled: AutoscaledPods, context: PassContext) -> Steps[Assessment]:
    """Judge each live pod of a VPA, plan the resizes of candidates, and count the groups."""
    observation = _observe_if_waiting(scaled, context)
    live = [pod for pod in scaled.pods if not context.before.of(pod.metadata.uid).evicted]
    boosted, others = _divide(scaled, live, context)
    judged = _Judged(scaled, context)
    if _acts_on_running_pods(scaled, context):
        yield from judged.judge(others)
        if scaled.mode in IN_PLACE:
            yield from judged.plan()
    undecided = (
        *(Undecided(pod=pod, memory=context.before.of(pod.metadata.uid)) for pod in boosted),
        *judged.candidates,
    )
    counted = GroupCount(groups={}, observed_daemons={})
    if undecided or _has_daemons(scaled):
        counted = _count(scaled, live, context)
    return Assessment(
        scaled=scaled,
        live=live,
        preflight=Preflight(
            scaled,
            context.quotas,
            most_boost=context.rules.most_boost,
            pod_level=context.rules.pod_level,
        ),
        groups=counted.groups,
        observed_daemons=counted.observed_daemons,
        undecided=undecided,
        decided=judged.decided,
        drifts=judged.fit.drifts if _acts_on_running_pods(scaled, context) else None,
        rest=judged.rest,
        observation=observation,
    )


def observe_replacements(scaled: AutoscaledPods, context: PassContext) -> BreakerObservation:
    """Look at a VPA's new pods; see ``breaker.observe``."""
    view = view_of(scaled, context.terminating, context.rules.pod_level)
    before = context.before.breakers.get(scaled.vpa.metadata.uid)
    return observe(before, view, now=context.now)


def _observe_if_waiting(scaled: AutoscaledPods, context: PassContext) -> BreakerObservation | None:
    """Look at new pods where they matter; most VPAs have nothing to wait for."""
    breaker = context.before.breakers.get(scaled.vpa.metadata.uid)
    if not context.rules.checks_outcomes or breaker is None or not breaker.watches:
        return None
    return observe_replacements(scaled, context)


def _acts_on_running_pods(scaled: AutoscaledPods, context: PassContext) -> bool:
    """Return whether pods are resized or evicted for their VPA's sake."""
    if scaled.mode is UpdateMode.IN_PLACE:
        return context.rules.features.in_place
    return scaled.mode not in NEW_PODS_ONLY


def _divide(
    scaled: AutoscaledPods, live: Sequence[LivePod], context: PassContext
) -> tuple[Sequence[LivePod], Sequence[LivePod]]:
    """Return the pods with a start-up boost that is taken back sometime, and the others.

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


def _count(scaled: AutoscaledPods, live: Sequence[LivePod], context: PassContext) -> GroupCount:
    return count_groups(
        scaled,
        live,
        out={pod.metadata.uid for pod in live if _counts_as_out(pod, context)},
        observed_daemons=context.before.observed_daemons,
        policy=context.rules.disruption,
        now=context.now,
    )


def _counts_as_out(pod: Pod, context: PassContext) -> bool:
    """Return whether the pod is out of service; one of which that can't be told is."""
    meta, memory, pace = pod.metadata, context.before.of(pod.metadata.uid), context.rules.pace
    with context.errors.around("judge", "Pod", meta.namespace, meta.name):
        if is_out(pod, memory, now=context.now):
            return True
        return bool(pace) and is_becoming_ready(pod, memory, within=pace, now=context.now)
    return True


class _Judged:
    """Collects what is found about the pods of one VPA."""

    def __init__(self, scaled: AutoscaledPods, context: PassContext) -> None:
        self._scaled = scaled
        self._context = context
        self._subject = Subject(scaled.vpa)
        self.fit = RecommendationFit(
            scaled.vpa,
            scaled.limit_ranges,
            before=context.before.drifts.get(key_of(scaled.vpa)),
            pod_level=context.rules.pod_level,
        )
        self.candidates: Sequence[Undecided] = ()
        self.decided: list[PodOutcome] = []
        self._idle: Counter[Decision] = Counter()  # of the pods that need nothing
        self._until: datetime | None = None  # the first time at which one may need something

    def judge(self, pods: Iterable[LivePod]) -> Steps[None]:
        """Find the pods that are worth an update, best first; the others are decided."""
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
        if not memory.shows(pod):
            self.decided.append(PodOutcome(pod, wait(Reason.RESIZE_SENT), memory, self._subject))
            return None
        judged = judge_pod(
            pod,
            self.fit,
            memory=memory,
            resized_at=last_resize(pod, memory),
            thresholds=context.rules.thresholds,
            features=context.rules.features,
            now=context.now,
        )
        pending = status in PENDING and self._scaled.mode in IN_PLACE
        if isinstance(judged, Decision) and pending:
            candidate = pending_candidate(pod, self.fit, judged, memory=memory, now=context.now)
            judged = candidate or judged
        if isinstance(judged, Decision):
            self._leave(pod, judged, memory)
            return None
        return judged, note_kills(memory, pod)

    def _leave(self, pod: Pod, decision: Decision, memory: PodMemory) -> None:
        if memory.refusal is not None:  # those from now on are not in a row with earlier
            memory = replace(memory, refusal=None)
        if memory.refused is not None:  # the next one is news
            memory = replace(memory, refused=None)
        subject = self._subject
        if memory.blocked is None:
            self.decided.append(PodOutcome(pod, decision, memory, subject))
        else:
            memory, reports = note_blocked(pod, decision, memory, subject)
            self.decided.append(PodOutcome(pod, decision, memory, subject, reports))
        if decision.needs_nothing:
            self._idle[decision] += 1
            until = decision.until
            if until is not None and (self._until is None or until < self._until):
                self._until = until

    def plan(self) -> Steps[None]:
        """Plan the resizes of the candidates; some turn out to need none."""
        planner = Planner(self._scaled.vpa, self._scaled.limit_ranges)
        planned: list[Undecided] = []
        for number, each in enumerate(self.candidates, start=1):
            if number % _STEP == 0:
                yield
            pod, candidate = each.pod, each.candidate
            if candidate is None:
                continue
            with self._context.errors.around("plan", "Pod", *_named(pod)):
                plan = planner.plan(candidate)
                if isinstance(plan, Decision):
                    subject = Subject(self._scaled.vpa, candidate)
                    self.decided.append(PodOutcome(pod, plan, each.memory, subject))
                else:
                    planned.append(replace(each, plan=plan, evict_for=None))
        self.candidates = planned

    @property
    def rest(self) -> IdleVpa | None:
        """Return what holds while only time passes; None: the next pass judges the pods again.

        All pods were found to need nothing; those with a start-up boost are none of these. Of a
        DaemonSet each pass counts the pods.
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
