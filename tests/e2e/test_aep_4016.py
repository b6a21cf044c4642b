"""AEP-4016, in-place updates with eviction as a fallback: one case per line of its test plan."""

from functools import partial
from typing import Any

import pytest

from common.kube.endpoints import VPAS
from common.quantity import Quantity
from e2e.cluster import OTHER_RECOMMENDER, Case
from e2e.installation import UPDATER
from e2e.pods import LARGE, Object, is_ready, recommendation, requests, restarts

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_MEDIUM = {"cpu": "300m", "memory": "300Mi"}
_STATE = "kubelet.sandbox/resize"
_LOG_CONTAINER = {"name": "log", "image": "registry.example/log", "resources": {"requests": _SMALL}}
_HIGHER = [{"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"}]


@pytest.mark.concurrent
async def test_admission_applies(case: Case) -> None:
    """AEP-4016: admission applies the recommendation to new pods in this mode, too."""
    await case.deploy("web", requests=LARGE)
    before = await case.wait_until_ready("web")
    await _autoscale(case)
    await case.set_recommendation("web", app=_SMALL)
    await case.wait_until_applied("web")
    resized = set(case.resizes())
    await case.cluster.kubectl("delete", "pod", "--all", namespace=case.namespace)
    pods = await case.wait_until_applied("web")
    assert not {pod["metadata"]["uid"] for pod in pods} & before
    for pod in pods:
        updates = pod["metadata"]["annotations"]["vpaUpdates"]
        assert updates == "Pod resources updated by web: container 0: cpu request, memory request"
    assert set(case.resizes()) == resized, "new pods need no resize"
    assert not case.evictions()


@pytest.mark.concurrent
async def test_all_containers(case: Case) -> None:
    """AEP-4016: one call resizes all containers of a pod."""
    await case.deploy("web", requests=LARGE, extra_containers=[_LOG_CONTAINER])
    before = await case.wait_until_ready("web")
    await _autoscale(case)
    await case.set_recommendation("web", app=_MEDIUM, log={"cpu": "50m", "memory": "128Mi"})
    pods = await _wait_for_requests(case, [_MEDIUM, {"cpu": "50m", "memory": "128Mi"}])
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    assert len(case.resizes()) == len(before)
    assert not case.evictions()


@pytest.mark.concurrent
async def test_partial_update(case: Case) -> None:
    """AEP-4016: a container within its range isn't changed while another one is resized.

    Its difference to the target is too small for another update of the pod.
    """
    await case.deploy("web", requests=LARGE, extra_containers=[_LOG_CONTAINER])
    before = await case.wait_until_ready("web")
    await _autoscale(case)
    near = recommendation(
        {"cpu": "50m", "memory": "128Mi"},
        {"cpu": "110m", "memory": "256Mi"},
        {"cpu": "1", "memory": "1Gi"},
    )
    await case.set_recommendation("web", app=_MEDIUM, log=near)
    pods = await _wait_for_requests(case, [_MEDIUM, _SMALL])
    await case.cluster.wait_for_cycles(UPDATER, 8)  # longer than the minimum lifetime
    pods = await _wait_for_requests(case, [_MEDIUM, _SMALL])
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert len(case.resizes()) == len(before)
    assert not case.evictions()


@pytest.mark.concurrent
@pytest.mark.parametrize("state", ["deferred", "infeasible", "error", "stuck", "unknown-reason"])
async def test_failed_then_evicted(case: Case, state: str) -> None:
    """AEP-4016: a pod whose resize failed is evicted, and its replacement has the target."""
    await case.deploy("web", requests=LARGE, annotations={_STATE: state})
    before = await case.wait_until_ready("web")
    await _autoscale(case)
    await case.set_recommendation("web", app=_MEDIUM)
    pods = await case.wait_until_applied("web")
    assert case.resizes(), "the resize is tried first"
    assert len(case.evictions()) == len(before)
    assert not {pod["metadata"]["uid"] for pod in pods} & before


@pytest.mark.concurrent
async def test_failed_and_can_evict_false_not_evicted(case: Case) -> None:
    """AEP-4016: an eviction after a failed resize requires the minimum of replicas."""
    await case.deploy("web", replicas=1, requests=LARGE, annotations={_STATE: "infeasible"})
    before = await case.wait_until_ready("web", replicas=1)
    await _autoscale(case)
    await case.set_recommendation("web", app=_MEDIUM)
    await _wait_until_infeasible(case)
    await case.cluster.wait_for_cycles(UPDATER, 6)
    assert await case.uids("web") == before
    assert not case.evictions()
    await case.edit(VPAS, "web", updatePolicy={"minReplicas": 1})
    await case.wait_until_applied("web", replicas=1)
    assert not await case.uids("web") & before


