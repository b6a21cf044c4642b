"""KEP-4831, which change is worth an eviction: one case for each line of its test plan."""

from typing import Any

import pytest
import yaml

from common.kube.endpoints import VPAS
from e2e.installation import UPDATER
from e2e.pods import LARGE
from e2e.world import BY_HAND, Case
from workloads import autoscaler

pytestmark = pytest.mark.concurrent

_MORE_CPU_LESS_MEMORY = {"cpu": "1", "memory": "512Mi"}
_MORE = {"cpu": "1", "memory": "2Gi"}
_LESS = {"cpu": "300m", "memory": "512Mi"}


def _requirement(direction: str, *resources: str) -> dict[str, Any]:
    return {"resources": list(resources), "changeRequirement": f"Target{direction}ThanRequests"}


async def test_evicts_only_when_all_hold(case: Case) -> None:
    """KEP-4831: one requirement that doesn't hold is enough to keep every pod."""
    required = [_requirement("Higher", "cpu"), _requirement("Lower", "memory")]
    policy = {"updateMode": "Recreate", "evictionRequirements": required}
    before = {}
    for app, target in (("all", _MORE_CPU_LESS_MEMORY), ("cpu", _MORE), ("memory", _LESS)):
        await case.deploy(app, requests=LARGE)
        before[app] = await case.ready(app)
        await case.autoscale(app, updatePolicy=policy, recommenders=BY_HAND)
        await case.advise(app, app=target)
    await case.fits("all")
    assert not await case.uids("all") & before["all"]
    await case.world.passes(UPDATER, 6)
    for app in ("cpu", "memory"):
        assert await case.uids(app) == before[app]
    await case.advise("cpu", app=_MORE_CPU_LESS_MEMORY)
    await case.fits("cpu")
    assert await case.uids("memory") == before["memory"]


async def test_judges_only_resources_that_it_controls_and_has_a_target_for(case: Case) -> None:
    """KEP-4831: a resource without a target admits no pod, whether it is requested or not."""
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
        before[app] = await case.ready(app)
        await case.autoscale(
            app,
            updatePolicy={
                "updateMode": "Recreate",
                "evictionRequirements": [_requirement(*required)],
            },
            resourcePolicy=memory_alone,
            recommenders=BY_HAND,
        )
        await case.advise(app, app=target)
    await case.fits("requested")  # a request that the recommendation adds is a change
    assert not await case.uids("requested") & before["requested"]
    await case.world.passes(UPDATER, 6)
    for app in ("unrequested", "untargeted"):
        assert await case.uids(app) == before[app]
    await case.advise("unrequested", app={"memory": "2Gi"})
    await case.fits("unrequested")
    assert await case.uids("untargeted") == before["untargeted"]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"updateMode": "Recreate"}, id="no requirements"),
        pytest.param(
            {"updateMode": "Recreate", "evictionRequirements": []}, id="an empty list of them"
        ),
    ],
)
async def test_unchanged_when_unset(case: Case, policy: dict[str, Any]) -> None:
    """KEP-4831: without requirements pods are evicted whichever way the target is."""
    for app, target in (("up", _MORE), ("down", _LESS)):
        await case.deploy(app, requests=LARGE)
        before = await case.ready(app)
        await case.autoscale(app, updatePolicy=policy, recommenders=BY_HAND)
        await case.advise(app, app=target)
        await case.fits(app)
        assert not await case.uids(app) & before


async def test_a_resource_in_two_requirements_is_refused(case: Case) -> None:
    """KEP-4831, first validation rule: a resource alone in two requirements."""
    twice = [_requirement("Higher", "cpu"), _requirement("Lower", "cpu")]
    await _is_refused(case, twice)


async def test_a_resource_alone_and_in_a_pair_is_refused(case: Case) -> None:
    """KEP-4831, second validation rule: a resource in [cpu, memory], and in one of its own."""
    both = [_requirement("Higher", "cpu", "memory"), _requirement("Lower", "cpu")]
    await _is_refused(case, both)


async def _is_refused(case: Case, required: list[dict[str, Any]]) -> None:
    """Created, and put into a VPA that is there."""
    world = case.world
    policy = {"updateMode": "Recreate", "evictionRequirements": required}
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    path = world.kubectl.kubeconfig.with_name(f"{case.namespace}.yaml")
    path.write_text(yaml.safe_dump(kind | autoscaler("web", updatePolicy=policy)))
    code, printed = await world.kubectl.try_("create", "-f", str(path), namespace=case.namespace)
    assert code == 1
    _tells_why(printed)
    good = {**policy, "evictionRequirements": required[:1]}
    await case.autoscale("web", updatePolicy=good, recommenders=BY_HAND)
    code, printed = await world.kubectl.try_("apply", "-f", str(path), namespace=case.namespace)
    assert code == 1
    _tells_why(printed)
    found = await world.client.get(VPAS.as_dicts(), "web", namespace=case.namespace)
    assert found["spec"]["updatePolicy"] == good


def _tells_why(printed: str) -> None:
    assert "spec.updatePolicy.evictionRequirements: Invalid value: " in printed
    assert "cpu may be in one requirement only, alone or in [cpu, memory]" in printed
