"""Resizes that a node can't hold now, or at all, against a whole cluster in virtual time."""

from dataclasses import replace
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, PODS, VPAS
from common.kube.lease import AdmissionStatus
from sandbox.kubelet.pod_resources import Totals
from updater.resize.resize_state import ResizeStatus, resize_status
from updater.run import Updater
from updater.snapshot.live_pod import WITHDRAWER
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

GIB = 2**30
IN_PLACE = ("InPlace", "InPlaceOrRecreate")
VERSIONS = ("1.35", "1.36")  # the kubelet says what is infeasible; the API server does


async def passes(shop: UpdaterSandbox, updater: Updater, times: int = 4) -> None:
    for _ in range(times):
        await updater.run_once()
        await shop.settle()


async def resize_nodes(shop: UpdaterSandbox, *, cpu: int, memory: int = 4 * GIB) -> None:
    """Give every node another size."""
    kubelets = shop.cluster.kubelets
    for node in list(kubelets.nodes.values()):
        await kubelets.reshape(replace(node.shape, capacity=Totals(cpu, memory)))
    await shop.settle()


async def requests(shop: UpdaterSandbox) -> list[list[dict[str, str]]]:
    """What the containers of each pod request, by its spec."""
    listing = await shop.admin.list(PODS.as_dicts(), namespace="shop")
    return sorted(
        [each["resources"]["requests"] for each in pod["spec"]["containers"]]
        for pod in listing.items
    )


async def statuses(shop: UpdaterSandbox) -> set[ResizeStatus]:
    listing = await shop.admin.list(PODS, namespace="shop")
    return {resize_status(pod) for pod in listing.items}


async def restarts(shop: UpdaterSandbox) -> int:
    listing = await shop.admin.list(PODS, namespace="shop")
    return sum(
        status.restart_count
        for pod in listing.items
        for status in pod.status.container_statuses or ()
    )


# X100


@pytest.mark.parametrize("mode", IN_PLACE)
@pytest.mark.parametrize("wanted", ["600m", "500m"])
def test_a_deferred_resize_follows_the_recommendation(wanted: str, mode: str) -> None:
    """Two nodes of two cores, and three pods: 1900m each don't fit; they have 500m."""

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale(mode)
        await shop.recommend("1900m")
        updater = shop.updater()
        await passes(shop, updater)
        assert ResizeStatus.DEFERRED in await statuses(shop)
        await shop.recommend(wanted)
        await passes(shop, updater, 5)
        assert await shop.cpu() == [wanted] * 3
        assert await statuses(shop) == {ResizeStatus.NONE}
        sent = len(shop.calls("resize"))
        await passes(shop, updater)
        assert len(shop.calls("resize")) == sent, "nothing is sent twice"
        assert shop.calls("eviction") == []
        assert await restarts(shop) == 0

    in_updater_sandbox(test)


def test_what_the_kubelet_calls_infeasible_is_withdrawn_when_nothing_is_wanted() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlaceOrRecreate")
        shop.admission = AdmissionStatus.STALE  # no evictions
        await shop.recommend("9")
        updater = shop.updater()
        await passes(shop, updater)
        assert await shop.cpu() == ["9"] * 3
        await shop.recommend("500m")
        await passes(shop, updater)
        assert await shop.cpu() == ["500m"] * 3
        assert await statuses(shop) == {ResizeStatus.NONE}
        assert shop.calls("resize") == [200] * 6
        assert shop.calls("eviction") == []
        told = await shop.told("InPlaceResizedByVPA")
        assert sum("was resized in place" in message for message in told) == 3
        withdrawn = "Pending resize was withdrawn by VPA Updater. [resize_withdrawn]"
        assert sum(message.startswith(withdrawn) for message in told) == 3
        pods = await shop.admin.list(PODS.as_dicts(), namespace="shop")
        managers = [
            {each["manager"] for each in pod["metadata"]["managedFields"]} for pod in pods.items
        ]
        assert all(WITHDRAWER in each for each in managers), "a restart can tell it from a resize"

    in_updater_sandbox(test, version="1.35")


