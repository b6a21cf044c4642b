"""The updater's preflight: it updates no pod whose replacement or resize would be refused."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from common.errors import InvalidError
from common.kube.endpoints import PODS, Endpoint
from e2e.cluster import LIMIT_RANGES, OTHER_RECOMMENDER, QUOTAS, Case, Cluster
from e2e.installation import SYSTEM, UPDATER, Installation
from e2e.pods import Object, is_ready, requests, template
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


async def _deploy_with_target(case: Case, mode: str, **pods: Any) -> set[str]:
    """Deploy small pods and a VPA with a larger target; return the pods' uids."""
    await case.deploy("web", requests=_SMALL, **pods)
    before = await case.wait_until_ready("web")
    await case.create_vpa("web", mode, recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_LARGER)
    return before


async def _wait_for_event(case: Case, kind: str, text: str) -> str:
    """Wait for an Event with this text, and return its message."""

    async def found() -> str:
        for event in await case.events(kind):
            if text in event["message"]:
                return str(event["message"])
        return ""

    return await case.cluster.wait_for(found, f"an Event {kind} with {text!r}")


async def _assert_unchanged(case: Case, before: set[str]) -> None:
    """Assert that the pods aren't evicted or resized for some cycles."""
    await case.cluster.wait_for_cycles(UPDATER, 4)
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
async def test_a_quota_without_room_prevents_updates(case: Case, mode: str) -> None:
    await case.create_quota(**{"requests.cpu": "499m"})
    before = await _deploy_with_target(case, mode)
    if mode == "InPlace":
        message = await _wait_for_event(case, "InPlaceResizeBlocked", "[resize_refused]")
    else:
        message = await _wait_for_event(case, "EvictionSkipped", "[replacement_would_be_refused]")
    assert "ResourceQuota quota allows 499m of requests.cpu, other pods use 100m" in message
    await _assert_unchanged(case, before)
    await case.edit(QUOTAS, "quota", hard={"requests.cpu": "800m"})
    await case.wait_until_applied("web")
    assert (await case.uids("web") == before) == (mode != "Recreate")


@pytest.mark.concurrent
async def test_a_quota_lowered_below_its_use_prevents_evictions(case: Case) -> None:
    """The quota would also refuse a smaller replacement."""
    await case.deploy("web", requests=_LARGER)
    before = await case.wait_until_ready("web")
    await case.create_quota(**{"requests.cpu": "300m"})
    await case.create_vpa("web", "Recreate", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_SMALL)
    await _wait_for_event(case, "EvictionSkipped", "instead of 400m")
    await _assert_unchanged(case, before)


@pytest.mark.concurrent
async def test_a_resize_that_a_limit_range_refuses_is_not_sent(case: Case) -> None:
    before = await _deploy_with_target(case, "InPlaceOrRecreate")
    await case.wait_until_applied("web")
    bounds = [{"type": "Container", "maxLimitRequestRatio": {"memory": "2"}}]
    await case.create(LIMIT_RANGES, {"metadata": {"name": "ratio"}, "spec": {"limits": bounds}})
    await case.set_recommendation("web", app=_SMALL)
    await _wait_for_event(case, "EvictionSkipped", "container app would have no memory limit")
    assert await case.uids("web") == before
    assert not case.evictions()
    assert not case.resizes(code=403)