@pytest.mark.concurrent
async def test_failed_and_requirements_false_not_evicted(case: Case) -> None:
    """AEP-4016: an eviction after a failed resize respects the VPA's eviction requirements."""
    await case.deploy("web", requests=LARGE, annotations={_STATE: "infeasible"})
    before = await case.wait_until_ready("web")
    await _autoscale(
        case,
        updatePolicy={"updateMode": "InPlaceOrRecreate", "evictionRequirements": _HIGHER},
    )
    await case.set_recommendation("web", app=_MEDIUM)
    await _wait_until_infeasible(case)
    assert len(case.resizes()) == len(before), "eviction requirements don't apply to resizes"
    await case.cluster.wait_for_cycles(UPDATER, 6)
    assert await case.uids("web") == before
    assert not case.evictions()
    await case.edit(VPAS, "web", updatePolicy={"evictionRequirements": None})
    await case.wait_until_applied("web")
    assert not await case.uids("web") & before


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
async def test_partial_feasibility(case: Case, mode: str) -> None:
    """AEP-4016, future work: if no node can hold the target, the largest step is sent.

    Its CPU depends on the other pods of the nodes.
    """
    await case.deploy("web", requests=_SMALL, extra_containers=[_LOG_CONTAINER])
    before = await case.wait_until_ready("web")
    # More than the replicas, so that no pod is evicted.
    policy = {"updateMode": mode, "minReplicas": 3}
    await case.create_vpa("web", mode, updatePolicy=policy, recommenders=OTHER_RECOMMENDER)
    too_much, more = {"cpu": "20", "memory": "512Mi"}, {"cpu": "150m", "memory": "1Gi"}
    await case.set_recommendation("web", app=too_much, log=more)
    pods = await case.cluster.wait_for(partial(_stepped, case, more), "every pod got a step")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    refused = len(case.resizes(code=403))
    await case.cluster.wait_for_cycles(UPDATER, 6)
    assert len(case.resizes(code=403)) == refused, "the refused change is cached"
    assert len(case.resizes()) >= len(before)
    fitting = {"cpu": "300m", "memory": "512Mi"}
    await case.set_recommendation("web", app=fitting, log=more)
    await _wait_for_requests(case, [fitting, more])
    assert await case.uids("web") == before
    assert not case.evictions()


async def _stepped(case: Case, log: dict[str, str]) -> list[Object]:
    """Return the pods if each got all memory, and more CPU than before but not the target."""
    pods = await case.pods("web")
    for pod in pods:
        app = pod["spec"]["containers"][0]["resources"]["requests"]
        small, has, target = (Quantity.parse(text) for text in (_SMALL["cpu"], app["cpu"], "20"))
        if not (small < has < target and _has_requests(pod, [{**app, "memory": "512Mi"}, log])):
            return []
    return pods


async def _autoscale(case: Case, **spec: Any) -> None:
    await case.create_vpa("web", "InPlaceOrRecreate", recommenders=OTHER_RECOMMENDER, **spec)


async def _wait_for_requests(case: Case, wanted: list[dict[str, str]]) -> list[Object]:
    """Wait until the containers of every pod have these requests, in spec and status."""

    async def matching() -> list[Object]:
        pods = await case.pods("web")
        return pods if all(_has_requests(pod, wanted) for pod in pods) else []

    return await case.cluster.wait_for(matching, "every container has what is wanted")


def _has_requests(pod: Object, wanted: list[dict[str, str]]) -> bool:
    names = [container["name"] for container in pod["spec"]["containers"]]
    specified = [container["resources"]["requests"] for container in pod["spec"]["containers"]]
    reported = {
        status["name"]: (status.get("resources") or {}).get("requests")
        for status in pod["status"].get("containerStatuses") or ()
    }
    return is_ready(pod) and specified == [reported.get(name) for name in names] == wanted


async def _wait_until_infeasible(case: Case) -> None:
    """Wait until the resize of every pod is infeasible."""

    async def infeasible() -> bool:
        return all(
            requests(pod) == _MEDIUM
            and any(one.get("reason") == "Infeasible" for one in pod["status"]["conditions"])
            for pod in await case.pods("web")
        )

    await case.cluster.wait_for(infeasible, "every pod's resize is infeasible")
