"""Programs that are started, watched, and never left behind."""

import asyncio
import sys
from pathlib import Path

import pytest

from controlplane.processes import ProcessEndedError, Server, free_ports, tail


def server(tmp_path: Path, code: str) -> Server:
    return Server("thing", [sys.executable, "-c", code], tmp_path / "thing.log")


async def test_a_program_that_ends_by_itself_is_an_error_with_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    thing = server(tmp_path, "print('no such flag'); raise SystemExit(3)")
    await thing.start()
    with pytest.raises(ProcessEndedError, match=r"(?s)thing ended with exit code 3.*no such flag"):
        await thing.watch()


async def test_a_program_that_is_killed_is_no_error_and_can_start_again(tmp_path: Path) -> None:
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


async def test_a_program_is_known_by_what_it_uses(tmp_path: Path) -> None:
    thing = server(tmp_path, "import time; time.sleep(60)")
    assert thing.usage().memory_mib == 0
    await thing.start()
    assert thing.usage().memory_mib > 0
    await thing.kill()


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert all(20_000 <= port < 32_768 for port in ports)


def test_the_tail_of_an_empty_log_says_so(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.touch()
    assert tail(log) == "    (it wrote nothing)"
