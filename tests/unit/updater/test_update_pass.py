"""One pass with recording actuators: the vectors of updater.md 16, and errors."""

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
from common.recommendation.resource_changes import ResourceChange
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
async def test_actions_by_mode(mode: UpdateMode, resized: int, evicted: int) -> None:
    actuator = FakeActuator()
    await run(snapshot(mode), actuator)
    assert (len(actuator.resized), len(actuator.evicted)) == (resized, evicted)


async def test_a_stale_admission_lease_prevents_only_evictions() -> None:
    for mode in (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE):
        actuator = FakeActuator()
        await run(snapshot(mode), actuator, admission_ready=False)
        assert actuator.evicted == []
        assert actuator.resized == (NAMES if mode is UpdateMode.IN_PLACE_OR_RECREATE else [])


async def test_permanently_refused_resizes_become_evictions() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, REFUSED))
    await run(snapshot(UpdateMode.IN_PLACE_OR_RECREATE), actuator)
    assert actuator.resized == actuator.evicted == NAMES


async def test_mode_in_place_never_evicts_after_errors() -> None:
    for error in (REFUSED, TOO_LARGE, ServerError("trouble"), UnreachableError("away")):
        actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, error))
        given, state = snapshot(UpdateMode.IN_PLACE), UpdaterState()
        for _ in range(5):
            state = await run(given, actuator, state=state)
        assert actuator.evicted == []


async def test_an_infeasible_resize_is_tried_once_and_reported_once() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, TOO_LARGE))
    given, state = snapshot(UpdateMode.IN_PLACE), UpdaterState()
    for _ in range(3):
        state = await run(given, actuator, state=state)
    assert actuator.resized == NAMES
    assert actuator.skipped == NAMES


async def test_three_transient_errors_in_a_row_count_as_failed() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, ServerError("trouble")))
    given, state = snapshot(UpdateMode.IN_PLACE_OR_RECREATE), UpdaterState()
    for evicted in (0, 0, 5):
        state = await run(given, actuator, state=state)
        assert len(actuator.evicted) == evicted
    assert len(actuator.resized) == 15


async def test_x120_an_expired_lease_leads_to_no_eviction_and_no_line_per_pod(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="updater.decision_log")
    errors = dict.fromkeys(NAMES, NotLeadingError("it may have run out", reason="NotLeading"))
    actuator = FakeActuator(resize_errors=errors, eviction_errors=errors)
    await run(snapshot(UpdateMode.IN_PLACE_OR_RECREATE), actuator)
    assert (actuator.resized, actuator.evicted) == (NAMES, [])
    await run(snapshot(UpdateMode.RECREATE), actuator)
    assert actuator.evicted == NAMES  # each call is refused before it is sent
    assert {line.getMessage() for line in caplog.records} == {"pod decided"}


async def test_a_quota_never_leads_to_an_eviction() -> None:
    error = ForbiddenError("exceeded quota: q", reason="Forbidden")
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, error))
    given, state = snapshot(UpdateMode.IN_PLACE_OR_RECREATE), UpdaterState()
    for _ in range(4):
        state = await run(given, actuator, state=state)
    assert actuator.evicted == []
    assert actuator.resized == NAMES  # the time is fixed, so each pod is in its backoff


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE])
async def test_while_the_cache_lags_no_action_is_repeated(mode: UpdateMode) -> None:
    actuator = FakeActuator()
    given, state = snapshot(mode), UpdaterState()
    for _ in range(3):
        state = await run(given, actuator, state=state)
    assert actuator.resized + actuator.evicted == NAMES


async def test_evicted_pods_in_the_cache_count_as_gone() -> None:
    """Two of five pods may be disrupted, and no more until the replacements exist."""
    actuator = FakeActuator()
    given = snapshot(UpdateMode.RECREATE)
    state = await run(given, actuator, rules=HALF)
    assert len(actuator.evicted) == 2
    await run(given, actuator, state=state, rules=HALF)
    assert len(actuator.evicted) == 2


async def test_a_refused_eviction_takes_no_budget_and_stops_no_other() -> None:
    actuator = FakeActuator(eviction_errors={"web-0": TooManyRequestsError("budget")})
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF)
    assert actuator.evicted == ["web-0", "web-1", "web-2"]


