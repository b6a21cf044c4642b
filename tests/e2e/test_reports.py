"""Reports of changes: Events, log lines and conditions."""

import pytest

from common.kube.endpoints import VPAS
from e2e.cluster import BUDGETS, OTHER_RECOMMENDER, Case
from e2e.installation import ADMISSION, UPDATER
from e2e.pods import LARGE

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_FITTING = {"cpu": "300m", "memory": "256Mi"}
# Nodes have 16 CPUs. A step is at least a tenth of what is missing, so this target has none.
_TOO_MUCH = {"cpu": "400", "memory": "256Mi"}


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
async def test_a_blocked_in_place_update_is_reported_on_the_pod_and_the_vpa(
    case: Case, mode: str
) -> None:
    """Kubernetes 1.36 refuses a resize beyond every node; a budget prevents the eviction."""
    await case.deploy("web", requests=_SMALL)
    await case.create(BUDGETS, _budget())
    pods = {pod["metadata"]["name"] for pod in await case.wait_until_measured("web")}
    await case.create_vpa("web", mode, recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_TOO_MUCH)

    async def blocked() -> bool:
        return len(await _messages(case, "InPlaceResizeBlocked")) == 2 * len(pods)

    await case.cluster.wait_for(blocked, "Events of each pod and of the VPA")
    await case.cluster.wait_for_cycles(UPDATER, 3)
    why = (
        "is blocked: the node can never hold what is wanted. [resize_infeasible] "
        "(VPA web; app cpu 100m -> 400)"
    )
    assert await _messages(case, "InPlaceResizeBlocked") == sorted(
        [f"Pod: In-place update {why}"] * len(pods)
        + [f"VerticalPodAutoscaler: In-place update of Pod {pod} {why}" for pod in pods]
    )
    await case.set_recommendation("web", app=_FITTING)
    await case.wait_until_applied("web")

    async def unblocked() -> bool:
        return len(await _messages(case, "InPlaceResizeUnblocked")) == 2 * len(pods)

    await case.cluster.wait_for(unblocked, "Events that the update isn't blocked any more")
    assert not case.evictions()


@pytest.mark.concurrent
async def test_a_refused_eviction_is_logged_once_with_the_change(case: Case) -> None:
    await case.deploy("web", requests=LARGE)
    await case.create(BUDGETS, _budget())
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Recreate", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)

    async def refused() -> bool:
        return len(case.evictions(code=429)) >= 6

    await case.cluster.wait_for(refused, "the budget refuses evictions in each cycle")
    lines = await _lines(case, UPDATER, "eviction refused")
    assert len(lines) == 2, "one for each pod"
    for line in lines:
        assert f'vpa="{case.namespace}/web" changes="app cpu {LARGE["cpu"]} -> 100m' in line


@pytest.mark.concurrent
async def test_admission_logs_one_line_for_a_patched_pod(case: Case) -> None:
    await case.deploy("web", replicas=1, requests=LARGE)
    await case.wait_until_measured("web", replicas=1)
    await case.create_vpa("web", "Initial", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)
    await case.cluster.kubectl("delete", "pod", "--all", namespace=case.namespace)
    await case.wait_until_applied("web", replicas=1)
    (line,) = await _lines(case, ADMISSION, "pod patched")
    assert f'pod="{case.namespace}/web-' in line
    assert f'vpa="{case.namespace}/web" changes="app cpu {LARGE["cpu"]} -> 100m' in line


@pytest.mark.concurrent
async def test_a_condition_names_the_older_vpa_that_controls_the_pods(case: Case) -> None:
    await case.deploy("web", replicas=1)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await case.create_vpa("web", "Initial")
    await case.create_vpa("aged", "Initial", targetRef=target)
    created = await case.cluster.kubectl(
        "get",
        "vpa",
        "-o",
        "jsonpath={.items[*].metadata.creationTimestamp}",
        namespace=case.namespace,
    )
    first = "aged" if len(set(created.split())) == 1 else "web"  # of the same second: by name
    other = {"web": "aged", "aged": "web"}[first]
    conditions = await case.wait_for_conditions(other, ControlledByAnotherVPA="True")
    assert f"VPA {first} has the same target" in conditions["ControlledByAnotherVPA"][1]
    conditions = await case.wait_for_conditions(first, TargetShared="True")
    assert f"change no pod: {other}." in conditions["TargetShared"][1]
    assert "ControlledByAnotherVPA" not in conditions
    await case.edit(VPAS, first, updatePolicy={"updateMode": "Off"})
    await case.wait_for_conditions(other, ControlledByAnotherVPA=None)


def _budget() -> dict[str, object]:
    selector = {"matchLabels": {"app": "web"}}
    return {"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": selector}}


async def _messages(case: Case, reason: str) -> list[str]:
    """Return the object's kind and the message of a reason's Events, repeated by their count."""
    return sorted(
        f"{event['involvedObject']['kind']}: {event['message']}"
        for event in await case.events(reason)
        for _ in range(event["count"])
    )


async def _lines(case: Case, component: str, message: str) -> list[str]:
    """Return the lines of a component's log with this message and the case's namespace."""
    printed = await case.cluster.kubectl(
        "logs", f"deployment/{component}", "--tail=-1", namespace="kube-system"
    )
    return [line for line in printed.splitlines() if message in line and case.namespace in line]
