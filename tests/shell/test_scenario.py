"""A scenario becomes a running cluster: in this process, and as the program ``sandbox``."""

import asyncio
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common.errors import ConfigError
from common.kube.client import KubeClient
from common.kube.config import load
from common.kube.endpoints import NAMESPACES, NODES
from sandbox import virtual_time
from sandbox.cluster import running_cluster
from sandbox.kubeconfigs import remove_ours, write_kubeconfig
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import EPOCH, VirtualClock

START_SECONDS = 60.0  # on a machine that is busy with other tests
STOP_SECONDS = 2.0


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "sandbox", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_the_program_writes_a_kubeconfig_when_ready_and_stops_on_sigterm(
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    flags = (f"--kubeconfig={kubeconfig}", "--port", "0", "--kubernetes-version", "1.33")
    async with program("demo.yaml", *flags) as process:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            lines = [(await process.stdout.readline()).decode() for _ in range(5)]
        assert lines[0] == "Sandbox cluster ready: Kubernetes 1.33, 4 nodes\n"
        assert lines[4] == f"  export KUBECONFIG={kubeconfig}\n"
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        connection = await load(str(kubeconfig))
        assert f"  server:     {connection.base_url}\n" == lines[1]
        async with KubeClient(connection, user_agent="test", qps=0, burst=0) as client:
            assert len((await client.list(NODES)).items) == 4
            found = {one.metadata.name for one in (await client.list(NAMESPACES)).items}
            assert {"default", "kube-system", "kube-node-lease"} <= found
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(STOP_SECONDS):
                assert await process.wait() == 0
        assert not kubeconfig.exists()
        assert process.stderr is not None
        assert await process.stderr.read() == b""


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["nowhere.yaml"], "sandbox: scenario nowhere.yaml: No such file or directory"),
        (
            ["demo.yaml", "--port=70000"],
            "sandbox: argument --port: must be from 0 to 65535: '70000'",
        ),
        (["demo.yaml", "--kubernetes-version=1.20"], "sandbox: argument --kubernetes-version: "),
        (["demo.yaml", "--kubeconfig=/nowhere/k"], "sandbox: --kubeconfig: /nowhere/k: No such"),
        (["demo.yaml", "--speed=9"], "sandbox: unknown flag: --speed"),
    ],
    ids=["scenario", "port", "version", "kubeconfig", "flag"],
)
async def test_a_misconfiguration_is_one_line(arguments: list[str], want: str) -> None:
    async with program(*arguments) as process, asyncio.timeout(START_SECONDS):
        out, errors = await process.communicate()
    assert process.returncode == 2
    assert out == b""
    lines = errors.decode().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(want)


async def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"can't listen on 127.0.0.1:{port}: Address"):
            async with running_cluster(port=port):
                pass


def test_a_foreign_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    theirs = tmp_path / "config"
    theirs.write_text("current-context: production", encoding="utf-8")
    with pytest.raises(ConfigError, match="exists and is not a sandbox's"):
        remove_ours(theirs)
    assert theirs.exists()


def test_a_kubeconfig_of_ours_is_replaced(tmp_path: Path) -> None:
    ours = tmp_path / "config"
    write_kubeconfig(ours, "current-context: sandbox")
    remove_ours(ours)
    assert not ours.exists()
    remove_ours(ours)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_runs_in_virtual_time() -> None:
    async def main(clock: VirtualClock) -> float:
        scenario = parse_scenario("nodes: [{count: 3}]\nnamespaces: [shop]")
        async with running_cluster(scenario, clock=clock) as cluster:
            async with cluster.client("test") as client:
                assert len((await client.list(NODES)).items) == 3
                assert (await client.get(NAMESPACES, "shop")).metadata.name == "shop"
            assert cluster.audit(verb="list", resource="nodes", userAgent="test")
            await asyncio.sleep(3600)
            return (clock.now() - EPOCH).total_seconds()

    assert virtual_time.run(main) == pytest.approx(3600, abs=1)


async def test_an_exception_of_the_block_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError):
        async with running_cluster():
            raise ZeroDivisionError
