"""``kubectl vpa status`` as a process, on a cluster in which only the reference's objects exist."""

import asyncio
import os
import pty
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cli_cluster import CliCluster, cli_cluster, fill
from cli_program import run_cli
from workloads import NAMESPACE

SCREENS = Path(__file__).parent / "screens"
NO_HPAS = "not seen: horizontalpodautoscalers in shop: the cluster doesn't serve them\n"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        await fill(made)
        yield made


@pytest.mark.parametrize("width", [80, 160])
async def test_the_screen_is_as_reviewed(cluster: CliCluster, width: int) -> None:
    printed = await run_cli(cluster.kubeconfig, "status", "-n", NAMESPACE, width=width)
    golden = SCREENS / f"status-{width}.txt"
    if os.environ.get("WRITE_SCREENS"):
        golden.write_text(printed.out, encoding="utf-8")
    assert printed.out == golden.read_text(encoding="utf-8")
    assert max(map(len, printed.out.splitlines())) <= width
    assert (printed.code, printed.err) == (0, NO_HPAS)


async def test_without_a_terminal_each_vpa_has_one_line(cluster: CliCluster) -> None:
    printed = await run_cli(cluster.kubeconfig, "status", "-n", NAMESPACE, "--no-headers")
    lines = [line.split() for line in printed.out.splitlines()]
    assert len(lines) == 12
    assert lines[0][:3] == ["batch", "Deployment/batch", "Recreate"]
    assert "\x1b" not in printed.out


async def test_a_terminal_gets_colours_and_progress(cluster: CliCluster) -> None:
    printed = await on_terminal(cluster, {})
    assert "\x1b[31mblocked" in printed
    assert "reading pods: " in printed


async def test_no_color_is_respected(cluster: CliCluster) -> None:
    printed = await on_terminal(cluster, {"NO_COLOR": "1"})
    assert "blocked" in printed
    assert "\x1b[31m" not in printed


async def on_terminal(cluster: CliCluster, environ: dict[str, str]) -> str:
    """Return what the program prints on a terminal, standard error included."""
    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "kubectl_vpa", "status", "-n", NAMESPACE),
        env={
            **variables,
            "TERM": "xterm-256color",
            "KUBECONFIG": str(cluster.kubeconfig),
            **environ,
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    chunks = []

    def read() -> None:
        try:
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        except OSError:
            return  # the other end is closed

    await asyncio.to_thread(read)
    os.close(ours)
    assert await process.wait() == 0
    return b"".join(chunks).decode()


async def test_json_has_exact_amounts_and_the_notes(cluster: CliCluster) -> None:
    printed = await run_cli(cluster.kubeconfig, "status", "-n", NAMESPACE, "-o", "json")
    content = printed.json
    assert (content["apiVersion"], content["kind"]) == ("cli.vpa/v1", "StatusList")
    assert content["notes"] == ["horizontalpodautoscalers in shop: the cluster doesn't serve them"]
    (search,) = (item for item in content["items"] if item["name"] == "search")
    assert search == {
        "namespace": "shop",
        "name": "search",
        "workloadKind": "Deployment",
        "workloadName": "search",
        "mode": "Recreate",
        "state": "waiting",
        "reason": "update_due",
        "message": "2 pods outside of the recommended range",
        "cpu": {"request": "100m", "target": "1200m", "drift": 11.0},
        "memory": {"request": None, "target": "2Gi", "drift": None},
        "drift": 11.0,
        "pods": 2,
        "podsDue": 2,
        "since": None,
        "until": None,
        "updaterReason": None,
        "unblock": None,
    }


async def test_names_can_be_passed_to_kubectl(cluster: CliCluster) -> None:
    printed = await run_cli(cluster.kubeconfig, "status", "-n", NAMESPACE, "-o", "name")
    assert printed.out.splitlines()[0] == "verticalpodautoscaler.autoscaling.k8s.io/batch"


async def test_the_namespace_is_that_of_the_context(cluster: CliCluster, tmp_path: Path) -> None:
    in_default = await run_cli(cluster.kubeconfig, "status", "-o", "json")
    assert in_default.items == []
    elsewhere = tmp_path / "elsewhere"
    text = cluster.kubeconfig.read_text()
    elsewhere.write_text(text.replace("namespace: default", f"namespace: {NAMESPACE}"))
    in_shop = await run_cli(elsewhere, "status", "-o", "name")
    assert len(in_shop.out.splitlines()) == 12


async def test_a_label_selector_selects_vpas(cluster: CliCluster) -> None:
    printed = await run_cli(cluster.kubeconfig, "status", "-A", "-l", "app=none", "-o", "json")
    assert printed.items == []
    printed = await run_cli(cluster.kubeconfig, "status", "-n", NAMESPACE, "-l", "app=none")
    assert (printed.code, printed.out) == (0, "")
    assert printed.err == f"nothing found: no VPA in this namespace\n{NO_HPAS}"


async def test_a_wrong_flag_is_a_usage_error(cluster: CliCluster) -> None:
    printed = await run_cli(cluster.kubeconfig, "status", "--colour")
    assert printed.code == 2
    assert "unrecognized arguments: --colour" in printed.err


async def test_a_missing_kubeconfig_is_one_line(tmp_path: Path) -> None:
    printed = await run_cli(tmp_path / "none", "status")
    assert printed.code == 1
    assert printed.err == f"error: kubeconfig {tmp_path / 'none'}: no such file\n"


async def test_an_unreachable_api_server_is_one_line(cluster: CliCluster, tmp_path: Path) -> None:
    text = cluster.kubeconfig.read_text()
    port = str(cluster.sandbox.listener.port)
    wrong = tmp_path / "wrong"
    wrong.write_text(text.replace(f":{port}", ":9"))
    printed = await run_cli(wrong, "status")
    assert printed.code == 1
    assert printed.err.startswith("error: GET /a")
    assert "no answer: Cannot connect to host 127.0.0.1:9" in printed.err
    assert printed.err.count("\n") == 1


async def test_names_of_the_cluster_are_completed(cluster: CliCluster) -> None:
    printed = await run_cli(cluster.kubeconfig, "__complete", "status", "-n", "sh")
    assert printed.out.splitlines() == [NAMESPACE]
    printed = await run_cli(cluster.kubeconfig, "__complete", "why", "-n", NAMESPACE, "web")
    assert printed.out.splitlines() == ["web", "web-copy"]


async def test_completion_without_a_cluster_prints_nothing(tmp_path: Path) -> None:
    printed = await run_cli(tmp_path / "none", "__complete", "status", "-n", "")
    assert (printed.code, printed.out, printed.err) == (0, "", "")
