"""One pass with actuator that remember: the vectors of updater.md 16, and what may go wrong."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import Pod
from common.errors import (
    Cause,
    ForbiddenError,
    InvalidError,
    NotLeadingError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from common.recommendation.changes import ResourceChange
from common.runtime.rate_limit import RateLimiter
from sandbox import virtual_time
from updater.decision import Reason, leave, wait
from updater.execute import RateLimits
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.state import UpdaterState
from updater_harness import HALF, NAMES, NOW, FakeActuator, Present, run, snapshot

REFUSED = InvalidError("refused", reason="Invalid")
TOO_LARGE = ForbiddenError("no", reason="Forbidden", causes=(Cause(reason="NodeCapacity"),))


# updater.md 16: mode, pods resized, pods evicted
VECTORS = [
    (UpdateMode.AUTO, 0, 5),
    (UpdateMode.RECREATE, 0, 5),
    (UpdateMode.OFF, 0, 0),
    (UpdateMode.INITIAL, 0, 0),
    (UpdateMode.IN_PLACE_OR_RECREATE, 5, 0),
    (UpdateMode.IN_PLACE, 5, 0),
]


@pytest.mark.parametrize(("mode", "resized", "evicted"), VECTORS)
async def test_what_each_mode_does(mode: UpdateMode, resized: int, evicted: int) -> None:
    actuator = FakeActuator()
    await run(snapshot(mode), actuator)
    assert (len(actuator.resized), len(actuator.evicted)) == (resized, evicted)


async def test_a_stale_admission_lease_stops_evictions_and_nothing_else() -> None:
    for mode in (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE):
        actuator = FakeActuator()
        await run(snapshot(mode), actuator, admission_ready=False)
        assert actuator.evicted == []
        assert actuator.resized == (NAMES if mode is UpdateMode.IN_PLACE_OR_RECREATE else [])


async def test_resizes_that_fail_for_good_become_evictions() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, REFUSED))
    await run(snapshot(UpdateMode.IN_PLACE_OR_RECREATE), actuator)
    assert actuator.resized == actuator.evicted == NAMES


async def test_mode_in_place_never_evicts_whatever_the_answer() -> None:
    for error in (REFUSED, TOO_LARGE, ServerError("trouble"), UnreachableError("away")):
        actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, error))
        given, state = snapshot(UpdateMode.IN_PLACE), UpdaterState()
        for _ in range(5):
            state = await run(given, actuator, state=state)
        assert actuator.evicted == []


async def test_what_does_not_fit_is_tried_once_and_told_once() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, TOO_LARGE))
    given, state = snapshot(UpdateMode.IN_PLACE), UpdaterState()
    for _ in range(3):
        state = await run(given, actuator, state=state)
    assert actuator.resized == NAMES
    assert actuator.skipped == NAMES


async def test_three_hiccups_in_a_row_are_a_failure() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, ServerError("trouble")))
    given, state = snapshot(UpdateMode.IN_PLACE_OR_RECREATE), UpdaterState()
    for evicted in (0, 0, 5):
        state = await run(given, actuator, state=state)
        assert len(actuator.evicted) == evicted
    assert len(actuator.resized) == 15


async def test_x120_a_lease_that_may_have_run_out_evicts_nobody_and_is_no_line_for_each_pod(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="updater.decision_log")
    errors = dict.fromkeys(NAMES, NotLeadingError("it may have run out", reason="NotLeading"))
    actuator = FakeActuator(resize_errors=errors, eviction_errors=errors)
    await run(snapshot(UpdateMode.IN_PLACE_OR_RECREATE), actuator)
    assert (actuator.resized, actuator.evicted) == (NAMES, [])
    await run(snapshot(UpdateMode.RECREATE), actuator)
    assert actuator.evicted == NAMES  # they are refused one by one, and nothing is sent
    assert {line.getMessage() for line in caplog.records} == {"pod decided"}


async def test_a_quota_never_leads_to_an_eviction() -> None:
    error = ForbiddenError("exceeded quota: q", reason="Forbidden")
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, error))
    given, state = snapshot(UpdateMode.IN_PLACE_OR_RECREATE), UpdaterState()
    for _ in range(4):
        state = await run(given, actuator, state=state)
    assert actuator.evicted == []
    assert actuator.resized == NAMES  # the clock stands still, so each is backing off


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE])
async def test_as_long_as_the_cache_lags_nothing_happens_twice(mode: UpdateMode) -> None:
    actuator = FakeActuator()
    given, state = snapshot(mode), UpdaterState()
    for _ in range(3):
        state = await run(given, actuator, state=state)
    assert actuator.resized + actuator.evicted == NAMES


async def test_evicted_pods_that_the_cache_still_shows_count_as_gone() -> None:
    """Five of five with half tolerated: two may go, and then nobody until they are back."""
    actuator = FakeActuator()
    given = snapshot(UpdateMode.RECREATE)
    state = await run(given, actuator, rules=HALF)
    assert len(actuator.evicted) == 2
    await run(given, actuator, state=state, rules=HALF)
    assert len(actuator.evicted) == 2


async def test_a_refused_eviction_costs_nothing_and_stops_nobody() -> None:
    actuator = FakeActuator(eviction_errors={"web-0": TooManyRequestsError("budget")})
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF)
    assert actuator.evicted == ["web-0", "web-1", "web-2"]


async def test_a_call_without_an_answer_may_have_happened_and_costs_its_budget() -> None:
    actuator = FakeActuator(eviction_errors={"web-0": UnreachableError("away")})
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF)
    assert actuator.evicted == ["web-0", "web-1"]


async def test_what_a_refusal_leaves_goes_to_one_pod_and_what_an_outage_leaves_to_none() -> None:
    """Two of five may go: one may be gone, the place of the refused one is taken once."""
    errors = {"web-0": UnreachableError("away"), "web-1": TooManyRequestsError("budget")}
    actuator = FakeActuator(eviction_errors=errors)
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF)
    assert actuator.evicted == ["web-0", "web-1", "web-2"]


async def test_a_call_without_an_answer_may_still_happen_in_the_next_pass() -> None:
    actuator = FakeActuator(eviction_errors={"web-0": UnreachableError("away")})
    state = await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF)
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF, state=state)
    assert actuator.evicted == ["web-0", "web-1", "web-0"]


async def test_resizes_and_evictions_share_one_budget() -> None:
    actuator = FakeActuator(resize_errors={"web-0": REFUSED})
    await run(snapshot(UpdateMode.IN_PLACE_OR_RECREATE), actuator, rules=HALF)
    assert actuator.resized == ["web-0", "web-1", "web-2"]
    assert actuator.evicted == []  # the two resizes have used it up


async def test_a_pod_that_is_marked_already_is_not_marked_again() -> None:
    actuator = FakeActuator()
    await run(snapshot(UpdateMode.IN_PLACE, marked=True), actuator)
    assert len(actuator.resized) == 5
    assert actuator.marked == []


def test_a_rate_limit_ends_the_pass_when_its_time_is_up() -> None:
    actuator, limits = FakeActuator(), RateLimits(evictions=RateLimiter(0.001, 2))
    registry = CollectorRegistry()
    given = snapshot(UpdateMode.RECREATE)
    virtual_time.run(lambda _: run(given, actuator, limits=limits, registry=registry))
    assert len(actuator.evicted) == 2
    labels = {
        "vpa_size_log2": "2",
        "update_mode": "Recreate",
        "reason": "EvictionRateLimiterWaitFailed",
        "vpa_name": "web",
        "vpa_namespace": "default",
    }
    failed = "vpa_updater_failed_eviction_attempts_total"
    assert registry.get_sample_value(failed, labels) == 1


def test_the_limit_of_evictions_does_not_hold_up_resizes() -> None:
    actuator, limits = FakeActuator(), RateLimits(evictions=RateLimiter(0.001, 1))
    virtual_time.run(lambda _: run(snapshot(UpdateMode.IN_PLACE), actuator, limits=limits))
    assert len(actuator.resized) == 5


async def test_every_pod_ends_with_one_decision_and_one_reason() -> None:
    registry = CollectorRegistry()
    await run(snapshot(UpdateMode.RECREATE), FakeActuator(), rules=HALF, registry=registry)
    found = {
        (sample.labels["decision"], sample.labels["reason"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "vpa_updater_candidate_pods"
    }
    assert found == {("evict", "outside_range"): 2, ("wait", "budget_exhausted"): 3}


async def test_a_pod_is_remembered_only_while_it_lives() -> None:
    state = await run(snapshot(UpdateMode.RECREATE), FakeActuator())
    assert len(state.pods) == 5
    after = await run(snapshot(UpdateMode.RECREATE, names=["web-9"]), FakeActuator(), state=state)
    assert set(after.pods) == {"uid-web-9"}


async def test_back_off_ends() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, REFUSED))
    given = snapshot(UpdateMode.IN_PLACE)
    state = await run(given, actuator)
    memory = state.of("uid-web-0")
    assert memory.held(NOW + timedelta(seconds=59), {}) is not None
    assert memory.held(NOW + timedelta(seconds=60), {}) is None


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE])
async def test_a_pass_that_took_its_time_ends_without_any_rate_limit(mode: UpdateMode) -> None:
    """By then it would act on a picture that is a whole interval old."""
    actuator = FakeActuator()
    await run(snapshot(mode), actuator, seconds=0)
    assert actuator.evicted == actuator.resized == []


async def test_a_pass_ends_when_the_api_server_goes_away() -> None:
    present = Present()
    actuator = FakeActuator(eviction_errors={"web-0": UnreachableError("away")}, loses=present)
    await run(snapshot(UpdateMode.RECREATE), actuator, present=present)
    assert actuator.evicted == ["web-0"]


async def test_pods_that_went_or_changed_hands_since_the_pass_began_are_left_alone() -> None:
    for mode in (UpdateMode.RECREATE, UpdateMode.IN_PLACE):
        actuator = FakeActuator()
        state = await run(snapshot(mode), actuator, present=Present(gone_pods={"web-1"}))
        assert actuator.evicted + actuator.resized == ["web-0", "web-2", "web-3", "web-4"]
        assert state.of("uid-web-1").decision == leave(Reason.GONE)


async def test_a_vpa_that_was_changed_since_the_pass_began_does_nothing_more() -> None:
    for mode in (UpdateMode.RECREATE, UpdateMode.IN_PLACE):
        actuator = FakeActuator()
        state = await run(snapshot(mode), actuator, present=Present(vpa_changed=True))
        assert actuator.evicted == actuator.resized == []
        assert state.of("uid-web-0").decision == wait(Reason.VPA_CHANGED)


async def test_hiccups_with_a_pass_between_them_in_which_all_was_well_are_not_in_a_row() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, ServerError("trouble")))
    given = snapshot(UpdateMode.IN_PLACE_OR_RECREATE)
    content = snapshot(UpdateMode.IN_PLACE_OR_RECREATE, recommended=False)
    state = UpdaterState()
    for each in (given, given, content, given, given):
        state = await run(each, actuator, state=state)
    assert len(actuator.resized) == 20
    assert actuator.evicted == []


async def test_others_have_their_turn_while_a_pass_has_nothing_to_send() -> None:
    given = snapshot(UpdateMode.RECREATE, recommended=False)
    many = replace(given, autoscaled=given.autoscaled * 20)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await run(many, FakeActuator())
    task.cancel()
    assert turns >= 20


def vpas(count: int, mode: UpdateMode = UpdateMode.RECREATE) -> ClusterSnapshot:
    """As many VPAs, two pods each, all to be updated."""
    each = [snapshot(mode, names=[f"web-{index}-a", f"web-{index}-b"]) for index in range(count)]
    return ClusterSnapshot(
        autoscaled=tuple(scaled for one in each for scaled in one.autoscaled),
        living=frozenset(uid for one in each for uid in one.living),
    )


@dataclass(slots=True)
class Slow(FakeActuator):
    """Answers an eviction only when it is told to; counts those who wait."""

    answers: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    most: int = 0

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self.answers.wait()
        self.waiting -= 1
        await FakeActuator.evict(self, pod, vpa, reason, changes)


async def until_quiet() -> None:
    """Let everything go on that can, without time passing."""
    for _ in range(1000):
        await asyncio.sleep(0)


async def test_thirty_two_calls_wait_for_the_api_server_at_a_time() -> None:
    actuator = Slow()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(vpas(40), actuator))
        await until_quiet()
        assert actuator.waiting == 32
        actuator.answers.set()
    assert actuator.most == 32
    assert len(actuator.evicted) == 80


async def test_a_slow_answer_delays_only_those_for_whom_the_budget_is_too_small() -> None:
    """Two of five may go at a time: the third one waits for what becomes of them."""
    actuator = Slow(eviction_errors={"web-0": TooManyRequestsError("budget")})
    async with asyncio.TaskGroup() as group:
        group.create_task(run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF))
        await until_quiet()
        assert actuator.waiting == 2
        actuator.answers.set()
    assert actuator.evicted == ["web-0", "web-1", "web-2"]
    assert actuator.most == 2


def test_evictions_that_wait_for_their_limit_hold_up_no_resizes_of_other_vpas() -> None:
    actuator, evicted = FakeActuator(), vpas(40)
    resized = snapshot(UpdateMode.IN_PLACE)
    given = ClusterSnapshot(
        autoscaled=evicted.autoscaled + resized.autoscaled, living=evicted.living | resized.living
    )
    limits = RateLimits(evictions=RateLimiter(0.001, 1))
    virtual_time.run(lambda _: run(given, actuator, limits=limits))
    assert len(actuator.evicted) == 1
    assert actuator.resized == NAMES


async def test_the_end_of_a_pass_waits_for_what_was_sent_and_remembers_it() -> None:
    present, actuator = Present(), Slow()
    async with asyncio.TaskGroup() as group:
        passing = group.create_task(run(vpas(40), actuator, present=present))
        await until_quiet()
        present.fresh = False
        actuator.answers.set()
    assert len(actuator.evicted) == 32
    assert sum(memory.evicted for memory in passing.result().pods.values()) == 32
    assert passing.result().of("uid-web-39-b").decision == wait(Reason.NO_TURN)
