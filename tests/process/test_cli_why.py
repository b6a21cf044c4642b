"""``kubectl vpa why`` as a process."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cli_cluster import CliCluster, cli_cluster, fill
from cli_program import Printed, run_cli
from common.kube.endpoints import EVENTS, PODS
from workloads import NAMESPACE

SCREEN = Path(__file__).parent / "screens" / "why-80.txt"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        await fill(made)
        yield made


async def why(cluster: CliCluster, subject: str, *arguments: str, width: int = 0) -> Printed:
    return await run_cli(
        cluster.kubeconfig, "why", subject, "-n", NAMESPACE, *arguments, width=width
    )


async def explained(cluster: CliCluster, subject: str) -> Any:
    (found,) = (await why(cluster, subject, "-o", "json")).items
    return found


async def test_the_screen_is_as_reviewed(cluster: CliCluster) -> None:
    printed = await why(cluster, "batch", width=80)
    if os.environ.get("WRITE_SCREENS"):
        SCREEN.write_text(printed.out, encoding="utf-8")
    assert printed.out == SCREEN.read_text(encoding="utf-8")
    assert printed.code == 0


async def test_a_pod_is_explained_by_the_vpa_that_controls_it(cluster: CliCluster) -> None:
    pods = (await cluster.client.list(PODS, namespace=NAMESPACE, label_selector="app=web")).items
    name = pods[0].metadata.name
    found = await explained(cluster, f"pod/{name}")
    assert found["subject"] == f"Pod shop/{name}"
    assert (found["status"]["name"], found["status"]["pods"]) == ("web", 1)
    assert await explained(cluster, name) == found, "the kind may be missing"


async def test_one_of_two_pods_has_the_replicas_of_both(cluster: CliCluster) -> None:
    """An eviction needs two running replicas; the other one counts."""
    listed = await cluster.client.list(PODS, namespace=NAMESPACE, label_selector="app=search")
    found = await explained(cluster, f"pod/{listed.items[0].metadata.name}")
    assert found["status"]["reason"] == "update_due"


async def test_a_workload_is_explained_by_its_vpa(cluster: CliCluster) -> None:
    found = await explained(cluster, "deploy/web")
    assert (found["subject"], found["status"]["name"]) == ("Deployment shop/web", "web")


async def test_a_workload_without_vpa_says_so(cluster: CliCluster) -> None:
    found = await explained(cluster, "deployment/none")
    assert found["status"] is None
    assert found["because"] == "No VPA targets Deployment none."


async def test_the_newest_events_follow(cluster: CliCluster) -> None:
    for number, reason in enumerate(("EvictedPod", "InPlaceResizeBlocked", "Scheduled")):
        await cluster.client.create(
            EVENTS.as_dicts(),
            {
                "metadata": {"name": f"young.{number}"},
                "involvedObject": {
                    "kind": "VerticalPodAutoscaler",
                    "namespace": NAMESPACE,
                    "name": "young",
                },
                "reason": reason,
                "message": f"message {number}",
                "lastTimestamp": f"2026-01-01T00:00:0{number}Z",
            },
            namespace=NAMESPACE,
        )
    found = await explained(cluster, "young")
    assert [each["reason"] for each in found["events"]] == ["InPlaceResizeBlocked", "EvictedPod"]
    printed = await why(cluster, "young")
    assert "2026-01-01T00:00:01Z InPlaceResizeBlocked: message 1" in printed.out


async def test_an_unknown_name_is_one_line(cluster: CliCluster) -> None:
    printed = await why(cluster, "nothing")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err == (
        "error: there is no VPA, pod or workload of a VPA named nothing in namespace shop\n"
    )
