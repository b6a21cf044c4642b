"""Whether evictions do what they are for: the pods that follow carry the recommendation.

A webhook that is down, bypassed or patches nothing makes every replacement as wrong as the pod
before it, and under a quota none may come at all. So a VPA's first evictions go three at a time,
until a replacement was seen right, and after three misses nothing but probes is sent.
"""

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.target.owners import Controller
from updater.decision import Reason
from updater.sighting import Sighting, sighting

LONGEST_CREATION = timedelta(minutes=2)
PROBE_PAUSE = timedelta(hours=1)
MOST_MISSES = 3

_NOBODY: frozenset[str] = frozenset()
_NEVER = datetime.min.replace(tzinfo=UTC)


class Turn(enum.StrEnum):
    """What an observation changed."""

    NONE = "none"
    SUSPENDED = "suspended"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that an observation found; ``pod`` is the name of a new pod, or empty."""

    sighting: Sighting
    pod: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """An eviction whose outcome isn't known yet."""

    controller: Controller
    uid: str  # of the evicted pod; empty: an earlier process took it, if anybody did
    vpa: VerticalPodAutoscaler  # as it was then
    gone_since: datetime  # when its pod was last seen: some groups wait until that is gone
    among: int = 0  # live pods of a controller that doesn't tell how many it wants


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What the evictions of one VPA came to: a frozen value, lost with the process."""

    looked: bool = False  # at the pods that were there before our first eviction
    verified: bool = False  # a right pod was seen, and there was no suspension since
    misses: int = 0  # since the last right one
    probe_at: datetime | None = None  # suspended, and from then on one eviction may be tried
    unverified: tuple[Eviction, ...] = ()  # oldest first
    seen: frozenset[str] = _NOBODY  # UIDs of pods; empty while new ones don't matter
    inherited: bool = False  # an earlier process may have evicted, and no right pod was seen yet

    @property
    def suspended(self) -> bool:
        return self.probe_at is not None

    @property
    def waits(self) -> bool:
        """Whether new pods matter; if not, and if nothing is to be evicted, nobody need look."""
        return self.suspended or bool(self.unverified)

    @property
    def controllers(self) -> frozenset[Controller]:
        """Those that owe a replacement; all their pods may be gone."""
        return frozenset(eviction.controller for eviction in self.unverified)


NOTHING_YET = Outcomes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The outcomes from now on, and what is to be told."""

    outcomes: Outcomes
    notes: tuple[Note, ...] = ()
    turn: Turn = Turn.NONE


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many more evictions may be sent now; None: as many as one likes.

    ``reason`` is why there may not be more, ``until`` when the next one may be sent, if known.
    """

    count: int | None = None
    reason: Reason | None = None
    until: datetime | None = None

    @property
    def allows_one(self) -> bool:
        return self.count is None or self.count > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A VPA's pods, and what their controllers want, at one moment."""

    vpa: VerticalPodAutoscaler
    pods: Collection[Pod]  # live ones: without those that are terminating
    controllers: Mapping[str, Controller]  # direct ones, by pod UID
    configured: Mapping[Controller, int | None]  # pods that they want; None: gone, or not known
    existing: Mapping[Controller, int] = field(default_factory=dict)  # theirs, on a node or not
    terminating: Collection[str] = _NOBODY  # UIDs of pods that are going
    limit_ranges: Sequence[LimitRangeSpec] = ()
    in_force_since: datetime | None = None  # see ``live_vpa.in_force_since``

    def live(self) -> Counter[Controller]:
        """Live pods by controller."""
        uids = (pod.metadata.uid for pod in self.pods)
        return Counter(self.controllers[uid] for uid in uids if uid in self.controllers)


def allowance(outcomes: Outcomes, *, now: datetime, under_way: int = 0) -> Allowance:
    """How many evictions of the VPA may be sent.

    ``under_way`` are those whose answers are still to come. Until a right pod was seen, those
    that came out wrong and those that are not known yet are three together: were it three that
    are not known yet, every miss would let one more go. While suspended there is one probe an
    hour, the first one an hour after the suspension began.
    """
    if outcomes.probe_at is not None:
        due = now >= outcomes.probe_at
        count = max(int(due) - under_way, 0)
        until = None if due else outcomes.probe_at
        return Allowance(count, Reason.ACTUATION_SUSPENDED, until)
    if outcomes.verified:
        return Allowance()
    left = MOST_MISSES - outcomes.misses - len(outcomes.unverified) - under_way
    return Allowance(max(left, 0), Reason.REPLACEMENT_UNVERIFIED)


