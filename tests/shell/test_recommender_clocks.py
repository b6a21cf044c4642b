"""OOM kills while a clock is wrong: each is recorded when the clocks are right (X122).

Whole cycles with a fixed clock; kills have the times of their nodes.
"""

import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from fake_api import FakeApi, listing
from oom_deliveries import MINUTE, OomDeliveries, delivered, ended, evicted
from recommender.model.oom_outcome import OomOutcome
from recommender_harness import (
    CHECKPOINTS,
    START,
    Running,
    checkpoint,
    prepare,
    running,
    usage,
)

HOUR = timedelta(hours=1)
BEGINS = "OOM kills with future timestamps postponed; check the clocks"
ENDS = "no more OOM kills with future timestamps"


def killed(at: datetime, name: str = "web-2") -> Any:
    return delivered(name, state=ended(at.isoformat()))


def postponed(process: Running) -> float | None:
    return process.sample("vpa_recommender_ooms_postponed")


@pytest.fixture
def kill_lines(caplog: pytest.LogCaptureFixture) -> Callable[[], Sequence[str]]:
    """Return the log lines about kills, except those of each kill."""
    caplog.set_level(logging.INFO, logger="recommender.sources.oom_ingestion")
    return lambda: [
        one.message
        for one in caplog.records
        if one.name == "recommender.sources.oom_ingestion" and one.message != "OOM kill"
    ]


@pytest.mark.parametrize(
    ("seconds", "cycles"),
    [
        pytest.param(0, 1, id="now"),
        pytest.param(120, 1, id="two minutes ahead"),
        pytest.param(121, 2, id="a second more: a minute later"),
        pytest.param(181, 3, id="three minutes and a second: two minutes later"),
    ],
)
async def test_a_kill_is_recorded_when_it_is_at_most_two_minutes_ahead(
    seconds: int, cycles: int
) -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle(usage())
            simulation.pod("ADDED", delivered())
            at = process.clock.now() + MINUTE + timedelta(seconds=seconds)
            simulation.pod("MODIFIED", killed(at))
            for number in range(1, cycles + 2):
                await simulation.cycle()
                done = number >= cycles
                assert simulation.counts() == ((1, 1, {}) if done else (0, 0, {}))
                assert postponed(process) == (0 if done else 1)


async def test_a_kill_postponed_by_a_slow_clock_is_recorded_after_the_correction(
    kill_lines: Callable[[], Sequence[str]],
) -> None:
    """Usage is ignored until then, too."""
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            simulation, clock = OomDeliveries(api, process), process.clock
            await simulation.cycle(usage())
            clock.forward(-3 * HOUR)
            simulation.pod("ADDED", delivered())
            simulation.pod("MODIFIED", killed(clock.now() + 3 * HOUR + MINUTE))
            for _ in range(5):
                await simulation.cycle(usage(at=clock.now() + 3 * HOUR + MINUTE))
                assert simulation.counts() == (0, 0, {})
            assert kill_lines() == [BEGINS]
            clock.forward(3 * HOUR)
            for _ in range(2):
                await simulation.cycle(usage(at=clock.now() + MINUTE))
                assert simulation.counts() == (1, 1, {})
            assert kill_lines() == [BEGINS, ENDS]


async def test_a_kill_on_a_node_with_a_fast_clock_is_recorded_at_its_time(
    kill_lines: Callable[[], Sequence[str]],
) -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            simulation, clock = OomDeliveries(api, process), process.clock
            await simulation.cycle(usage())
            simulation.pod("ADDED", delivered())
            simulation.pod("MODIFIED", killed(clock.now() + HOUR))
            for _ in range(57):
                await simulation.cycle(usage(at=clock.now() + MINUTE))
            assert simulation.counts() == (0, 0, {})
            await simulation.cycle(usage(at=clock.now() + MINUTE))
            assert simulation.counts() == (1, 1, {})
    assert kill_lines() == [BEGINS, ENDS]


