"""AEP-8905, native sidecars: one case for each line of the document's test plan."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from common.kube.endpoints import STATEFUL_SETS, VPAS
from e2e.installation import ADMISSION, COMPONENTS, RECOMMENDER, UPDATER
from e2e.pods import LARGE, Object, is_ready
from e2e.world import BY_HAND, Case, World

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
    """AEP-8905: new pods get what the recommender found for their sidecar."""
    async with _gate_on(case.world):
        await _deploy(case)
        await case.running("web")
        await case.autoscale("web", "Initial")
        target = await _recommended_for(case, "proxy")
        assert not await _recommended(case, "migrate")
        await case.edit(VPAS, "web", recommenders=BY_HAND)  # from now on it stays as it is
        target = await _recommended_for(case, "proxy")
        await case.world.kubectl("delete", "pod", "--all", namespace=case.namespace)
        await _settled(case, {"migrate": _SMALL, "proxy": target})
        assert not case.resizes() + case.evictions()


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
async def test_the_updater_resizes_native_sidecars_in_place(case: Case, mode: str) -> None:
    """AEP-8905: by a patch of the init container, which the kubelet carries out."""
    async with _gate_on(case.world, UPDATER, ADMISSION):
        await _deploy(case)
        before = await case.ready("web")
        await case.autoscale("web", mode, recommenders=BY_HAND)
        await case.advise("web", app=LARGE, proxy=_SMALL, migrate=LARGE)
        pods = await _settled(case, {"migrate": _SMALL, "proxy": _SMALL})
        assert {pod["metadata"]["uid"] for pod in pods} == before
        for pod in pods:
            assert not any(one["restartCount"] for one in _statuses(pod).values())
        assert len(case.resizes()) == len(before)
        assert not case.evictions()


async def test_the_updater_evicts_pods_for_native_sidecars(case: Case) -> None:
    """AEP-8905: a sidecar alone is reason enough, and the replacement has what is recommended."""
    async with _gate_on(case.world, UPDATER, ADMISSION):
        await _deploy(case)
        before = await case.ready("web")
        await case.autoscale("web", "Recreate", recommenders=BY_HAND)
        await case.advise("web", app=LARGE, proxy=_SMALL)
        pods = await _settled(case, {"migrate": _SMALL, "proxy": _SMALL})
        assert not {pod["metadata"]["uid"] for pod in pods} & before
        assert len(case.evictions()) == len(before)
        assert not case.resizes()


async def test_admission_patches_native_sidecars(case: Case) -> None:
    """AEP-8905: at their own place, and the annotations say so."""
    async with _gate_on(case.world, ADMISSION):
        await case.autoscale("web", "Initial", recommenders=BY_HAND)
        await case.advise("web", proxy=_SMALL, migrate=LARGE)
        await _deploy(case)
        pods = await _settled(case, {"migrate": _SMALL, "proxy": _SMALL})
        for pod in pods:
            annotations = pod["metadata"]["annotations"]
            assert annotations["vpaUpdates"] == (
                "Pod resources updated by web: native sidecar 1: cpu request, memory request"
            )
            assert annotations["vpaObservedContainers"] == "app, proxy"


@pytest.mark.concurrent
async def test_with_the_gate_off_native_sidecars_are_left_alone(case: Case) -> None:
    """AEP-8905: no recommendation, no patch, no resize and no eviction is about them."""
    await _deploy(case)
    await case.running("web")
    await case.autoscale("web", "InPlaceOrRecreate")
    await case.fits("web")
    assert not await _recommended(case, "proxy")
    before = await case.uids("web")
    sent = case.resizes() + case.evictions()
    await case.edit(VPAS, "web", recommenders=BY_HAND)
    await case.advise("web", app=await case.target("web"), proxy=_SMALL, migrate=LARGE)
    await case.world.passes(UPDATER, 8)  # older than a young pod
    assert await case.uids("web") == before
    assert case.resizes() + case.evictions() == sent
    await case.world.kubectl("delete", "pod", "--all", namespace=case.namespace)
    await _settled(case, {"migrate": _SMALL, "proxy": LARGE})


async def test_regular_init_containers_get_nothing_that_is_meant_for_sidecars(case: Case) -> None:
    """AEP-8905: also where another pod of the VPA has a sidecar of the same name."""
    async with _gate_on(case.world, UPDATER, ADMISSION):
        await _deploy(case, controller=STATEFUL_SETS, replicas=2)
        await case.ready("web")
        template = {"spec": {"initContainers": [_MIGRATE, _PLAIN_PROXY]}}
        on_delete = {"type": "OnDelete", "rollingUpdate": None}
        await case.edit(STATEFUL_SETS, "web", updateStrategy=on_delete, template=template)
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
        await case.autoscale("web", "InPlaceOrRecreate", recommenders=BY_HAND, targetRef=target)
        await case.advise("web", app=LARGE, proxy=_SMALL, migrate=LARGE)
        await case.world.kubectl("delete", "pod", "web-1", namespace=case.namespace)
        wanted = {"web-0": _SMALL, "web-1": LARGE}

        async def settled() -> bool:
            pods = {pod["metadata"]["name"]: pod for pod in await case.pods("web")}
            return pods.keys() == wanted.keys() and all(
                _has(pods[name], {"migrate": _SMALL, "proxy": wanted[name]}) for name in wanted
            )

        await case.world.until(settled, "the sidecar is resized, the plain container isn't")
        await case.world.passes(UPDATER, 8)
        assert await settled()
        assert set(case.resizes()) == {"web-0"}
        assert not case.evictions()


async def test_after_the_gate_is_turned_off_checkpoints_of_sidecars_do_no_harm(case: Case) -> None:
    """AEP-8905: no recommendation is made of them, and no minimum divided; they stay."""
    async with _gate_on(case.world, RECOMMENDER):
        await _deploy(case)
        await case.running("web")
        await case.autoscale("web", "Off")
        await _recommended_for(case, "proxy")
        shared = await case.target("web")
        await case.world.until(
            lambda: case.checkpoint("web", "proxy"), "a checkpoint of the sidecar"
        )

    async def alone() -> bool:
        return not await _recommended(case, "proxy")

    await case.world.until(alone, "no recommendation for the sidecar")
    assert await case.target("web") == {"cpu": shared["cpu"], "memory": "250Mi"}
    assert shared["memory"] != "250Mi", "the sidecar had a part of it"
    await case.world.passes(RECOMMENDER, 3)
    assert await alone()
    assert await case.checkpoint("web", "proxy")
    await case.world.kubectl("scale", "deployment/web", "--replicas=0", namespace=case.namespace)

    async def gone() -> bool:
        return not await case.pods("web")

    await case.world.until(gone, "no pods of web")
    await case.world.passes(RECOMMENDER, 3)
    assert await alone(), "nor while there are no pods"


@contextlib.asynccontextmanager
async def _gate_on(world: World, *components: str) -> AsyncIterator[None]:
    """The gate NativeSidecar on these components, all three unless some are named."""
    async with contextlib.AsyncExitStack() as stack:
        for name in components or COMPONENTS:
            await stack.enter_async_context(world.installation.changed(name, _GATES))
        yield


async def _deploy(case: Case, **more: Any) -> None:
    """Two pods with a plain init container and a native sidecar; both are larger than they use."""
    await case.deploy("web", spec={"initContainers": [_MIGRATE, _PROXY]}, **more)


def _statuses(pod: Object) -> dict[str, Object]:
    return {one["name"]: one for one in pod["status"].get("initContainerStatuses") or ()}


def _has(pod: Object, wanted: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether the init containers ask for this, and the kubelet says that sidecars have it."""
    if not is_ready(pod):
        return False
    asked = {one["name"]: one["resources"]["requests"] for one in pod["spec"]["initContainers"]}
    sidecars = {
        one["name"] for one in pod["spec"]["initContainers"] if one.get("restartPolicy") == "Always"
    }
    statuses = _statuses(pod)
    return asked == wanted and all(
        statuses[name].get("resources", {}).get("requests") == asked[name] for name in sidecars
    )


async def _settled(case: Case, wanted: Mapping[str, Mapping[str, str]]) -> list[Object]:
    async def settled() -> list[Object]:
        pods = await case.pods("web")
        return pods if len(pods) == 2 and all(_has(pod, wanted) for pod in pods) else []

    return await case.world.until(settled, f"init containers of two pods with {wanted}")


async def _recommended(case: Case, container: str) -> dict[str, str]:
    """The target of a container; empty if there is none."""
    vpa = await case.world.client.get(VPAS.as_dicts(), "web", namespace=case.namespace)
    recommendation = (vpa.get("status") or {}).get("recommendation") or {}
    for one in recommendation.get("containerRecommendations") or ():
        if one["containerName"] == container:
            target: dict[str, str] = one["target"]
            return target
    return {}


async def _recommended_for(case: Case, container: str) -> dict[str, str]:
    return await case.world.until(
        lambda: _recommended(case, container), f"a recommendation for {container}"
    )