def evicted(
    outcomes: Outcomes,
    uid: str,
    controller: Controller,
    vpa: VerticalPodAutoscaler,
    *,
    known: Collection[str],
    now: datetime,
    among: int = 0,
) -> Outcomes:
    """Remember an eviction that the API server took, or may have taken.

    ``known`` are the UIDs of all pods of the VPA that the decision knew, and ``among`` is how many
    of them the controller had, if it doesn't tell how many it wants. While suspended it was a
    probe, and the next one is due in an hour.
    """
    eviction = Eviction(controller=controller, uid=uid, vpa=vpa, gone_since=now, among=among)
    return Outcomes(
        looked=outcomes.looked,
        verified=outcomes.verified,
        misses=outcomes.misses,
        probe_at=now + PROBE_PAUSE if outcomes.suspended else None,
        unverified=(*outcomes.unverified, eviction),
        seen=outcomes.seen.union(known) if known else outcomes.seen,
        inherited=outcomes.inherited,
    )


def observe(outcomes: Outcomes, sight: Sight, *, now: datetime) -> Observation:
    """Look at the pods that came since the last time, and at those that did not come.

    A new pod answers the oldest unverified eviction of its controller. A right one ends a
    suspension, whoever asked for it. Two minutes after its pod was last seen an eviction without
    an answer is a miss, if the controller still wants more pods than there are. If it doesn't, the
    eviction is settled without a verdict: the group was scaled down, rolled out or deleted, or the
    Job is done. So it is if the pod is still there, and nobody asked it to go: then the eviction
    did not happen. Of a kind that doesn't tell how many pods it wants a scale-down can't be told
    from pods that don't come.

    A pod that exists, but on no node yet, isn't among ``sight.pods``: it is waited for.
    """
    if not outcomes.looked:
        return _first_look(outcomes, sight, now=now)
    if not outcomes.waits:
        return Observation(outcomes=outcomes)
    count = _Count(outcomes.misses, outcomes.verified)
    left = list(outcomes.unverified)
    for pod in _by_age(pod for pod in sight.pods if pod.metadata.uid not in outcomes.seen):
        controller = sight.controllers.get(pod.metadata.uid)
        answered = next((each for each in left if each.controller == controller), None)
        found = sighting(
            pod, sight.vpa, sight.limit_ranges, then=None if answered is None else answered.vpa
        )
        if answered is not None:
            left.remove(answered)
        if answered is not None or found is Sighting.RIGHT:
            count.add(found, pod.metadata.name)
    left, ended = _without_answer(left, sight, now=now)
    for found in ended:
        count.add(found)
    return _next(outcomes, sight, count, unverified=left, now=now)


@dataclass(slots=True)
class _Count:
    """Misses since the last right one, while an observation goes on."""

    misses: int
    verified: bool
    was_right: bool = False
    notes: list[Note] = field(default_factory=list)

    def add(self, found: Sighting, pod: str = "") -> None:
        self.notes.append(Note(found, pod))
        if found is Sighting.RIGHT:
            self.misses, self.verified, self.was_right = 0, True, True
        self.misses += found.is_miss


def _first_look(outcomes: Outcomes, sight: Sight, *, now: datetime) -> Observation:
    """What the pods that are there tell a process that remembers nothing.

    Only those tell anything that were created after there was a recommendation, and after the
    last word on how it is applied; where that isn't known nothing is told. They are read in the
    order of their creation, as if one had watched them come: without the annotation it is a miss,
    and a right one makes up for the misses before it, but not for those after it. Were it the
    other way round, the pods from before the webhook broke would let every restart go on.

    Pods that a group misses may be on their way because an earlier process evicted others. They
    are waited for like our own, or a process that restarts all the time would evict three more
    each time. And a group of one or two has no more than that to show: see ``_until``.
    """
    if sight.in_force_since is None:
        return Observation(outcomes=replace(outcomes, looked=True))
    count = _Count(outcomes.misses, outcomes.verified)
    since = sight.in_force_since
    for pod in reversed(_by_age(pod for pod in sight.pods if _created(pod) > since)):
        found = sighting(pod, sight.vpa, sight.limit_ranges)
        count.verified = found is Sighting.RIGHT
        count.misses += found is Sighting.UNPATCHED
        if count.verified or count.misses >= MOST_MISSES:
            break  # whatever came before that makes no difference
    missing = [] if count.verified else _missing(sight, now=now)
    inheriting = replace(outcomes, inherited=bool(count.misses or missing))
    return _next(inheriting, sight, count, unverified=missing, now=now)


