"""A tenant who may create VPAs and pods in one namespace takes nothing away from the others.

The tenant's VPAs bypass the webhook, like those that were created before it was registered.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import cycle, islice
from time import monotonic

import pytest

from common.errors import KubeError
from common.kube.client import PatchType
from common.kube.endpoints import MUTATING_WEBHOOKS, PODS, VPAS
from e2e.installation import ADMISSION, COMPONENTS, RECOMMENDER, SYSTEM, UPDATER
from e2e.pods import Object, is_ready, template
from e2e.processes import memory
from e2e.world import BY_HAND, Case, World, own_namespace
from sandbox.apiserver.audit import Entry
from workloads import autoscaler

_INTERVAL = 5  # seconds
# A status is written for each of his VPAs: a tenth of what the defaults, a minute and 50 a second,
# allow in an interval; here a fifth.
_QPS = ("--kube-api-qps=300", "--kube-api-burst=600")
_VPAS = 300
_PODS = 30
_SAMPLES = 4  # of memory, an interval apart
_MOST = 1.3  # times the memory without him
_CONFIGURATION = "vpa-webhook-config"

# What ends in URLs, log lines and metric labels.
_VERSIONS = (
    "x\u0001/v1",
    "apps/v1/replicasets?x=N/y",
    "apps/v1/daemonsets?watch=1&x=N/y",
    "apps%2fv1/y",
    "..%2f..%2fapi/v1",
    "../v1",
    "apps/..",
    "apps//v1",
    "/v1",
    "apps#/v1",
    "äpps/v1",
    "\u202e1v/sppa",
    "apps\u0000/v1",
    "apps\u007f\u0085/v1",
    "apps/v1 HTTP/1.1\r\nX-Forwarded: y\r\n\r\n",
    f"{'a' * 250}/v1",
    f"{'.'.join(['a' * 62] * 4)}/v1",
    "v" * 250,
    "é" * 4000,
)
# Groups that may exist, and don't: each of them is looked up.
_ABSENT = tuple(f"nonesuch-{number}.example/v1" for number in range(60))
# Kinds and names that nothing has.
_KINDS = (
    *(("apps/v1", f"Nonesuch{number}", "web") for number in range(20)),
    ("v1", "Nonesuch", "web"),
    ("metrics.k8s.io/v1beta1", "PodMetrics", "web"),
    ("apps/v1", "Deployment", "../../secrets/web"),
    ("apps/v1", "Deployment", "web?watch=1"),
    ("apps/v1", "Deployment", "web%2fscale"),
    ("apps/v1", "Deployment", "w" * 4000),
    ("apps/v1", "Deployment\r\n", "web"),
    ("apps/v1", "K" * 4000, "web"),
    ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "web"),
)
# Deployments and the like are found by their kind, without a look-up.
_TARGETS = (
    *((version, "Gadget", "web") for version in (*_VERSIONS, *_ABSENT)),
    *_KINDS,
)
# API servers take no others in an owner reference; the garbage collector keeps pods of these.
_OWNERS = (
    "x\u0001.y/v1",
    "x?watch=1/v1",
    "%2f.y/v1",
    "../v1",
    "x#y/v1",
    "äpps/v1",
    "apps\u0000/v1",
    f"{'a' * 250}/v1",
    "nonesuch.example/v1",
    "v" * 250,
)


# What the tenant does


@asynccontextmanager
async def _not_validated(world: World, namespace: str) -> AsyncIterator[None]:
    """The webhook isn't called for VPAs of a namespace; admission leaves conditions alone."""
    expression = (
        f"request.namespace != '{namespace}' || "
        "request.resource.resource != 'verticalpodautoscalers'"
    )

    async def change(conditions: list[Object]) -> None:
        operation = {"op": "add", "path": "/webhooks/0/matchConditions", "value": conditions}
        await world.client.patch(
            MUTATING_WEBHOOKS.as_dicts(), _CONFIGURATION, [operation], patch_type=PatchType.JSON
        )

    async def refused() -> bool:
        return not await _is_taken(world, namespace)

    await change([{"name": "not-the-tenant", "expression": expression}])
    try:
        await world.until(lambda: _is_taken(world, namespace), "VPAs aren't validated")
        yield
    finally:
        await change([])
        await world.until(refused, "VPAs are validated again")


