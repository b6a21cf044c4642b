"""The eviction breaker of a VPA: it opens when replacements don't come, or come up wrong.

A webhook that is down, bypassed or patches nothing makes every replacement as wrong as the pod
before it, and under a quota none may come at all. Closed, the breaker lets evictions pass while
fewer than three pods are without a right replacement. After three misses it is Open and lets none
pass; an hour later it is HalfOpen and lets one probe pass. A right new pod closes it (X63, X104).
"""

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TypeAlias

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.recommendation.pod_level import PodLevelMode
from common.target.owners import Controller
from updater.decision import Reason
from updater.eviction.replacement_result import ReplacementResult, check_replacement

LONGEST_CREATION = timedelta(minutes=2)
PROBE_PAUSE = timedelta(hours=1)
MOST_MISSES = 3

_NONE: frozenset[str] = frozenset()
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Closed:
    """Evictions pass; so many results in a row were misses."""

    misses: int = 0


@dataclass(frozen=True, slots=True)
class Open:
    """No eviction passes until that time."""

    until: datetime


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """One eviction passes, as a probe."""


State: TypeAlias = Closed | HalfOpen | Open


def state_at(state: State, now: datetime) -> State:
    """Return the state at that time: an Open breaker becomes HalfOpen."""
    return HalfOpen() if isinstance(state, Open) and now >= state.until else state


def after_result(state: State, result: ReplacementResult, *, now: datetime) -> State:
    """Return the state after a replacement was checked, or was given up.

    A right one closes the breaker, and a miss stays a miss until then. The third miss opens it.
    """
    if result is ReplacementResult.RIGHT:
        return Closed()
    if not result.is_miss or not isinstance(state, Closed):
        return state
    misses = state.misses + 1
    return Open(now + PROBE_PAUSE) if misses >= MOST_MISSES else Closed(misses)


