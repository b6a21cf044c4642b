"""Plans of the objects that request capacity: bounds in number and time, refusals and places."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from common.api.core import PodSpec
from common.scheduling.room import Room
from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityDemand, PassDemands, RequestStage
from updater.capacity.provisioning_plan import (
    CapacityObject,
    ProvisioningPlan,
    RequestKind,
    name_of_request,
    plan_provisioning,
    settle,
)
from updater.capacity.provisioning_state import Pause, ProvisioningLimits, ProvisioningState

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
LIMITS = ProvisioningLimits(most_requests=3, most_replicas=4)
WEB = Controller("shop", "Deployment", "web", "apps/v1")
NEED = Room(1000, 1 << 30, 1)
BUFFER, REQUEST = RequestKind.BUFFER, RequestKind.REQUEST
MINUTE = timedelta(minutes=1)


def demand(workload: Controller = WEB, **changes: Any) -> CapacityDemand:
    found = CapacityDemand(
        workload=workload, vpa="uid-of-vpa", vpa_name="web", spec=PodSpec(), need=NEED, count=2
    )
    return replace(found, **changes)


def found(workload: Controller = WEB, **changes: Any) -> CapacityObject:
    one = CapacityObject(
        kind=BUFFER,
        namespace=workload.namespace,
        name=f"vpa-{workload.name}-1",
        uid=f"uid-{workload.name}",
        workload=workload,
        need=NEED,
        count=2,
        since=NOW - MINUTE,
    )
    return replace(one, **changes)


def others(count: int) -> list[Controller]:
    return [Controller("shop", "Deployment", f"other-{index}", "apps/v1") for index in range(count)]


def plan(
    demands: list[CapacityDemand],
    objects: list[CapacityObject],
    *,
    kind: RequestKind | None = BUFFER,
    missing: Mapping[Controller, int] | None = None,
    before: ProvisioningState | None = None,
    refused: Collection[Controller] = (),
    evicted: Collection[Controller] = (),
    now: datetime = NOW,
) -> ProvisioningPlan:
    return plan_provisioning(
        PassDemands(demands=demands, refused=refused, evicted=evicted),
        objects,
        kind=kind,
        missing=missing or {},
        before=before or ProvisioningState(),
        limits=LIMITS,
        now=now,
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a plan does to the object of one workload."""

    id: str
    object: CapacityObject | None = field(default_factory=found)
    demand: CapacityDemand | None = field(default_factory=demand)
    kind: RequestKind | None = BUFFER
    missing: int = 0
    before: ProvisioningState = field(default_factory=ProvisioningState)
    refused: bool = False  # an eviction with room
    evicted: bool = False  # with room
    deleted: bool = False
    resized: int | None = None
    created: int | None = None
    stage: RequestStage | None = RequestStage.REQUESTED
    postponed: str | None = None


def pause(until: datetime, length: timedelta = 15 * MINUTE) -> ProvisioningState:
    held = Pause(stage=RequestStage.TIMED_OUT, until=until, length=length)
    return ProvisioningState(pauses={WEB: held})


GONE = replace(Case(id=""), demand=None, stage=None)

