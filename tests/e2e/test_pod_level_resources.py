"""Pods with resources of their own (``spec.resources``), in each mode and with both flag values."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from common.kube.endpoints import DEPLOYMENTS
from e2e.installation import ADMISSION, UPDATER
from e2e.pods import Object, is_ready, template
from e2e.world import BY_HAND, Case
from workloads import autoscaler

Amounts = Mapping[str, str]

_MEMORY = "128Mi"
_REPLICAS = 2
# Both containers request 100m of CPU at first.
_MORE = {"app": "600m", "side": "200m"}
_OWN = {"requests": {"cpu": "400m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
_LIMITS = {"limits": {"cpu": "1", "memory": "2Gi"}}  # the API server fills in 200m and 256Mi
_MODES = ("Recreate", "Initial", "InPlaceOrRecreate", "InPlace")


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", _MODES)
async def test_keep_fits_containers_into_the_pods_own_request(case: Case, mode: str) -> None:
    """A25: the rest of 400m is shared in proportion, and every pod comes up."""
    await _deploy(case, "web", mode, _OWN)
    pods = await _scaled(case, "web", {"app": "299m", "side": "99m"})
    assert {_whole(pod, "requests") for pod in pods} == {"400m"}
    assert {_whole(pod, "limits") for pod in pods} == {"1"}
    await _stays(case, "web", mode)


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", _MODES)
async def test_keep_moves_a_request_that_the_api_server_filled_in(case: Case, mode: str) -> None:
    """A25: beside a limit of the pod alone, its request is the sum, up to that limit."""
    await _deploy(case, "web", mode, _LIMITS)
    pods = await _scaled(case, "web", _MORE)
    assert {_whole(pod, "requests") for pod in pods} == {"800m"}
    assert {_whole(pod, "limits") for pod in pods} == {"1"}
    await _stays(case, "web", mode)


@pytest.mark.concurrent
async def test_where_nothing_fits_the_pods_stay_as_they_are(case: Case) -> None:
    """A25: a container without a recommendation takes all of the pod's request."""
    whole = {"requests": {"cpu": "100m", "memory": "1Gi"}}
    await _deploy(case, "web", "Recreate", whole, app={"memory": _MEMORY}, advised={"app": "300m"})
    before = await case.ready("web", _REPLICAS)
    await case.world.passes(UPDATER, 4)
    assert await case.uids("web") == before
    assert not case.evictions()
    assert not case.evictions(code=429)


async def test_follow_moves_the_pods_own_resources(case: Case) -> None:
    """A26: 800m instead of 200m for the containers, so four times the pod's request and limit."""
    async with _following(case):
        for mode in _MODES:
            await _deploy(case, mode.lower(), mode, _OWN)
        for mode in _MODES:
            pods = await _scaled(case, mode.lower(), _MORE)
            assert {_whole(pod, "requests") for pod in pods} == {"1600m"}
            assert {_whole(pod, "limits") for pod in pods} == {"4"}
        await case.world.passes(UPDATER, 4)
        assert len(case.evictions()) == _REPLICAS, "each pod of mode Recreate once"
        assert len(case.resizes()) == 2 * _REPLICAS, "each pod of the two modes in place once"


@asynccontextmanager
async def _following(case: Case) -> AsyncIterator[None]:
    installation, flag = case.world.installation, "--pod-level-resources=follow"
    async with installation.changed(ADMISSION, flag), installation.changed(UPDATER, flag):
        yield


async def _deploy(
    case: Case,
    name: str,
    mode: str,
    whole: Object,
    *,
    app: Amounts | None = None,
    advised: Amounts | None = None,
) -> None:
    """Pods with these resources of their own, and a VPA that asks for more CPU.

    With mode Initial the VPA comes first, else the pods run before.
    """
    small = {"cpu": "100m", "memory": _MEMORY}
    beside = {
        "name": "side",
        "image": "registry.example/side",
        "resources": {"requests": small},
    }
    made = template(name, requests=app or small, beside=[beside])
    made["spec"]["resources"] = whole
    labels = made["metadata"]["labels"]
    deployment = {
        "metadata": {"name": name},
        "spec": {"replicas": _REPLICAS, "selector": {"matchLabels": labels}, "template": made},
    }
    policy = {"updateMode": mode, "minReplicas": 1}
    vpa = autoscaler(name, mode, recommenders=BY_HAND, updatePolicy=policy)
    advice = {
        container: {"cpu": cpu, "memory": _MEMORY} for container, cpu in (advised or _MORE).items()
    }
    if mode != "Initial":
        await case.create(DEPLOYMENTS, deployment)
        await case.ready(name, _REPLICAS)
    await case.autoscale(name, mode, recommenders=BY_HAND, updatePolicy=vpa["spec"]["updatePolicy"])
    await case.advise(name, **advice)
    if mode == "Initial":
        await case.create(DEPLOYMENTS, deployment)


async def _scaled(case: Case, name: str, cpu: Amounts) -> list[Object]:
    """Wait until all pods are ready, and their containers request so much CPU."""
    found: list[Object] = []

    async def scaled() -> bool:
        found[:] = await case.pods(name)
        return len(found) == _REPLICAS and all(
            is_ready(pod) and _cpu(pod) == dict(cpu) for pod in found
        )

    await case.world.until(scaled, f"{_REPLICAS} ready pods of {name} with {dict(cpu)}")
    return found


async def _stays(case: Case, name: str, mode: str) -> None:
    """Nothing more is done about the pods, and what was done is what the mode says."""
    uids = await case.uids(name)
    await case.world.passes(UPDATER, 4)
    assert await case.uids(name) == uids
    evicted, resized = {"Recreate": (_REPLICAS, 0), "Initial": (0, 0)}.get(mode, (0, _REPLICAS))
    assert (len(case.evictions()), len(case.resizes())) == (evicted, resized)


def _cpu(pod: Object) -> dict[str, str]:
    return {
        each["name"]: each["resources"].get("requests", {}).get("cpu", "")
        for each in pod["spec"]["containers"]
    }


def _whole(pod: Object, part: str) -> str:
    found: str = pod["spec"]["resources"][part]["cpu"]
    return found
