"""A tenant with hostile VPAs and pods in one namespace doesn't affect other tenants.

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
from e2e.cluster import OTHER_RECOMMENDER, Case, Cluster, case_in_namespace
from e2e.installation import ADMISSION, COMPONENTS, RECOMMENDER, SYSTEM, UPDATER
from e2e.pods import Object, is_ready, template
from e2e.processes import resident_mib
from sandbox.apiserver.audit import Entry
from workloads import autoscaler

_INTERVAL = 5  # seconds
# A status is written for each of the tenant's VPAs in an interval. With the default interval of a
# minute and 50 requests a second that is a tenth of the limit, here a fifth.
_QPS = ("--kube-api-qps=300", "--kube-api-burst=600")
_VPAS = 300
_PODS = 30
_SAMPLES = 4  # of memory, one per interval
_MAX_MEMORY_RATIO = 1.3  # to the memory without the tenant
_CONFIGURATION = "vpa-webhook-config"

# API versions; they become part of URLs, log lines and metric labels.
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
# Valid groups that don't exist: each of them is looked up.
_ABSENT = tuple(f"nonesuch-{number}.example/v1" for number in range(60))
# Kinds and names that don't exist.
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
# Well-known kinds are found without a look-up, so these are of another kind.
_TARGETS = (
    *((version, "Gadget", "web") for version in (*_VERSIONS, *_ABSENT)),
    *_KINDS,
)
# API servers accept these in owner references, and the garbage collector keeps their pods.
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


# The tenant's actions


@asynccontextmanager
async def _without_validation(cluster: Cluster, namespace: str) -> AsyncIterator[None]:
    """Exclude VPAs of a namespace from the webhook; admission keeps its match conditions."""
    expression = (
        f"request.namespace != '{namespace}' || "
        "request.resource.resource != 'verticalpodautoscalers'"
    )

    async def change(conditions: list[Object]) -> None:
        operation = {"op": "add", "path": "/webhooks/0/matchConditions", "value": conditions}
        await cluster.client.patch(
            MUTATING_WEBHOOKS.as_dicts(), _CONFIGURATION, [operation], patch_type=PatchType.JSON
        )

    async def refused() -> bool:
        return not await _is_accepted(cluster, namespace)

    await change([{"name": "not-the-tenant", "expression": expression}])
    try:
        await cluster.wait_for(lambda: _is_accepted(cluster, namespace), "VPAs aren't validated")
        yield
    finally:
        await change([])
        await cluster.wait_for(refused, "VPAs are validated again")


async def _is_accepted(cluster: Cluster, namespace: str) -> bool:
    """Return True if the API server accepts a VPA of the tenant in a dry run."""
    vpa = _hostile("probe", _TARGETS[0])
    try:
        await cluster.client.create(VPAS.as_dicts(), vpa, namespace=namespace, dry_run=True)
    except KubeError as error:
        if "apiVersion" not in str(error):
            raise
        return False
    return True


def _hostile(name: str, target: tuple[str, str, str]) -> Object:
    api_version, kind, of = target
    reference = {"apiVersion": api_version, "kind": kind, "name": of}
    return autoscaler(name, "Recreate", targetRef=reference)


async def _create_hostile_vpas(tenant: Case) -> None:
    """Create three hundred VPAs, about three for each target."""
    async with _without_validation(tenant.cluster, tenant.namespace):
        for number, target in enumerate(islice(cycle(_TARGETS), _VPAS)):
            await tenant.create(VPAS, _hostile(f"hostile-{number}", target))


async def _create_owned_pods(tenant: Case) -> None:
    """Create pods with missing owners that are matched by a VPA with a recommendation."""
    await tenant.deploy("web", replicas=0)
    await tenant.create_vpa("web", "Recreate", recommenders=OTHER_RECOMMENDER)
    await tenant.set_recommendation("web", app={"cpu": "500m", "memory": "256Mi"})
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


# The effects on others


async def _peak_memory(cluster: Cluster) -> dict[str, float]:
    """Return the peak memory of each component over some intervals, in MiB."""
    peak = dict.fromkeys(COMPONENTS, 0.0)
    for _ in range(_SAMPLES):
        await cluster.wait_for_cycles(RECOMMENDER, 1)
        for name in COMPONENTS:
            (pod,) = await cluster.component_pods(name)
            peak[name] = max(peak[name], resident_mib(pod["metadata"]["uid"]))
    return peak


async def _seconds_to_first(case: Case, name: str) -> float:
    """Return the seconds until a new VPA has its first recommendation."""
    began = monotonic()
    await case.create_vpa(name, "Off")
    await case.wait_for_recommendation(name)
    return monotonic() - began


async def _seconds_to_next(case: Case, name: str, milli: int) -> float:
    """Return the seconds until the recommendation of a VPA follows a new policy."""
    policy = {"containerName": "app", "minAllowed": {"cpu": f"{milli}m"}}
    began = monotonic()
    await case.edit(VPAS, name, resourcePolicy={"containerPolicies": [policy]})

    async def followed() -> bool:
        return (await case.target(name)).get("cpu") == f"{milli}m"

    await case.cluster.wait_for(followed, f"{name} is recommended {milli}m")
    return monotonic() - began


async def _unsupported_vpas(tenant: Case) -> int:
    """Return the number of the tenant's VPAs with a true ConfigUnsupported with a message."""
    found = await tenant.cluster.client.list(VPAS.as_dicts(), namespace=tenant.namespace)
    return sum(
        one["type"] == "ConfigUnsupported" and one["status"] == "True" and bool(one["message"])
        for vpa in found.items
        for one in (vpa.get("status") or {}).get("conditions", ())
        if vpa["metadata"]["name"].startswith("hostile-")
    )


