"""Which objects request capacity from an autoscaler: what to create, resize and delete.

A request ends when its workload has no demand any more and the replacements of its evicted pods
have their places; a minute after the demand at the latest. After a refusal or a time-out it is
deleted, and the next try follows after a pause that doubles. While evictions are refused although
there is room, as a rule by a PodDisruptionBudget, a request stays until the time-out after the last
eviction: a rollout goes on in the room, and a budget that never allows an eviction gets its nodes
less and less often.
"""

import enum
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from common.scheduling.room import Room
from common.target.owners import Controller
from updater.capacity.capacity_requests import (
    CapacityDemand,
    CapacityRequest,
    PassDemands,
    RequestStage,
)
from updater.capacity.provisioning_state import (
    NO_STATE,
    ProvisioningLimits,
    ProvisioningState,
    paused,
    request_of_pause,
)

_LONGEST_NAME = 63
_PREFIX = "vpa-"
_HASH_DIGITS = 10
_NOT_EVICTED = "there was room, but the evictions were refused"


class RequestKind(enum.StrEnum):
    """The kind of object that requests capacity."""

    BUFFER = "CapacityBuffer"
    REQUEST = "ProvisioningRequest"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityObject:
    """An object that requests capacity for the replacements of one workload."""

    kind: RequestKind
    namespace: str
    name: str  # also of its PodTemplate
    uid: str
    workload: Controller
    need: Room  # of one replacement
    count: int
    since: datetime  # as in ``ProvisioningState`` at its creation
    terminating: bool = False
    refusal: str = ""  # of its controller; empty: none

    @property
    def key(self) -> tuple[str, str]:
        """Return namespace and name."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """An object to create, with its PodTemplate."""

    kind: RequestKind
    name: str
    demand: CapacityDemand
    count: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningPlan:
    """Deletions first, then resizes, then creations; ``kept`` is what exists afterwards."""

    deletions: tuple[CapacityObject, ...] = ()
    resizes: tuple[tuple[CapacityObject, int], ...] = ()  # of buffers, to this count
    creations: tuple[Creation, ...] = ()
    kept: tuple[CapacityObject, ...] = ()  # resized ones with their new count
    requests: Mapping[Controller, CapacityRequest] = field(default_factory=dict)
    postponed: Mapping[Controller, str] = field(default_factory=dict)  # and why
    state: ProvisioningState = NO_STATE


def plan_provisioning(
    asked: PassDemands,
    objects: Sequence[CapacityObject],
    *,
    kind: RequestKind | None,
    missing: Mapping[Controller, int],
    before: ProvisioningState = NO_STATE,
    limits: ProvisioningLimits,
    now: datetime,
    knows_all: bool = True,
) -> ProvisioningPlan:
    """Decide on the objects of all workloads.

    ``objects`` are all of ours. ``kind`` is what the cluster serves; None: nothing is created.
    ``missing`` is how many replicas of a workload are on no node; an object without demand stays
    for them. The first demand of a workload counts. While not all demands are known, no object is
    deleted for want of one.
    """
    planner = _Planner(
        asked=asked,
        objects=objects,
        kind=kind,
        missing=missing,
        state=_without_pauses(before, asked.evicted),
        limits=limits,
        now=now,
    )
    wanted: dict[Controller, CapacityDemand] = {}
    for demand in asked.demands:
        if demand.count > 0:
            wanted.setdefault(demand.workload, demand)
    planner.end_surplus()
    for workload, found in tuple(planner.present.items()):
        if workload in wanted:
            continue
        if knows_all:
            planner.end(workload)
        else:
            planner.kept.append(found)
    for workload, demand in wanted.items():
        if workload in planner.present:
            planner.follow(demand)
    for workload, demand in wanted.items():
        if workload not in planner.decided:
            planner.begin(demand)
    return planner.plan(wanted.keys())


def settle(
    objects: Iterable[CapacityObject],
    *,
    placed: Mapping[Controller, int],
    missing: Mapping[Controller, int],
    state: ProvisioningState,
    limits: ProvisioningLimits,
    now: datetime,
) -> ProvisioningPlan:
    """Decide between two plans on objects whose places are taken; only deletions and resizes.

    ``placed`` is how many pods of a workload came onto nodes since the last plan. Each took one of
    the requested places. A buffer would be refilled, with another node if need be, unless it is
    reduced at once.
    """
    deletions, resizes, kept = [], [], []
    for each in objects:
        taken = placed.get(each.workload, 0)
        left = each.count - taken
        ended = state.ended.get(each.workload)
        if ended is not None:
            waits = timedelta() <= now - ended < limits.placement
            left = min(left, missing.get(each.workload, 0)) if waits else 0
        if each.terminating:
            kept.append(each)
        elif left <= 0:
            deletions.append(each)
        elif left < each.count and each.kind is RequestKind.BUFFER:
            resizes.append((each, left))
            kept.append(replace(each, count=left))
        else:
            kept.append(each)
    return ProvisioningPlan(
        deletions=tuple(deletions), resizes=tuple(resizes), kept=tuple(kept), state=state
    )


def _without_pauses(state: ProvisioningState, evicted: Collection[Controller]) -> ProvisioningState:
    """Return the state after evictions with room: the next pause of the workloads is short."""
    pauses = {
        workload: pause
        for workload, pause in state.pauses.items()
        if workload not in evicted or pause.stage is RequestStage.UNAVAILABLE
    }
    return replace(state, pauses=pauses)


def name_of_request(workload: Controller, need: Room, *, count: int | None = None) -> str:
    """Return the name of an object and its PodTemplate, of at most 63 characters.

    Different shapes have different names, so that a replaced object isn't mistaken for the new one.
    ``count`` is for objects that can't be resized.
    """
    parts = (workload.api_version, workload.kind, workload.name, need.cpu, need.memory, count)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:_HASH_DIGITS]
    longest = _LONGEST_NAME - len(_PREFIX) - len(digest) - 1
    return f"{_PREFIX}{workload.name[:longest].rstrip('-.')}-{digest}"


@dataclass(slots=True, kw_only=True)
class _Planner:
    """Collects the parts of one plan."""

    asked: PassDemands
    objects: Sequence[CapacityObject]
    kind: RequestKind | None
    missing: Mapping[Controller, int]
    state: ProvisioningState
    limits: ProvisioningLimits
    now: datetime
    present: dict[Controller, CapacityObject] = field(default_factory=dict)
    decided: set[Controller] = field(default_factory=set)
    deletions: list[CapacityObject] = field(default_factory=list)
    resizes: list[tuple[CapacityObject, int]] = field(default_factory=list)
    creations: list[Creation] = field(default_factory=list)
    kept: list[CapacityObject] = field(default_factory=list)
    requests: dict[Controller, CapacityRequest] = field(default_factory=dict)
    postponed: dict[Controller, str] = field(default_factory=dict)
    ended: dict[Controller, datetime] = field(default_factory=dict)
    since: dict[Controller, datetime] = field(default_factory=dict)

    def end_surplus(self) -> None:
        """Delete all objects of a workload but the oldest, and those above the bound."""
        for each in sorted(self.objects, key=lambda each: (each.since, each.key)):
            if each.terminating:
                self.kept.append(each)
            elif each.workload in self.present:
                self.deletions.append(each)
            else:
                self.present[each.workload] = each
        for workload in tuple(self.present)[self.limits.most_requests :]:
            self.deletions.append(self.present.pop(workload))

    def end(self, workload: Controller) -> None:
        """Delete an object without demand once the evicted pods have their replacements.

        While evictions are refused although there is room it stays, as with demand.
        """
        found = self.present[workload]
        since = self.since[workload] = self._since(workload, found.since)
        if workload in self.asked.refused:
            if self._is_over(since):
                self._give_up(found, RequestStage.REFUSED, _NOT_EVICTED)
            else:
                self.kept.append(found)
            return
        ended = self.state.ended.get(workload, self.now)
        left = min(found.count, self.missing.get(workload, 0))
        waits = timedelta() <= self.now - ended < self.limits.placement
        if left > 0 and waits:
            self.ended[workload] = ended
            self._keep(found, left)
        else:
            self.deletions.append(found)

    def follow(self, demand: CapacityDemand) -> None:
        """Keep, resize, replace or give up the object of a workload with demand."""
        workload, found = demand.workload, self.present[demand.workload]
        self.decided.add(workload)
        since = self._since(workload, found.since)
        if found.refusal:
            self._give_up(found, RequestStage.REFUSED, found.refusal)
        elif self._is_over(since):
            self._give_up(found, RequestStage.TIMED_OUT, "")
        elif self._is_outdated(found, demand):
            self.deletions.append(found)
            self._create(demand, since=since)
        else:
            self._keep(found, self._count(demand))
            self._report(demand, found.name, since=since)

    def begin(self, demand: CapacityDemand) -> None:
        """Request capacity for a workload, unless a pause or the bound on objects forbids it."""
        workload = demand.workload
        pause = self.state.pauses.get(workload)
        if pause is not None and pause.holds(self.now):
            self.requests[workload] = request_of_pause(pause)
            return
        since = self._since(workload, self.now)
        if any(each.workload == workload for each in self.kept):
            self.since[workload] = since
            self.postponed[workload] = "the former request is being deleted"
        elif self._is_over(since):
            self._pause(workload, RequestStage.TIMED_OUT, "")
        elif len(self.kept) + len(self.creations) < self.limits.most_requests:
            self._create(demand, since=since)
        else:
            self.postponed[workload] = self.limits.bound

    def plan(self, wanted: Collection[Controller]) -> ProvisioningPlan:
        """Return the plan; forget what the workloads without demand don't need any more."""
        pauses = {
            workload: pause
            for workload, pause in self.state.pauses.items()
            if workload in wanted or workload in self.asked.refused or pause.holds(self.now)
        }
        for workload, pause in pauses.items():
            if pause.stage is RequestStage.UNAVAILABLE and pause.holds(self.now):
                self.requests.setdefault(workload, request_of_pause(pause))
        return ProvisioningPlan(
            deletions=tuple(self.deletions),
            resizes=tuple(self.resizes),
            creations=tuple(self.creations),
            kept=tuple(self.kept),
            requests=self.requests,
            postponed=self.postponed,
            state=ProvisioningState(pauses=pauses, ended=self.ended, since=self.since),
        )

    def _since(self, workload: Controller, otherwise: datetime) -> datetime:
        if workload in self.asked.evicted:
            return self.now
        return self.state.since.get(workload, otherwise)

    def _is_over(self, since: datetime) -> bool:
        """Return whether the time-out is over; also if the clock moved back by as much."""
        return abs(self.now - since) >= self.limits.timeout

    def _report(self, demand: CapacityDemand, name: str, *, since: datetime) -> None:
        self.since[demand.workload] = since
        self.requests[demand.workload] = CapacityRequest(
            stage=RequestStage.REQUESTED, until=since + self.limits.timeout, name=name
        )

    def _keep(self, found: CapacityObject, count: int) -> None:
        if found.count != count and found.kind is RequestKind.BUFFER:
            self.resizes.append((found, count))
            self.kept.append(replace(found, count=count))
        else:
            self.kept.append(found)

    def _create(self, demand: CapacityDemand, *, since: datetime) -> None:
        if self.kind is None:
            return
        count = self._count(demand)
        fixed = count if self.kind is RequestKind.REQUEST else None
        name = name_of_request(demand.workload, demand.need, count=fixed)
        self.creations.append(
            Creation(kind=self.kind, name=name, demand=demand, count=count, since=since)
        )
        self._report(demand, name, since=since)

    def _give_up(self, found: CapacityObject, stage: RequestStage, message: str) -> None:
        self.deletions.append(found)
        self.since.pop(found.workload, None)
        self._pause(found.workload, stage, message)

    def _pause(self, workload: Controller, stage: RequestStage, message: str) -> None:
        last = self.state.pauses.get(workload)
        if last is None or not last.holds(self.now):  # otherwise the deletion failed before
            self.state = paused(
                self.state, workload, stage, message, limits=self.limits, now=self.now
            )
        self.requests[workload] = request_of_pause(self.state.pauses[workload])

    def _is_outdated(self, found: CapacityObject, demand: CapacityDemand) -> bool:
        """Return whether the object requests another kind of room, or can't be resized."""
        if found.kind is not self.kind and self.kind is not None:
            return True
        if found.kind is RequestKind.REQUEST and self._count(demand) > found.count:
            return True
        most = 1 + self.limits.most_excess
        need = demand.need
        return not found.need.holds(need) or (
            found.need.cpu > need.cpu * most or found.need.memory > need.memory * most
        )

    def _count(self, demand: CapacityDemand) -> int:
        return min(demand.count, self.limits.most_replicas)
