"""The fixed point: what admission wrote stays as it is (updater.md D31, admission.md 6).

Whatever pod, VPA and LimitRanges there are, a pod that admission wrote gives the updater nothing
to do, and admitting it once more writes the same. The chain is a cluster's, see
``admitted_pods``; the updater's part is its own.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from admitted_pods import GATES, Json, World, numbers, resources_of, worlds
from hypothesis import HealthCheck, assume, given, settings

from common.annotations import boosted_containers
from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.quantity import Quantity
from common.resources import CPU
from updater.attempts import PodMemory
from updater.candidate import Candidate, judge_pod, plan_unboost
from updater.update_order import Thresholds

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=30)
ANY_DRIFT = Thresholds(min_change=1e-12)

MANY = settings(
    max_examples=400,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def judged(world: World, pod: Json) -> str:
    """What the updater makes of a pod that is long past its youth; empty: nothing to do."""
    judgement = judge_pod(
        msgspec.convert(pod, Pod),
        world.autoscaler,
        world.limits,
        memory=PodMemory(),
        resized_at=None,
        thresholds=ANY_DRIFT,
        features=GATES,
        now=NOW,
    )
    if not isinstance(judgement, Candidate):
        return "" if judgement.needs_nothing else judgement.reason.value
    targets = {
        name: {resource: str(value) for resource, value in amounts.target.items()}
        for name, amounts in judgement.processed.containers.items()
    }
    return f"{judgement.why}: has {resources_of(pod)}, wants {targets}"


def acceptable(pod: Json) -> bool:
    """No request is above its limit.

    A template that the LimitRanger gave a limit below its request can't have a fixed point: no
    limit in that proportion is as large as its request, so the API server refuses the pod, with
    our patch as without it. All other pods are in, also those that break the LimitRange
    itself because the policy goes first (A9).
    """
    for resources in resources_of(pod).values():
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name, limit in limits.items():
            if Quantity.parse(requests.get(name, "0")) > Quantity.parse(limit):
                return False
    return True


@MANY
@given(world=worlds())
def test_a_pod_that_admission_wrote_gives_the_updater_nothing_to_do(world: World) -> None:
    written = world.admitted(world.pod)
    assume(acceptable(written))
    assert judged(world, written) == ""


@MANY
@given(world=worlds())
def test_admitting_what_admission_wrote_moves_nothing(world: World) -> None:
    written = world.admitted(world.pod)
    assume(acceptable(written))
    assert resources_of(world.admitted(written)) == resources_of(written)


@MANY
@given(world=worlds(boosts=True))
def test_a_boost_is_not_boosted_again(world: World) -> None:
    """What to come back to stays the same, and so does all but the CPU.

    A boosted CPU is a factor times the request, or the request and something. What rounding
    does to the request, a millicore per container at most, a factor makes that much more.
    """
    written = world.admitted(world.pod)
    assume(acceptable(written))
    again = world.admitted(written)
    assert boosts_of(again) == boosts_of(written)
    slack = 9 * len(world.pod["spec"]["containers"])
    for name, before in numbers(written).items():
        after = numbers(again)[name]
        assert after.keys() == before.keys()
        assert {key: after[key] for key in after if key[1] != CPU} == {
            key: before[key] for key in before if key[1] != CPU
        }
        request = after.get(("requests", CPU), 0) - before.get(("requests", CPU), 0)
        assert abs(request) <= (slack if boosts_of(written) else 0)


@MANY
@given(world=worlds(boosts=True))
def test_a_pod_whose_boost_was_taken_back_gives_the_updater_nothing_to_do(world: World) -> None:
    written = world.admitted(world.pod)
    assume(acceptable(written))
    boosted = boosted_containers(written["metadata"]["annotations"])
    planned = plan_unboost(
        msgspec.convert(written, Pod),
        world.autoscaler,
        world.limits,
        mode=UpdateMode.RECREATE,
        expired=boosted,
    )
    assume(isinstance(planned, tuple))  # else the boost stays: the QoS class would change
    assert isinstance(planned, tuple)
    settled = World.patched(written, planned[0].operations, without=planned[1])
    assert judged(world, settled) == ""


def world_of(*containers: Json, targets: Json, items: list[Json], **spec: Any) -> World:
    """A world of ordinary objects; ``targets`` by container, ``spec`` of the VPA."""
    return World(
        pod={
            "metadata": {"name": "web-0", "namespace": "default"},
            "spec": {"containers": list(containers)},
            "status": {"phase": "Running", "startTime": START.isoformat()},
        },
        vpa={
            "metadata": {"name": "web", "namespace": "default"},
            "spec": spec,
            "status": {
                "recommendation": {
                    "containerRecommendations": [
                        {"containerName": name, "target": target}
                        for name, target in targets.items()
                    ]
                }
            },
        },
        limit_ranges=[{"metadata": {"name": "bounds"}, "spec": {"limits": items}}],
    )


def app(name: str = "app", **resources: Json) -> Json:
    return {"name": name, "image": "registry.example/app:1", "resources": resources}


REQUESTS_ONLY = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}

# Each was replaced for ever before its rule.
BROKE = [
    pytest.param(
        world_of(
            app(requests={"cpu": "100m"}, limits={"cpu": "1"}),
            targets={"app": {"cpu": "700m"}},
            items=[{"type": "Container", "max": {"cpu": "4"}}],
            resourcePolicy=REQUESTS_ONLY,
        ),
        {"app": {"requests": {"cpu": "700m"}, "limits": {"cpu": "1"}}},
        id="A18 a limit that stands is not led above the LimitRange",
    ),
    pytest.param(
        world_of(
            app(requests={"memory": "11"}, limits={"memory": "16"}),
            targets={"app": {"memory": "100"}},
            items=[{"type": "Container", "max": {"memory": "3"}}],
        ),
        {"app": {"requests": {"memory": "2"}, "limits": {"memory": "2"}}},
        id="A19 the limit hides the ratio that it was rounded from",
    ),
    pytest.param(
        world_of(
            app("a", requests={"memory": "1"}, limits={"memory": "100"}),
            app("b", requests={"memory": "100"}, limits={"memory": "100"}),
            targets={"a": {"memory": "5"}, "b": {"memory": "1000"}},
            items=[{"type": "Pod", "max": {"memory": "200"}}],
        ),
        {
            "a": {"requests": {"memory": "1"}, "limits": {"memory": "100"}},
            "b": {"requests": {"memory": "133"}, "limits": {"memory": "133"}},
        },
        id="A20 nothing is scaled down to zero",
    ),
    pytest.param(
        world_of(app(), targets={"app": {"": "1", "cpu": "2"}}, items=[]),
        {"app": {"requests": {"cpu": "2"}}},
        id="A22 a resource without a name is no target",
    ),
    pytest.param(
        world_of(app(), targets={"app": {"cpu": "0"}}, items=[]),
        {"app": {"requests": {"cpu": "0"}}},
        id="D31 a request of zero is a target of zero",
    ),
]


@pytest.mark.parametrize(("world", "want"), BROKE)
def test_what_was_replaced_for_ever(world: World, want: Json) -> None:
    written = world.admitted(world.pod)
    assert resources_of(written) == want
    assert judged(world, written) == ""
    assert resources_of(world.admitted(written)) == want


def boosts_of(pod: Json) -> Json:
    annotations = pod["metadata"]["annotations"]
    return {key: annotations[key] for key in annotations if "StartupBoost" in key}
