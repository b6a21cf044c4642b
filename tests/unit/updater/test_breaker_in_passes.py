"""Passes with the eviction breaker, and with the preflight of replacements (D30)."""

from dataclasses import replace
from datetime import datetime

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry

from builders import container, vpa
from common.annotations import OBSERVED_CONTAINERS
from common.api.autoscaling import GenericStartupBoost, StartupBoost, UpdateMode, VpaCondition
from common.api.core import LimitRangeItem, LimitRangeSpec
from common.errors import InvalidError, TooManyRequestsError, UnreachableError
from common.features import FeatureGates
from common.quantity import Quantity
from common.target.owners import Controller
from replacements import HOUR, MINUTE, SECOND
from updater.decision import Decision, Reason, evict, leave, wait
from updater.eviction.breaker import (
    Breaker,
    BreakerObservation,
    BreakerTransition,
    Closed,
    Eviction,
    Open,
    ReplacementNote,
)
from updater.eviction.breaker_report import sentence
from updater.eviction.replacement_result import ReplacementResult
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_pod import LivePod
from updater.snapshot.live_vpa import LiveVpa, LiveVpaMeta
from updater.snapshot.workload_size import GroupSize
from updater.state import UpdaterState
from updater_harness import NAMES, NOW, OPEN, WEB, FakeActuator, run, snapshot

CHECKED = replace(OPEN, checks_outcomes=True)
UID = "uid-vpa-web"
OUTSIDE = evict(Reason.OUTSIDE_RANGE)
UNVERIFIED = wait(Reason.REPLACEMENT_UNVERIFIED)
SUSPENDED = wait(Reason.ACTUATION_SUSPENDED)
CLOSED = Breaker()
REFUSED = InvalidError("refused", reason="Invalid")
PROTECTED = TooManyRequestsError("no", reason="TooManyRequests")
LOST = UnreachableError("no answer")


def decisions(after: UpdaterState) -> list[Decision | None]:
    return [after.of(f"uid-{name}").decision for name in NAMES]


def state_with(breaker: Breaker) -> UpdaterState:
    return UpdaterState(breakers={UID: breaker})


# The number of evictions


async def test_three_pods_of_a_vpa_are_evicted_before_the_first_replacement() -> None:
    actuator = FakeActuator()
    after = await run(snapshot(UpdateMode.RECREATE), actuator, rules=CHECKED)
    assert actuator.evicted == NAMES[:3]
    assert decisions(after) == [OUTSIDE] * 3 + [UNVERIFIED] * 2
    assert len(after.breakers[UID].unanswered) == 3
    assert after.awaited == {UID: {WEB}}


async def test_no_more_pods_are_evicted_in_the_next_pass() -> None:
    first, second = FakeActuator(), FakeActuator()
    state = await run(snapshot(UpdateMode.RECREATE), first, rules=CHECKED)
    await run(snapshot(UpdateMode.RECREATE), second, rules=CHECKED, state=state)
    assert second.evicted == []


async def test_without_the_check_all_pods_are_evicted_and_no_state_is_kept() -> None:
    actuator = FakeActuator()
    after = await run(snapshot(UpdateMode.RECREATE), actuator)
    assert actuator.evicted == NAMES
    assert after.breakers == {}


async def test_three_more_pods_are_evicted_after_right_replacements() -> None:
    actuator = FakeActuator()
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=CHECKED, state=state_with(CLOSED))
    assert actuator.evicted == NAMES[:3]


async def test_evictions_after_failed_resizes_count() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, REFUSED))
    await run(snapshot(UpdateMode.IN_PLACE_OR_RECREATE), actuator, rules=CHECKED)
    assert (actuator.resized, actuator.evicted) == (NAMES, NAMES[:3])


async def test_after_a_refused_eviction_the_next_pod_is_tried() -> None:
    actuator = FakeActuator(eviction_errors={"web-0": PROTECTED})
    after = await run(snapshot(UpdateMode.RECREATE), actuator, rules=CHECKED)
    assert actuator.evicted == NAMES[:4]
    assert decisions(after)[-1] == UNVERIFIED


async def test_evictions_without_an_answer_count() -> None:
    actuator = FakeActuator(eviction_errors=dict.fromkeys(NAMES, LOST))
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=CHECKED)
    assert actuator.evicted == NAMES[:3]


async def test_evictions_without_an_answer_count_in_the_next_pass() -> None:
    actuator = FakeActuator(eviction_errors=dict.fromkeys(NAMES, LOST))
    after = await run(snapshot(UpdateMode.RECREATE), actuator, rules=CHECKED)
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=CHECKED, state=after)
    assert len(actuator.evicted) == 3


