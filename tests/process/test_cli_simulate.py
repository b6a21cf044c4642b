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
from common.kube.endpoints import PODS, VPAS
from component_pods import SYSTEM, add_component_pod
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


async def test_csv_has_both_numbers_in_columns(cluster: CliCluster) -> None:
    printed = await simulate(cluster, LARGER, "-o", "csv")
    heading, first, *_ = printed.out.splitlines()
    assert heading.startswith("namespace,name,workloadKind,workloadName,container,resource,target.")
    assert first.startswith("shop,api,Deployment,api,app,cpu,1168m,1554m,")


async def test_json_names_what_was_changed_and_the_sums(cluster: CliCluster) -> None:
    printed = await simulate(cluster, "web", LARGER, "--controlled-resources=cpu", "-o", "json")
    assert printed.json["settings"] == {
        "--target-cpu-percentile": "0.99",
        "--controlled-resources": "cpu",
    }
    cpu, memory = printed.items
    assert (cpu["pods"], cpu["difference"]) == (3, "1158m")
    assert memory["target"] == {"now": "200Mi", "simulated": None}
    totals = {each["resource"]: each for each in printed.json["totals"]}
    assert totals["cpu"]["difference"] == "1158m"
    assert totals["memory"]["now"] == "0", "what is not known with both settings doesn't count"


async def test_other_settings_are_those_of_the_pod_that_is_seen(cluster: CliCluster) -> None:
    flag = "--recommendation-margin-fraction=0"
    await add_component_pod(cluster.client, "vpa-recommender", 1, flag)
    try:
        printed = await simulate(cluster, "web", LARGER, "-o", "json")
    finally:
        await cluster.client.delete(PODS, "vpa-recommender-1", namespace=SYSTEM)
    assert printed.json["flagsOf"] == "kube-system/vpa-recommender-1"
    assert printed.items[0]["target"]["now"] == "1016m"


async def test_a_status_that_differs_is_noted(cluster: CliCluster) -> None:
    amounts = {"containerName": "app", "target": {"cpu": "100m", "memory": "100Mi"}}
    await cluster.client.patch(
        VPAS.as_dicts(),
        "api",
        {"status": {"recommendation": {"containerRecommendations": [amounts]}}},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )
    printed = await simulate(cluster, LARGER)
    assert "differ from those of their checkpoints by more than 5 percent: 1 (" in printed.err


REFUSED = [
    pytest.param((), 2, "error: name a setting to change", id="no setting"),
    pytest.param(("--target-cpu-percentile=95",), 2, "must be from 0 to 1: '95'", id="percentile"),
    pytest.param(("--cpu-histogram-decay-half-life=1h",), 2, "unrecognized", id="half-life"),
    pytest.param(
        ("--max-allowed=disk=1",),
        2,
        "error: --max-allowed: 'disk=1' doesn't have the form cpu=50m,memory=100Mi",
        id="bound",
    ),
    pytest.param(
        ("--min-allowed=cpu=2", "--max-allowed=cpu=1"),
        2,
        "error: --max-allowed: cpu=1 is less than min-allowed, cpu=2",
        id="order",
    ),
    pytest.param(
        ("--round-cpu-millicores=50", "--container-recommendation-max-allowed-cpu=20m"),
        1,
        "--round-cpu-millicores rounds up to 50m, more than",
        id="contradiction, as the recommender refuses it",
    ),
    pytest.param(("nothing", LARGER), 1, "there is no VPA named nothing", id="unknown name"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), REFUSED)
async def test_nonsense_is_refused(
    cluster: CliCluster, arguments: tuple[str, ...], code: int, message: str
) -> None:
    printed = await simulate(cluster, *arguments)
    assert (printed.code, printed.out) == (code, "")
    assert message in printed.err
