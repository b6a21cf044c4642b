"""The memory of a recommender while all workloads are rolled out every ten minutes.

``PROOF_HOURS`` sets the hours, 24 in ``make proofs``.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simulated_day import FAMILIES

HOURS = int(os.environ.get("PROOF_HOURS", "3"))
HELPERS = Path(__file__).parents[1] / "helpers"


async def run_simulated_day(count: int) -> list[Mapping[str, Any]]:
    """Return the figures of each hour, from a new process without memory of other tests."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "simulated_day", str(count)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(HELPERS), *sys.path))},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    lines, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return [json.loads(line) for line in lines.splitlines()]


@pytest.mark.timeout(600)  # two seconds an hour, but more where the machine is busy
async def test_memory_is_constant_after_the_first_hour() -> None:
    found = await run_simulated_day(HOURS)
    for one in found:
        print(  # noqa: T201 - figures, shown with -s
            f"hour {one['hour']:2}: RSS {one['rss'] / 2**20:.1f} MiB, {one['aggregates']:.0f} "
            f"aggregates, {one['tasks']} tasks, {one['cpu']:.0f} s of CPU"
        )
    first, last = found[0], found[-1]
    assert last["rss"] <= 1.1 * first["rss"]
    assert last["blocks"] <= 1.1 * first["blocks"]
    assert last["tasks"] <= first["tasks"] + 5
    # One for each hour, and those of the rollouts since the last compaction.
    assert last["aggregates"] <= FAMILIES * (HOURS + 7)
