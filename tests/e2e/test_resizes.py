"""The updater's promises about pods that it resizes where they are, beside those of its documents.

For those see test_aep_8818.py and test_aep_4016.py.
"""

from collections.abc import Mapping

import pytest

from common.kube.endpoints import VPAS
from e2e.installation import UPDATER
from e2e.pods import LARGE, Object, requests, restarts
from e2e.world import LIMIT_RANGES, QUOTAS, Case

pytestmark = pytest.mark.concurrent

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_RESIZED = "InPlaceResizedByVPA"
_BUSY = {"cpu": "600m", "memory": "200Mi"}
_EXACT = {"resources": {"requests": LARGE, "limits": LARGE}}  # makes a pod Guaranteed


def _bounded(**bounds: Mapping[str, str]) -> Object:
    return {"containerPolicies": [{"containerName": "*", **bounds}]}


async def test_a_pod_is_resized_without_a_restart_in_mode_in_place_or_recreate(case: Case) -> None:
    await case.deploy("web", requests=LARGE)
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "InPlaceOrRecreate")
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    assert not case.evictions()

    async def reported() -> bool:  # Events follow in the background
        return bool(await case.events(_RESIZED))

    await case.world.until(reported, "the resize is reported")


async def test_each_resize_of_a_pod_is_an_event_and_the_same_one_again_is_counted(
    case: Case,
) -> None:
    def exactly(cpu: str) -> Object:
        return _bounded(minAllowed={"cpu": cpu}, maxAllowed={"cpu": cpu})

    await case.deploy("web", replicas=1, requests=LARGE)
    await case.running("web", replicas=1)
    await case.autoscale("web", "InPlace", resourcePolicy=exactly("1"))
    await case.fits("web", replicas=1)
    for cpu in ("2", "1", "2"):
        await case.edit(VPAS, "web", resourcePolicy=exactly(cpu))

        async def resized(cpu: str = cpu) -> bool:
            return all(requests(pod)["cpu"] == cpu for pod in await case.pods("web"))

        await case.world.until(resized, f"the pod has {cpu} CPUs")

    async def counted() -> bool:
        events = [(one["message"], one["count"]) for one in await case.events(_RESIZED)]
        return all(
            any(change in message and count == times for message, count in events)
            for change, times in (("cpu 2 -> 1", 1), ("cpu 1 -> 2", 2))
        )

    await case.world.until(counted, "an Event of each change, and a count of the same one")


async def test_a_node_that_says_nothing_costs_no_pod(case: Case) -> None:
    """The spec is as wanted already, and a pod that is evicted there would not go away."""
    await case.deploy("web", requests=LARGE, annotations={"kubelet.sandbox/resize": "silent"})
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "InPlaceOrRecreate")

    async def asked() -> bool:
        target, pods = await case.target("web"), await case.pods("web")
        return bool(target) and all(requests(pod) == target for pod in pods)

    await case.world.until(asked, "both pods request their target")
    await case.world.passes(UPDATER, 12)
    assert await case.uids("web") == before
    assert not case.evictions()
    assert len(case.resizes()) == len(before), "the same is not sent twice"


async def test_what_no_node_can_hold_is_refused_and_fits_once_the_maximum_is_lower(
    case: Case,
) -> None:
    world = case.world
    await case.deploy("web", replicas=2, requests=_SMALL, uses={"cpu": "15900m"})
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "InPlace")

    async def refused() -> list[str]:
        return case.resizes(code=403)

    await world.until(refused, "the API server refuses the resize")
    told = len(case.resizes(code=403))
    await world.passes(UPDATER, 4)
    assert len(case.resizes(code=403)) <= told + 1, "the same is not sent again and again"
    await case.edit(VPAS, "web", resourcePolicy=_bounded(maxAllowed={"cpu": "2"}))
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not case.evictions()


async def test_a_quota_holds_a_resize_back_and_never_costs_a_pod(case: Case) -> None:
    world = case.world
    await case.limit(**{"requests.cpu": "300m"})
    await case.deploy("web", requests=_SMALL, uses=_BUSY)
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "InPlaceOrRecreate")

    async def held() -> list[Object]:
        return await case.events("EvictionSkipped")

    await world.until(held, "the updater foresees that the quota would refuse the resize")
    await world.passes(UPDATER, 5)
    assert await case.uids("web") == before
    assert not case.evictions()
    assert not case.resizes(code=403)
    await case.edit(QUOTAS, "quota", hard={"requests.cpu": "4"})
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before


async def test_a_resize_stays_within_a_limit_range(case: Case) -> None:
    bounds = [{"type": "Container", "max": {"cpu": "300m"}}]
    await case.create(LIMIT_RANGES, {"metadata": {"name": "most"}, "spec": {"limits": bounds}})
    # As busy as its limit allows, so it should get more than the maximum.
    tight = {"cpu": "280m"}
    await case.deploy("web", requests={**_SMALL, **tight}, limits=tight, uses=_BUSY)
    await case.running("web")
    await case.autoscale("web", "InPlace")

    async def at_the_maximum() -> bool:
        pods = await case.pods("web")
        return all(requests(pod)["cpu"] == "300m" for pod in pods)

    await case.world.until(at_the_maximum, "every pod requests the maximum")
    assert not case.resizes(code=403)
    assert not case.resizes(code=422)


async def test_a_resize_that_would_change_the_qos_class_is_not_sent(case: Case) -> None:
    policy = {"containerName": "*", "controlledValues": "RequestsOnly"}
    await case.deploy("web", container=_EXACT)
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "InPlace", resourcePolicy={"containerPolicies": [policy]})
    await case.recommended("web")
    await case.world.passes(UPDATER, 8)
    assert await case.uids("web") == before
    assert not case.resizes() + case.resizes(code=422) + case.evictions()


async def test_limits_of_memory_shrink_in_place_and_the_class_stays_guaranteed(
    case: Case,
) -> None:
    await case.deploy("web", container=_EXACT)
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "InPlace")
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    for pod in pods:
        resources = pod["spec"]["containers"][0]["resources"]
        assert resources["limits"] == resources["requests"]
        assert pod["status"]["qosClass"] == "Guaranteed"


async def test_a_container_that_asks_for_it_is_restarted_by_its_resize(case: Case) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    await case.deploy("web", requests=LARGE, container={"resizePolicy": policy})
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "InPlace")
    pods = await case.fits("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert [restarts(pod) for pod in pods] == [1, 1]
    assert not case.evictions()