@pytest.mark.concurrent
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
async def test_full_pod_level_resources_prevent_updates(case: Case, mode: str) -> None:
    """The other container's request leaves no room below the pod-level request."""
    cluster = case.cluster
    log = {
        "name": "log",
        "image": "registry.example/log",
        "resources": {"requests": {"cpu": "900m", "memory": "256Mi"}},
    }
    whole = {"resources": {"requests": {"cpu": "1"}}}
    await case.deploy("web", requests=_SMALL, extra_containers=[log], spec=whole)
    await case.wait_until_ready("web")
    await case.create_vpa("web", mode, recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", app=_LARGER)
    for _ in range(6):
        await cluster.wait_for_cycles(UPDATER, 1)
        assert len(await case.pods("web")) == 2
    assert all(map(is_ready, await case.pods("web")))
    assert not await case.events("FailedCreate")


# With a dry run


@asynccontextmanager
async def _dry_run_component(case: Case) -> AsyncIterator[None]:
    """Install the component for dry runs, and wait until its policy is in force."""
    cluster, kubectl = case.cluster, case.cluster.kubectl
    await Installation(kubectl, _OVERLAY).apply()
    try:
        await cluster.installation.wait_until_ready(UPDATER)

        async def in_force() -> bool:
            return "in a dry run only" in await _kubectl_run(case, dry_run=False)

        await cluster.wait_for(in_force, "the policy is in force")
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
        await cluster.installation.restore()


async def _kubectl_run(case: Case, *, dry_run: bool) -> str:
    """Create a pod with the account of the updater, and return kubectl's output."""
    name = f"pod-{os.urandom(3).hex()}"
    words = ["run", name, "--image=registry.example/app", f"--as={_ACCOUNT}"]
    if dry_run:
        words.append("--dry-run=server")
    _, printed = await case.cluster.kubectl.run(*words, namespace=case.namespace)
    return printed


async def test_the_account_of_the_updater_creates_pods_in_a_dry_run_only(case: Case) -> None:
    cluster = case.cluster
    assert "forbidden" in await _kubectl_run(case, dry_run=True)
    async with _dry_run_component(case):
        before = await _pod_names(case)
        printed = await _kubectl_run(case, dry_run=False)
        assert "the updater's account may create pods in a dry run only" in printed
        assert "created (server dry run)" in await _kubectl_run(case, dry_run=True)
        assert await _pod_names(case) == before
        words = ("run", "by-an-administrator", "--image=registry.example/app")
        assert "created" in await cluster.kubectl(*words, namespace=case.namespace)


async def _pod_names(case: Case) -> set[str]:
    found = await case.cluster.client.list(PODS, namespace=case.namespace)
    return {pod.metadata.name for pod in found.items}


def _cpu_policy(namespace: str) -> tuple[Object, Object]:
    """Return a third party's policy, with its binding, that refuses pods with more than 300m."""
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


async def test_a_policy_of_a_third_party_prevents_the_eviction(case: Case) -> None:
    cluster = case.cluster
    policy, binding = _cpu_policy(case.namespace)
    name = policy["metadata"]["name"]
    async with _dry_run_component(case):
        await case.deploy("web", requests=_SMALL)
        before = await case.wait_until_ready("web")
        await cluster.client.create(_POLICIES, policy)
        await cluster.client.create(_BINDINGS, binding)
        try:

            async def in_force() -> bool:
                pod = {**template("big", requests=_LARGER), "metadata": {"name": "big"}}
                endpoint = PODS.as_dicts()
                try:
                    await cluster.client.create(
                        endpoint, pod, namespace=case.namespace, dry_run=True
                    )
                except InvalidError as error:
                    return "pods are small here" in str(error)
                return False

            await cluster.wait_for(in_force, "the policy of the third party is in force")
            await case.create_vpa("web", "Recreate", recommenders=OTHER_RECOMMENDER)
            await case.set_recommendation("web", app=_LARGER)
            message = await _wait_for_event(case, "EvictionSkipped", "pods are small here")
            assert "[replacement_would_be_refused]" in message
            await _assert_unchanged(case, before)
            calls = _dry_runs(case)
            assert calls
            assert len(calls) <= 5, "with growing pauses, one for the workload"
        finally:
            await cluster.client.delete(_BINDINGS, name)
            await cluster.client.delete(_POLICIES, name)
        pods = await case.wait_until_applied("web")
        assert all(requests(pod) == _LARGER for pod in pods)


async def test_replacements_that_fit_are_tried_and_their_pods_evicted(case: Case) -> None:
    """Our webhook patches dry runs, too; otherwise the first pod would not be evicted.

    The quota has no room for the second replacement before the first old pod is deleted.
    """
    async with _dry_run_component(case):
        await case.create_quota(**{"requests.cpu": "800m"})
        before = await _deploy_with_target(case, "Recreate")
        await case.wait_until_applied("web")
        assert len(case.evictions()) == len(before)
        codes = [each["code"] for each in _dry_runs(case)]
        assert codes[0] == 201
        assert 403 in codes


async def test_a_webhook_that_does_not_patch_prevents_the_eviction(case: Case) -> None:
    """The replacement would be as small as the evicted pod."""
    cluster = case.cluster
    async with _dry_run_component(case):
        selector = {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": [case.namespace],
                }
            ]
        }
        await _set_namespace_selector(cluster, selector)
        before = await _deploy_with_target(case, "Recreate")
        message = await _wait_for_event(
            case, "EvictionSkipped", "[replacement_lacks_recommendation]"
        )
        assert "app would request cpu 100m and memory 256Mi" in message
        await _assert_unchanged(case, before)
        await _set_namespace_selector(cluster, {})
        await case.wait_until_applied("web")


async def _set_namespace_selector(cluster: Cluster, selector: Object) -> None:
    """Set the namespaces for whose pods our webhook is called."""
    operation = {"op": "add", "path": "/webhooks/0/namespaceSelector", "value": selector}
    await cluster.kubectl(
        "patch",
        "mutatingwebhookconfiguration",
        "vpa-webhook-config",
        "--type=json",
        f"--patch={json.dumps([operation])}",
    )


def _dry_runs(case: Case) -> list[Object]:
    """Return the updater's calls that create pods in the namespace."""
    return [
        entry.as_json()
        for entry in case.cluster.audited_calls(UPDATER, verb="create", resource="pods")
        if entry.namespace == case.namespace and not entry.subresource
    ]
