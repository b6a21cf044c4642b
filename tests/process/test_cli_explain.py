"""``kubectl vpa explain`` as a process."""

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
from process_harness import AGENTS, world
from workloads import NAMESPACE, deploy

SCREENS = Path(__file__).parent / "screens"
AMOUNTS = ("target", "lowerBound", "upperBound", "uncappedTarget")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        for name in ("web", "empty"):
            await made.deploy(name, 2, LARGE)
        limited = {"containerName": "app", "maxAllowed": {"memory": "200Mi"}}
        await made.autoscale("web", resourcePolicy={"containerPolicies": [limited]})
        await made.autoscale("empty")
        await add_checkpoint(made, "web")
        await made.until_running(4)
        yield made


async def explain(cluster: CliCluster, name: str, *arguments: str, **more: Any) -> Printed:
    return await run_cli(cluster.kubeconfig, "explain", name, "-n", NAMESPACE, *arguments, **more)


@pytest.mark.parametrize("width", [80, 160])
async def test_the_screen_is_as_reviewed(cluster: CliCluster, width: int) -> None:
    printed = await explain(cluster, "web", width=width, environ={"PYTHONUTF8": "1"})
    screen = SCREENS / f"explain-{width}.txt"
    if os.environ.get("WRITE_SCREENS"):
        screen.write_text(printed.out, encoding="utf-8")
    assert printed.out == screen.read_text(encoding="utf-8")
    assert printed.code == 0


async def computed(cluster: CliCluster, name: str) -> Any:
    """Return the only VPA of the JSON output."""
    (found,) = (await explain(cluster, name, "-o", "json")).items
    return found


def values(found: Any, kind: str = "value") -> dict[str, dict[str, str]]:
    """Return a kind of values of the first container, by amount and resource."""
    resources = found["containers"][0]["resources"]
    return {
        amount: {
            resource["resource"]: number[kind]
            for resource in resources
            for number in resource["numbers"]
            if number["amount"] == amount
        }
        for amount in AMOUNTS
    }


async def test_computed_numbers_are_the_published_ones(cluster: CliCluster) -> None:
    """The simulation of unchanged settings has the same numbers, too."""
    before = values(await computed(cluster, "web"))
    assert values(await computed(cluster, "web"), "published")["target"] == {
        "cpu": None,
        "memory": None,
    }
    recommendation = {"containerRecommendations": [{"containerName": "app", **before}]}
    await cluster.client.patch(
        VPAS.as_dicts(),
        "web",
        {"status": {"recommendation": recommendation}},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )
    after = await computed(cluster, "web")
    assert values(after) == values(after, "published") == before
    printed = await run_cli(
        *(cluster.kubeconfig, "simulate", "web", "-n", NAMESPACE, "-o", "json"),
        "--target-cpu-percentile=0.9",
    )
    for field, amount in (
        ("target", "target"),
        ("lowerBound", "lowerBound"),
        ("upperBound", "upperBound"),
    ):
        simulated = {each["resource"]: each[field] for each in printed.items}
        assert simulated == {
            resource: {"now": value, "simulated": value}
            for resource, value in before[amount].items()
        }
    assert [each["difference"] for each in printed.json["totals"]] == ["0", "0"]


async def test_a_plot_is_ascii_where_the_encoding_has_no_more(cluster: CliCluster) -> None:
    printed = await explain(cluster, "web", width=80, environ={"PYTHONIOENCODING": "ascii"})
    assert printed.out.isascii()
    assert "\n100% |" in printed.out
    assert "^ target, lower bound, upper bound 200Mi" in printed.out


async def test_without_history_there_is_nothing_to_draw(cluster: CliCluster) -> None:
    printed = await explain(cluster, "empty", width=80)
    assert "Container app: no samples of CPU" in printed.out
    assert "no samples: nothing is recommended" in printed.out
    assert "100%" not in printed.out
    assert printed.code == 0


async def test_flags_are_those_of_the_pod_that_is_seen(cluster: CliCluster) -> None:
    default = await computed(cluster, "web")
    assert default["flagsOf"] is None
    await add_component_pod(cluster.client, "vpa-recommender", 1, "--target-cpu-percentile=0.5")
    try:
        found = await computed(cluster, "web")
    finally:
        await cluster.client.delete(PODS, "vpa-recommender-1", namespace=SYSTEM)
    assert (found["source"], found["flagsOf"]) == ("checkpoints", "kube-system/vpa-recommender-1")
    target, lower = (values(found)[amount]["cpu"] for amount in ("target", "lowerBound"))
    assert (target, lower) == ("587m", values(default)["lowerBound"]["cpu"])


async def test_an_unknown_name_is_one_line(cluster: CliCluster) -> None:
    printed = await explain(cluster, "nothing")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err == "error: there is no VPA named nothing in namespace shop\n"


async def test_the_recommender_itself_is_asked(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        recommender, *_ = await it.start_all()
        await deploy(it.client, "web", replicas=2, requests={"cpu": "800m", "memory": "1Gi"})
        await it.until(lambda: bool(it.target("web")))
        await it.passes(recommender)
        await add_component_pod(it.client, AGENTS[recommender.name], recommender.ops)
        kubeconfig = tmp_path / "person"
        kubeconfig.write_text(it.cluster.kubeconfig)
        printed = await run_cli(kubeconfig, "explain", "web", "-n", NAMESPACE, "-o", "json")
        (found,) = printed.items
    assert found["source"] == "recommender"
    (container,) = found["containers"]
    assert container["samples"] > 0
    for resource in container["resources"]:
        assert len(resource["curve"]) == 101
        assert resource["numbers"][0]["published"] is not None
