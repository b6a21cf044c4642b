"""AEP-4016, in place or else by eviction: one case for each line of the document's test plan."""

from typing import Any

import pytest

from common.kube.endpoints import VPAS
from e2e.installation import UPDATER
from e2e.pods import LARGE, Object, is_ready, requests, restarts, within
from e2e.world import BY_HAND, Case

pytestmark = pytest.mark.concurrent

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_MEDIUM = {"cpu": "300m", "memory": "300Mi"}
_STATE = "kubelet.sandbox/resize"
_BESIDE = {"name": "log", "image": "registry.example/log", "resources": {"requests": _SMALL}}
_HIGHER = [{"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"}]


async def test_admission_applies(case: Case) -> None:
    """AEP-4016: in this mode, too, a pod is created with what is recommended."""
    await case.deploy("web", requests=LARGE)
    before = await case.ready("web")
    await _autoscale(case)
    await case.advise("web", app=_SMALL)
    await case.fits("web")
    resized = set(case.resizes())
    await case.world.kubectl("delete", "pod", "--all", namespace=case.namespace)
    pods = await case.fits("web")
    assert not {pod["metadata"]["uid"] for pod in pods} & before
    for pod in pods:
        told = pod["metadata"]["annotations"]["vpaUpdates"]
        assert told == "Pod resources updated by web: container 0: cpu request, memory request"
    assert set(case.resizes()) == resized, "the new ones need none"
    assert not case.evictions()


async def test_all_containers(case: Case) -> None:
    """AEP-4016: all containers of a pod are resized, by one call."""
    await case.deploy("web", requests=LARGE, beside=[_BESIDE])
    before = await case.ready("web")
    await _autoscale(case)
    await case.advise("web", app=_MEDIUM, log={"cpu": "50m", "memory": "128Mi"})
    pods = await _settled(case, [_MEDIUM, {"cpu": "50m", "memory": "128Mi"}])
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    assert len(case.resizes()) == len(before)
    assert not case.evictions()


async def test_partial_update(case: Case) -> None:
    """AEP-4016: a container within its range stays as it is beside one that is resized.

    So near to its target that the whole pod is, afterwards.
    """
    await case.deploy("web", requests=LARGE, beside=[_BESIDE])
    before = await case.ready("web")
    await _autoscale(case)
    near = within(
        {"cpu": "50m", "memory": "128Mi"},
        {"cpu": "110m", "memory": "256Mi"},
        {"cpu": "1", "memory": "1Gi"},
    )
    await case.advise("web", app=_MEDIUM, log=near)
    pods = await _settled(case, [_MEDIUM, _SMALL])
    await case.world.passes(UPDATER, 8)  # older than a young pod, and still as it is
    pods = await _settled(case, [_MEDIUM, _SMALL])
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert len(case.resizes()) == len(before)
    assert not case.evictions()


@pytest.mark.parametrize("state", ["deferred", "infeasible", "error", "stuck", "unknown-reason"])
async def test_failed_then_evicted(case: Case, state: str) -> None:
    """AEP-4016: when its resize has failed a pod is evicted, and comes back as recommended."""
    await case.deploy("web", requests=LARGE, annotations={_STATE: state})
    before = await case.ready("web")
    await _autoscale(case)
    await case.advise("web", app=_MEDIUM)
    pods = await case.fits("web")
    assert case.resizes(), "in place comes first"
    assert len(case.evictions()) == len(before)
    assert not {pod["metadata"]["uid"] for pod in pods} & before


async def test_failed_and_can_evict_false_not_evicted(case: Case) -> None:
    """AEP-4016: an eviction for a failed resize needs as many replicas as any other one."""
    await case.deploy("web", replicas=1, requests=LARGE, annotations={_STATE: "infeasible"})
    before = await case.ready("web", replicas=1)
    await _autoscale(case)
    await case.advise("web", app=_MEDIUM)
    await _failed(case)
    await case.world.passes(UPDATER, 6)
    assert await case.uids("web") == before
    assert not case.evictions()
    await case.edit(VPAS, "web", updatePolicy={"minReplicas": 1})
    await case.fits("web", replicas=1)
    assert not await case.uids("web") & before


async def test_failed_and_requirements_false_not_evicted(case: Case) -> None:
    """AEP-4016: a failed resize leads to no eviction that the VPA's requirements don't allow."""
    await case.deploy("web", requests=LARGE, annotations={_STATE: "infeasible"})
    before = await case.ready("web")
    await _autoscale(
        case,
        updatePolicy={"updateMode": "InPlaceOrRecreate", "evictionRequirements": _HIGHER},
    )
    await case.advise("web", app=_MEDIUM)
    await _failed(case)
    assert len(case.resizes()) == len(before), "they don't hold back what is done in place"
    await case.world.passes(UPDATER, 6)
    assert await case.uids("web") == before
    assert not case.evictions()
    await case.edit(VPAS, "web", updatePolicy={"evictionRequirements": None})
    await case.fits("web")
    assert not await case.uids("web") & before


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
async def test_partial_feasibility(case: Case, mode: str) -> None:
    """AEP-4016, future work: of what no node can hold the changes that fit are sent alone."""
    await case.deploy("web", requests=_SMALL, beside=[_BESIDE])
    before = await case.ready("web")
    # More replicas than there are, so that no pod is evicted.
    policy = {"updateMode": mode, "minReplicas": 3}
    await case.autoscale("web", mode, updatePolicy=policy, recommenders=BY_HAND)
    too_much, more = {"cpu": "20", "memory": "512Mi"}, {"cpu": "150m", "memory": "1Gi"}
    await case.advise("web", app=too_much, log=more)
    pods = await _settled(case, [{"cpu": _SMALL["cpu"], "memory": "512Mi"}, more])
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    refused = len(case.resizes(code=403))
    await case.world.passes(UPDATER, 6)
    assert len(case.resizes(code=403)) == refused, "the rest is remembered"
    assert len(case.resizes()) == len(before)
    fitting = {"cpu": "300m", "memory": "512Mi"}
    await case.advise("web", app=fitting, log=more)
    await _settled(case, [fitting, more])
    assert await case.uids("web") == before
    assert not case.evictions()


async def _autoscale(case: Case, **spec: Any) -> None:
    await case.autoscale("web", "InPlaceOrRecreate", recommenders=BY_HAND, **spec)


async def _settled(case: Case, wanted: list[dict[str, str]]) -> list[Object]:
    """Wait until every pod's containers request, and have, what is wanted for each of them."""

    async def settled() -> list[Object]:
        pods = await case.pods("web")
        return pods if all(_has(pod, wanted) for pod in pods) else []

    return await case.world.until(settled, "every container has what is wanted")


def _has(pod: Object, wanted: list[dict[str, str]]) -> bool:
    names = [container["name"] for container in pod["spec"]["containers"]]
    asked = [container["resources"]["requests"] for container in pod["spec"]["containers"]]
    reported = {
        status["name"]: (status.get("resources") or {}).get("requests")
        for status in pod["status"].get("containerStatuses") or ()
    }
    return is_ready(pod) and asked == [reported.get(name) for name in names] == wanted


async def _failed(case: Case) -> None:
    """Wait until every pod has been resized in vain."""

    async def failed() -> bool:
        return all(
            requests(pod) == _MEDIUM
            and any(one.get("reason") == "Infeasible" for one in pod["status"]["conditions"])
            for pod in await case.pods("web")
        )

    await case.world.until(failed, "every pod's resize is infeasible")
