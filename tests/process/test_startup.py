"""Startup: a misconfiguration is one log line and exit code 2; an outage is waited for."""

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from component import LOOPBACK, start_process
from fake_api import TIMEOUT
from process_harness import AGENTS, world

MAX_CONCURRENT = 4  # processes; each needs most of a second of CPU


@dataclass(frozen=True, kw_only=True)
class Misconfiguration:
    component: str
    flag: str  # the last one counts
    error: str

    @property
    def id(self) -> str:
        return f"{self.component} {self.flag}"


def misconfigurations(busy: int) -> Iterator[Misconfiguration]:
    """Yield misconfigurations; ``busy`` is a port in use."""
    for component in AGENTS:
        flag, error = f"--address={LOOPBACK}:{busy}", f"can't listen on {LOOPBACK}:{busy}"
        yield Misconfiguration(component=component, flag=flag, error=error)
    for component, flag, error in (
        ("recommender", "--recommender-interval=5", "not a duration"),
        ("recommender", "--prometheus-bearer-token-file=/nowhere/token", "can't read"),
        ("updater", "--no-such-flag", "--no-such-flag"),
        ("updater", "--kubeconfig=/nowhere/config", "kubeconfig /nowhere/config: no such file"),
        ("admission", f"--port={busy}", f"can't listen on :{busy}"),
        ("admission", "--tls-cert-file=/nowhere/cert", "can't read /nowhere/cert"),
        ("admission", "--min-tls-version=tls1_1", "is not tls1_2 or tls1_3"),
        ("admission", "--address=nonsense", "not an address of the form host:port"),
    ):
        yield Misconfiguration(component=component, flag=flag, error=error)


async def test_a_misconfiguration_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        cases = list(misconfigurations(taken.getsockname()[1]))
        async with world(tmp_path) as it:
            for first in range(0, len(cases), MAX_CONCURRENT):
                some = cases[first : first + MAX_CONCURRENT]
                results = await asyncio.gather(
                    *(outcome(it.command(c.component, c.flag)[0]) for c in some)
                )
                for case, (code, lines) in zip(some, results, strict=True):
                    assert (code, len(lines)) == (2, 1), (case.id, lines)
                    program = AGENTS[case.component].encode()
                    assert lines[0].startswith((program, case.component.encode())), case.id
                    assert case.error in lines[0].decode(), (case.id, lines)


async def outcome(command: list[str]) -> tuple[int | None, list[bytes]]:
    """Return the exit code and the log of a process that ends by itself."""
    process = await start_process(command)
    async with asyncio.timeout(TIMEOUT):
        _, stderr = await process.communicate()
    return process.returncode, stderr.splitlines()


async def test_components_wait_for_an_unreachable_api_server(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.shut()
        processes = [await it.start(name) for name in AGENTS]
        await it.until(lambda: all(one.said("API server unreachable") for one in processes))
        for one in processes:
            assert (await one.get("/readyz"))[0] == 503, one.name
            assert await one.get("/health-check") == (200, "OK"), one.name
        await it.open()
        await it.until(lambda: all(one.said("API server reachable again") for one in processes))
        for one in processes:
            await it.ready(one)
            assert len(one.said("API server")) == 2, one.log
        await it.shut()
        for one in processes:
            assert (await one.stop())[0] == 0, one.name
            assert one.said("Traceback") == []


async def test_sigterm_ends_components_while_the_api_server_hangs(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        # Each hangs in its cycle, and can't release its Lease.
        slow = ("--leader-elect-renew-deadline=30s", "--leader-elect-lease-duration=40s")
        calls = {"admission": 1, "recommender": 2, "updater": 2}
        processes = [
            await it.start("admission"),
            await it.start("recommender", "--leader-elect", *slow, "--recommender-interval=6s"),
            await it.start("updater", "--leader-elect", *slow, "--updater-interval=6s"),
        ]
        for one in processes:
            await it.ready(one)
        for gate in it.gates.values():
            gate.freeze()
        await it.until(lambda: all(it.gates[name].held >= calls[name] for name in calls))
        took = await asyncio.gather(*(one.stop() for one in processes))
        assert [code for code, _ in took] == [0, 0, 0]
        assert max(seconds for _, seconds in took) < 5, took
        for one in processes:
            assert one.said("Traceback") == [], one.name
            assert it.undeclared(one.name) == set()  # leader election included