def created_at(
    whole: ClusterSnapshot, *names: str, at: datetime = NOW, patched: bool = False
) -> ClusterSnapshot:
    """Return the snapshot with these pods created at ``at``, recommended since an hour ago."""
    (scaled,) = whole.autoscaled
    pods = tuple(
        pod_created_at(
            pod, at=at if pod.metadata.name in names else NOW - 2 * HOUR, patched=patched
        )
        for pod in scaled.pods
    )
    ordinary = scaled.vpa
    condition = VpaCondition(
        type="RecommendationProvided", status="True", last_transition_time=NOW - HOUR
    )
    meta = LiveVpaMeta(
        name=ordinary.metadata.name,
        namespace=ordinary.metadata.namespace,
        uid=ordinary.metadata.uid,
        managed_fields=NOW - HOUR,
    )
    status = structs.replace(ordinary.status, conditions=(condition,))
    since = LiveVpa(metadata=meta, spec=ordinary.spec, status=status)
    return replace(whole, autoscaled=(replace(scaled, vpa=since, pods=pods),))


def pod_created_at(pod: LivePod, *, at: datetime, patched: bool) -> LivePod:
    notes = {OBSERVED_CONTAINERS: "app"} if patched else None
    meta = structs.replace(pod.metadata, creation_timestamp=at, annotations=notes)
    return structs.replace(pod, metadata=meta)


async def test_a_new_process_finds_wrong_replacements_of_its_predecessor() -> None:
    actuator = FakeActuator()
    whole = created_at(snapshot(UpdateMode.RECREATE), *NAMES[:3])
    after = await run(whole, actuator, rules=CHECKED)
    assert actuator.evicted == []
    assert decisions(after) == [SUSPENDED] * 5
    ((transition, cause),) = actuator.transitions
    assert transition is BreakerTransition.SUSPENDED
    assert "when the updater started" in cause


# Suspended


@pytest.mark.parametrize(
    ("probe_at", "evicted"),
    [
        pytest.param(NOW + SECOND, [], id="before the next probe is due"),
        pytest.param(NOW, ["web-0"], id="when the next probe is due"),
    ],
)
async def test_suspended(probe_at: datetime, evicted: list[str]) -> None:
    actuator = FakeActuator()
    stopped = state_with(Breaker(state=Open(probe_at)))
    after = await run(snapshot(UpdateMode.RECREATE), actuator, rules=CHECKED, state=stopped)
    assert actuator.evicted == evicted
    last = decisions(after)[-1]
    assert last == SUSPENDED
    assert last is not None
    assert last.until == (NOW + HOUR if evicted else probe_at)
    assert after.breakers[UID].state == Open(last.until)


async def test_after_a_refused_probe_the_next_pod_is_tried() -> None:
    actuator = FakeActuator(eviction_errors=dict.fromkeys(NAMES[:2], PROTECTED))
    stopped = Breaker(state=Open(NOW))
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=CHECKED, state=state_with(stopped))
    assert actuator.evicted == NAMES[:3]


# Replacements


def without_pods(sizes: dict[Controller, GroupSize]) -> ClusterSnapshot:
    """Return a snapshot of a VPA whose pods are all gone."""
    whole = snapshot(UpdateMode.RECREATE)
    scaled = replace(whole.autoscaled[0], pods=(), controllers={}, replicas={}, sizes=sizes)
    return ClusterSnapshot(autoscaled=(scaled,), living=frozenset())


def overdue(count: int) -> Breaker:
    unanswered_eviction = Eviction(workload=WEB, uid="gone", vpa=vpa(), gone_since=NOW - 2 * MINUTE)
    return Breaker(unanswered=(unanswered_eviction,) * count)


async def test_pods_that_were_not_created_suspend_a_vpa_without_pods() -> None:
    actuator, registry = FakeActuator(), CollectorRegistry()
    after = await run(
        without_pods({WEB: GroupSize(wanted=3)}),
        actuator,
        rules=CHECKED,
        state=state_with(overdue(3)),
        registry=registry,
    )
    assert after.breakers[UID].suspends
    ((transition, cause),) = actuator.transitions
    assert transition is BreakerTransition.SUSPENDED
    assert "not created within two minutes" in cause
    outcomes = "vpa_updater_eviction_outcomes_total"
    assert registry.get_sample_value(outcomes, {"came": "not_created"}) == 3


async def test_pods_without_a_node_are_no_misses() -> None:
    actuator = FakeActuator()
    there = without_pods({WEB: GroupSize(wanted=3, existing=3)})
    after = await run(there, actuator, rules=CHECKED, state=state_with(overdue(3)))
    assert len(after.breakers[UID].unanswered) == 3
    assert actuator.transitions == []


async def test_terminating_pods_are_no_misses() -> None:
    there = without_pods({WEB: GroupSize(wanted=3)})
    going = replace(there, terminating=frozenset({"gone"}))
    after = await run(going, FakeActuator(), rules=CHECKED, state=state_with(overdue(1)))
    assert after.breakers[UID].state == Closed()