Step = Callable[[OomDeliveries, datetime], None]


def kill_and_delete(simulation: OomDeliveries, at: datetime) -> None:
    simulation.pod("ADDED", delivered())
    simulation.pod("DELETED", killed(at))


def kill_and_replace(simulation: OomDeliveries, at: datetime) -> None:
    kill_and_delete(simulation, at)
    simulation.pod("ADDED", delivered(uid="second"))


def evict(simulation: OomDeliveries, at: datetime) -> None:
    simulation.pod("ADDED", delivered())
    simulation.event("ADDED", evicted(at=at.isoformat()))


def keep(_simulation: OomDeliveries, _at: datetime) -> None:
    """Keep the pod."""


def delete(simulation: OomDeliveries, _at: datetime) -> None:
    simulation.pod("DELETED", delivered())


def delete_with_many(simulation: OomDeliveries, _at: datetime) -> None:
    """Delete more pods than are cached for late Events."""
    simulation.pod("DELETED", delivered())
    for number in range(2_001):
        gone = delivered(f"db-{number}")
        simulation.pod("ADDED", gone)
        simulation.pod("DELETED", gone)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(kill_and_delete, keep, id="the pod is deleted immediately"),
        pytest.param(kill_and_replace, keep, id="another pod takes its name"),
        pytest.param(evict, keep, id="evicted"),
        pytest.param(evict, delete, id="evicted, and the pod is deleted meanwhile"),
        pytest.param(
            evict, delete_with_many, id="evicted, and thousands of pods are deleted meanwhile"
        ),
    ],
)
async def test_a_postponed_kill_is_recorded_even_if_its_pod_is_deleted(
    first: Step, then: Step
) -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            simulation, clock = OomDeliveries(api, process), process.clock
            await simulation.cycle(usage())
            clock.forward(-3 * HOUR)
            for step in (first, then, keep):
                step(simulation, clock.now() + 3 * HOUR)
                await simulation.cycle()
            assert (simulation.counts(), postponed(process)) == ((0, 0, {}), 1)
            clock.forward(3 * HOUR)
            await simulation.cycle()
            await simulation.cycle()
            assert (simulation.counts(), postponed(process)) == ((1, 1, {}), 0)
            there = {
                (found.metadata.namespace, found.metadata.name)
                for found in process.informers.pods.snapshot.items()
            }
            assert process.recommender._usage.pods.keys() == there


async def test_of_more_than_ten_thousand_postponed_kills_the_furthest_is_discarded() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle(usage())
            simulation.pod("ADDED", delivered())
            at = process.clock.now() + HOUR
            for number in range(10_001):
                time = (at + timedelta(milliseconds=number)).isoformat()
                simulation.event("ADDED", evicted(number=number, at=time))
            await simulation.cycle()
            assert simulation.counts() == (1, 0, {OomOutcome.IN_THE_FUTURE: 1})
            assert postponed(process) == 10_000


async def test_newer_usage_makes_no_postponed_kill_too_old() -> None:
    """The memory window is shorter than the clock's error."""
    async with FakeApi() as api:
        prepare(api)
        async with running(api, memory_aggregation_interval=5 * MINUTE) as process:
            simulation, clock = OomDeliveries(api, process), process.clock
            await simulation.cycle(usage("web-1"))
            clock.forward(-3 * HOUR)
            simulation.pod("MODIFIED", killed(clock.now() + 3 * HOUR + MINUTE, "web-1"))
            for _ in range(20):
                await simulation.cycle()
            clock.forward(3 * HOUR)
            await simulation.cycle(usage("web-1", at=clock.now() + MINUTE))
            assert simulation.counts() == (1, 1, {})