# X101


@pytest.mark.parametrize("mode", IN_PLACE)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_did_not_fit_is_tried_again_once_the_nodes_have_grown(version: str, mode: str) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale(mode)
        shop.admission = AdmissionStatus.STALE  # no evictions
        await shop.recommend("3")
        updater = shop.updater()
        await passes(shop, updater, 6)
        tried = len(shop.calls("resize"))
        await passes(shop, updater, 3)
        if mode == "InPlace":
            assert len(shop.calls("resize")) == tried, "nothing has changed"
        await resize_nodes(shop, cpu=16_000)
        await passes(shop, updater, 8)
        assert await shop.cpu() == ["3"] * 3
        assert await statuses(shop) == {ResizeStatus.NONE}
        assert shop.calls("eviction") == []
        assert await restarts(shop) == 0

    in_updater_sandbox(test, version=version)


# X102


async def deploy_two(shop: UpdaterSandbox, replicas: int = 2) -> None:
    """An application and its sidecar."""
    resources = {"requests": {"cpu": "200m", "memory": "128Mi"}}
    containers = [
        {"name": name, "image": f"{name}:1", "resources": resources} for name in ("app", "log")
    ]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template,
    }
    await shop.admin.create(
        DEPLOYMENTS.as_dicts(), {"metadata": {"name": "web"}, "spec": spec}, namespace="shop"
    )
    await shop.settle()


async def recommend_two(shop: UpdaterSandbox, app: dict[str, str], log: dict[str, str]) -> None:
    told = [
        {"containerName": name, "target": each, "lowerBound": each, "upperBound": each}
        for name, each in (("app", app), ("log", log))
    ]
    await shop.admin.patch(
        VPAS.as_dicts(),
        "web",
        {"status": {"recommendation": {"containerRecommendations": told}}},
        patch_type=PatchType.MERGE,
        namespace="shop",
        subresource="status",
    )
    await shop.settle()


@pytest.mark.parametrize("mode", IN_PLACE)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_sidecar_gets_its_memory_though_its_neighbour_wants_too_much_cpu(
    version: str, mode: str
) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await deploy_two(shop)
        await shop.autoscale(mode)
        shop.admission = AdmissionStatus.STALE  # no evictions
        app, log = {"cpu": "9", "memory": "64Mi"}, {"cpu": "300m", "memory": "512Mi"}
        await recommend_two(shop, app, log)
        updater = shop.updater()
        await passes(shop, updater, 6)
        fits = [{"cpu": "200m", "memory": "64Mi"}, log]
        assert await requests(shop) == [fits, fits]
        assert await statuses(shop) == {ResizeStatus.NONE}
        tried = len(shop.calls("resize"))
        await passes(shop, updater, 6)
        assert len(shop.calls("resize")) == tried, "the rest is remembered"
        await recommend_two(shop, {"cpu": "900m", "memory": "64Mi"}, log)
        await passes(shop, updater)
        whole = [{"cpu": "900m", "memory": "64Mi"}, log]
        assert await requests(shop) == [whole, whole]
        assert shop.calls("eviction") == []

    in_updater_sandbox(test, version=version)


def test_nodes_that_grow_get_the_rest_as_well() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await deploy_two(shop)
        await shop.autoscale("InPlace")
        app, log = {"cpu": "3", "memory": "128Mi"}, {"cpu": "200m", "memory": "512Mi"}
        await recommend_two(shop, app, log)
        updater = shop.updater()
        await passes(shop, updater, 6)
        assert await requests(shop) == [[{"cpu": "200m", "memory": "128Mi"}, log]] * 2
        await resize_nodes(shop, cpu=16_000)
        await passes(shop, updater)
        assert await requests(shop) == [[app, log]] * 2

    in_updater_sandbox(test)