async def test_a_call_without_an_answer_takes_budget() -> None:
    actuator = FakeActuator(eviction_errors={"web-0": UnreachableError("away")})
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF)
    assert actuator.evicted == ["web-0", "web-1"]


async def test_the_budget_of_a_refused_eviction_is_used_once_and_that_of_a_lost_one_never() -> None:
    """Two of five pods may be disrupted: one may be evicted, and the other is refused."""
    errors = {"web-0": UnreachableError("away"), "web-1": TooManyRequestsError("budget")}
    actuator = FakeActuator(eviction_errors=errors)
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF)
    assert actuator.evicted == ["web-0", "web-1", "web-2"]


async def test_a_call_without_an_answer_takes_budget_in_the_next_pass() -> None:
    actuator = FakeActuator(eviction_errors={"web-0": UnreachableError("away")})
    state = await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF)
    await run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF, state=state)
    assert actuator.evicted == ["web-0", "web-1", "web-0"]


async def test_resizes_and_evictions_share_one_budget() -> None:
    actuator = FakeActuator(resize_errors={"web-0": REFUSED})
    await run(snapshot(UpdateMode.IN_PLACE_OR_RECREATE), actuator, rules=HALF)
    assert actuator.resized == ["web-0", "web-1", "web-2"]
    assert actuator.evicted == []  # the two resizes have used the budget


async def test_an_annotated_pod_is_not_annotated_again() -> None:
    actuator = FakeActuator()
    await run(snapshot(UpdateMode.IN_PLACE, marked=True), actuator)
    assert len(actuator.resized) == 5
    assert actuator.marked == []


def test_a_pass_that_waits_for_the_rate_limit_ends_in_time() -> None:
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


def test_the_eviction_rate_limit_does_not_delay_resizes() -> None:
    actuator, limits = FakeActuator(), RateLimits(evictions=RateLimiter(0.001, 1))
    virtual_time.run(lambda _: run(snapshot(UpdateMode.IN_PLACE), actuator, limits=limits))
    assert len(actuator.resized) == 5


async def test_every_pod_has_one_decision_with_a_reason() -> None:
    registry = CollectorRegistry()
    await run(snapshot(UpdateMode.RECREATE), FakeActuator(), rules=HALF, registry=registry)
    found = {
        (sample.labels["decision"], sample.labels["reason"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "vpa_updater_candidate_pods"
    }
    assert found == {("evict", "outside_range"): 2, ("wait", "budget_exhausted"): 3}


async def test_a_pod_is_remembered_only_while_it_exists() -> None:
    state = await run(snapshot(UpdateMode.RECREATE), FakeActuator())
    assert len(state.pods) == 5
    after = await run(snapshot(UpdateMode.RECREATE, names=["web-9"]), FakeActuator(), state=state)
    assert set(after.pods) == {"uid-web-9"}


async def test_the_backoff_ends() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, REFUSED))
    given = snapshot(UpdateMode.IN_PLACE)
    state = await run(given, actuator)
    memory = state.of("uid-web-0")
    assert memory.held(NOW + timedelta(seconds=59), {}) is not None
    assert memory.held(NOW + timedelta(seconds=60), {}) is None


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE])
async def test_a_pass_without_time_left_takes_no_action(mode: UpdateMode) -> None:
    """Its snapshot would be as old as an interval."""
    actuator = FakeActuator()
    await run(snapshot(mode), actuator, seconds=0)
    assert actuator.evicted == actuator.resized == []


async def test_a_pass_ends_if_the_api_server_becomes_unreachable() -> None:
    present = Present()
    actuator = FakeActuator(eviction_errors={"web-0": UnreachableError("away")}, loses=present)
    await run(snapshot(UpdateMode.RECREATE), actuator, present=present)
    assert actuator.evicted == ["web-0"]


async def test_pods_that_are_gone_since_the_start_of_the_pass_are_skipped() -> None:
    for mode in (UpdateMode.RECREATE, UpdateMode.IN_PLACE):
        actuator = FakeActuator()
        state = await run(snapshot(mode), actuator, present=Present(gone_pods={"web-1"}))
        assert actuator.evicted + actuator.resized == ["web-0", "web-2", "web-3", "web-4"]
        assert state.of("uid-web-1").decision == leave(Reason.GONE)


