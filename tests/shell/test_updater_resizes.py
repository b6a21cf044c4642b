"""Deferred and infeasible resizes, with a whole cluster in virtual time."""

from dataclasses import replace
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, PODS, VPAS
from common.kube.lease import AdmissionStatus
from sandbox.kubelet.pod_resources import Totals
from updater.resize.resize_status import ResizeStatus, resize_status
from updater.run import Updater
from updater.snapshot.live_pod import WITHDRAWER
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

GIB = 2**30
IN_PLACE = ("InPlace", "InPlaceOrRecreate")
VERSIONS = ("1.35", "1.36")  # infeasible by the kubelet; by the API server


async def run_passes(sandbox: UpdaterSandbox, updater: Updater, times: int = 4) -> None:
    for _ in range(times):
        await updater.run_once()
        await sandbox.settle()


async def resize_nodes(sandbox: UpdaterSandbox, *, cpu: int, memory: int = 4 * GIB) -> None:
    """Give every node another size."""
    kubelets = sandbox.cluster.kubelets
    for node in list(kubelets.nodes.values()):
        await kubelets.reshape(replace(node.shape, capacity=Totals(cpu, memory)))
    await sandbox.settle()


async def requests(sandbox: UpdaterSandbox) -> list[list[dict[str, str]]]:
    """Return the requests of each pod's containers in its spec."""
    listing = await sandbox.admin.list(PODS.as_dicts(), namespace="shop")
    return sorted(
        [each["resources"]["requests"] for each in pod["spec"]["containers"]]
        for pod in listing.items
    )


async def statuses(sandbox: UpdaterSandbox) -> set[ResizeStatus]:
    listing = await sandbox.admin.list(PODS, namespace="shop")
    return {resize_status(pod) for pod in listing.items}


async def restarts(sandbox: UpdaterSandbox) -> int:
    listing = await sandbox.admin.list(PODS, namespace="shop")
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

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale(mode)
        await sandbox.recommend("1900m")
        updater = sandbox.updater()
        await run_passes(sandbox, updater)
        assert ResizeStatus.DEFERRED in await statuses(sandbox)
        await sandbox.recommend(wanted)
        await run_passes(sandbox, updater, 5)
        assert await sandbox.cpu() == [wanted] * 3
        assert await statuses(sandbox) == {ResizeStatus.NONE}
        sent = len(sandbox.calls("resize"))
        await run_passes(sandbox, updater)
        assert len(sandbox.calls("resize")) == sent, "no resize is sent twice"
        assert sandbox.calls("eviction") == []
        assert await restarts(sandbox) == 0

    in_updater_sandbox(test)


def test_an_infeasible_resize_is_reverted_when_the_target_is_the_former_value() -> None:
    """The two nodes are full, so no step fits either."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(replicas=4)
        await resize_nodes(sandbox, cpu=1000)
        await sandbox.autoscale("InPlaceOrRecreate")
        sandbox.admission = AdmissionStatus.STALE  # no evictions
        await sandbox.recommend("9")
        updater = sandbox.updater()
        await run_passes(sandbox, updater)
        assert await sandbox.cpu() == ["9"] * 4
        await sandbox.recommend("500m")
        await run_passes(sandbox, updater)
        assert await sandbox.cpu() == ["500m"] * 4
        assert await statuses(sandbox) == {ResizeStatus.NONE}
        assert sandbox.calls("resize") == [200] * 8
        assert sandbox.calls("eviction") == []
        messages = await sandbox.messages("InPlaceResizedByVPA")
        assert sum("was resized in place" in message for message in messages) == 4
        withdrawn = "Pending resize was withdrawn by VPA Updater. [resize_withdrawn]"
        assert sum(message.startswith(withdrawn) for message in messages) == 4
        pods = await sandbox.admin.list(PODS.as_dicts(), namespace="shop")
        managers = [
            {each["manager"] for each in pod["metadata"]["managedFields"]} for pod in pods.items
        ]
        assert all(WITHDRAWER in each for each in managers), (
            "a restart can distinguish it from a resize"
        )

    in_updater_sandbox(test, version="1.35")


# X101


@pytest.mark.parametrize("mode", IN_PLACE)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_infeasible_resize_is_retried_after_the_nodes_grew(version: str, mode: str) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale(mode)
        sandbox.admission = AdmissionStatus.STALE  # no evictions
        await sandbox.recommend("3")
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 6)
        tried = len(sandbox.calls("resize"))
        await run_passes(sandbox, updater, 3)
        if mode == "InPlace":
            assert len(sandbox.calls("resize")) == tried, "nothing has changed"
        await resize_nodes(sandbox, cpu=16_000)
        await run_passes(sandbox, updater, 8)
        assert await sandbox.cpu() == ["3"] * 3
        assert await statuses(sandbox) == {ResizeStatus.NONE}
        assert sandbox.calls("eviction") == []
        assert await restarts(sandbox) == 0

    in_updater_sandbox(test, version=version)


# X102


async def deploy_two(sandbox: UpdaterSandbox, replicas: int = 2) -> None:
    """Create pods of an application container and a sidecar."""
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
    await sandbox.admin.create(
        DEPLOYMENTS.as_dicts(), {"metadata": {"name": "web"}, "spec": spec}, namespace="shop"
    )
    await sandbox.settle()


async def recommend_two(sandbox: UpdaterSandbox, app: dict[str, str], log: dict[str, str]) -> None:
    messages = [
        {"containerName": name, "target": each, "lowerBound": each, "upperBound": each}
        for name, each in (("app", app), ("log", log))
    ]
    await sandbox.admin.patch(
        VPAS.as_dicts(),
        "web",
        {"status": {"recommendation": {"containerRecommendations": messages}}},
        patch_type=PatchType.MERGE,
        namespace="shop",
        subresource="status",
    )
    await sandbox.settle()


@pytest.mark.parametrize("mode", IN_PLACE)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_container_gets_its_memory_while_another_one_has_an_infeasible_cpu_target(
    version: str, mode: str
) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy_two(sandbox)
        await sandbox.autoscale(mode)
        sandbox.admission = AdmissionStatus.STALE  # no evictions
        app, log = {"cpu": "9", "memory": "64Mi"}, {"cpu": "300m", "memory": "512Mi"}
        await recommend_two(sandbox, app, log)
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 6)
        fits = [{"cpu": "1700m", "memory": "64Mi"}, log]
        assert await requests(sandbox) == [fits, fits]
        assert await statuses(sandbox) == {ResizeStatus.NONE}
        tried = len(sandbox.calls("resize"))
        await run_passes(sandbox, updater, 6)
        assert len(sandbox.calls("resize")) == tried, "the rest is cached"
        await recommend_two(sandbox, {"cpu": "900m", "memory": "64Mi"}, log)
        await run_passes(sandbox, updater)
        whole = [{"cpu": "900m", "memory": "64Mi"}, log]
        assert await requests(sandbox) == [whole, whole]
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(test, version=version)


def test_the_rest_of_a_partial_resize_is_sent_after_the_nodes_grew() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy_two(sandbox)
        await sandbox.autoscale("InPlace")
        app, log = {"cpu": "3", "memory": "128Mi"}, {"cpu": "200m", "memory": "512Mi"}
        await recommend_two(sandbox, app, log)
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 6)
        assert await requests(sandbox) == [[{"cpu": "1800m", "memory": "128Mi"}, log]] * 2
        await resize_nodes(sandbox, cpu=16_000)
        await run_passes(sandbox, updater)
        assert await requests(sandbox) == [[app, log]] * 2

    in_updater_sandbox(test)