async def test_vpas_with_nothing_to_evict_have_no_breaker() -> None:
    quiet = snapshot(UpdateMode.RECREATE, recommended=False)
    assert (await run(quiet, FakeActuator(), rules=CHECKED)).breakers == {}


def test_breakers_are_dropped_with_their_vpa() -> None:
    state = UpdaterState(breakers={"here": CLOSED, "gone": CLOSED})
    assert state.about({"here", "new"}).breakers == {"here": CLOSED}


SENTENCES = [
    (
        (
            ReplacementNote(ReplacementResult.NOT_CREATED),
            ReplacementNote(ReplacementResult.UNPATCHED, "web-1"),
        ),
        "the last one, web-1, was not patched",
    ),
    (
        (
            ReplacementNote(ReplacementResult.OUTSIDE_RANGE, "web-1"),
            ReplacementNote(ReplacementResult.UNKNOWN),
        ),
        "are not those recommended",
    ),
    (
        (ReplacementNote(ReplacementResult.NOT_CREATED),),
        "a quota, a LimitRange or a webhook that refuses pods",
    ),
    ((), "it was there when the updater started"),
]


@pytest.mark.parametrize(("notes", "want"), SENTENCES)
def test_the_message_of_a_suspension_names_the_cause(
    notes: tuple[ReplacementNote, ...], want: str
) -> None:
    found = BreakerObservation(
        breaker=Breaker(state=Open(NOW)), notes=notes, transition=BreakerTransition.SUSPENDED
    )
    which = "3 pods in a row" if notes else "the youngest pod"
    message = sentence(found)
    start = f"Evictions are suspended, except for one per hour: {which} did not come up"
    assert message.startswith(start)
    assert want in message


# D30


def limited(most: str, **default: str) -> ClusterSnapshot:
    """Return a snapshot with a LimitRange that requires a memory limit and may have a default."""
    whole = snapshot(UpdateMode.RECREATE)
    item = LimitRangeItem(type="Container", max={"memory": most}, default=default)
    scaled = replace(whole.autoscaled[0], limit_ranges=(LimitRangeSpec(limits=(item,)),))
    return replace(whole, autoscaled=(scaled,))


async def test_no_pod_is_evicted_whose_replacement_would_be_refused() -> None:
    actuator = FakeActuator()
    after = await run(limited("1Gi"), actuator)
    assert actuator.evicted == []
    assert decisions(after) == [wait(Reason.REPLACEMENT_WOULD_BE_REFUSED)] * 5
    assert set(actuator.refused) == set(NAMES)
    assert actuator.refused["web-0"] == (
        "container app would have no memory limit, and the LimitRange's max for a Container is 1Gi"
    )
    again = FakeActuator()
    await run(limited("1Gi"), again, state=after)
    assert again.refused == {}


async def test_all_pods_are_evicted_if_replacements_satisfy_the_limit_range() -> None:
    actuator = FakeActuator()
    await run(limited("1Gi", memory="20Mi"), actuator)
    assert actuator.evicted == NAMES


BOOSTED = [
    pytest.param(True, "0", [], id="too large"),
    pytest.param(True, "250m", NAMES, id="bounded by --max-allowed-cpu-boost"),
    pytest.param(False, "0", NAMES, id="the gate is off"),
]


@pytest.mark.parametrize(("gate", "bound", "evicted"), BOOSTED)
async def test_no_pod_is_evicted_whose_replacement_would_be_boosted_too_far(
    *, gate: bool, bound: str, evicted: list[str]
) -> None:
    """The target is 250m, the boost is ninefold, and the maximum is 1 CPU."""
    whole = snapshot(UpdateMode.RECREATE)
    (scaled,) = whole.autoscaled
    limited = container(requests={"cpu": "100m", "memory": "1Gi"}, limits={"cpu": "200m"})
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=9))
    item = LimitRangeItem(type="Container", max={"cpu": "1"})
    scaled = replace(
        scaled,
        vpa=structs.replace(scaled.vpa, spec=structs.replace(scaled.vpa.spec, startup_boost=boost)),
        pods=tuple(
            structs.replace(pod, spec=structs.replace(pod.spec, containers=(limited,)))
            for pod in scaled.pods
        ),
        limit_ranges=(LimitRangeSpec(limits=(item,)),),
    )
    features = FeatureGates(cpu_startup_boost=gate)
    rules = replace(OPEN, features=features, boost_bound=Quantity.parse(bound))
    actuator = FakeActuator()
    after = await run(replace(whole, autoscaled=(scaled,)), actuator, rules=rules)
    assert actuator.evicted == evicted
    refused = wait(Reason.REPLACEMENT_WOULD_BE_REFUSED)
    assert decisions(after) == [OUTSIDE if evicted else refused] * 5


async def test_an_unreadable_limit_range_prevents_evictions() -> None:
    actuator = FakeActuator()
    after = await run(limited("much"), actuator)
    assert actuator.evicted == []
    assert decisions(after) == [leave(Reason.UNREADABLE)] * 5
