"""Clocks that jump by hours while the recommender runs: learning goes on, and no OOM kill is lost.

A hundred minutes in virtual time. For twenty of them the clock is wrong, and the pods of one
workload are killed for memory. Those of another are killed, and a third gets busy, after that.
"""

import asyncio
import functools
import logging
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from common.runtime.clock import Clock
from fault_simulation import kill_by_memory
from recommender_simulation import MEBI, RecommenderSimulation, Replica, UsageOf, running_simulation
from sandbox import virtual_time
from sandbox.kubelet.usage import Usage
from sandbox.virtual_time import EPOCH, VirtualClock

pytestmark = pytest.mark.timeout(180)  # some seconds, but more while coverage is measured
MINUTE = 60.0
# In the middle between two cycles: usage is sampled once more by the new clock before the next.
JUMP, KILL, RIGHT, BUSY, SECOND_KILL, END = (
    at * MINUTE for at in (30.5, 40.5, 50.5, 60.5, 70.5, 100.5)
)
HOURS = timedelta(hours=3)
WORKLOADS = ("busy", "killed-meanwhile", "killed-later")
Jump = Callable[[RecommenderSimulation, Replica, timedelta], None]


def busy_at_last(clock: Clock) -> UsageOf:
    """Use much in one workload, once the clock has been right for ten minutes."""

    def usage(workload: str, _container: str) -> Usage:
        if workload == WORKLOADS[0] and clock.now() >= EPOCH + timedelta(seconds=BUSY):
            return Usage(cpu_millicores=800, memory_bytes=1500 * MEBI)
        return Usage(cpu_millicores=90, memory_bytes=300 * MEBI)

    return usage


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What there is in the end."""

    targets: Mapping[tuple[str, str], Mapping[str, Any]]
    kills: tuple[float, ...]  # seen, recorded, and still postponed


async def until(seconds: float) -> None:
    await asyncio.sleep(seconds - asyncio.get_running_loop().time())


def lived_through(jump: Jump, by: timedelta) -> Ended:
    async def main(clock: VirtualClock) -> Ended:
        with tempfile.TemporaryDirectory() as folder:
            async with running_simulation(
                clock, Path(folder), usage=busy_at_last(clock)
            ) as simulation:
                for name in WORKLOADS:
                    await simulation.deploy(name)
                replica = simulation.replica()
                replica.start()
                await until(JUMP)
                jump(simulation, replica, by)
                await until(KILL)
                kill_by_memory(simulation, WORKLOADS[1])
                await until(RIGHT)
                jump(simulation, replica, -by)
                await until(SECOND_KILL)
                kill_by_memory(simulation, WORKLOADS[2])
                await until(END)
                names = ("oom_seen_total", "oom_recorded_total", "ooms_postponed")
                assert 0 <= await replica.sample("usage_age_seconds") < MINUTE
                kills = tuple([await replica.sample(name) for name in names])
                return Ended(targets=await simulation.targets(), kills=kills)

    return virtual_time.run(main)


def ours(_town: RecommenderSimulation, replica: Replica, by: timedelta) -> None:
    """Move the clock of the recommender alone."""
    replica.clock.jump(by)


def everybodys(simulation: RecommenderSimulation, _replica: Replica, by: timedelta) -> None:
    """Move the clock of the recommender and of the cluster, with which usage is stamped."""
    simulation.clock.jump(by)


@functools.cache
def undisturbed() -> Ended:
    return lived_through(ours, timedelta())


def test_the_busy_workload_and_each_kill_show() -> None:
    """Without a jump; the kills raise 300 MiB by 100."""
    ended = undisturbed()
    assert {name: ended.targets[name, "app"] for name in WORKLOADS} == {
        "busy": {"cpu": "920m", "memory": "1836551791"},
        "killed-meanwhile": {"cpu": "109m", "memory": "511772986"},
        "killed-later": {"cpu": "109m", "memory": "511772986"},
    }
    assert ended.targets["busy", "sidecar"] == {"cpu": "920m", "memory": "1836551791"}
    assert ended.kills == (4, 4, 0)


OLD, NEW = "usage is old", "usage is new again"
BACK = "system clock moved backwards; timestamps may repeat"
USAGE_AHEAD = "usage with future timestamps left out; check the clocks"
KILLS_AHEAD = "OOM kills with future timestamps postponed; check the clocks"
NO_USAGE_AHEAD = "no more usage with future timestamps"
NO_KILLS_AHEAD = "no more OOM kills with future timestamps"


@pytest.mark.parametrize(
    ("jump", "by", "lines"),
    [
        pytest.param(ours, HOURS, [OLD, BACK, NEW], id="ours three hours forward"),
        pytest.param(
            ours,
            -HOURS,
            [BACK, USAGE_AHEAD, KILLS_AHEAD, NO_USAGE_AHEAD, NO_KILLS_AHEAD],
            id="ours three hours back",
        ),
        pytest.param(everybodys, HOURS, [BACK], id="everybody's three hours forward"),
        pytest.param(everybodys, -HOURS, [BACK], id="everybody's three hours back"),
    ],
)
def test_a_clock_that_jumps_and_is_put_right(
    jump: Jump, by: timedelta, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed()
    caplog.clear()
    caplog.set_level(logging.INFO)
    ended = lived_through(jump, by)
    assert ended == undisturbed()
    watched = (OLD, NEW, BACK, USAGE_AHEAD, KILLS_AHEAD, NO_USAGE_AHEAD, NO_KILLS_AHEAD)
    assert [one.message for one in caplog.records if one.message in watched] == lines