async def _is_taken(world: World, namespace: str) -> bool:
    """Whether a VPA of the tenant would be stored."""
    vpa = _hostile("probe", _TARGETS[0])
    try:
        await world.client.create(VPAS.as_dicts(), vpa, namespace=namespace, dry_run=True)
    except KubeError as error:
        if "apiVersion" not in str(error):
            raise
        return False
    return True


def _hostile(name: str, target: tuple[str, str, str]) -> Object:
    api_version, kind, of = target
    reference = {"apiVersion": api_version, "kind": kind, "name": of}
    return autoscaler(name, "Recreate", targetRef=reference)


async def _attack(tenant: Case) -> None:
    """Store three hundred VPAs; each target comes about three times."""
    async with _not_validated(tenant.world, tenant.namespace):
        for number, target in enumerate(islice(cycle(_TARGETS), _VPAS)):
            await tenant.create(VPAS, _hostile(f"hostile-{number}", target))


async def _own(tenant: Case) -> None:
    """Create pods that a VPA with a recommendation matches, with owners that don't exist."""
    await tenant.deploy("web", replicas=0)
    await tenant.autoscale("web", "Recreate", recommenders=BY_HAND)
    await tenant.advise("web", app={"cpu": "500m", "memory": "256Mi"})
    for number, api_version in enumerate(islice(cycle(_OWNERS), _PODS)):
        pod = template("web", requests={"cpu": "10m", "memory": "16Mi"})
        reference = {
            "apiVersion": api_version,
            "kind": "Gadget",
            "name": f"../../secrets/{number}?watch=1",
            "uid": f"hostile-{number}",
            "controller": True,
        }
        metadata = {**pod["metadata"], "name": f"web-{number}", "ownerReferences": [reference]}
        await tenant.create(PODS, {**pod, "metadata": metadata})


# What the others notice


async def _memory(world: World) -> dict[str, float]:
    """The most memory of each component over some intervals, in MiB."""
    most = dict.fromkeys(COMPONENTS, 0.0)
    for _ in range(_SAMPLES):
        await world.passes(RECOMMENDER, 1)
        for name in COMPONENTS:
            (pod,) = await world.component_pods(name)
            most[name] = max(most[name], memory(pod["metadata"]["uid"]))
    return most


async def _first(case: Case, name: str) -> float:
    """Seconds until a new VPA has its first recommendation."""
    began = monotonic()
    await case.autoscale(name, "Off")
    await case.recommended(name)
    return monotonic() - began


async def _next(case: Case, name: str, milli: int) -> float:
    """Seconds until the recommendation of a VPA follows its policy."""
    policy = {"containerName": "app", "minAllowed": {"cpu": f"{milli}m"}}
    began = monotonic()
    await case.edit(VPAS, name, resourcePolicy={"containerPolicies": [policy]})

    async def followed() -> bool:
        return (await case.target(name)).get("cpu") == f"{milli}m"

    await case.world.until(followed, f"{name} is recommended {milli}m")
    return monotonic() - began


async def _unsupported(tenant: Case) -> int:
    """How many of the tenant's VPAs have the condition ConfigUnsupported, with a sentence."""
    found = await tenant.world.client.list(VPAS.as_dicts(), namespace=tenant.namespace)
    return sum(
        one["type"] == "ConfigUnsupported" and one["status"] == "True" and bool(one["message"])
        for vpa in found.items
        for one in (vpa.get("status") or {}).get("conditions", ())
        if vpa["metadata"]["name"].startswith("hostile-")
    )


def _statuses(tenant: Case) -> list[Entry]:
    """The statuses that were written for the tenant's VPAs."""
    wanted = {
        "resource": "verticalpodautoscalers",
        "subresource": "status",
        "namespace": tenant.namespace,
    }
    return tenant.world.done(RECOMMENDER, **wanted)


