"""The circuit breaker of a VPA's evictions: it opens when replacements are missing or wrong.

Without a working webhook every replacement is as wrong as the evicted pod, and a quota can prevent
replacements. Closed, the breaker allows evictions while fewer than three pods lack a right
replacement. After three misses it is open and allows none. An hour later it is half-open and allows
one, as a probe. A right new pod closes it (X63, X104).
"""

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TypeAlias

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.recommendation.pod_level import PodLevelMode
from common.target.owners import Controller
from updater.decision import Decision, Reason, wait
from updater.eviction.replacement_result import ReplacementResult, check_replacement
from updater.snapshot.cluster_snapshot import AutoscaledPods
from updater.snapshot.live_vpa import in_force_since
from updater.snapshot.workload_size import UNKNOWN, has_wanted_count

LONGEST_CREATION = timedelta(minutes=2)
PROBE_PAUSE = timedelta(hours=1)
MOST_MISSES = 3

_NONE: frozenset[str] = frozenset()
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Closed:
    """Evictions are allowed; ``misses`` counts misses in a row."""

    misses: int = 0


@dataclass(frozen=True, slots=True)
class Open:
    """No eviction is allowed until that time, and then one, as a probe."""

    until: datetime


State: TypeAlias = Closed | Open


def after_result(state: State, result: ReplacementResult, *, now: datetime) -> State:
    """Return the state after the result of an eviction.

    A right replacement closes the breaker and resets the misses. The third miss opens it.
    """
    if result is ReplacementResult.RIGHT:
        return Closed()
    if not result.is_miss or not isinstance(state, Closed):
        return state
    misses = state.misses + 1
    return Open(now + PROBE_PAUSE) if misses >= MOST_MISSES else Closed(misses)


