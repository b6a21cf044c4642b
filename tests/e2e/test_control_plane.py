"""A real control plane: its start, restarts, failures and end."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from common.errors import ConfigError, GoneError
from common.kube.endpoints import NAMESPACES, Endpoint
from controlplane import binaries
from controlplane.cluster import ControlPlane, running_control_plane
from controlplane.processes import ProcessEndedError
from sandbox.scenario import Scenario, parse_scenario

READY_WITHIN = 20.0  # seconds
GONE_WITHIN = 10.0  # seconds
CONFIG_MAPS = Endpoint("", "v1", "configmaps", "ConfigMap", dict[str, Any])
SCENARIO = parse_scenario("nodes: [{count: 2}]\nnamespaces: [shop]")


@pytest.fixture(autouse=True)
def needs_programs() -> None:
    try:
        binaries.find()
    except ConfigError as error:
        pytest.skip(str(error))


def server_processes(folder: Path) -> list[int]:
    """Return the server processes whose command line contains the folder."""
    return [pid for pid, words in _commands() if any(f"={folder}/" in word for word in words)]


def _commands() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if words[0].endswith(binaries.NAMES):
                yield int(entry.name), words


def ports_of(plane: ControlPlane) -> list[int]:
    ports = plane.servers.ports
    return [
        *(ports.etcd, ports.etcd_peers, ports.api_server),
        *(ports.controller_manager, ports.scheduler),
    ]


async def is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def read_to_the_end(watch: Any) -> None:
    async for _ in watch:
        pass


async def start_program(kubeconfig: Path, folder: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "controlplane"),
        *(f"--kubeconfig={kubeconfig}", f"--folder={folder}"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )

    def ready_or_ended() -> bool:
        return kubeconfig.exists() or process.returncode is not None

    await until(ready_or_ended, READY_WITHIN)
    assert process.returncode is None
    return process


async def until(holds: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.05)


async def kill_the_scheduler(folder: Path) -> None:
    async with running_control_plane(Scenario(), folder=folder, metrics=False) as plane:
        os.kill(plane.servers.scheduler.pid, signal.SIGKILL)
        await asyncio.Event().wait()


async def test_the_cluster_is_ready_within_twenty_seconds_and_stops_all_servers(
    tmp_path: Path,
) -> None:
    began = monotonic()
    async with running_control_plane(SCENARIO, folder=tmp_path) as plane:
        took = monotonic() - began
        print(f"boot to ready: {took:.1f} s")  # noqa: T201 - a figure, shown with -s
        assert took < READY_WITHIN
        ports = ports_of(plane)
        assert len(server_processes(tmp_path)) == 4
        assert plane.usage()["kube-apiserver"].memory_mib > 50
        async with plane.client("test") as client:
            assert {"shop", "default"} <= {
                name.metadata.name for name in (await client.list(NAMESPACES)).items
            }
    assert server_processes(tmp_path) == []
    assert [port for port in ports if await is_open(port)] == []


async def test_a_restart_keeps_data_and_port(tmp_path: Path) -> None:
    async with (
        running_control_plane(SCENARIO, folder=tmp_path, metrics=False) as plane,
        plane.client("test") as client,
    ):
        await client.create(
            CONFIG_MAPS, {"metadata": {"name": "kept"}, "data": {"a": "b"}}, namespace="shop"
        )
        url = plane.url
        await plane.stop_api_server()
        assert not await is_open(plane.servers.ports.api_server)
        await plane.start_api_server()
        kept = await client.get(CONFIG_MAPS, "kept", namespace="shop")
        assert kept["data"] == {"a": "b"}
        assert plane.url == url
        creations = plane.audit(verb="create", resource="configmaps", userAgent="test")
        assert [entry.code for entry in creations] == [201]
        assert "apiserver_request_total" in await plane.metrics_text()


async def test_a_watch_from_before_the_history_was_dropped_gets_410(tmp_path: Path) -> None:
    async with (
        running_control_plane(Scenario(), folder=tmp_path, metrics=False) as plane,
        plane.client("test") as client,
    ):
        old = (await client.list(CONFIG_MAPS)).resource_version
        await client.create(CONFIG_MAPS, {"metadata": {"name": "new"}}, namespace="default")
        await plane.forget_history()
        with pytest.raises(GoneError):
            await read_to_the_end(client.watch(CONFIG_MAPS, resource_version=old))


async def test_the_failure_of_a_server_stops_the_cluster_and_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await kill_the_scheduler(tmp_path)
    assert raised.group_contains(ProcessEndedError, match="kube-scheduler ended with exit code -9")
    assert server_processes(tmp_path) == []


async def test_a_failure_in_the_block_stops_all_servers(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="of the test"):
        async with running_control_plane(Scenario(), folder=tmp_path, metrics=False):
            raise LookupError("of the test")
    assert server_processes(tmp_path) == []


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, id="SIGTERM"),
        pytest.param(
            signal.SIGKILL,
            id="SIGKILL",
            marks=pytest.mark.skipif(
                sys.platform != "linux", reason="PR_SET_PDEATHSIG exists on Linux only"
            ),
        ),
    ],
)
async def test_a_signal_to_the_program_stops_the_servers(
    number: signal.Signals, tmp_path: Path
) -> None:
    kubeconfig, folder = tmp_path / "kubeconfig", tmp_path / "plane"
    program = await start_program(kubeconfig, folder)
    assert len(server_processes(folder)) == 4
    program.send_signal(number)
    assert await program.wait() == (-number if number == signal.SIGKILL else 0)
    await until(lambda: not server_processes(folder), GONE_WITHIN)
    assert kubeconfig.exists() == (number == signal.SIGKILL)