CASES = [
    Case(id="a demand is requested", object=None, created=2),
    Case(id="a demand above the bound on replicas", object=None, demand=demand(count=9), created=4),
    Case(id="a demand for no pods is none", object=None, demand=demand(count=0), stage=None),
    Case(id="nothing is requested if no API is served", object=None, kind=None, stage=None),
    Case(id="an object with the same demand stays"),
    Case(id="more pods are requested", demand=demand(count=3), resized=3),
    Case(id="fewer pods are requested", demand=demand(count=1), resized=1),
    Case(id="a smaller need within a tenth is met", demand=demand(need=Room(910, 1 << 30, 1))),
    Case(
        id="a need that is smaller by more than a tenth replaces the object",
        demand=demand(need=Room(900, 1 << 30, 1)),
        deleted=True,
        created=2,
    ),
    Case(
        id="a larger need replaces the object",
        demand=demand(need=Room(1001, 1 << 30, 1)),
        deleted=True,
        created=2,
    ),
    Case(id="another kind is served", kind=REQUEST, deleted=True, created=2),
    Case(
        id="a provisioning request for too few pods is replaced",
        kind=REQUEST,
        object=found(kind=REQUEST),
        demand=demand(count=3),
        deleted=True,
        created=3,
    ),
    Case(
        id="a provisioning request for more pods stays",
        kind=REQUEST,
        object=found(kind=REQUEST),
        demand=demand(count=1),
    ),
    Case(id="just before the time-out", object=found(since=NOW - 10 * MINUTE + MINUTE / 60)),
    Case(
        id="at the time-out",
        object=found(since=NOW - 10 * MINUTE),
        deleted=True,
        stage=RequestStage.TIMED_OUT,
    ),
    Case(
        id="an eviction with room renews the time-out",
        object=found(since=NOW - 10 * MINUTE),
        evicted=True,
    ),
    Case(
        id="after an eviction with room, just before the time-out",
        object=found(since=NOW - 15 * MINUTE),
        before=ProvisioningState(since={WEB: NOW - 9.99 * MINUTE}),
    ),
    Case(
        id="a new object, at the time-out of the demand",
        object=found(since=NOW),
        before=ProvisioningState(since={WEB: NOW - 10 * MINUTE}),
        deleted=True,
        stage=RequestStage.TIMED_OUT,
    ),
    Case(
        id="without an object, just before the time-out of the demand",
        object=None,
        before=ProvisioningState(since={WEB: NOW - 9.99 * MINUTE}),
        created=2,
    ),
    Case(
        id="without an object, at the time-out of the demand",
        object=None,
        before=ProvisioningState(since={WEB: NOW - 10 * MINUTE}),
        stage=RequestStage.TIMED_OUT,
    ),
    Case(
        id="the clock moved back by more than the time-out",
        object=found(since=NOW + 10 * MINUTE),
        deleted=True,
        stage=RequestStage.TIMED_OUT,
    ),
    Case(
        id="a refused object",
        object=found(refusal="no such template"),
        deleted=True,
        stage=RequestStage.REFUSED,
    ),
    Case(id="an eviction was refused although there was room", refused=True),
    Case(id="an eviction was refused without a request", refused=True, object=None, created=2),
    Case(
        id="during a pause",
        object=None,
        before=pause(NOW + MINUTE / 60),
        stage=RequestStage.TIMED_OUT,
    ),
    Case(id="after a pause", object=None, before=pause(NOW), created=2),
    Case(
        id="the clock moved back before the pause",
        object=None,
        before=pause(NOW + 16 * MINUTE),
        created=2,
    ),
    Case(
        id="an object that is being deleted",
        object=found(terminating=True),
        stage=None,
        postponed="the former request is being deleted",
    ),
    replace(GONE, id="without demand and with all replicas in place", deleted=True),
    replace(GONE, id="evictions were refused", refused=True),
    replace(GONE, id="one eviction was refused beside another", refused=True, missing=1),
    replace(
        GONE,
        id="evictions were refused, just before the time-out",
        refused=True,
        object=found(since=NOW - 9.99 * MINUTE),
    ),
    replace(
        GONE,
        id="evictions were refused, at the time-out",
        refused=True,
        object=found(since=NOW - 10 * MINUTE),
        deleted=True,
        stage=RequestStage.REFUSED,
    ),
    replace(
        GONE,
        id="evictions were refused, just before the time-out of the last with room",
        refused=True,
        object=found(since=NOW - 15 * MINUTE),
        before=ProvisioningState(since={WEB: NOW - 9.99 * MINUTE}),
    ),
    replace(
        GONE,
        id="an eviction with room renews the time-out of refused ones",
        refused=True,
        evicted=True,
        object=found(since=NOW - 10 * MINUTE),
    ),
    replace(GONE, id="the replacements have no place yet", missing=2),
    replace(GONE, id="one replacement has no place yet", missing=1, resized=1),
    replace(GONE, id="other replicas are missing, too", missing=7),
    replace(
        GONE,
        id="just before the end of the wait for places",
        missing=2,
        before=ProvisioningState(ended={WEB: NOW - MINUTE * 0.99}),
    ),
    replace(
        GONE,
        id="at the end of the wait for places",
        missing=2,
        before=ProvisioningState(ended={WEB: NOW - MINUTE}),
        deleted=True,
    ),
    replace(
        GONE,
        id="the clock moved back during the wait for places",
        missing=2,
        before=ProvisioningState(ended={WEB: NOW + MINUTE}),
        deleted=True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_object_of_a_workload(case: Case) -> None:
    result = plan(
        [] if case.demand is None else [case.demand],
        [] if case.object is None else [case.object],
        kind=case.kind,
        missing={WEB: case.missing},
        before=case.before,
        refused=[WEB] if case.refused else [],
        evicted=[WEB] if case.evicted else [],
    )
    assert result.deletions == ((case.object,) if case.deleted else ())
    assert [count for _, count in result.resizes] == ([case.resized] if case.resized else [])
    assert [each.count for each in result.creations] == ([case.created] if case.created else [])
    stage = result.requests[WEB].stage if WEB in result.requests else None
    assert stage is case.stage
    assert result.postponed.get(WEB) == case.postponed


def test_a_replaced_object_keeps_its_time_out() -> None:
    (created,) = plan([demand(need=Room(2000, 1 << 30, 1))], [found()]).creations
    assert created.since == NOW - MINUTE


def test_other_pods_that_take_the_places_do_not_renew_the_time_out() -> None:
    """Each minute a new pod, of an autoscaler or after a drain, takes the only place."""
    state, now, stages = ProvisioningState(), NOW, []
    for _ in range(11):
        result = plan([demand(count=1)], [], before=state, now=now)
        stages.append(result.requests[WEB].stage)
        state = settle(
            [found(count=1, since=each.since) for each in result.creations],
            placed={WEB: 1},
            missing={},
            state=result.state,
            limits=LIMITS,
            now=now,
        ).state
        now += MINUTE
    assert stages == [RequestStage.REQUESTED] * 10 + [RequestStage.TIMED_OUT]


def test_a_new_demand_has_its_own_time_out() -> None:
    before = ProvisioningState(since={WEB: NOW - 9 * MINUTE})
    assert not plan([], [], before=before).state.since
    assert plan([demand()], []).state.since == {WEB: NOW}


def test_the_time_out_begins_again_after_a_pause() -> None:
    given_up = plan([demand()], [found(since=NOW - 10 * MINUTE)])
    later = NOW + 15 * MINUTE
    (created,) = plan([demand()], [], before=given_up.state, now=later).creations
    assert created.since == later


def test_the_message_of_a_refusal_is_reported() -> None:
    refused = plan([demand()], [found(refusal="over the quota")]).requests[WEB]
    assert (refused.message, refused.until) == ("over the quota", NOW + 15 * MINUTE)


def test_pauses_double_up_to_four_hours() -> None:
    state, now, minutes = ProvisioningState(), NOW, []
    for _ in range(7):
        result = plan([demand()], [found(since=now - 10 * MINUTE)], before=state, now=now)
        state = result.state
        minutes.append((result.requests[WEB].until - now) / MINUTE)
        now = result.requests[WEB].until
    assert minutes == [15, 30, 60, 120, 240, 240, 240]


def test_evictions_that_are_refused_with_room_pause_the_requests_for_longer_each_time() -> None:
    """A PodDisruptionBudget that never allows an eviction: nodes are requested less and less."""
    state, now, requested_at = ProvisioningState(), NOW, []
    while now < NOW + timedelta(hours=24):
        result = plan([demand()], [], before=state, now=now)
        for creation in result.creations:
            requested_at.append(now)
            objects: Sequence[CapacityObject] = [found(since=creation.since)]
            while objects:  # a node is added, and the evictions are refused
                now += MINUTE
                result = plan([], list(objects), before=result.state, refused=[WEB], now=now)
                objects = result.kept
        state = result.state
        now += MINUTE
    pauses = [(b - a) / MINUTE for a, b in pairwise(requested_at)]
    assert pauses == [25, 40, 70, 130, *[250] * 4]


def test_a_rollout_goes_on_in_its_room_while_single_evictions_are_refused() -> None:
    """A PodDisruptionBudget that allows an eviction every nine minutes."""
    state, objects, kept = pause(NOW - MINUTE), [found(count=3)], []
    for minute in range(27):
        evicted = minute % 9 == 0
        now = NOW + minute * MINUTE
        result = plan(
            [], objects, before=state, refused=[WEB], evicted=[WEB] if evicted else [], now=now
        )
        settled = settle(
            result.kept,
            placed={WEB: int(evicted)},
            missing={},
            state=result.state,
            limits=LIMITS,
            now=now,
        )
        state, objects = settled.state, list(settled.kept)
        kept.append(sum(each.count for each in objects))
    assert kept == [2] * 9 + [1] * 9 + [0] * 9
    assert not state.pauses


def test_evictions_with_room_end_the_pauses_of_a_workload() -> None:
    evicted = plan([demand()], [], before=pause(NOW + MINUTE), evicted=[WEB])
    assert (evicted.state.pauses, len(evicted.creations)) == ({}, 1)


def test_evictions_do_not_end_the_pause_of_a_workload_without_requests() -> None:
    unavailable = Pause(
        stage=RequestStage.UNAVAILABLE, until=NOW + MINUTE, length=15 * MINUTE, message="forbidden"
    )
    before = ProvisioningState(pauses={WEB: unavailable})
    assert plan([], [], before=before, evicted=[WEB]).state.pauses == before.pauses


def test_a_pause_outlasts_its_end_while_evictions_are_refused() -> None:
    assert plan([], [], before=pause(NOW), refused=[WEB]).state.pauses


def test_a_deletion_that_failed_does_not_double_the_pause() -> None:
    first = plan([demand()], [found(refusal="no")])
    again = plan([demand()], [found(refusal="no")], before=first.state, now=NOW + MINUTE)
    assert again.requests == first.requests


def test_a_pause_ends_with_the_demand() -> None:
    assert not plan([], [], before=pause(NOW)).state.pauses
    assert plan([], [], before=pause(NOW + MINUTE)).state.pauses


def test_objects_are_bounded_and_the_present_ones_stay() -> None:
    workloads = others(4)
    result = plan([demand(each) for each in workloads], [found(workloads[2]), found(workloads[3])])
    assert [each.demand.workload for each in result.creations] == [workloads[0]]
    assert workloads[1] not in result.requests
    bound = "3 requests for other workloads are under way"
    assert result.postponed == {workloads[1]: bound}


def test_a_free_place_goes_to_the_next_demand() -> None:
    workloads = others(4)
    present = [found(each) for each in workloads[:3]]
    result = plan([demand(each) for each in workloads[1:]], present)
    assert result.deletions == (present[0],)
    assert [each.demand.workload for each in result.creations] == [workloads[3]]


def test_objects_above_the_bound_are_deleted_newest_first() -> None:
    workloads = others(4)
    present = [found(each, since=NOW - index * MINUTE) for index, each in enumerate(workloads)]
    assert plan([demand(each) for each in workloads], present).deletions == (present[0],)


def test_the_oldest_object_of_a_workload_stays() -> None:
    old, new = found(since=NOW - 2 * MINUTE), found(since=NOW - MINUTE, name="vpa-web-2")
    assert plan([demand()], [new, old]).deletions == (new,)


@dataclass(frozen=True, kw_only=True)
class Settled:
    id: str
    object: CapacityObject = field(default_factory=found)
    placed: int = 0
    missing: int = 0
    ended: datetime | None = None
    deleted: bool = False
    resized: int | None = None


SETTLED = [
    Settled(id="no place is taken"),
    Settled(id="one of two places is taken", placed=1, resized=1),
    Settled(id="both places are taken", placed=2, deleted=True),
    Settled(id="other pods came, too", placed=5, deleted=True),
    Settled(id="provisioning requests have no refill", object=found(kind=REQUEST), placed=1),
    Settled(id="without demand nothing is missing", ended=NOW, deleted=True),
    Settled(id="without demand a replacement is missing", ended=NOW, missing=1, resized=1),
    Settled(id="shortly before a minute", ended=NOW - 0.99 * MINUTE, missing=2),
    Settled(id="after a minute", ended=NOW - MINUTE, missing=2, deleted=True),
    Settled(id="already being deleted", object=found(terminating=True), placed=2),
]


@pytest.mark.parametrize("case", SETTLED, ids=lambda case: case.id)
def test_places_that_are_taken_between_passes(case: Settled) -> None:
    ended = {} if case.ended is None else {WEB: case.ended}
    result = settle(
        [case.object],
        placed={WEB: case.placed},
        missing={WEB: case.missing},
        state=ProvisioningState(ended=ended),
        limits=LIMITS,
        now=NOW,
    )
    assert result.deletions == ((case.object,) if case.deleted else ())
    assert [count for _, count in result.resizes] == ([case.resized] if case.resized else [])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("web", "vpa-web-"),
        ("w" * 63, "vpa-" + "w" * 48 + "-"),
        ("w" * 47 + ".api", "vpa-" + "w" * 47 + "-"),
    ],
    ids=["a short name", "a long name", "a cut before a letter"],
)
def test_names_of_objects(name: str, wanted: str) -> None:
    found = name_of_request(Controller("shop", "Deployment", name), NEED)
    assert found.startswith(wanted)
    assert len(found) == len(wanted) + 10 <= 63


def test_names_differ_by_workload_and_shape() -> None:
    web = Controller("shop", "ReplicaSet", "web", "apps/v1")
    names = {
        name_of_request(WEB, NEED),
        name_of_request(web, NEED),
        name_of_request(WEB, Room(1001, 1 << 30, 1)),
        name_of_request(WEB, NEED, count=1),
        name_of_request(WEB, NEED, count=2),
    }
    assert len(names) == 5
