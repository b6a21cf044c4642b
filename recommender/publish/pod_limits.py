"""Limits on what the pod of a recommendation may request, and targets that are lowered to fit them.

A limit has rooms, of which the pod must fit one: nodes that it may run on have several, a quota has
one. The targets of all containers of the pod are lowered together, in proportion, and never below
minAllowed. ``uncappedTarget`` stays. Published targets don't follow a room that grows a little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from common.resources import CPU, MEMORY, RESOURCES, ResourceQuantities
from common.scheduling.pod_claims import PodClaims, PodShape, Targets, by_resource, targets_of
from common.scheduling.room import Room
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.lowering import (
    grows_enough,
    kept_targets,
    lowered,
    lowest_targets,
    whole_mib,
)
from recommender.estimate.post_processing import PostProcessed, ProcessingStage, quantity
from recommender.estimate.step_reasons import StepReason
from recommender.model.keys import VpaKey
from recommender.publish.status import ConditionType, LimitFinding, listed
from recommender.sources.target_resolution import LoadedVpa

_LOWERED = "TargetsLowered"
_LOWERED_TEXT = "{names}: the target is lowered, so that a pod fits. {room}."
_MAY_BE_MADE = "MayBeMade"
_MAY_BE_MADE_TEXT = "The pod of the target fits no known node. {room}. {guess}, so it stays."
_STILL_OPEN_TEXT = "{guess}. Without it the pod of the lowered target does not fit. {room}."
_CANNOT_FIT = "MinimumsTooLarge"
_CANNOT_FIT_TEXT = (
    "The pod does not fit, not even with the smallest targets of its containers: minAllowed, or "
    "the minimum of a recommendation. {room}. So the target stays."
)
_NO_ROOM = "NoRoom"
_NO_ROOM_TEXT = "{room}. So the target stays."


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRoom:
    """A room that the pod may take."""

    room: Room  # for one pod
    title: str  # orders equal rooms
    sentence: str  # states the room with its numbers, or the guess; without the full stop
    is_known: bool = True  # False: a guess, such as a node that an autoscaler may make or not


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimit:
    """A bound on the sum of a pod's requests: the pod must fit one of the rooms."""

    reason: StepReason
    rooms: tuple[LimitRoom, ...]
    lowered: ConditionType  # set while targets are lowered
    unmet: ConditionType  # set while the pod fits no known room
    no_room: str = ""  # states that there is no known room; without the full stop

    def admits(self, pod: Room) -> bool:
        """Return True if a known room holds a pod."""
        return any(each.is_known and each.room.holds(pod) for each in self.rooms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What lowered targets depend on besides a limit."""

    claims: PodClaims
    minimums: Targets
    published: Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaLimits:
    """The limits of one VPA's pods, and what the pods request besides the targets."""

    pod: PodShape
    claims: PodClaims
    limits: tuple[PodLimit, ...]

    def admit(self, pod: Room) -> bool:
        """Return True if all limits admit a pod."""
        return all(each.admits(pod) for each in self.limits)


class LimitSource(Protocol):
    """A source of limits, such as nodes or quotas."""

    def begin(self, vpas: Mapping[VpaKey, LoadedVpa]) -> None:
        """Follow the cluster; called once in each cycle, before ``limit``."""
        ...

    def limit(self, key: VpaKey, loaded: LoadedVpa, pod: PodShape) -> PodLimit | None:
        """Return the limit for the pods of a VPA; None: there is none, or it isn't known.

        The result is the same object until the limit changes.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """The recommendation within the limits."""

    processed: PostProcessed
    findings: tuple[LimitFinding, ...] = ()
    admitted: Room | None = None  # what the pod needs, if all limits admit it unchanged


def within_limits(
    processed: PostProcessed,
    limits: VpaLimits | None,
    estimation: EstimationSettings,
    *,
    published: Targets,
) -> Limited:
    """Lower the targets of a recommendation so that its pod fits all limits, one after another.

    If the pod fits no room even with all containers at their minimum, the recommendation stays.
    The ``published`` targets stay while they fit and lowered ones would be hardly larger.
    """
    if limits is None or not limits.limits or not processed.amounts:
        return Limited(processed=processed)
    names = tuple(one.name for one in processed.amounts)
    given = _Given(
        claims=limits.claims,
        minimums=lowest_targets(processed.stages, names, estimation),
        published=published,
    )
    needed = limits.claims.needed(targets_of(processed.amounts))
    found, findings = processed, list[LimitFinding]()
    for limit in limits.limits:
        found = _within(found, limit, given, findings)
    admitted = None if findings else needed
    return Limited(processed=found, findings=tuple(findings), admitted=admitted)


def _within(
    processed: PostProcessed,
    limit: PodLimit,
    given: _Given,
    findings: list[LimitFinding],
) -> PostProcessed:
    claims, minimums = given.claims, given.minimums
    targets = targets_of(processed.amounts)
    needed = claims.needed(targets)
    if limit.admits(needed):
        return processed
    if not limit.rooms:
        message = _NO_ROOM_TEXT.format(room=limit.no_room)
        findings.append(LimitFinding(limit.unmet, _NO_ROOM, message))
        return processed
    nearest = _nearest(limit, targets, claims, minimums)
    guess = next((each for each in limit.rooms if each.room.holds(needed)), None)
    if guess is not None:
        message = _MAY_BE_MADE_TEXT.format(room=nearest, guess=guess.sentence)
        findings.append(LimitFinding(limit.unmet, _MAY_BE_MADE, message))
        return processed
    best = _best(limit.rooms, targets, claims, minimums)
    if best is None:
        message = _CANNOT_FIT_TEXT.format(room=nearest)
        findings.append(LimitFinding(limit.unmet, _CANNOT_FIT, message))
        return processed
    room, fitting = best
    fitting = {
        name: _rounded(each, targets[name], minimums[name]) for name, each in fitting.items()
    }
    steady = _steady(fitting, targets, given, room.room)
    amounts = tuple(lowered(one, steady[one.name]) for one in processed.amounts)
    names = [
        one.name for one, before in zip(amounts, processed.amounts, strict=True) if one != before
    ]
    message = _LOWERED_TEXT.format(names=listed(names), room=room.sentence)
    findings.append(LimitFinding(limit.lowered, _LOWERED, message))
    if not limit.admits(claims.needed(targets_of(amounts))):
        message = _STILL_OPEN_TEXT.format(room=nearest, guess=room.sentence)
        findings.append(LimitFinding(limit.unmet, _MAY_BE_MADE, message))
    stage = ProcessingStage(
        reason=limit.reason, amounts=amounts, by=dict.fromkeys(names, _quantities(room.room))
    )
    return replace(processed, stages=(*processed.stages, stage))


def _steady(fitting: Targets, wanted: Targets, given: _Given, room: Room) -> Targets:
    """Return the published targets of each resource if they fit and others are hardly larger.

    A room moves a little with the pods of DaemonSets.
    """
    found, most = dict(by_resource(fitting)), {CPU: room.cpu, MEMORY: room.memory}
    stated, least = by_resource(given.published), by_resource(given.minimums)
    for resource, each in by_resource(wanted).items():
        kept = kept_targets(each, stated[resource], least[resource])
        if kept is None or given.claims.sums[resource].of(kept) > most[resource]:
            continue
        if not grows_enough(kept, found[resource], each):
            found[resource] = kept
    return {name: {each: found[each][name] for each in own} for name, own in fitting.items()}


def _best(
    rooms: Sequence[LimitRoom], targets: Targets, claims: PodClaims, minimums: Targets
) -> tuple[LimitRoom, Targets] | None:
    """Return the room that keeps most of the targets, with what it keeps; None: the pod fits none.

    It keeps the largest minimum of the kept shares of CPU and memory; of several rooms with the
    same minimum, the largest sum; then the first title.
    """
    found: list[tuple[tuple[Fraction, Fraction], LimitRoom, Targets]] = []
    for each in sorted(rooms, key=lambda room: room.title):
        kept = claims.capped(targets, minimums, each.room)
        if kept is not None:
            shares = [_kept_share(resource, targets, kept) for resource in RESOURCES]
            found.append(((min(shares), sum(shares, Fraction(0))), each, kept))
    if not found:
        return None
    _, room, kept = max(found, key=lambda each: each[0])  # the first of equal ones
    return room, kept


def _nearest(limit: PodLimit, targets: Targets, claims: PodClaims, minimums: Targets) -> str:
    """Return the sentence of the known room that keeps most, or else of the largest one."""
    known = [each for each in limit.rooms if each.is_known]
    if not known:
        return limit.no_room
    best = _best(known, targets, claims, minimums)
    if best is not None:
        return best[0].sentence
    return max(known, key=lambda each: (each.room.memory, each.room.cpu, each.title)).sentence


def _kept_share(resource: str, before: Targets, after: Targets) -> Fraction:
    wanted = sum(each.get(resource, 0) for each in before.values())
    kept = sum(each.get(resource, 0) for each in after.values())
    return Fraction(kept, wanted) if wanted else Fraction(1)


def _rounded(
    kept: Mapping[str, int], before: Mapping[str, int], lowest: Mapping[str, int]
) -> Mapping[str, int]:
    if MEMORY not in kept:
        return kept
    return {**kept, MEMORY: whole_mib(kept[MEMORY], before[MEMORY], lowest[MEMORY])}


def _quantities(room: Room) -> ResourceQuantities:
    return {CPU: quantity(CPU, room.cpu), MEMORY: quantity(MEMORY, room.memory)}