def after_eviction(state: State, *, now: datetime) -> State:
    """Return the state after an eviction was sent: the next probe is due an hour after a probe."""
    return state if isinstance(state, Closed) else Open(now + PROBE_PAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """An eviction without a replacement so far."""

    workload: Controller
    uid: str  # of the evicted pod; empty: a pod that was missing when the process started
    vpa: VerticalPodAutoscaler  # as it was then
    gone_since: datetime  # when its pod was last seen: some controllers wait until that is gone
    among: int = 0  # live pods of a workload whose wanted count is unknown
    lost: bool = False  # counted as a miss: no replacement was created in time


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The state and the evictions of one VPA: a frozen value, lost with the process."""

    state: State = field(default_factory=Closed)
    unanswered: tuple[Eviction, ...] = ()  # oldest first
    seen: frozenset[str] = _NONE  # UIDs of pods; empty while new ones don't matter

    @property
    def suspends(self) -> bool:
        """Return whether no evictions pass but for probes."""
        return not isinstance(self.state, Closed)

    @property
    def watches(self) -> bool:
        """Return whether new pods matter, even if nothing is to be evicted."""
        return self.suspends or bool(self.unanswered)

    @property
    def workloads(self) -> frozenset[Controller]:
        """Return those that owe a replacement; all their pods may be gone."""
        return frozenset(eviction.workload for eviction in self.unanswered)


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many more evictions pass now.

    ``reason`` is why not more, ``until`` when the next one passes, if that is known.
    """

    count: int
    reason: Reason
    until: datetime | None = None

    @property
    def allows_one(self) -> bool:
        """Return whether one more passes."""
        return self.count > 0


def allowance(breaker: Breaker, *, now: datetime) -> Allowance:
    """Return how many evictions of the VPA may be sent.

    Evictions without a replacement and misses are three together at most, in every state: so no
    more than three pods are lost to replacements that don't come.
    """
    lost = sum(eviction.lost for eviction in breaker.unanswered)
    waiting = len(breaker.unanswered) - lost
    match state_at(breaker.state, now):
        case Closed(misses=misses):
            left = MOST_MISSES - max(misses, lost) - waiting
            return Allowance(max(left, 0), Reason.REPLACEMENT_UNVERIFIED)
        case HalfOpen():
            probes = len(breaker.unanswered) < MOST_MISSES
            return Allowance(int(probes), Reason.ACTUATION_SUSPENDED)
        case Open(until=until):
            return Allowance(0, Reason.ACTUATION_SUSPENDED, until)


class BreakerTransition(enum.StrEnum):
    """What an observation changed."""

    NONE = "none"
    SUSPENDED = "suspended"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class ReplacementNote:
    """One result; ``pod`` is the name of a new pod, or empty."""

    result: ReplacementResult
    pod: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerObservation:
    """The breaker from now on, and what is to be reported."""

    breaker: Breaker
    notes: tuple[ReplacementNote, ...] = ()
    transition: BreakerTransition = BreakerTransition.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView:
    """A VPA's pods, and what their workloads want, at one moment.

    A workload is the Deployment over all its ReplicaSets, or else the pods' direct controller:
    the wanted count of a single ReplicaSet shrinks while a Deployment is rolled out.
    """

    vpa: VerticalPodAutoscaler
    pods: Collection[Pod]  # live ones: without those that are terminating
    workloads: Mapping[str, Controller]  # by pod UID
    wanted: Mapping[Controller, int | None]  # pods; None: gone, or not known
    existing: Mapping[Controller, int] = field(default_factory=dict)  # theirs, on a node or not
    terminating: Collection[str] = _NONE  # UIDs of pods that are going
    limit_ranges: Sequence[LimitRangeSpec] = ()
    in_force_since: datetime | None = None  # see ``live_vpa.in_force_since``
    pod_level: PodLevelMode = PodLevelMode.KEEP

    def check(self, pod: Pod, *, then: VerticalPodAutoscaler | None = None) -> ReplacementResult:
        """Return whether a pod came up as the VPA wants it; see ``check_replacement``."""
        return check_replacement(
            pod, self.vpa, self.limit_ranges, then=then, pod_level=self.pod_level
        )

    def live(self) -> Counter[Controller]:
        """Return the number of live pods by workload."""
        uids = (pod.metadata.uid for pod in self.pods)
        return Counter(self.workloads[uid] for uid in uids if uid in self.workloads)


def record_eviction(
    breaker: Breaker,
    uid: str,
    workload: Controller,
    vpa: VerticalPodAutoscaler,
    *,
    known: Collection[str],
    now: datetime,
    among: int = 0,
) -> Breaker:
    """Return the breaker after an eviction that the API server took, or may have taken.

    ``known`` are the UIDs of all pods of the VPA that the decision knew, and ``among`` is how many
    of them the workload had, if its wanted count is unknown.
    """
    eviction = Eviction(workload=workload, uid=uid, vpa=vpa, gone_since=now, among=among)
    return Breaker(
        state=after_eviction(breaker.state, now=now),
        unanswered=(*breaker.unanswered, eviction),
        seen=breaker.seen.union(known) if known else breaker.seen,
    )


def observe(before: Breaker | None, view: WorkloadView, *, now: datetime) -> BreakerObservation:
    """Check the pods that came since the last time, and give up on those that did not come.

    A new pod answers the oldest unanswered eviction of its workload. A right one closes the
    breaker, whoever asked for it. Two minutes after its pod was last seen an eviction without a
    replacement is a miss, if the workload still wants more pods than it has; it stays unanswered,
    and counts against further evictions, until a pod comes or the workload wants no more. If the
    workload doesn't want more, it was scaled down or deleted, or the Job is done: that is no
    result. Neither is there one if the pod still exists and isn't terminating: the eviction did
    not happen. Where the wanted count is unknown, a scale-down looks like pods that don't come:
    it is a miss, and nothing more.

    A pod that exists, but on no node yet, isn't among ``view.pods``: it is waited for.

    ``before`` is None for a process that hasn't looked at the VPA yet.
    """
    if before is None:
        return _observation(None, _first_look(view, now=now), ())
    if not before.watches:
        return BreakerObservation(breaker=before)
    state, notes = before.state, list[ReplacementNote]()
    left = list(before.unanswered)
    for pod in _by_age(pod for pod in view.pods if pod.metadata.uid not in before.seen):
        workload = view.workloads.get(pod.metadata.uid)
        answered = next((each for each in left if each.workload == workload), None)
        result = view.check(pod, then=None if answered is None else answered.vpa)
        if answered is not None:
            left.remove(answered)
        if result is ReplacementResult.RIGHT:
            left = [each for each in left if each.uid]
        elif answered is None or answered.lost:
            continue  # not ours, or counted already
        state = after_result(state, result, now=now)
        notes.append(ReplacementNote(result, pod.metadata.name))
    left, given_up = _overdue(left, view, now=now)
    for result in given_up:
        state = after_result(state, result, now=now)
        notes.append(ReplacementNote(result))
    breaker = Breaker(state=state, unanswered=tuple(left))
    if breaker.watches:
        breaker = replace(breaker, seen=frozenset(pod.metadata.uid for pod in view.pods))
    return _observation(before, breaker, tuple(notes))


def _observation(
    before: Breaker | None, after: Breaker, notes: tuple[ReplacementNote, ...]
) -> BreakerObservation:
    transition = BreakerTransition.NONE
    if after.suspends != (before is not None and before.suspends):
        transition = BreakerTransition.SUSPENDED if after.suspends else BreakerTransition.RESUMED
    return BreakerObservation(breaker=after, notes=notes, transition=transition)


def _first_look(view: WorkloadView, *, now: datetime) -> Breaker:
    """Return the breaker of a process that remembers nothing, by the pods that are there.

    Only pods count that were created after there was a recommendation and after the last change of
    how it is applied, or in the same second: the API server keeps whole seconds, and an updater
    that wakes up at once has evicted by then. Where that time isn't known none count. If the
    youngest that says anything lacks the annotation, the breaker opens: it may stand for any number
    of evictions, because what replaced a wrong pod can have been evicted, too. The next probe is
    due an hour after that pod was created, or after now while pods are missing.

    Pods that a workload misses may be on their way because an earlier process evicted others. They
    are waited for like our own, and nothing passes before a right one came: how many have been
    evicted for them isn't known either.
    """
    since = view.in_force_since
    if since is None:
        return Breaker()
    missing = _missing(view, now=now)
    state: State = Closed(MOST_MISSES - 1 if missing else 0)
    for pod in reversed(_by_age(pod for pod in view.pods if _created(pod) >= since)):
        result = view.check(pod)
        if result is ReplacementResult.RIGHT:
            return Breaker()
        if result is ReplacementResult.UNPATCHED:
            state = Open((now if missing else _created(pod)) + PROBE_PAUSE)
            break
    breaker = Breaker(state=state, unanswered=missing)
    if not breaker.watches:
        return breaker
    return replace(breaker, seen=frozenset(pod.metadata.uid for pod in view.pods))


def _missing(view: WorkloadView, *, now: datetime) -> tuple[Eviction, ...]:
    live = view.live()
    missing = chain.from_iterable(
        [workload] * max((wanted or 0) - live[workload], 0)
        for workload, wanted in view.wanted.items()
    )
    return tuple(
        Eviction(workload=workload, uid="", vpa=view.vpa, gone_since=now)
        for workload, _ in zip(missing, range(MOST_MISSES), strict=False)
    )


def _overdue(
    unanswered: Sequence[Eviction], view: WorkloadView, *, now: datetime
) -> tuple[list[Eviction], list[ReplacementResult]]:
    """Return the evictions that stay unanswered, and the results of those that are given up.

    A workload whose wanted count is unknown is taken to want as many as it had.
    """
    present = {pod.metadata.uid for pod in view.pods}
    live = view.live()
    had: Counter[Controller] = Counter()
    for eviction in unanswered:
        had[eviction.workload] = max(had[eviction.workload], eviction.among)
    left: list[Eviction] = []
    results: list[ReplacementResult] = []
    overdue: Counter[Controller] = Counter()
    for eviction in unanswered:
        workload, lost = eviction.workload, eviction.lost
        if eviction.uid in view.terminating:
            left.append(replace(eviction, gone_since=now))
            continue
        if not lost and now - eviction.gone_since < LONGEST_CREATION:
            left.append(eviction)
            continue
        overdue[workload] += eviction.uid not in present
        wanted = view.wanted.get(workload) or had[workload]
        exist = max(live[workload], view.existing.get(workload, 0))
        if eviction.uid in present or overdue[workload] > wanted - live[workload]:
            results += [] if lost else [ReplacementResult.UNKNOWN]
        elif overdue[workload] <= min(exist, wanted) - live[workload]:
            left.append(eviction)  # it was created, and waits for a node
        else:
            results += [] if lost else [ReplacementResult.NOT_CREATED]
            if eviction.uid and view.wanted.get(workload):
                left.append(replace(eviction, lost=True))
    return left, results


def _by_age(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (_created(pod), pod.metadata.name))


def _created(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or _NEVER
