"""AEP-8905, native sidecars: one case per line of its test plan."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from common.kube.endpoints import STATEFUL_SETS, VPAS
from e2e.cluster import OTHER_RECOMMENDER, Case, Cluster
from e2e.installation import ADMISSION, COMPONENTS, RECOMMENDER, UPDATER
from e2e.pods import LARGE, Object, is_ready

_GATES = "--feature-gates=InPlace=true,NativeSidecar=true"
_SMALL = {"cpu": "100m", "memory": "256Mi"}
_MIGRATE = {
    "name": "migrate",
    "image": "registry.example/migrate",
    "resources": {"requests": _SMALL},
}
_PROXY = {
    "name": "proxy",
    "image": "registry.example/proxy",
    "restartPolicy": "Always",
    "resources": {"requests": LARGE},
}
_PLAIN_PROXY = {key: value for key, value in _PROXY.items() if key != "restartPolicy"}


async def test_admission_applies_recommendations_to_native_sidecars(case: Case) -> None:
    """AEP-8905: new pods get the recommendation for their native sidecar."""
    async with _with_gate(case.cluster):
        await _deploy(case)
        await case.wait_until_measured("web")
        await case.create_vpa("web", "Initial")
        target = await _wait_for_target(case, "proxy")
        assert not await _target_of(case, "migrate")
        await case.edit(VPAS, "web", recommenders=OTHER_RECOMMENDER)  # freezes the target
        target = await _wait_for_target(case, "proxy")
        await case.cluster.kubectl("delete", "pod", "--all", namespace=case.namespace)
        await _wait_for_requests(case, {"migrate": _SMALL, "proxy": target})
        assert not case.resizes() + case.evictions()


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
async def test_the_updater_resizes_native_sidecars_in_place(case: Case, mode: str) -> None:
    """AEP-8905: the updater patches the init container, and the kubelet resizes it."""
    async with _with_gate(case.cluster, UPDATER, ADMISSION):
        await _deploy(case)
        before = await case.wait_until_ready("web")
        await case.create_vpa("web", mode, recommenders=OTHER_RECOMMENDER)
        await case.set_recommendation("web", app=LARGE, proxy=_SMALL, migrate=LARGE)
        pods = await _wait_for_requests(case, {"migrate": _SMALL, "proxy": _SMALL})
        assert {pod["metadata"]["uid"] for pod in pods} == before
        for pod in pods:
            assert not any(one["restartCount"] for one in _statuses(pod).values())
        assert len(case.resizes()) == len(before)
        assert not case.evictions()


async def test_the_updater_evicts_pods_for_native_sidecars(case: Case) -> None:
    """AEP-8905: a sidecar's target alone causes an eviction; the replacement gets the target."""
    async with _with_gate(case.cluster, UPDATER, ADMISSION):
        await _deploy(case)
        before = await case.wait_until_ready("web")
        await case.create_vpa("web", "Recreate", recommenders=OTHER_RECOMMENDER)
        await case.set_recommendation("web", app=LARGE, proxy=_SMALL)
        pods = await _wait_for_requests(case, {"migrate": _SMALL, "proxy": _SMALL})
        assert not {pod["metadata"]["uid"] for pod in pods} & before
        assert len(case.evictions()) == len(before)
        assert not case.resizes()


async def test_admission_patches_native_sidecars(case: Case) -> None:
    """AEP-8905: admission patches the init container, and the annotations name it."""
    async with _with_gate(case.cluster, ADMISSION):
        await case.create_vpa("web", "Initial", recommenders=OTHER_RECOMMENDER)
        await case.set_recommendation("web", proxy=_SMALL, migrate=LARGE)
        await _deploy(case)
        pods = await _wait_for_requests(case, {"migrate": _SMALL, "proxy": _SMALL})
        for pod in pods:
            annotations = pod["metadata"]["annotations"]
            assert annotations["vpaUpdates"] == (
                "Pod resources updated by web: native sidecar 1: cpu request, memory request"
            )
            assert annotations["vpaObservedContainers"] == "app, proxy"


@pytest.mark.concurrent
async def test_with_the_gate_off_native_sidecars_are_left_alone(case: Case) -> None:
    """AEP-8905: sidecars get no recommendation, patch, resize or eviction."""
    await _deploy(case)
    await case.wait_until_measured("web")
    await case.create_vpa("web", "InPlaceOrRecreate")
    await case.wait_until_applied("web")
    assert not await _target_of(case, "proxy")
    before = await case.uids("web")
    sent = case.resizes() + case.evictions()
    await case.edit(VPAS, "web", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=await case.target("web"), proxy=_SMALL, migrate=LARGE)
    await case.cluster.wait_for_cycles(UPDATER, 8)  # longer than the minimum lifetime
    assert await case.uids("web") == before
    assert case.resizes() + case.evictions() == sent
    await case.cluster.kubectl("delete", "pod", "--all", namespace=case.namespace)
    await _wait_for_requests(case, {"migrate": _SMALL, "proxy": LARGE})