async def _object_errors(world: World) -> float:
    return sum(
        [
            await world.total(RECOMMENDER, "vpa_recommender_object_errors_total"),
            await world.total(UPDATER, "vpa_updater_object_errors_total"),
            await world.total(ADMISSION, "vpa_admission_controller_reviews_total", outcome="error"),
        ]
    )


def _lists(world: World) -> int:
    """How often a component has listed controllers, which its caches do once."""
    kinds = ("replicasets", "daemonsets")
    return sum(
        len(world.done(name, verb="list", resource=kind)) for name in COMPONENTS for kind in kinds
    )


async def _restart(world: World) -> None:
    """Replace each component's pod, and wait until the new ones are ready."""
    before = await world.runs()
    selector = f"--selector=app in ({', '.join(COMPONENTS)})"
    await world.kubectl("delete", "pod", selector, namespace=SYSTEM)

    async def replaced() -> bool:
        pods = [pod for name in COMPONENTS for pod in await world.component_pods(name)]
        new = {pod["metadata"]["uid"] for pod in pods}.isdisjoint(before)
        return new and len(pods) == len(COMPONENTS) and all(map(is_ready, pods))

    await world.until(replaced, "the components are ready again")


def _told(what: str, figures: Mapping[str, float], unit: str) -> str:
    return f"{what}: " + ", ".join(f"{name} {one:.1f} {unit}" for name, one in figures.items())


@pytest.mark.timeout(300)  # seconds; some thirty intervals, with the start of the cluster
async def test_three_hundred_hostile_vpas_cost_the_others_nothing(case: Case) -> None:
    """Recommendations come within two intervals, and memory stays within 1.3 times the former."""
    world = case.world
    flags = (f"--recommender-interval={_INTERVAL}s", *_QPS)
    names = ("web", "late", "last")
    for name in names:
        await case.deploy(name, replicas=1)
    for name in names:
        await case.running(name, replicas=1)
    async with (
        world.installation.changed(RECOMMENDER, *flags),
        own_namespace(world, f"hostile-{os.urandom(3).hex()}") as tenant,
    ):
        await _restart(world)
        alone = {"first": await _first(case, "web"), "next": await _next(case, "web", 301)}
        without = await _memory(world)
        errors, lists, runs = await _object_errors(world), _lists(world), await world.runs()

        await _attack(tenant)
        beside = {"first": await _first(case, "late")}
        await _own(tenant)
        beside["next"] = await _next(case, "web", 302)

        async def skipped() -> bool:
            return await _unsupported(tenant) == _VPAS

        await world.until(skipped, "each hostile VPA has the condition ConfigUnsupported")
        began = len(_statuses(tenant))
        with_them = await _memory(world)
        written = len(_statuses(tenant)) - began
        assert await world.runs() == runs, "no process has ended"
        assert await _object_errors(world) == errors, "what they say is expected"
        assert _lists(world) == lists, "no reference became another request"

        await _restart(world)
        again = {"first": await _first(case, "last"), "next": await _next(case, "web", 303)}
        restarted, runs = await _memory(world), await world.runs()
        assert set(runs.values()) == {0}, "no process has ended"
        assert not await _is_taken(world, tenant.namespace)

    for what, seconds in (("without", alone), ("with", beside), ("restarted", again)):
        print(_told(f"recommendation {what}", seconds, "s"))  # noqa: T201 - figures for who runs this
    for what, most in (("without", without), ("with", with_them), ("restarted", restarted)):
        print(_told(f"memory {what}", most, "MiB"))  # noqa: T201 - figures for who runs this
    print(f"statuses written for the tenant in {_SAMPLES} intervals: {written}")  # noqa: T201 - the same
    assert written < _VPAS, "what is known of them isn't written in each interval"
    late = {**beside, **{f"{name} after a restart": one for name, one in again.items()}}
    assert {name: one for name, one in late.items() if one > 2 * _INTERVAL} == {}
    for most in (with_them, restarted):
        assert {name: most[name] for name in COMPONENTS if most[name] > _MOST * without[name]} == {}
