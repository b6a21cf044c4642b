"""What is reported of a change: Events, log lines and conditions."""

import pytest

from common.kube.endpoints import VPAS
from e2e.installation import ADMISSION, UPDATER
from e2e.pods import LARGE
from e2e.world import BUDGETS, BY_HAND, Case

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_FITTING = {"cpu": "300m", "memory": "256Mi"}
_TOO_MUCH = {"cpu": "20", "memory": "256Mi"}  # of nodes with 16 CPUs


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
async def test_a_blocked_in_place_update_is_reported_on_the_pod_and_the_vpa(
    case: Case, mode: str
) -> None:
    """Kubernetes 1.36 refuses what no node holds; a budget keeps the pod from being evicted."""
    await case.deploy("web", requests=_SMALL)
    await case.create(BUDGETS, _budget())
    pods = {pod["metadata"]["name"] for pod in await case.running("web")}
    await case.autoscale("web", mode, recommenders=BY_HAND)
    await case.advise("web", app=_TOO_MUCH)

    async def blocked() -> bool:
        return len(await _messages(case, "InPlaceResizeBlocked")) == 2 * len(pods)

    await case.world.until(blocked, "it is reported for each pod, and on the VPA")
    await case.world.passes(UPDATER, 3)
    why = (
        "is blocked: the node can never hold what is wanted. [resize_infeasible] "
        "(VPA web; app cpu 100m -> 20)"
    )
    assert await _messages(case, "InPlaceResizeBlocked") == sorted(
        [f"Pod: In-place update {why}"] * len(pods)
        + [f"VerticalPodAutoscaler: In-place update of Pod {pod} {why}" for pod in pods]
    )
    await case.advise("web", app=_FITTING)
    await case.fits("web")

    async def unblocked() -> bool:
        return len(await _messages(case, "InPlaceResizeUnblocked")) == 2 * len(pods)

    await case.world.until(unblocked, "so is the end of it")
    assert not case.evictions()


@pytest.mark.concurrent
async def test_a_refused_eviction_is_logged_once_with_the_change(case: Case) -> None:
    await case.deploy("web", requests=LARGE)
    await case.create(BUDGETS, _budget())
    await case.running("web")
    await case.autoscale("web", "Recreate", recommenders=BY_HAND)
    await case.advise("web", app=_SMALL)

    async def refused() -> bool:
        return len(case.evictions(code=429)) >= 6

    await case.world.until(refused, "the budget refuses evictions pass after pass")
    lines = await _lines(case, UPDATER, "eviction refused")
    assert len(lines) == 2, "one for each pod"
    for line in lines:
        assert f'vpa="{case.namespace}/web" changes="app cpu {LARGE["cpu"]} -> 100m' in line


@pytest.mark.concurrent
async def test_a_patched_pod_is_one_line_of_admission(case: Case) -> None:
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.running("web", replicas=1)
    await case.autoscale("web", "Initial", recommenders=BY_HAND)
    await case.advise("web", app=_SMALL)
    await case.world.kubectl("delete", "pod", "--all", namespace=case.namespace)
    await case.fits("web", replicas=1)
    (line,) = await _lines(case, ADMISSION, "pod patched")
    assert f'pod="{case.namespace}/web-' in line
    assert f'vpa="{case.namespace}/web" changes="app cpu {LARGE["cpu"]} -> 100m' in line


@pytest.mark.concurrent
async def test_a_vpa_says_which_older_one_controls_its_pods(case: Case) -> None:
    await case.deploy("web", replicas=1)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await case.autoscale("web", "Initial")
    await case.autoscale("aged", "Initial", targetRef=target)
    created = await case.world.kubectl(
        "get",
        "vpa",
        "-o",
        "jsonpath={.items[*].metadata.creationTimestamp}",
        namespace=case.namespace,
    )
    first = "aged" if len(set(created.split())) == 1 else "web"  # of the same second: by name
    other = {"web": "aged", "aged": "web"}[first]
    told = await case.tells(other, ControlledByAnotherVPA="True")
    assert f"VPA {first} has the same target" in told["ControlledByAnotherVPA"][1]
    assert "ControlledByAnotherVPA" not in await case.conditions(first)
    await case.edit(VPAS, first, updatePolicy={"updateMode": "Off"})
    await case.tells(other, ControlledByAnotherVPA=None)


def _budget() -> dict[str, object]:
    selector = {"matchLabels": {"app": "web"}}
    return {"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": selector}}


async def _messages(case: Case, reason: str) -> list[str]:
    """Kind of the object and message of the Events of a reason, each as often as it was sent."""
    return sorted(
        f"{event['involvedObject']['kind']}: {event['message']}"
        for event in await case.events(reason)
        for _ in range(event["count"])
    )


async def _lines(case: Case, component: str, message: str) -> list[str]:
    """The lines of a component's log about the case's namespace."""
    printed = await case.world.kubectl(
        "logs", f"deployment/{component}", "--tail=-1", namespace="kube-system"
    )
    return [line for line in printed.splitlines() if message in line and case.namespace in line]
