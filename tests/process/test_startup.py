"""What an operator gets wrong is one line and exit code 2; what passes by itself is waited for."""

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from component import LOOPBACK, start_process
from process_harness import AGENTS, world

AT_A_TIME = 4  # processes; each takes most of a second of a processor


@dataclass(frozen=True, kw_only=True)
class Mistake:
    component: str
    flag: str  # the last one counts
    complaint: str

    @property
    def id(self) -> str:
        return f"{self.component} {self.flag}"


def mistakes(busy: int) -> Iterator[Mistake]:
    """``busy`` is a port that somebody listens on."""
    for component in AGENTS:
        for flag, complaint in (
            ("--kubeconfig=/nowhere/config", "kubeconfig /nowhere/config: no such file"),
            ("--no-such-flag", "--no-such-flag"),
            (f"--address={LOOPBACK}:{busy}", f"can't listen on {LOOPBACK}:{busy}"),
        ):
            yield Mistake(component=component, flag=flag, complaint=complaint)
    for component, flag, complaint in (
        ("recommender", "--recommender-interval=5", "not a duration"),
        ("recommender", "--prometheus-bearer-token-file=/nowhere/token", "can't read"),
        ("updater", "--updater-interval=soon", "--updater-interval"),
        ("admission", f"--port={busy}", f"can't listen on :{busy}"),
        ("admission", "--tls-cert-file=/nowhere/cert", "can't read /nowhere/cert"),
        ("admission", "--min-tls-version=tls1_1", "is not tls1_2 or tls1_3"),
        ("admission", "--address=nonsense", "not an address of the form host:port"),
    ):
        yield Mistake(component=component, flag=flag, complaint=complaint)


@pytest.mark.timeout(180)  # as many processes as there are mistakes
async def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        cases = list(mistakes(taken.getsockname()[1]))
        async with world(tmp_path) as it:
            for first in range(0, len(cases), AT_A_TIME):
                some = cases[first : first + AT_A_TIME]
                told = await asyncio.gather(
                    *(outcome(it.command(c.component, c.flag)[0]) for c in some)
                )
                for case, (code, lines) in zip(some, told, strict=True):
                    assert (code, len(lines)) == (2, 1), (case.id, lines)
                    program = AGENTS[case.component].encode()
                    assert lines[0].startswith((program, case.component.encode())), case.id
                    assert case.complaint in lines[0].decode(), (case.id, lines)


async def outcome(command: list[str]) -> tuple[int | None, list[bytes]]:
    """The exit code of a process that ends by itself, and what it said."""
    process = await start_process(command)
    async with asyncio.timeout(20):
        _, stderr = await process.communicate()
    return process.returncode, stderr.splitlines()


async def test_an_api_server_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
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
            assert one.said("Traceback") == []


async def test_asked_to_go_while_the_api_server_hangs_they_go(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        # Each hangs in the middle of its cycle, and with a Lease that it can't give back.
        patient = ("--leader-elect-renew-deadline=30s", "--leader-elect-lease-duration=40s")
        asks = {"admission": 1, "recommender": 2, "updater": 2}
        processes = [
            await it.start("admission"),
            await it.start("recommender", "--leader-elect", *patient, "--recommender-interval=6s"),
            await it.start("updater", "--leader-elect", *patient, "--updater-interval=6s"),
        ]
        for one in processes:
            await it.ready(one)
        for gate in it.gates.values():
            gate.freeze()
        await it.until(lambda: all(it.gates[name].held >= asks[name] for name in asks))
        took = await asyncio.gather(*(one.stop() for one in processes))
        assert [code for code, _ in took] == [0, 0, 0]
        assert max(seconds for _, seconds in took) < 5, took
        for one in processes:
            assert one.said("Traceback") == [], one.name
            assert it.undeclared(one.name) == set()  # leader election, too
