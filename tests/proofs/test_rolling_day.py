"""Hours of rollouts, every ten minutes and of everything: memory stays what it was after the first.

Four hours here, and 24 in ``make proofs``.
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


async def hours(count: int) -> list[Mapping[str, Any]]:
    """What a process of its own tells after each hour; a test before this one left no memory."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "simulated_day", str(count)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(HELPERS), *sys.path))},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return [json.loads(line) for line in told.splitlines()]


@pytest.mark.timeout(600)  # two seconds an hour, but more where the machine is busy
async def test_memory_stays_what_it_was_after_the_first_hour() -> None:
    found = await hours(HOURS)
    for one in found:
        print(  # noqa: T201 - figures for who asks with -s
            f"hour {one['hour']:2}: RSS {one['rss'] / 2**20:.1f} MiB, {one['aggregates']:.0f} "
            f"aggregates, {one['tasks']} tasks, {one['cpu']:.0f} s of CPU"
        )
    first, last = found[0], found[-1]
    assert last["rss"] <= 1.1 * first["rss"]
    assert last["blocks"] <= 1.1 * first["blocks"]
    assert last["tasks"] <= first["tasks"] + 5
    # Of every hour one, and of the rollouts since they were looked for.
    assert last["aggregates"] <= FAMILIES * (HOURS + 7)
