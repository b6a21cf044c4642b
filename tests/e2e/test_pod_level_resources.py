"""Pods with pod-level resources (``spec.resources``), in each mode and with both flag values."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from e2e.cluster import OTHER_RECOMMENDER, Case
from e2e.installation import ADMISSION, UPDATER
from e2e.pods import Object, is_ready

Amounts = Mapping[str, str]

_MEMORY = "128Mi"
_REPLICAS = 2
# Both containers request 100m of CPU at first.
_TARGET = {"app": "600m", "side": "200m"}
_POD_LEVEL = {"requests": {"cpu": "400m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
_POD_LIMITS = {"limits": {"cpu": "1", "memory": "2Gi"}}  # the API server fills in 200m and 256Mi
_MODES = ("Recreate", "Initial", "InPlaceOrRecreate", "InPlace")


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", _MODES)
async def test_keep_fits_containers_into_the_pod_level_request(case: Case, mode: str) -> None:
    """A25: the containers share 400m in proportion, and every pod starts."""
    await _deploy(case, "web", mode, _POD_LEVEL)
    pods = await _wait_for_cpu(case, "web", {"app": "299m", "side": "99m"})
    assert {_pod_level(pod, "requests") for pod in pods} == {"400m"}
    assert {_pod_level(pod, "limits") for pod in pods} == {"1"}
    await _assert_unchanged(case, "web", mode)


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", _MODES)
async def test_keep_raises_a_request_that_the_api_server_defaulted(case: Case, mode: str) -> None:
    """A25: with only a pod-level limit, the request is the containers' sum, up to that limit."""
    await _deploy(case, "web", mode, _POD_LIMITS)
    pods = await _wait_for_cpu(case, "web", _TARGET)
    assert {_pod_level(pod, "requests") for pod in pods} == {"800m"}
    assert {_pod_level(pod, "limits") for pod in pods} == {"1"}
    await _assert_unchanged(case, "web", mode)


@pytest.mark.concurrent
async def test_pods_stay_as_they_are_if_nothing_fits(case: Case) -> None:
    """A25: a container without a recommendation uses the whole pod-level request."""
    whole = {"requests": {"cpu": "100m", "memory": "1Gi"}}
    await _deploy(case, "web", "Recreate", whole, app={"memory": _MEMORY}, target={"app": "300m"})
    before = await case.wait_until_ready("web", _REPLICAS)
    await case.cluster.wait_for_cycles(UPDATER, 4)
    assert await case.uids("web") == before
    assert not case.evictions()
    assert not case.evictions(code=429)


async def test_follow_scales_the_pod_level_resources(case: Case) -> None:
    """A26: the containers' sum rises from 200m to 800m, so the pod's values are multiplied by 4."""
    async with _following(case):
        for mode in _MODES:
            await _deploy(case, mode.lower(), mode, _POD_LEVEL)
        for mode in _MODES:
            pods = await _wait_for_cpu(case, mode.lower(), _TARGET)
            assert {_pod_level(pod, "requests") for pod in pods} == {"1600m"}
            assert {_pod_level(pod, "limits") for pod in pods} == {"4"}
        await case.cluster.wait_for_cycles(UPDATER, 4)
        assert len(case.evictions()) == _REPLICAS, "each pod of mode Recreate once"
        assert len(case.resizes()) == 2 * _REPLICAS, "each pod of the two modes in place once"


@asynccontextmanager
async def _following(case: Case) -> AsyncIterator[None]:
    installation, flag = case.cluster.installation, "--pod-level-resources=follow"
    async with (
        installation.with_arguments(ADMISSION, flag),
        installation.with_arguments(UPDATER, flag),
    ):
        yield


async def _deploy(
    case: Case,
    name: str,
    mode: str,
    whole: Object,
    *,
    app: Amounts | None = None,
    target: Amounts | None = None,
) -> None:
    """Create pods with these pod-level resources, and a VPA with a higher CPU target.

    The VPA is created before the pods in mode Initial, and after them in other modes.
    """
    small = {"cpu": "100m", "memory": _MEMORY}
    side = {
        "name": "side",
        "image": "registry.example/side",
        "resources": {"requests": small},
    }
    policy = {"updateMode": mode, "minReplicas": 1}
    targets = {
        container: {"cpu": cpu, "memory": _MEMORY} for container, cpu in (target or _TARGET).items()
    }

    async def deploy() -> None:
        await case.deploy(
            name,
            replicas=_REPLICAS,
            requests=app or small,
            extra_containers=[side],
            spec={"resources": whole},
        )

    if mode != "Initial":
        await deploy()
        await case.wait_until_ready(name, _REPLICAS)
    await case.create_vpa(name, mode, recommenders=OTHER_RECOMMENDER, updatePolicy=policy)
    await case.set_recommendation(name, **targets)
    if mode == "Initial":
        await deploy()


async def _wait_for_cpu(case: Case, name: str, cpu: Amounts) -> list[Object]:
    """Wait until all pods are ready, and their containers have these CPU requests."""
    found: list[Object] = []

    async def scaled() -> bool:
        found[:] = await case.pods(name)
        return len(found) == _REPLICAS and all(
            is_ready(pod) and _cpu_requests(pod) == dict(cpu) for pod in found
        )

    await case.cluster.wait_for(scaled, f"{_REPLICAS} ready pods of {name} with {dict(cpu)}")
    return found


async def _assert_unchanged(case: Case, name: str, mode: str) -> None:
    """Assert that the pods aren't changed any more, and were changed as their mode demands."""
    uids = await case.uids(name)
    await case.cluster.wait_for_cycles(UPDATER, 4)
    assert await case.uids(name) == uids
    evicted, resized = {"Recreate": (_REPLICAS, 0), "Initial": (0, 0)}.get(mode, (0, _REPLICAS))
    assert (len(case.evictions()), len(case.resizes())) == (evicted, resized)


def _cpu_requests(pod: Object) -> dict[str, str]:
    return {
        each["name"]: each["resources"].get("requests", {}).get("cpu", "")
        for each in pod["spec"]["containers"]
    }


def _pod_level(pod: Object, part: str) -> str:
    found: str = pod["spec"]["resources"][part]["cpu"]
    return found