async def test_a_vpa_that_changed_since_the_start_of_the_pass_takes_no_action() -> None:
    for mode in (UpdateMode.RECREATE, UpdateMode.IN_PLACE):
        actuator = FakeActuator()
        state = await run(snapshot(mode), actuator, present=Present(vpa_changed=True))
        assert actuator.evicted == actuator.resized == []
        assert state.of("uid-web-0").decision == wait(Reason.VPA_CHANGED)


async def test_transient_errors_before_and_after_a_pass_without_errors_do_not_add_up() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, ServerError("trouble")))
    given = snapshot(UpdateMode.IN_PLACE_OR_RECREATE)
    satisfied = snapshot(UpdateMode.IN_PLACE_OR_RECREATE, recommended=False)
    state = UpdaterState()
    for each in (given, given, satisfied, given, given):
        state = await run(each, actuator, state=state)
    assert len(actuator.resized) == 20
    assert actuator.evicted == []


async def test_a_pass_without_actions_yields_to_other_tasks() -> None:
    given = snapshot(UpdateMode.RECREATE, recommended=False)
    many = replace(given, autoscaled=given.autoscaled * 20)
    yields = 0

    async def other() -> None:
        nonlocal yields
        while True:
            yields += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await run(many, FakeActuator())
    task.cancel()
    assert yields >= 20


def vpas(count: int, mode: UpdateMode = UpdateMode.RECREATE) -> ClusterSnapshot:
    """Return a snapshot of ``count`` VPAs with two pods each that need an update."""
    each = [snapshot(mode, names=[f"web-{index}-a", f"web-{index}-b"]) for index in range(count)]
    return ClusterSnapshot(
        autoscaled=tuple(scaled for one in each for scaled in one.autoscaled),
        living=frozenset(uid for one in each for uid in one.living),
    )


@dataclass(slots=True)
class SlowActuator(FakeActuator):
    """Blocks evictions until ``answers`` is set, and counts the blocked ones."""

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
    """Run all tasks that are ready, without advancing time."""
    for _ in range(1000):
        await asyncio.sleep(0)


async def test_at_most_thirty_two_calls_are_in_progress() -> None:
    actuator = SlowActuator()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(vpas(40), actuator))
        await until_quiet()
        assert actuator.waiting == 32
        actuator.answers.set()
    assert actuator.most == 32
    assert len(actuator.evicted) == 80


async def test_a_slow_answer_delays_only_pods_without_budget() -> None:
    """Two of five pods may be disrupted; the third one waits for the answers."""
    actuator = SlowActuator(eviction_errors={"web-0": TooManyRequestsError("budget")})
    async with asyncio.TaskGroup() as group:
        group.create_task(run(snapshot(UpdateMode.RECREATE), actuator, rules=HALF))
        await until_quiet()
        assert actuator.waiting == 2
        actuator.answers.set()
    assert actuator.evicted == ["web-0", "web-1", "web-2"]
    assert actuator.most == 2


def test_evictions_that_wait_for_the_rate_limit_delay_no_resizes_of_other_vpas() -> None:
    actuator, evicted = FakeActuator(), vpas(40)
    resized = snapshot(UpdateMode.IN_PLACE)
    given = ClusterSnapshot(
        autoscaled=evicted.autoscaled + resized.autoscaled, living=evicted.living | resized.living
    )
    limits = RateLimits(evictions=RateLimiter(0.001, 1))
    virtual_time.run(lambda _: run(given, actuator, limits=limits))
    assert len(actuator.evicted) == 1
    assert actuator.resized == NAMES


async def test_a_pass_that_ends_early_waits_for_its_calls_and_remembers_them() -> None:
    present, actuator = Present(), SlowActuator()
    async with asyncio.TaskGroup() as group:
        passing = group.create_task(run(vpas(40), actuator, present=present))
        await until_quiet()
        present.fresh = False
        actuator.answers.set()
    assert len(actuator.evicted) == 32
    assert sum(memory.evicted for memory in passing.result().pods.values()) == 32
    assert passing.result().of("uid-web-39-b").decision == wait(Reason.NO_TURN)
