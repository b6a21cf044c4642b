"""Clocks that jump by hours: the recommender loses no usage and no OOM kill.

The clock is wrong for twenty of a hundred minutes of virtual time, and the pods of one workload
are OOM-killed meanwhile. Afterwards those of another one are, and the usage of a third one rises.
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

pytestmark = pytest.mark.timeout(180)  # some seconds, but longer with coverage
MINUTE = 60.0
# Between two cycles: usage is sampled once more by the new clock before the next one.
JUMP, KILL, RIGHT, BUSY, SECOND_KILL, END = (
    at * MINUTE for at in (30.5, 40.5, 50.5, 60.5, 70.5, 100.5)
)
HOURS = timedelta(hours=3)
WORKLOADS = ("busy", "killed-meanwhile", "killed-later")
Jump = Callable[[RecommenderSimulation, Replica, timedelta], None]


def usage_of(clock: Clock) -> UsageOf:
    """Raise the usage of one workload ten minutes after the clock was corrected."""

    def usage(workload: str, _container: str) -> Usage:
        if workload == WORKLOADS[0] and clock.now() >= EPOCH + timedelta(seconds=BUSY):
            return Usage(cpu_millicores=800, memory_bytes=1500 * MEBI)
        return Usage(cpu_millicores=90, memory_bytes=300 * MEBI)

    return usage


@dataclass(frozen=True, kw_only=True)
class Result:
    """Targets and kills at the end."""

    targets: Mapping[tuple[str, str], Mapping[str, Any]]
    kills: tuple[float, ...]  # seen, recorded and still postponed


async def sleep_until(seconds: float) -> None:
    await asyncio.sleep(seconds - asyncio.get_running_loop().time())


def run_with_jump(jump: Jump, by: timedelta) -> Result:
    async def main(clock: VirtualClock) -> Result:
        with tempfile.TemporaryDirectory() as folder:
            async with running_simulation(clock, Path(folder), usage=usage_of(clock)) as simulation:
                for name in WORKLOADS:
                    await simulation.deploy(name)
                replica = simulation.replica()
                replica.start()
                await sleep_until(JUMP)
                jump(simulation, replica, by)
                await sleep_until(KILL)
                kill_by_memory(simulation, WORKLOADS[1])
                await sleep_until(RIGHT)
                jump(simulation, replica, -by)
                await sleep_until(SECOND_KILL)
                kill_by_memory(simulation, WORKLOADS[2])
                await sleep_until(END)
                names = ("oom_seen_total", "oom_recorded_total", "ooms_postponed")
                assert 0 <= await replica.sample("usage_age_seconds") < MINUTE
                kills = tuple([await replica.sample(name) for name in names])
                return Result(targets=await simulation.targets(), kills=kills)

    return virtual_time.run(main)


def jump_recommender(_simulation: RecommenderSimulation, replica: Replica, by: timedelta) -> None:
    """Change only the clock of the recommender."""
    replica.clock.jump(by)


def jump_cluster(simulation: RecommenderSimulation, _replica: Replica, by: timedelta) -> None:
    """Change the clock of recommender and cluster, which also sets the timestamps of usage."""
    simulation.clock.jump(by)


@functools.cache
def undisturbed() -> Result:
    return run_with_jump(jump_recommender, timedelta())


def test_targets_without_a_jump_include_usage_and_kills() -> None:
    """The kills raise 300 MiB by 100 MiB."""
    result = undisturbed()
    assert {name: result.targets[name, "app"] for name in WORKLOADS} == {
        "busy": {"cpu": "920m", "memory": "1836551791"},
        "killed-meanwhile": {"cpu": "109m", "memory": "511772986"},
        "killed-later": {"cpu": "109m", "memory": "511772986"},
    }
    assert result.targets["busy", "sidecar"] == {"cpu": "920m", "memory": "1836551791"}
    assert result.kills == (4, 4, 0)


OLD, NEW = "usage is old", "usage is new again"
BACK = "system clock moved backwards; timestamps may repeat"
USAGE_AHEAD = "usage with future timestamps left out; check the clocks"
KILLS_AHEAD = "OOM kills with future timestamps postponed; check the clocks"
NO_USAGE_AHEAD = "no more usage with future timestamps"
NO_KILLS_AHEAD = "no more OOM kills with future timestamps"


@pytest.mark.parametrize(
    ("jump", "by", "lines"),
    [
        pytest.param(
            jump_recommender, HOURS, [OLD, BACK, NEW], id="the recommender three hours forward"
        ),
        pytest.param(
            jump_recommender,
            -HOURS,
            [BACK, USAGE_AHEAD, KILLS_AHEAD, NO_USAGE_AHEAD, NO_KILLS_AHEAD],
            id="the recommender three hours back",
        ),
        pytest.param(jump_cluster, HOURS, [BACK], id="the cluster three hours forward"),
        pytest.param(jump_cluster, -HOURS, [BACK], id="the cluster three hours back"),
    ],
)
def test_a_clock_jump_that_is_reverted_changes_no_result(
    jump: Jump, by: timedelta, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed()
    caplog.clear()
    caplog.set_level(logging.INFO)
    result = run_with_jump(jump, by)
    assert result == undisturbed()
    watched = (OLD, NEW, BACK, USAGE_AHEAD, KILLS_AHEAD, NO_USAGE_AHEAD, NO_KILLS_AHEAD)
    assert [one.message for one in caplog.records if one.message in watched] == lines
