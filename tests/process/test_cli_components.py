"""``kubectl vpa`` beside components whose read API it reaches through the API server."""

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from cli_cluster import CliCluster, cli_cluster, fill
from cli_program import run_cli
from component_pods import add_component_pod
from process_harness import AGENTS, world
from scripted_components import known_vpa, scripted, usual_plan
from workloads import NAMESPACE, deploy

SCREENS = Path(__file__).parent / "screens"
NO_HPAS = "horizontalpodautoscalers in shop: the cluster doesn't serve them"
SMALL, LARGE = {"cpu": "800m", "memory": "1Gi"}, {"cpu": "100m", "memory": "128Mi"}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        await fill(made)
        yield made


async def reasons(cluster: CliCluster) -> tuple[dict[str, tuple[str, str | None]], list[str]]:
    """Return reason and updater's reason by VPA, and the notes."""
    printed = await run_cli(cluster.kubeconfig, "status", "-n", NAMESPACE, "-o", "json")
    found = {each["name"]: (each["reason"], each["updaterReason"]) for each in printed.items}
    return found, printed.json["notes"]


async def test_the_status_has_the_reasons_of_the_last_pass(cluster: CliCluster) -> None:
    alone, _ = await reasons(cluster)
    async with scripted(cluster, plan=await usual_plan(cluster)):
        found, notes = await reasons(cluster)
    assert notes == [NO_HPAS]
    assert {name: each for name, each in found.items() if each[1] is not None} == {
        "batch": ("below_min_replicas", "below_min_replicas"),
        "guarded": ("disruption_budget", "eviction_refused"),
        "search": ("held_up", "actuation_suspended"),
        "web": ("update_due", "outside_range"),
    }
    assert {name: each for name, each in found.items() if each[1] is None} == {
        name: each for name, each in alone.items() if found[name][1] is None
    }


async def test_an_updater_that_stands_still_is_not_believed(cluster: CliCluster) -> None:
    alone, _ = await reasons(cluster)
    async with scripted(cluster, plan=await usual_plan(cluster), age=timedelta(minutes=10)):
        found, notes = await reasons(cluster)
    assert found == alone
    about = "what the components know: the updater's last pass began at "
    assert any(note.startswith(about) for note in notes)


async def test_why_explains_what_the_components_know(cluster: CliCluster) -> None:
    plan = await usual_plan(cluster)
    async with scripted(cluster, plan=plan, vpas=[known_vpa("search")]):
        printed = await run_cli(cluster.kubeconfig, "why", "search", "-n", NAMESPACE, width=80)
    screen = SCREENS / "why-updater-80.txt"
    text = printed.out
    if os.environ.get("WRITE_SCREENS"):
        screen.write_text(text, encoding="utf-8")
    assert text == screen.read_text(encoding="utf-8")


async def test_the_components_themselves_are_asked(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        recommender, updater, _ = await it.start_all()
        await deploy(it.client, "small", replicas=3, requests=SMALL)
        await deploy(it.client, "single", replicas=1, requests=LARGE)
        await it.until(lambda: it.fits("small", 3) and bool(it.target("single")))
        await it.passes(recommender, updater)
        for process in (recommender, updater):
            await add_component_pod(it.client, AGENTS[process.name], process.ops)
        kubeconfig = tmp_path / "person"
        kubeconfig.write_text(it.cluster.kubeconfig)

        printed = await run_cli(kubeconfig, "plan", "-n", NAMESPACE, "-o", "json")
        assert (printed.json["source"], printed.json["notes"]) == ("updater", [])
        by_vpa = {each["vpa"]: each for each in printed.items}
        assert by_vpa["single"]["reason"] == "below_min_replicas"
        assert by_vpa["small"]["decision"] == "leave"
        printed = await run_cli(kubeconfig, "why", "single", "-n", NAMESPACE, "-o", "json")
        (why,) = printed.items
        assert why["status"]["updaterReason"] == "below_min_replicas"
        assert why["history"].startswith("The target of container app rests on ")
        printed = await run_cli(kubeconfig, "history", "small", "-n", NAMESPACE, "-o", "json")
        assert {each["pod"] for each in printed.items} == set(it.evicted("small"))
        assert {each["outcome"] for each in printed.items} <= {"replaced_right", "accepted"}
        (usage,) = printed.json["usage"]
        assert usage["samples"] > 0
        assert usage["cpu"]["confidence"] > 0