def _missing(sight: Sight, *, now: datetime) -> list[Eviction]:
    live = sight.live()
    missing = chain.from_iterable(
        [controller] * max((configured or 0) - live[controller], 0)
        for controller, configured in sight.configured.items()
    )
    return [
        Eviction(controller=controller, uid="", vpa=sight.vpa, gone_since=now)
        for controller, _ in zip(missing, range(MOST_MISSES), strict=False)
    ]


def _next(
    outcomes: Outcomes,
    sight: Sight,
    count: _Count,
    *,
    unverified: Iterable[Eviction],
    now: datetime,
) -> Observation:
    left = tuple(unverified)
    inherited = outcomes.inherited and not count.verified
    probe_at = None if count.was_right else outcomes.probe_at
    if probe_at is None and count.misses >= MOST_MISSES:
        probe_at = now + PROBE_PAUSE
    if probe_at is None and inherited:
        probe_at = _until(sight, owing=bool(left), now=now)
        if probe_at is not None and probe_at <= now:
            probe_at, count.misses = None, MOST_MISSES - 1
    following = Outcomes(
        looked=True,
        verified=count.verified and probe_at is None,
        misses=count.misses,
        probe_at=probe_at,
        unverified=left,
        inherited=inherited,
    )
    if following.waits:
        following = replace(following, seen=frozenset(pod.metadata.uid for pod in sight.pods))
    turn = Turn.NONE
    if following.suspended != outcomes.suspended:
        turn = Turn.SUSPENDED if following.suspended else Turn.RESUMED
    return Observation(outcomes=following, notes=tuple(count.notes), turn=turn)


def _until(sight: Sight, *, owing: bool, now: datetime) -> datetime | None:
    """Until when nothing is to be evicted after a restart, by what the pods tell; None: nothing.

    Who watches three replacements come up wrong stops. An earlier process may have seen that, too,
    and of a group of one or two pods three can't be left. So where all pods that are there came up
    without the annotation when they should have had it, the youngest tells when the last eviction
    was at the latest, and the next one comes an hour later, like a probe. ``owing``: the last one
    has left no pod yet.
    """
    since, live = sight.in_force_since, sight.live()
    wanted = sum(max(count or 0, live[owner]) for owner, count in sight.configured.items())
    if since is None or not sight.pods or wanted >= MOST_MISSES:
        return None
    for pod in sight.pods:
        right = sighting(pod, sight.vpa, sight.limit_ranges) is not Sighting.UNPATCHED
        if right or _created(pod) <= since:
            return None
    return (now if owing else max(map(_created, sight.pods))) + PROBE_PAUSE


def _without_answer(
    outstanding: Sequence[Eviction], sight: Sight, *, now: datetime
) -> tuple[list[Eviction], list[Sighting]]:
    """The evictions that are still waited for, and what became of the others.

    A controller that doesn't tell how many pods it wants is taken to want as many as it had.
    """
    present = {pod.metadata.uid for pod in sight.pods}
    live = sight.live()
    had: Counter[Controller] = Counter()
    for eviction in outstanding:
        had[eviction.controller] = max(had[eviction.controller], eviction.among)
    left: list[Eviction] = []
    ended: list[Sighting] = []
    overdue: Counter[Controller] = Counter()
    for eviction in outstanding:
        if eviction.uid in sight.terminating:
            left.append(replace(eviction, gone_since=now))
        elif now - eviction.gone_since < LONGEST_CREATION:
            left.append(eviction)
        elif eviction.uid in present:
            ended.append(Sighting.UNKNOWN)
        else:
            controller = eviction.controller
            overdue[controller] += 1
            exist = max(live[controller], sight.existing.get(controller, 0))
            wanted = sight.configured.get(controller) or had[controller]
            if overdue[controller] <= min(exist, wanted) - live[controller]:
                left.append(eviction)  # it was created, and waits for a node
            elif overdue[controller] <= wanted - live[controller]:
                ended.append(Sighting.NOT_CREATED)
            else:
                ended.append(Sighting.UNKNOWN)
    return left, ended


def _by_age(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (_created(pod), pod.metadata.name))


def _created(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or _NEVER
