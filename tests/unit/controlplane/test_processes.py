"""Processes: start, supervision and termination."""

import asyncio
import sys
from pathlib import Path

import pytest

from controlplane.processes import ProcessEndedError, Server, free_ports, tail


def server(tmp_path: Path, code: str) -> Server:
    return Server("thing", [sys.executable, "-c", code], tmp_path / "thing.log")


async def test_a_process_that_exits_raises_an_error_with_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    thing = server(tmp_path, "print('no such flag'); raise SystemExit(3)")
    await thing.start()
    with pytest.raises(ProcessEndedError, match=r"(?s)thing ended with exit code 3.*no such flag"):
        await thing.watch()


async def test_a_killed_process_raises_no_error_and_can_be_restarted(tmp_path: Path) -> None:
    thing = server(tmp_path, "import time; time.sleep(60)")
    await thing.start()
    watching = asyncio.create_task(thing.watch())
    first = thing.pid
    await thing.kill()
    assert thing.pid == 0
    await thing.start()
    assert thing.running
    assert thing.pid != first
    assert not watching.done()
    watching.cancel()
    await thing.kill()


async def test_the_memory_usage_of_a_process(tmp_path: Path) -> None:
    thing = server(tmp_path, "import time; time.sleep(60)")
    assert thing.usage().memory_mib == 0
    await thing.start()
    assert thing.usage().memory_mib > 0
    await thing.kill()


def test_free_ports_are_below_the_ephemeral_range() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert all(20_000 <= port < 32_768 for port in ports)


def test_the_tail_of_an_empty_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.touch()
    assert tail(log) == "    (it wrote nothing)"
