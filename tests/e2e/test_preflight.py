"""The updater's promise to update no pod that the API server would refuse afterwards."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from common.errors import InvalidError
from common.kube.endpoints import DEPLOYMENTS, PODS, Endpoint
from e2e.installation import SYSTEM, UPDATER, Installation
from e2e.pods import Object, is_ready, requests, template
from e2e.world import BY_HAND, LIMIT_RANGES, QUOTAS, Case, World
from role_rules import DRY_RUN, objects

_ACCOUNT = f"system:serviceaccount:{SYSTEM}:{UPDATER}"
_OVERLAY = Path(__file__).parent / "dry_run_overlay"
_SMALL = {"cpu": "100m", "memory": "256Mi"}
_LARGER = {"cpu": "400m", "memory": "256Mi"}
_POLICIES: Endpoint[Object] = Endpoint(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    dict[str, Any],
    namespaced=False,
)
_BINDINGS: Endpoint[Object] = Endpoint(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    dict[str, Any],
    namespaced=False,
)


async def _advised(case: Case, mode: str, **pods: Any) -> set[str]:
    """Deploy small pods that a VPA wants larger; their uids."""
    await case.deploy("web", requests=_SMALL, **pods)
    before = await case.ready("web")
    await case.autoscale("web", mode, recommenders=BY_HAND)
    await case.advise("web", app=_LARGER)
    return before


async def _told(case: Case, kind: str, text: str) -> str:
    """Wait for an Event of the preflight; its message."""

    async def found() -> str:
        for event in await case.events(kind):
            if text in event["message"]:
                return str(event["message"])
        return ""

    return await case.world.until(found, f"an Event {kind} with {text!r}")


async def _kept(case: Case, before: set[str]) -> None:
    """Nothing happens to the pods for some passes."""
    await case.world.passes(UPDATER, 4)
    pods = await case.pods("web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert all(map(is_ready, pods))
    assert not case.evictions()
    assert not case.resizes()
    assert not case.resizes(code=403)
    assert not case.resizes(code=422)


# Without a dry run


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
async def test_a_quota_without_room_costs_no_pod(case: Case, mode: str) -> None:
    await case.limit(**{"requests.cpu": "499m"})
    before = await _advised(case, mode)
    if mode == "InPlace":
        message = await _told(case, "InPlaceResizeBlocked", "[resize_refused]")
    else:
        message = await _told(case, "EvictionSkipped", "[replacement_would_be_refused]")
    assert "ResourceQuota quota allows 499m of requests.cpu, other pods use 100m" in message
    await _kept(case, before)
    await case.edit(QUOTAS, "quota", hard={"requests.cpu": "800m"})
    await case.fits("web")


@pytest.mark.concurrent
async def test_a_quota_lowered_below_its_use_costs_no_pod(case: Case) -> None:
    """A smaller replacement would be refused as well."""
    await case.deploy("web", requests=_LARGER)
    before = await case.ready("web")
    await case.limit(**{"requests.cpu": "300m"})
    await case.autoscale("web", "Recreate", recommenders=BY_HAND)
    await case.advise("web", app=_SMALL)
    await _told(case, "EvictionSkipped", "instead of 400m")
    await _kept(case, before)


@pytest.mark.concurrent
async def test_a_resize_that_a_limit_range_refuses_is_not_sent(case: Case) -> None:
    before = await _advised(case, "InPlaceOrRecreate")
    await case.fits("web")
    bounds = [{"type": "Container", "maxLimitRequestRatio": {"memory": "2"}}]
    await case.create(LIMIT_RANGES, {"metadata": {"name": "ratio"}, "spec": {"limits": bounds}})
    await case.advise("web", app=_SMALL)
    await _told(case, "EvictionSkipped", "container app would have no memory limit")
    assert await case.uids("web") == before
    assert not case.evictions()
    assert not case.resizes(code=403)


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
async def test_pod_level_resources_cost_no_pod(case: Case, mode: str) -> None:
    """The other container alone fills what the pod has."""
    world = case.world
    log = {
        "name": "log",
        "image": "registry.example/log",
        "resources": {"requests": {"cpu": "900m", "memory": "256Mi"}},
    }
    made = template("web", requests=_SMALL, beside=[log])
    made["spec"]["resources"] = {"requests": {"cpu": "1"}}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": made["metadata"]["labels"]},
        "template": made,
    }
    await case.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    await case.ready("web")
    await case.autoscale("web", mode, recommenders=BY_HAND)
    await case.advise("web", app=_LARGER)
    for _ in range(6):
        await world.passes(UPDATER, 1)
        assert len(await case.pods("web")) == 2
    assert all(map(is_ready, await case.pods("web")))
    assert not await case.events("FailedCreate")


# With a dry run


@asynccontextmanager
async def _dry_run(case: Case) -> AsyncIterator[None]:
    """Install the component, and wait until its policy is in force."""
    world, kubectl = case.world, case.world.kubectl
    await Installation(kubectl, _OVERLAY).apply()
    try:
        await world.installation.ready(UPDATER)

        async def in_force() -> bool:
            return "in a dry run only" in await _create(case, dry_run=False)

        await world.until(in_force, "the policy is in force")
        yield
    finally:
        kinds = (
            "ClusterRoleBinding",
            "ClusterRole",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicy",
        )
        for kind in kinds:
            for each in objects(kind, folder=DRY_RUN):
                await kubectl("delete", kind, each["metadata"]["name"], "--ignore-not-found")
        await world.installation.restore()


async def _create(case: Case, *, dry_run: bool) -> str:
    """Create a pod with the account of the updater; what kubectl prints."""
    name = f"pod-{os.urandom(3).hex()}"
    words = ["run", name, "--image=registry.example/app", f"--as={_ACCOUNT}"]
    if dry_run:
        words.append("--dry-run=server")
    _, printed = await case.world.kubectl.try_(*words, namespace=case.namespace)
    return printed


async def test_the_account_of_the_updater_creates_pods_in_a_dry_run_only(case: Case) -> None:
    world = case.world
    assert "forbidden" in await _create(case, dry_run=True)
    async with _dry_run(case):
        before = await _names(case)
        printed = await _create(case, dry_run=False)
        assert "the updater's account may create pods in a dry run only" in printed
        assert "created (server dry run)" in await _create(case, dry_run=True)
        assert await _names(case) == before
        words = ("run", "by-an-administrator", "--image=registry.example/app")
        assert "created" in await world.kubectl(*words, namespace=case.namespace)


async def _names(case: Case) -> set[str]:
    found = await case.world.client.list(PODS, namespace=case.namespace)
    return {pod.metadata.name for pod in found.items}


def _policy(namespace: str) -> tuple[Object, Object]:
    """A policy of a third party against pods with more than 300m."""
    name = f"small-pods-{namespace}"
    small = (
        "object.spec.containers.all(c, !quantity(c.resources.requests['cpu'])"
        ".isGreaterThan(quantity('300m')))"
    )
    policy = {
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ]
            },
            "validations": [{"expression": small, "message": "pods are small here"}],
        },
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": selector},
        },
    }
    return policy, binding


async def test_a_policy_of_a_third_party_holds_the_eviction(case: Case) -> None:
    world = case.world
    policy, binding = _policy(case.namespace)
    name = policy["metadata"]["name"]
    async with _dry_run(case):
        await case.deploy("web", requests=_SMALL)
        before = await case.ready("web")
        await world.client.create(_POLICIES, policy)
        await world.client.create(_BINDINGS, binding)
        try:

            async def in_force() -> bool:
                pod = {**template("big", requests=_LARGER), "metadata": {"name": "big"}}
                endpoint = PODS.as_dicts()
                try:
                    await world.client.create(endpoint, pod, namespace=case.namespace, dry_run=True)
                except InvalidError as error:
                    return "pods are small here" in str(error)
                return False

            await world.until(in_force, "the policy of the third party is in force")
            await case.autoscale("web", "Recreate", recommenders=BY_HAND)
            await case.advise("web", app=_LARGER)
            message = await _told(case, "EvictionSkipped", "pods are small here")
            assert "[replacement_would_be_refused]" in message
            await _kept(case, before)
            tried = _dry_runs(case)
            assert tried
            assert len(tried) <= 5, "with growing pauses, one for the workload"
        finally:
            await world.client.delete(_BINDINGS, name)
            await world.client.delete(_POLICIES, name)
        pods = await case.fits("web")
        assert all(requests(pod) == _LARGER for pod in pods)


async def test_replacements_that_fit_are_tried_and_their_pods_evicted(case: Case) -> None:
    """Our webhook patches them in the dry run, too, or the first one would not be evicted.

    The quota has room for the second replacement only once the old pod is gone.
    """
    async with _dry_run(case):
        await case.limit(**{"requests.cpu": "800m"})
        before = await _advised(case, "Recreate")
        await case.fits("web")
        assert len(case.evictions()) == len(before)
        codes = [each["code"] for each in _dry_runs(case)]
        assert codes[0] == 201
        assert 403 in codes


async def test_a_webhook_that_leaves_a_pod_as_it_is_holds_the_eviction(case: Case) -> None:
    """Whatever the reason is, the replacement would be as small as the pod that goes."""
    world = case.world
    async with _dry_run(case):
        selector = {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": [case.namespace],
                }
            ]
        }
        await _select(world, selector)
        before = await _advised(case, "Recreate")
        message = await _told(case, "EvictionSkipped", "[replacement_lacks_recommendation]")
        assert "app would request cpu 100m and memory 256Mi" in message
        await _kept(case, before)
        await _select(world, {})
        await case.fits("web")


async def _select(world: World, selector: Object) -> None:
    """Choose the namespaces whose pods our webhook sees."""
    operation = {"op": "add", "path": "/webhooks/0/namespaceSelector", "value": selector}
    await world.kubectl(
        "patch",
        "mutatingwebhookconfiguration",
        "vpa-webhook-config",
        "--type=json",
        f"--patch={json.dumps([operation])}",
    )


def _dry_runs(case: Case) -> list[Object]:
    """The pods that the updater tried to create in the namespace."""
    return [
        entry.as_json()
        for entry in case.world.done(UPDATER, verb="create", resource="pods")
        if entry.namespace == case.namespace and not entry.subresource
    ]
