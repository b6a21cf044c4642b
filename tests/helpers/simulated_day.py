"""A day of rollouts in one process: ``python -P -m simulated_day HOURS`` prints its memory.

The process contains, in virtual time, the API server, the metrics server, and the recommender with
its default flags.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from pathlib import Path

from recommender.__main__ import COLLECT_AFTER
from recommender_simulation import CONTAINERS, RecommenderSimulation, running_simulation
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

WORKLOADS = 20
REPLICAS = 10
EVERY = 600.0  # seconds between two rollouts of all workloads
FAMILIES = WORKLOADS * len(CONTAINERS)  # groups of aggregates that a VPA merges


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS in /proc/self/status")


async def roll_outs(simulation: RecommenderSimulation) -> None:
    """Replace all pods every ten minutes; never return."""
    while True:
        await asyncio.sleep(EVERY)
        for name in simulation.workloads:
            simulation.roll_out(name)


async def day(clock: VirtualClock, hours: int) -> None:
    """Simulate this many hours; print a line of JSON after each."""
    with tempfile.TemporaryDirectory() as folder:
        async with running_simulation(clock, Path(folder)) as simulation:
            for number in range(WORKLOADS):
                await simulation.deploy(f"shop-{number:02}", replicas=REPLICAS)
            replica = simulation.replica()
            replica.start()
            rolling = asyncio.create_task(roll_outs(simulation))
            for hour in range(1, hours + 1):
                await asyncio.sleep(3600)
                report = {
                    "hour": hour,
                    "rss": resident(),
                    "blocks": sys.getallocatedblocks(),
                    "tasks": len(asyncio.all_tasks()),
                    "aggregates": await replica.sample("aggregate_container_states_count"),
                    "cpu": round(time.process_time(), 1),
                }
                print(json.dumps(report), flush=True)  # noqa: T201 - the parent process reads it
            rolling.cancel()


def main() -> None:
    """Simulate the hours of the command line."""
    gc.set_threshold(*COLLECT_AFTER)  # as the program does
    virtual_time.run(lambda clock: day(clock, int(sys.argv[1])))


if __name__ == "__main__":
    main()
