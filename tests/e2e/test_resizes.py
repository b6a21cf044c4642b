"""The updater's in-place resizes, beyond the test plans of AEP-8818 and AEP-4016."""

from collections.abc import Mapping

import pytest

from common.kube.endpoints import VPAS
from e2e.cluster import LIMIT_RANGES, Case
from e2e.installation import UPDATER
from e2e.pods import LARGE, Object, requests, restarts
from workloads import autoscaler

_SMALL = {"cpu": "100m", "memory": "256Mi"}
_RESIZED = "InPlaceResizedByVPA"
_BUSY = {"cpu": "600m", "memory": "200Mi"}
_EXACT = {"resources": {"requests": LARGE, "limits": LARGE}}  # makes a pod Guaranteed
# Less than a quarter above the smallest target, so that memory goes down in one step.
_ABOVE = {"cpu": "800m", "memory": "320Mi"}
_LISTED = 11  # pods; the usage of fewer is read one by one


def _bounded(**bounds: Mapping[str, str]) -> Object:
    return {"containerPolicies": [{"containerName": "*", **bounds}]}


@pytest.mark.concurrent
async def test_each_resize_of_a_pod_is_an_event_and_repetitions_are_counted(
    case: Case,
) -> None:
    def exactly(cpu: str) -> Object:
        return _bounded(minAllowed={"cpu": cpu}, maxAllowed={"cpu": cpu})

    await case.deploy("web", replicas=1, requests=LARGE)
    await case.wait_until_measured("web", replicas=1)
    await case.create_vpa("web", "InPlace", resourcePolicy=exactly("1"))
    await case.wait_until_applied("web", replicas=1)
    for cpu in ("2", "1", "2"):
        await case.edit(VPAS, "web", resourcePolicy=exactly(cpu))

        async def resized(cpu: str = cpu) -> bool:
            return all(requests(pod)["cpu"] == cpu for pod in await case.pods("web"))

        await case.cluster.wait_for(resized, f"the pod has {cpu} CPUs")

    async def counted() -> bool:
        events = [(one["message"], one["count"]) for one in await case.events(_RESIZED)]
        return all(
            any(change in message and count == times for message, count in events)
            for change, times in (("cpu 2 -> 1", 1), ("cpu 1 -> 2", 2))
        )

    await case.cluster.wait_for(counted, "an Event of each change, and a count of the same one")


@pytest.mark.concurrent
async def test_a_pod_is_not_evicted_if_its_kubelet_does_not_respond_to_a_resize(case: Case) -> None:
    """The spec has the target already, and an unresponsive node would not stop an evicted pod."""
    await case.deploy("web", requests=LARGE, annotations={"kubelet.sandbox/resize": "silent"})
    before = {pod["metadata"]["uid"] for pod in await case.wait_until_measured("web")}
    await case.create_vpa("web", "InPlaceOrRecreate")

    async def requested() -> bool:
        target, pods = await case.target("web"), await case.pods("web")
        return bool(target) and all(requests(pod) == target for pod in pods)

    await case.cluster.wait_for(requested, "both pods request their target")
    await case.cluster.wait_for_cycles(UPDATER, 12)
    assert await case.uids("web") == before
    assert not case.evictions()
    assert len(case.resizes()) == len(before), "the same resize is not sent twice"


async def test_a_resize_beyond_every_node_is_refused_until_the_maximum_is_lower(
    case: Case,
) -> None:
    cluster = case.cluster
    await case.deploy("web", replicas=2, requests=_SMALL, usage={"cpu": "15900m"})
    before = {pod["metadata"]["uid"] for pod in await case.wait_until_measured("web")}
    uncapped = autoscaler("web", "InPlace")
    uncapped["metadata"]["annotations"] = {"vpa.autoscaling/cap-to-nodes": "never"}
    await case.create(VPAS, uncapped)

    async def refused() -> list[str]:
        return case.resizes(code=403)

    await cluster.wait_for(refused, "the API server refuses the resize")
    refusals = len(case.resizes(code=403))
    await cluster.wait_for_cycles(UPDATER, 4)
    assert len(case.resizes(code=403)) <= refusals + 1, "the refused resize is not sent again"
    await case.edit(VPAS, "web", resourcePolicy=_bounded(maxAllowed={"cpu": "2"}))
    pods = await case.wait_until_applied("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not case.evictions()


@pytest.mark.concurrent
async def test_a_resize_stays_within_a_limit_range(case: Case) -> None:
    bounds = [{"type": "Container", "max": {"cpu": "300m"}}]
    await case.create(LIMIT_RANGES, {"metadata": {"name": "most"}, "spec": {"limits": bounds}})
    # The usage is at the limit, so the target is above the maximum.
    tight = {"cpu": "280m"}
    await case.deploy("web", requests={**_SMALL, **tight}, limits=tight, usage=_BUSY)
    await case.wait_until_measured("web")
    await case.create_vpa("web", "InPlace")

    async def at_the_maximum() -> bool:
        pods = await case.pods("web")
        return all(requests(pod)["cpu"] == "300m" for pod in pods)

    await case.cluster.wait_for(at_the_maximum, "every pod requests the maximum")
    assert not case.resizes(code=403)
    assert not case.resizes(code=422)


@pytest.mark.concurrent
async def test_a_resize_that_would_change_the_qos_class_is_not_sent(case: Case) -> None:
    policy = {"containerName": "*", "controlledValues": "RequestsOnly"}
    await case.deploy("web", container=_EXACT)
    before = {pod["metadata"]["uid"] for pod in await case.wait_until_measured("web")}
    await case.create_vpa("web", "InPlace", resourcePolicy={"containerPolicies": [policy]})
    await case.wait_for_recommendation("web")
    await case.cluster.wait_for_cycles(UPDATER, 8)
    assert await case.uids("web") == before
    assert not case.resizes() + case.resizes(code=422) + case.evictions()


@pytest.mark.concurrent
@pytest.mark.parametrize("replicas", [2, _LISTED])
async def test_memory_limits_shrink_in_place_and_the_qos_class_stays_guaranteed(
    case: Case, replicas: int
) -> None:
    sizes = {"resources": {"requests": _ABOVE, "limits": _ABOVE}}
    await case.deploy("web", replicas=replicas, container=sizes)
    before = {pod["metadata"]["uid"] for pod in await case.wait_until_measured("web", replicas)}
    await case.create_vpa("web", "InPlace")
    pods = await case.wait_until_applied("web", replicas)
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(map(restarts, pods))
    for pod in pods:
        resources = pod["spec"]["containers"][0]["resources"]
        assert resources["limits"] == resources["requests"]
        assert pod["status"]["qosClass"] == "Guaranteed"


@pytest.mark.concurrent
async def test_a_resize_restarts_a_container_with_that_resize_policy(case: Case) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    await case.deploy("web", requests=LARGE, container={"resizePolicy": policy})
    before = {pod["metadata"]["uid"] for pod in await case.wait_until_measured("web")}
    await case.create_vpa("web", "InPlace")
    pods = await case.wait_until_applied("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert [restarts(pod) for pod in pods] == [1, 1]
    assert not case.evictions()
