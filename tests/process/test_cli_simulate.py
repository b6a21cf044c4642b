"""``kubectl vpa simulate`` as a process."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cli_checkpoints import add_checkpoint
from cli_cluster import LARGE, CliCluster, cli_cluster
from cli_program import Printed, run_cli
from common.kube.client import PatchType
from common.kube.endpoints import VPAS
from component_pods import add_component_pod
from workloads import NAMESPACE

SCREENS = Path(__file__).parent / "screens"
LARGER = "--target-cpu-percentile=0.99"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        for name, replicas in (("api", 1), ("web", 3)):
            await made.deploy(name, replicas, LARGE)
        await made.autoscale("api")
        limited = {"containerName": "app", "maxAllowed": {"memory": "200Mi"}}
        await made.autoscale("web", resourcePolicy={"containerPolicies": [limited]})
        for name in ("api", "web"):
            await add_checkpoint(made, name)
        await made.until_running(4)
        yield made


async def simulate(cluster: CliCluster, *arguments: str, **more: Any) -> Printed:
    return await run_cli(cluster.kubeconfig, "simulate", "-n", NAMESPACE, *arguments, **more)


@pytest.mark.parametrize("width", [80, 160])
async def test_the_screen_is_as_reviewed(cluster: CliCluster, width: int) -> None:
    given = (LARGER, "--max-allowed=memory=300Mi")
    printed = await simulate(cluster, *given, width=width, environ={"PYTHONUTF8": "1"})
    screen = SCREENS / f"simulate-{width}.txt"
    if os.environ.get("WRITE_SCREENS"):
        screen.write_text(printed.out, encoding="utf-8")
    assert printed.out == screen.read_text(encoding="utf-8")
    assert printed.code == 0
