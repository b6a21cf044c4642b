"""KEP-4831, eviction requirements: one case per line of its test plan."""

from typing import Any

import pytest

from common.kube.endpoints import VPAS
from e2e.cluster import OTHER_RECOMMENDER, Case
from e2e.installation import UPDATER
from e2e.pods import LARGE
from workloads import autoscaler

pytestmark = pytest.mark.concurrent

_MORE_CPU_LESS_MEMORY = {"cpu": "1", "memory": "512Mi"}
_MORE = {"cpu": "1", "memory": "2Gi"}
_LESS = {"cpu": "300m", "memory": "512Mi"}


def _requirement(direction: str, *resources: str) -> dict[str, Any]:
    return {"resources": list(resources), "changeRequirement": f"Target{direction}ThanRequests"}


async def test_evicts_only_when_all_hold(case: Case) -> None:
    """KEP-4831: a requirement that doesn't hold prevents all evictions."""
    required = [_requirement("Higher", "cpu"), _requirement("Lower", "memory")]
    policy = {"updateMode": "Recreate", "evictionRequirements": required}
    before = {}
    for app, target in (("all", _MORE_CPU_LESS_MEMORY), ("cpu", _MORE), ("memory", _LESS)):
        await case.deploy(app, requests=LARGE)
        before[app] = await case.wait_until_ready(app)
        await case.create_vpa(app, updatePolicy=policy, recommenders=OTHER_RECOMMENDER)
        await case.set_recommendation(app, app=target)
    await case.wait_until_applied("all")
    assert not await case.uids("all") & before["all"]
    await case.cluster.wait_for_cycles(UPDATER, 6)
    for app in ("cpu", "memory"):
        assert await case.uids(app) == before[app]
    await case.set_recommendation("cpu", app=_MORE_CPU_LESS_MEMORY)
    await case.wait_until_applied("cpu")
    assert await case.uids("memory") == before["memory"]


async def test_judges_only_resources_that_it_controls_and_has_a_target_for(case: Case) -> None:
    """KEP-4831: a requirement on a resource without a target or request prevents evictions."""
    memory_alone = {
        "containerPolicies": [{"containerName": "*", "controlledResources": ["memory"]}]
    }
    before = {}
    for app, requests, required, target in (
        ("unrequested", {"memory": "1Gi"}, ("Higher", "memory"), {"memory": "512Mi"}),
        ("untargeted", LARGE, ("Lower", "cpu"), {"memory": "512Mi"}),
        ("requested", {"cpu": "800m"}, ("Lower", "memory"), {"memory": "512Mi"}),
    ):
        await case.deploy(app, requests=requests)
        before[app] = await case.wait_until_ready(app)
        await case.create_vpa(
            app,
            updatePolicy={
                "updateMode": "Recreate",
                "evictionRequirements": [_requirement(*required)],
            },
            resourcePolicy=memory_alone,
            recommenders=OTHER_RECOMMENDER,
        )
        await case.set_recommendation(app, app=target)
    await case.wait_until_applied("requested")  # a request is added, which is a change
    assert not await case.uids("requested") & before["requested"]
    await case.cluster.wait_for_cycles(UPDATER, 6)
    for app in ("unrequested", "untargeted"):
        assert await case.uids(app) == before[app]
    await case.set_recommendation("unrequested", app={"memory": "2Gi"})
    await case.wait_until_applied("unrequested")
    assert await case.uids("untargeted") == before["untargeted"]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"updateMode": "Recreate"}, id="no requirements"),
        pytest.param({"updateMode": "Recreate", "evictionRequirements": []}, id="an empty list"),
    ],
)
async def test_unchanged_when_unset(case: Case, policy: dict[str, Any]) -> None:
    """KEP-4831: without requirements pods are evicted for higher and for lower targets."""
    for app, target in (("up", _MORE), ("down", _LESS)):
        await case.deploy(app, requests=LARGE)
        before = await case.wait_until_ready(app)
        await case.create_vpa(app, updatePolicy=policy, recommenders=OTHER_RECOMMENDER)
        await case.set_recommendation(app, app=target)
        await case.wait_until_applied(app)
        assert not await case.uids(app) & before


async def test_a_resource_in_two_requirements_is_refused(case: Case) -> None:
    """KEP-4831, first validation rule: no resource alone in two requirements."""
    twice = [_requirement("Higher", "cpu"), _requirement("Lower", "cpu")]
    await _assert_refused(case, twice)


async def test_a_resource_alone_and_in_a_pair_is_refused(case: Case) -> None:
    """KEP-4831, second validation rule: no resource both in [cpu, memory] and alone."""
    both = [_requirement("Higher", "cpu", "memory"), _requirement("Lower", "cpu")]
    await _assert_refused(case, both)


async def _assert_refused(case: Case, required: list[dict[str, Any]]) -> None:
    """Assert that a VPA with these requirements is refused, both created and updated."""
    cluster = case.cluster
    policy = {"updateMode": "Recreate", "evictionRequirements": required}
    path = case.write_vpa(autoscaler("web", updatePolicy=policy))
    code, printed = await cluster.kubectl.run("create", "-f", path, namespace=case.namespace)
    assert code == 1
    _assert_reason(printed)
    good = {**policy, "evictionRequirements": required[:1]}
    await case.create_vpa("web", updatePolicy=good, recommenders=OTHER_RECOMMENDER)
    code, printed = await cluster.kubectl.run("apply", "-f", path, namespace=case.namespace)
    assert code == 1
    _assert_reason(printed)
    found = await cluster.client.get(VPAS.as_dicts(), "web", namespace=case.namespace)
    assert found["spec"]["updatePolicy"] == good


def _assert_reason(printed: str) -> None:
    assert "spec.updatePolicy.evictionRequirements: Invalid value: " in printed
    assert "cpu may be in one requirement only, alone or in [cpu, memory]" in printed