def after_eviction(state: State, *, now: datetime) -> State:
    """Return the state after an eviction; after a probe the breaker is open for an hour."""
    return state if isinstance(state, Closed) else Open(now + PROBE_PAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """An eviction without a replacement so far."""

    workload: Controller
    uid: str  # of the evicted pod; empty: a pod that was missing when the process started
    vpa: VerticalPodAutoscaler  # at the eviction
    gone_since: datetime  # the pod was last seen; some controllers wait until it is gone
    among: int = 0  # live pods of the workload, if its wanted count is unknown
    lost: bool = False  # counted as a miss: no replacement was created in time


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The state and the unanswered evictions of one VPA; it ends with the process."""

    state: State = field(default_factory=Closed)
    unanswered: tuple[Eviction, ...] = ()  # oldest first
    seen: frozenset[str] = _NONE  # UIDs of pods; empty unless ``watches``

    @property
    def suspends(self) -> bool:
        """Return whether only probes are allowed."""
        return not isinstance(self.state, Closed)

    @property
    def watches(self) -> bool:
        """Return whether each pass must check new pods."""
        return self.suspends or bool(self.unanswered)

    @property
    def workloads(self) -> frozenset[Controller]:
        """Return the workloads that lack a replacement; they may have no pods left."""
        return frozenset(eviction.workload for eviction in self.unanswered)


def breaker_wait(breaker: Breaker, *, now: datetime) -> Decision | None:
    """Return the wait of a pod for the breaker; None: one more eviction is allowed.

    In every state, evictions without a replacement and misses are three together at most.
    """
    lost = sum(eviction.lost for eviction in breaker.unanswered)
    waiting = len(breaker.unanswered) - lost
    match breaker.state:
        case Closed(misses=misses):
            used_up = max(misses, lost) + waiting >= MOST_MISSES
            return wait(Reason.REPLACEMENT_UNVERIFIED) if used_up else None
        case Open(until=until) if now < until:
            return wait(Reason.ACTUATION_SUSPENDED, until=until)
    used_up = len(breaker.unanswered) >= MOST_MISSES
    return wait(Reason.ACTUATION_SUSPENDED) if used_up else None


class BreakerTransition(enum.StrEnum):
    """The change of a breaker by an observation."""

    NONE = "none"
    SUSPENDED = "suspended"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class ReplacementNote:
    """One result.

    ``pod`` is the name of the replacement, or empty; ``evicted`` is the UID of the evicted pod.
    """

    result: ReplacementResult
    pod: str = ""
    evicted: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerObservation:
    """The next breaker, and the results and transition to report."""

    breaker: Breaker
    notes: tuple[ReplacementNote, ...] = ()
    transition: BreakerTransition = BreakerTransition.NONE


def record_eviction(
    breaker: Breaker, pod: Pod, scaled: AutoscaledPods, *, now: datetime
) -> Breaker:
    """Return the breaker after an eviction that the API server accepted or may have accepted."""
    workload = scaled.workload_of(pod)
    if workload is None:
        return breaker
    eviction = Eviction(
        workload=workload,
        uid=pod.metadata.uid,
        vpa=scaled.vpa,
        gone_since=now,
        among=0 if has_wanted_count(workload) else _live(scaled)[workload],
    )
    # A breaker that watches has observed the pods of this pass.
    known = () if breaker.watches else [each.metadata.uid for each in scaled.pods]
    return Breaker(
        state=after_eviction(breaker.state, now=now),
        unanswered=(*breaker.unanswered, eviction),
        seen=breaker.seen.union(known),
    )


def observe(
    before: Breaker | None,
    scaled: AutoscaledPods,
    *,
    terminating: Collection[str] = _NONE,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
    now: datetime,
) -> BreakerObservation:
    """Check new pods, and give up evictions whose replacement is overdue.

    A new pod answers the oldest unanswered eviction of its workload. Any right new pod closes the
    breaker. An eviction without a replacement is a miss two minutes after its pod was last seen,
    if the workload still wants more pods than it has. It then stays unanswered, and counts against
    further evictions, until a pod is created or the workload wants no more. The result is UNKNOWN
    if the workload wants no more pods (scaled down, deleted, a finished Job), or if the evicted
    pod still exists and isn't terminating. If the wanted count is unknown, a scale-down counts as
    a miss.

    A pod without a node isn't in ``scaled.pods``; its eviction stays unanswered. A workload is a
    Deployment or else the pods' direct controller, because the wanted count of a single ReplicaSet
    shrinks during a rollout of its Deployment.

    ``before`` is None at the first observation of the VPA by this process. ``terminating`` are the
    UIDs of terminating pods.
    """
    if before is None:
        return _observation(None, _first_breaker(scaled, pod_level, now=now), ())
    if not before.watches:
        return BreakerObservation(breaker=before)
    state, notes = before.state, list[ReplacementNote]()
    left = list(before.unanswered)
    for pod in _by_age(pod for pod in scaled.pods if pod.metadata.uid not in before.seen):
        workload = scaled.workload_of(pod)
        answered = next((each for each in left if each.workload == workload), None)
        then = None if answered is None else answered.vpa
        result = check_replacement(
            pod, scaled.vpa, scaled.limit_ranges, then=then, pod_level=pod_level
        )
        if answered is not None:
            left.remove(answered)
        if result is ReplacementResult.RIGHT:
            left = [each for each in left if each.uid]
        elif answered is None or answered.lost:
            continue  # not a replacement, or counted already
        state = after_result(state, result, now=now)
        evicted = "" if answered is None else answered.uid
        notes.append(ReplacementNote(result, pod.metadata.name, evicted))
    left, given_up = _overdue(left, scaled, terminating, now=now)
    for note in given_up:
        state = after_result(state, note.result, now=now)
        notes.append(note)
    breaker = Breaker(state=state, unanswered=tuple(left))
    if breaker.watches:
        breaker = replace(breaker, seen=frozenset(pod.metadata.uid for pod in scaled.pods))
    return _observation(before, breaker, tuple(notes))


def _observation(
    before: Breaker | None, after: Breaker, notes: tuple[ReplacementNote, ...]
) -> BreakerObservation:
    transition = BreakerTransition.NONE
    if after.suspends != (before is not None and before.suspends):
        transition = BreakerTransition.SUSPENDED if after.suspends else BreakerTransition.RESUMED
    return BreakerObservation(breaker=after, notes=notes, transition=transition)


def _first_breaker(scaled: AutoscaledPods, pod_level: PodLevelMode, *, now: datetime) -> Breaker:
    """Return the breaker of a process without state, from the existing pods.

    Only pods created at or after ``in_force_since`` count (the API server keeps whole seconds);
    none if it is unknown. If the youngest pod with a result lacks the annotation, the breaker
    opens, because an earlier process may have evicted any number of such pods. The next probe is
    due an hour after that pod was created, or an hour from now while pods are missing.

    Missing pods may be replacements of evictions by an earlier process. They count as unanswered
    evictions, and nothing is evicted before one right pod was created.
    """
    since = in_force_since(scaled.vpa)
    if since is None:
        return Breaker()
    missing = _missing(scaled, now=now)
    state: State = Closed(MOST_MISSES - 1 if missing else 0)
    for pod in reversed(_by_age(pod for pod in scaled.pods if _created(pod) >= since)):
        result = check_replacement(pod, scaled.vpa, scaled.limit_ranges, pod_level=pod_level)
        if result is ReplacementResult.RIGHT:
            return Breaker()
        if result is ReplacementResult.UNPATCHED:
            state = Open((now if missing else _created(pod)) + PROBE_PAUSE)
            break
    breaker = Breaker(state=state, unanswered=missing)
    if not breaker.watches:
        return breaker
    return replace(breaker, seen=frozenset(pod.metadata.uid for pod in scaled.pods))


def _missing(scaled: AutoscaledPods, *, now: datetime) -> tuple[Eviction, ...]:
    live = _live(scaled)
    missing = chain.from_iterable(
        [workload] * max((size.wanted or 0) - live[workload], 0)
        for workload, size in scaled.sizes.items()
    )
    return tuple(
        Eviction(workload=workload, uid="", vpa=scaled.vpa, gone_since=now)
        for workload, _ in zip(missing, range(MOST_MISSES), strict=False)
    )


def _live(scaled: AutoscaledPods) -> Counter[Controller]:
    """Return the number of live pods by workload."""
    workloads = map(scaled.workload_of, scaled.pods)
    return Counter(workload for workload in workloads if workload is not None)


def _overdue(
    unanswered: Sequence[Eviction],
    scaled: AutoscaledPods,
    terminating: Collection[str],
    *,
    now: datetime,
) -> tuple[list[Eviction], list[ReplacementNote]]:
    """Return the evictions that stay unanswered, and the results of the others.

    A workload with an unknown wanted count is assumed to want the pods that it had.
    """
    present = {pod.metadata.uid for pod in scaled.pods}
    live = _live(scaled)
    had: Counter[Controller] = Counter()
    for eviction in unanswered:
        had[eviction.workload] = max(had[eviction.workload], eviction.among)
    left: list[Eviction] = []
    results: list[ReplacementNote] = []
    overdue: Counter[Controller] = Counter()
    for eviction in unanswered:
        workload, lost = eviction.workload, eviction.lost
        if eviction.uid in terminating:
            left.append(replace(eviction, gone_since=now))
            continue
        if not lost and now - eviction.gone_since < LONGEST_CREATION:
            left.append(eviction)
            continue
        overdue[workload] += eviction.uid not in present
        size = scaled.sizes.get(workload, UNKNOWN)
        wanted = size.wanted or had[workload]
        exist = max(live[workload], size.existing)
        if eviction.uid in present or overdue[workload] > wanted - live[workload]:
            results += [] if lost else [_unanswered(eviction, ReplacementResult.UNKNOWN)]
        elif overdue[workload] <= min(exist, wanted) - live[workload]:
            left.append(eviction)  # the replacement exists and waits for a node
        else:
            results += [] if lost else [_unanswered(eviction, ReplacementResult.NOT_CREATED)]
            if eviction.uid and size.wanted:
                left.append(replace(eviction, lost=True))
    return left, results


def _unanswered(eviction: Eviction, result: ReplacementResult) -> ReplacementNote:
    return ReplacementNote(result, evicted=eviction.uid)


def _by_age(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (_created(pod), pod.metadata.name))


def _created(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or _NEVER
