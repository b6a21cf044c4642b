"""``kubectl vpa history`` as a process: Events alone, and the updater's own list."""

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cli_cluster import CliCluster, cli_cluster, fill
from cli_program import Printed, run_cli
from common.kube.endpoints import CHECKPOINTS, EVENTS, PODS
from common.read_model.updater import ActionOutcome
from scripted_components import TIME, known_vpa, past_action, scripted
from workloads import NAMESPACE

SCREENS = Path(__file__).parent / "screens"
NO_HPAS = "not seen: horizontalpodautoscalers in shop: the cluster doesn't serve them\n"

pytestmark = pytest.mark.asyncio(loop_scope="module")


def about(kind: str, name: str) -> dict[str, str]:
    return {"kind": kind, "namespace": NAMESPACE, "name": name}


VPA = "VerticalPodAutoscaler"
CHANGE = "(VPA web; app cpu 500m -> 49m, memory 1Gi -> 250Mi)"
REPORTED = [
    (about("Pod", "web-1"), "EvictedByVPA", 1, f"Pod was evicted. [drifted] {CHANGE}"),
    (about(VPA, "web"), "EvictedPod", 1, f"VPA Updater evicted Pod web-1. [drifted] {CHANGE}"),
    (
        about("Pod", "web-2"),
        "InPlaceResizeBlocked",
        2,
        f"In-place update is blocked: the node has no room now. [resize_deferred] {CHANGE}",
    ),
    (about(VPA, "search"), "EvictionsSuspended", 3, "Evictions are suspended. (VPA search)"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CliCluster]:
    async with cli_cluster(tmp_path_factory.mktemp("cluster")) as made:
        await fill(made)
        for number, (involved, reason, minute, message) in enumerate(REPORTED):
            await report(
                made, f"event.{number}", involved, reason=reason, message=message, minute=minute
            )
        await save_checkpoint(made)
        yield made


async def report(
    cluster: CliCluster, name: str, involved: Any, *, reason: str, message: str, minute: int
) -> None:
    event = {
        "metadata": {"name": name},
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "source": {"component": "vpa-updater"},
        "lastTimestamp": (TIME + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    await cluster.client.create(EVENTS.as_dicts(), event, namespace=NAMESPACE)


async def save_checkpoint(cluster: CliCluster) -> None:
    """Store a checkpoint of the VPA ``web`` as the reference writes it."""
    status = {
        "version": "v3",
        "lastUpdateTime": "2026-01-01T12:00:00Z",
        "firstSampleStart": "2026-01-01T00:00:00Z",
        "lastSampleStart": "2026-01-01T11:59:00Z",
        "totalSamplesCount": 720,
        "cpuHistogram": {
            "referenceTimestamp": "2026-01-01T00:00:00Z",
            "bucketWeights": {"2": 10000, "4": 7500, "9": 2500},
            "totalWeight": 80.5,
        },
        "memoryHistogram": {
            "referenceTimestamp": "2026-01-01T00:00:00Z",
            "bucketWeights": {"10": 10000},
            "totalWeight": 2.0,
        },
    }
    checkpoint = {
        "metadata": {"name": "web-app"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": status,
    }
    await cluster.client.create(CHECKPOINTS.as_dicts(), checkpoint, namespace=NAMESPACE)


async def history(cluster: CliCluster, *arguments: str, width: int = 0) -> Printed:
    return await run_cli(cluster.kubeconfig, "history", "-n", NAMESPACE, *arguments, width=width)


def check(screen: str, text: str) -> None:
    golden = SCREENS / f"{screen}.txt"
    if os.environ.get("WRITE_SCREENS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


async def test_without_components_the_events_are_the_history(cluster: CliCluster) -> None:
    printed = await history(cluster, "-o", "json")
    content = printed.json
    assert (content["kind"], content["usage"]) == ("HistoryList", [])
    assert [(each["action"], each["vpa"], each["pod"]) for each in content["items"]] == [
        ("suspended", "search", None),
        ("blocked", "web", "web-2"),
        ("evict", "web", "web-1"),
    ]
    evicted = content["items"][-1]
    assert evicted == {
        "time": "2026-01-01T00:01:00Z",
        "namespace": "shop",
        "vpa": "web",
        "pod": "web-1",
        "action": "evict",
        "reason": "drifted",
        "changes": "app cpu 500m -> 49m, memory 1Gi -> 250Mi",
        "outcome": None,
        "message": "Pod was evicted",
    }


@pytest.mark.parametrize("width", [80, 160])
async def test_the_screen_is_as_reviewed(cluster: CliCluster, width: int) -> None:
    """The first action is the one that an Event reports, too; the list says more about it."""
    actions = [
        past_action("web", "web-3", ActionOutcome.REPLACED_RIGHT, minute=9, replacement="web-4"),
        past_action("web", "web-2", ActionOutcome.REFUSED, minute=5, error="a quota refuses it"),
        past_action("web", "web-1", ActionOutcome.REPLACED_WRONG, minute=1, replacement="web-3"),
    ]
    async with scripted(cluster, actions=actions, vpas=[known_vpa("web")]):
        printed = await history(cluster, "web", width=width)
    check(f"history-{width}", printed.out)
    assert (printed.code, printed.err) == (0, "")
    assert max(map(len, printed.out.splitlines())) <= width


async def test_events_of_the_reference_get_the_vpa_of_the_pod(cluster: CliCluster) -> None:
    listed = await cluster.client.list(PODS, namespace=NAMESPACE, label_selector="app=young")
    name = listed.items[0].metadata.name
    text = "Pod was resized in place by VPA Updater."
    await report(
        cluster, "resized", about("Pod", name), reason="InPlaceResizedByVPA", message=text, minute=4
    )
    try:
        (found,) = (await history(cluster, "young", "-o", "json")).items
        assert (found["vpa"], found["pod"], found["action"]) == ("young", name, "resize")
    finally:
        await cluster.client.delete(EVENTS, "resized", namespace=NAMESPACE)


async def test_what_is_not_known_is_said(cluster: CliCluster) -> None:
    printed = await history(cluster, "api")
    assert (printed.code, printed.out) == (0, "")
    assert printed.err == (
        "nothing found: no action of the updater is known\n"
        "nothing found: no checkpoint of VPA api has usage\n"
    )
    printed = await history(cluster, "none")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err == "error: there is no VPA named none in namespace shop\n"


async def test_a_selector_selects_vpas(cluster: CliCluster) -> None:
    assert (await history(cluster, "-l", "app=none", "-o", "json")).items == []