def _status_writes(tenant: Case) -> list[Entry]:
    """Return the calls that wrote a status of the tenant's VPAs."""
    wanted = {
        "resource": "verticalpodautoscalers",
        "subresource": "status",
        "namespace": tenant.namespace,
    }
    return tenant.cluster.audited_calls(RECOMMENDER, **wanted)


async def _object_errors(cluster: Cluster) -> float:
    return sum(
        [
            await cluster.metric_total(RECOMMENDER, "vpa_recommender_object_errors_total"),
            await cluster.metric_total(UPDATER, "vpa_updater_object_errors_total"),
            await cluster.metric_total(
                ADMISSION, "vpa_admission_controller_reviews_total", outcome="error"
            ),
        ]
    )


def _list_calls(cluster: Cluster) -> int:
    """Return the number of lists of controllers; an informer lists once."""
    kinds = ("replicasets", "daemonsets")
    return sum(
        len(cluster.audited_calls(name, verb="list", resource=kind))
        for name in COMPONENTS
        for kind in kinds
    )


async def _restart(cluster: Cluster) -> None:
    """Replace each component's pod, and wait until the new ones are ready."""
    before = await cluster.restart_counts()
    selector = f"--selector=app in ({', '.join(COMPONENTS)})"
    await cluster.kubectl("delete", "pod", selector, namespace=SYSTEM)

    async def replaced() -> bool:
        pods = [pod for name in COMPONENTS for pod in await cluster.component_pods(name)]
        new = {pod["metadata"]["uid"] for pod in pods}.isdisjoint(before)
        return new and len(pods) == len(COMPONENTS) and all(map(is_ready, pods))

    await cluster.wait_for(replaced, "the components are ready again")


def _summary(what: str, figures: Mapping[str, float], unit: str) -> str:
    return f"{what}: " + ", ".join(f"{name} {one:.1f} {unit}" for name, one in figures.items())


@pytest.mark.timeout(300)  # seconds; some thirty intervals, with the start of the cluster
async def test_three_hundred_hostile_vpas_do_not_affect_other_tenants(case: Case) -> None:
    """Recommendations take two intervals at most, and memory grows by 30 % at most."""
    cluster = case.cluster
    flags = (f"--recommender-interval={_INTERVAL}s", *_QPS)
    names = ("web", "late", "last")
    for name in names:
        await case.deploy(name, replicas=1)
    for name in names:
        await case.wait_until_measured(name, replicas=1)
    async with (
        cluster.installation.with_arguments(RECOMMENDER, *flags),
        case_in_namespace(cluster, f"hostile-{os.urandom(3).hex()}") as tenant,
    ):
        await _restart(cluster)
        alone = {
            "first": await _seconds_to_first(case, "web"),
            "next": await _seconds_to_next(case, "web", 301),
        }
        without = await _peak_memory(cluster)
        errors, lists, restart_counts = (
            await _object_errors(cluster),
            _list_calls(cluster),
            await cluster.restart_counts(),
        )

        await _create_hostile_vpas(tenant)
        beside = {"first": await _seconds_to_first(case, "late")}
        await _create_owned_pods(tenant)
        beside["next"] = await _seconds_to_next(case, "web", 302)

        async def skipped() -> bool:
            return await _unsupported_vpas(tenant) == _VPAS

        await cluster.wait_for(skipped, "each hostile VPA has the condition ConfigUnsupported")
        began = len(_status_writes(tenant))
        with_them = await _peak_memory(cluster)
        written = len(_status_writes(tenant)) - began
        assert await cluster.restart_counts() == restart_counts, "no process has ended"
        assert await _object_errors(cluster) == errors, "bad targets aren't object errors"
        assert _list_calls(cluster) == lists, "no reference became another request"

        await _restart(cluster)
        again = {
            "first": await _seconds_to_first(case, "last"),
            "next": await _seconds_to_next(case, "web", 303),
        }
        restarted, restart_counts = await _peak_memory(cluster), await cluster.restart_counts()
        assert set(restart_counts.values()) == {0}, "no process has ended"
        assert not await _is_accepted(cluster, tenant.namespace)

    for what, seconds in (("without", alone), ("with", beside), ("restarted", again)):
        print(_summary(f"recommendation {what}", seconds, "s"))  # noqa: T201 - figures of the run
    for what, peak in (("without", without), ("with", with_them), ("restarted", restarted)):
        print(_summary(f"memory {what}", peak, "MiB"))  # noqa: T201 - figures of the run
    print(f"statuses written for the tenant in {_SAMPLES} intervals: {written}")  # noqa: T201 - the same
    assert written < _VPAS, "unchanged statuses aren't written in each interval"
    late = {**beside, **{f"{name} after a restart": one for name, one in again.items()}}
    assert {name: one for name, one in late.items() if one > 2 * _INTERVAL} == {}
    for peak in (with_them, restarted):
        assert {
            name: peak[name]
            for name in COMPONENTS
            if peak[name] > _MAX_MEMORY_RATIO * without[name]
        } == {}