async def test_regular_init_containers_get_nothing_that_is_meant_for_sidecars(case: Case) -> None:
    """AEP-8905: even if another pod of the VPA has a sidecar of the same name."""
    async with _with_gate(case.cluster, UPDATER, ADMISSION):
        await _deploy(case, controller=STATEFUL_SETS, replicas=2)
        await case.wait_until_ready("web")
        template = {"spec": {"initContainers": [_MIGRATE, _PLAIN_PROXY]}}
        on_delete = {"type": "OnDelete", "rollingUpdate": None}
        await case.edit(STATEFUL_SETS, "web", updateStrategy=on_delete, template=template)
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
        await case.create_vpa("web", "Initial", recommenders=OTHER_RECOMMENDER, targetRef=target)
        await case.set_recommendation("web", app=LARGE, proxy=_SMALL, migrate=LARGE)
        await case.cluster.kubectl("delete", "pod", "web-1", namespace=case.namespace)
        wanted = {"web-0": LARGE, "web-1": LARGE}

        async def matching() -> bool:
            pods = {pod["metadata"]["name"]: pod for pod in await case.pods("web")}
            return pods.keys() == wanted.keys() and all(
                _has_requests(pods[name], {"migrate": _SMALL, "proxy": wanted[name]})
                for name in wanted
            )

        await case.wait_until_ready("web")
        assert await matching()
        wanted["web-0"] = _SMALL
        await case.edit(VPAS, "web", updatePolicy={"updateMode": "InPlaceOrRecreate"})
        await case.cluster.wait_for(matching, "the sidecar is resized, the plain container isn't")
        await case.cluster.wait_for_cycles(UPDATER, 8)
        assert await matching()
        assert set(case.resizes()) == {"web-0"}
        assert not case.evictions()


async def test_checkpoints_of_sidecars_are_ignored_after_the_gate_is_turned_off(case: Case) -> None:
    """AEP-8905: they add no recommendation and no share of the pod minimum, and aren't deleted."""
    async with _with_gate(case.cluster, RECOMMENDER):
        await _deploy(case)
        await case.wait_until_measured("web")
        await case.create_vpa("web", "Off")
        await _wait_for_target(case, "proxy")
        shared = await case.target("web")
        await case.cluster.wait_for(
            lambda: case.checkpoint("web", "proxy"), "a checkpoint of the sidecar"
        )

    async def alone() -> bool:
        return not await _target_of(case, "proxy")

    await case.cluster.wait_for(alone, "no recommendation for the sidecar")
    assert await case.target("web") == {"cpu": shared["cpu"], "memory": "250Mi"}
    assert shared["memory"] != "250Mi", "the sidecar had a share of the pod minimum"
    await case.cluster.wait_for_cycles(RECOMMENDER, 3)
    assert await alone()
    assert await case.checkpoint("web", "proxy")
    await case.cluster.kubectl("scale", "deployment/web", "--replicas=0", namespace=case.namespace)

    async def gone() -> bool:
        return not await case.pods("web")

    await case.cluster.wait_for(gone, "no pods of web")
    await case.cluster.wait_for_cycles(RECOMMENDER, 3)
    assert await alone(), "nor while there are no pods"


@contextlib.asynccontextmanager
async def _with_gate(cluster: Cluster, *components: str) -> AsyncIterator[None]:
    """Turn the gate NativeSidecar on for these components, by default all three."""
    async with contextlib.AsyncExitStack() as stack:
        for name in components or COMPONENTS:
            await stack.enter_async_context(cluster.installation.with_arguments(name, _GATES))
        yield


async def _deploy(case: Case, **more: Any) -> None:
    """Deploy pods with a plain init container and a native sidecar, both with large requests."""
    await case.deploy("web", spec={"initContainers": [_MIGRATE, _PROXY]}, **more)


def _statuses(pod: Object) -> dict[str, Object]:
    return {one["name"]: one for one in pod["status"].get("initContainerStatuses") or ()}


def _has_requests(pod: Object, wanted: Mapping[str, Mapping[str, str]]) -> bool:
    """Return True if the init containers have these requests, sidecars also in the status."""
    if not is_ready(pod):
        return False
    specified = {one["name"]: one["resources"]["requests"] for one in pod["spec"]["initContainers"]}
    sidecars = {
        one["name"] for one in pod["spec"]["initContainers"] if one.get("restartPolicy") == "Always"
    }
    statuses = _statuses(pod)
    return specified == wanted and all(
        statuses[name].get("resources", {}).get("requests") == specified[name] for name in sidecars
    )


async def _wait_for_requests(case: Case, wanted: Mapping[str, Mapping[str, str]]) -> list[Object]:
    async def matching() -> list[Object]:
        pods = await case.pods("web")
        return pods if len(pods) == 2 and all(_has_requests(pod, wanted) for pod in pods) else []

    return await case.cluster.wait_for(matching, f"init containers of two pods with {wanted}")


async def _target_of(case: Case, container: str) -> dict[str, str]:
    """Return the target of a container; empty if there is none."""
    vpa = await case.cluster.client.get(VPAS.as_dicts(), "web", namespace=case.namespace)
    recommendation = (vpa.get("status") or {}).get("recommendation") or {}
    for one in recommendation.get("containerRecommendations") or ():
        if one["containerName"] == container:
            target: dict[str, str] = one["target"]
            return target
    return {}


async def _wait_for_target(case: Case, container: str) -> dict[str, str]:
    return await case.cluster.wait_for(
        lambda: _target_of(case, container), f"a recommendation for {container}"
    )
