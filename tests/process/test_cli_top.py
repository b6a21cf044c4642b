"""``kubectl vpa top`` as a process."""

import asyncio
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cli_cluster import CliCluster, cli_cluster, fill
from cli_program import Printed, run_cli
from sandbox.cluster import running_cluster
from workloads import NAMESPACE, prepare

SCREENS = Path(__file__).parent / "screens"
CLEAR = b"\x1b[2J"
LINES = 3  # of the table of one VPA: headings, cpu, memory

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        await fill(made)
        await made.until_measured()
        yield made


async def top(cluster: CliCluster, *arguments: str, width: int = 0) -> Printed:
    return await run_cli(cluster.kubeconfig, "top", "-n", NAMESPACE, *arguments, width=width)


@pytest.mark.parametrize("width", [80, 160])
async def test_the_screen_is_as_reviewed(cluster: CliCluster, width: int) -> None:
    printed = await top(cluster, width=width)
    golden = SCREENS / f"top-{width}.txt"
    if os.environ.get("WRITE_SCREENS"):
        golden.write_text(printed.out, encoding="utf-8")
    assert printed.out == golden.read_text(encoding="utf-8")
    assert max(map(len, printed.out.splitlines())) <= width
    assert printed.code == 0


async def test_pods_and_containers_fit_a_narrow_screen(cluster: CliCluster) -> None:
    printed = await top(cluster, "search", "--pods", "--containers", width=80)
    headings, *rows = (line.split() for line in printed.out.splitlines())
    assert headings[:3] == ["POD", "CONTAINER", "RESOURCE"]
    assert len(rows) == 4
    assert all(row[0].startswith("search-") for row in rows)
    assert max(map(len, printed.out.splitlines())) <= 80


async def test_json_has_exact_amounts(cluster: CliCluster) -> None:
    content = (await top(cluster, "search", "-o", "json")).json
    assert content["kind"] == "UsageList"
    assert content["items"][0] == {
        "namespace": "shop",
        "vpa": "search",
        "workloadKind": "Deployment",
        "workloadName": "search",
        "pod": None,
        "container": None,
        "pods": 2,
        "resource": "cpu",
        "usage": "150m",
        "request": "100m",
        "target": "1200m",
        "lowerBound": "1200m",
        "upperBound": "1200m",
        "used": 1.5,
    }


async def test_pods_of_a_vpa_that_controls_none_are_not_shown_twice(cluster: CliCluster) -> None:
    printed = await top(cluster, "web-copy")
    assert (printed.code, printed.out) == (0, "")
    assert printed.err.startswith("nothing found: no usage of pods that a VPA controls\n")


async def test_an_unknown_vpa_is_one_line(cluster: CliCluster) -> None:
    printed = await top(cluster, "none")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err == "error: there is no VPA named none in namespace shop\n"


async def test_without_a_terminal_a_watch_is_one_table(cluster: CliCluster) -> None:
    printed = await top(cluster, "search", "--watch", "--no-headers")
    assert (printed.code, len(printed.out.splitlines())) == (0, 2)


async def test_a_watch_repeats_until_it_is_interrupted(cluster: CliCluster) -> None:
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "KUBECONFIG": str(cluster.kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "kubectl_vpa", "top", "search", "-n", NAMESPACE, "--watch"),
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    printed = b""
    while printed.count(CLEAR) < 2 or printed.rpartition(CLEAR)[2].count(b"\n") < LINES:
        printed += await asyncio.to_thread(os.read, ours, 65536)
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 130
    os.close(ours)
    assert printed.count(b"\x1b[1mVPA") == 2, "each table replaces the one before"


async def test_a_cluster_without_metrics_api_is_one_line(tmp_path: Path) -> None:
    async with running_cluster(metrics=False) as sandbox, sandbox.client("test") as client:
        await prepare(client)
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(sandbox.kubeconfig)
        printed = await run_cli(kubeconfig, "top", "-A")
    assert (printed.code, printed.out) == (1, "")
    problem = "the metrics API isn't served; install metrics-server, or another one"
    assert printed.err == f"error: {problem}\n"