async def test_a_sample_ahead_of_the_clock_makes_no_kill_too_old() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api, memory_aggregation_interval=MINUTE) as process:
            simulation, clock = OomDeliveries(api, process), process.clock
            await simulation.cycle(usage("web-1", at=clock.now() + MINUTE + timedelta(seconds=75)))
            simulation.pod("MODIFIED", killed(clock.now(), "web-1"))
            await simulation.cycle()
            assert simulation.counts() == (1, 1, {})


# A restart


@pytest.mark.parametrize(
    ("written", "sampled", "minutes", "recorded"),
    [
        pytest.param(0, -1, -5, False, id="written now: it contains earlier kills"),
        pytest.param(-10, -11, -5, True, id="written before the kill"),
        pytest.param(2, -1, -5, False, id="two minutes ahead: clocks differ"),
        pytest.param(180, -6, -5, True, id="ahead, and its last sample before the kill"),
        pytest.param(180, -4, -5, False, id="ahead, and its last sample after the kill"),
        pytest.param(180, 179, -5, True, id="ahead with its last sample: contains no information"),
        pytest.param(180, None, -5, True, id="ahead without a sample: contains no information"),
    ],
)
async def test_a_checkpoint_written_by_a_clock_ahead_discards_no_kill(
    *, written: int, sampled: int | None, minutes: int, recorded: bool
) -> None:
    """The times are minutes from the first cycle."""
    now = START + MINUTE

    def text(minutes: int | None) -> str | None:
        return None if minutes is None else (now + minutes * MINUTE).isoformat()

    kept = checkpoint(lastUpdateTime=text(written), lastSampleStart=text(sampled))
    async with FakeApi() as api:
        prepare(api, pods=[killed(now + minutes * MINUTE, "web-1")])
        api.on(CHECKPOINTS, listing(kept))
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle()
            outcome = (1, 1, {}) if recorded else (1, 0, {OomOutcome.LEARNT_BEFORE: 1})
            assert simulation.counts() == outcome


async def test_a_clock_that_is_corrected_in_time_records_no_kill_twice() -> None:
    """Our clock is behind only at the start; checkpoint and kill seem to be ahead."""
    kept = checkpoint(lastUpdateTime=START.isoformat(), lastSampleStart=START.isoformat())
    async with FakeApi() as api:
        prepare(api, pods=[killed(START - 5 * MINUTE, "web-1")])
        api.on(CHECKPOINTS, listing(kept))
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            process.clock.forward(-3 * HOUR)
            await simulation.cycle()
            assert (simulation.counts(), postponed(process)) == ((0, 0, {}), 1)
            process.clock.forward(3 * HOUR)
            await simulation.cycle()
            assert simulation.counts() == (1, 0, {OomOutcome.LEARNT_BEFORE: 1})


@pytest.mark.parametrize(
    ("last", "recorded"),
    [
        pytest.param(-6, True, id="before the kill"),
        pytest.param(-5, False, id="at the kill"),
        pytest.param(180, True, id="ahead of the clock"),
    ],
)
async def test_a_record_ahead_of_the_clock_discards_no_kill(last: int, *, recorded: bool) -> None:
    """The annotation of the windows has the time of the latest kill; in minutes from now."""
    now = START + MINUTE
    kept = checkpoint(lastUpdateTime=now.isoformat(), lastSampleStart=now.isoformat())
    pod = killed(now - 5 * MINUTE, "web-1")
    pod["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    kill, end = int((now + last * MINUTE).timestamp()), int((now + HOUR).timestamp())
    windows = {
        "lastUpdateTime": now.isoformat(),
        "totalSamplesCount": 1440,
        "windows": [["000000000000400", end, 100 << 20, 0, kill]],
    }
    kept["metadata"]["annotations"] = {"vpa-recommender/memory-windows": json.dumps(windows)}
    async with FakeApi() as api:
        prepare(api, pods=[pod])
        api.on(CHECKPOINTS, listing(kept))
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle()
            outcome = (1, 1, {}) if recorded else (1, 0, {OomOutcome.LEARNT_BEFORE: 1})
            assert simulation.counts() == outcome
