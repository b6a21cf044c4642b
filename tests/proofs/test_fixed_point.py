"""The fixed point: what admission wrote stays as it is (updater.md D31, admission.md 6).

Whatever pod, VPA and LimitRanges there are, a pod that admission wrote gives the updater nothing
to do, and admitting it once more writes the same. The chain is a cluster's, see
``admitted_pods``; the updater's part is its own.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from admitted_pods import GATES, Json, World, numbers, resources_of, unscaled, worlds
from common.annotations import boosted_containers, parse_startup_boost, startup_boost_key
from common.api.autoscaling import UpdateMode
from common.quantity import MAX_INT64, ZERO
from common.recommendation.limit_range import LimitType, effective_limits
from common.recommendation.preflight import qos_refusal
from common.resources import CPU, RESOURCES
from sandbox.objects.pod_resources import pod_requests
from sandbox.objects.resizing import resize_causes
from sandbox.objects.rules.amounts import pod_level_causes
from sandbox.version import KubernetesVersion
from updater.decision import Reason
from updater.evaluate.recommendation_fit import RecommendationFit
from updater.evaluate.update_order import Thresholds
from updater.plan.candidate import Candidate, judge_pod, plan_unboost
from updater.plan.candidate_resize import plan_candidate
from updater.resize.resize_plan import ResizePlan
from updater.state import PodMemory

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=30)
ANY_DRIFT = Thresholds(min_change=1e-12)

pytestmark = pytest.mark.timeout(600)  # a counterexample is made small first, which takes a while

MANY = settings(
    max_examples=int(os.environ.get("PROPERTY_EXAMPLES", "100")),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def judged(world: World, pod: Json) -> str:
    """What the updater makes of a pod that is long past its youth; empty: nothing to do."""
    judgement = judge_pod(
        world.decoded(pod),
        RecommendationFit(world.autoscaler, tuple(world.limits), pod_level=world.pod_level),
        memory=PodMemory(),
        resized_at=None,
        thresholds=ANY_DRIFT,
        features=GATES,
        now=NOW,
    )
    if not isinstance(judgement, Candidate):
        if judgement.reason is Reason.POD_LEVEL_RESOURCES_EXHAUSTED:
            return ""  # there is no room for any other answer
        return "" if judgement.needs_nothing else judgement.reason.value
    targets = {
        name: {resource: str(value) for resource, value in amounts.target.items()}
        for name, amounts in judgement.processed.containers.items()
    }
    return f"{judgement.why}: has {resources_of(pod)}, wants {targets}"


def acceptable(world: World, pod: Json) -> bool:
    """No request is above its limit, and the LimitRange has room for the smallest request.

    These are pods which the API server refuses, with our patch as without it: one that the
    LimitRanger gave a limit below its request, since no limit in that proportion is as large as
    its request; and one of which a millicore or byte has a limit in proportion above the
    LimitRange's maximum. (There the recorded rows say that the maximum is none.) All other pods
    are in, also those that break the LimitRange because the policy goes first (A9).
    """
    return all(
        has.get(("requests", name), 0) <= has.get(("limits", name), MAX_INT64)
        for has in numbers(pod).values()
        for name in RESOURCES
    ) and all(
        has.get(("requests", name), 0) * most >= has.get(("limits", name), 0)
        or not has.get(("requests", name), 0)
        for has in numbers(world.asked(world.pod)).values()
        for name, most in world.highest.items()
    )


@MANY
@given(world=worlds())
def test_a_pod_that_admission_wrote_gives_the_updater_nothing_to_do(world: World) -> None:
    written = world.admitted(world.pod)
    assume(acceptable(world, written))
    assert judged(world, written) == ""


@MANY
@given(world=worlds())
def test_admitting_what_admission_wrote_moves_nothing(world: World) -> None:
    written = world.admitted(world.pod)
    assume(acceptable(world, written))
    again = world.admitted(written)
    assert resources_of(again) == resources_of(written)
    assert again["spec"].get("resources") == written["spec"].get("resources")


@MANY
@given(world=worlds(boosts=True))
def test_a_pod_that_fits_into_its_own_resources_still_does(world: World) -> None:
    """No patch of ours makes the API server refuse a pod for ``spec.resources`` (A25, A26)."""
    asked = world.asked(world.pod)
    assume(not refusals(asked))
    assert refusals(world.admitted(world.pod)) == []


@MANY
@given(world=worlds())
def test_a_resize_of_a_pod_with_its_own_resources_is_taken(world: World) -> None:
    """The API server takes what the updater would send, unless the QoS class would change."""
    running = world.asked(world.pod)
    version = KubernetesVersion(36)
    assume(running["spec"].get("resources") and not resize_causes(running, running, version))
    assume(acceptable(world, running))
    pod = world.decoded(running)
    judgement = judge_pod(
        pod,
        RecommendationFit(world.autoscaler, tuple(world.limits), pod_level=world.pod_level),
        memory=PodMemory(),
        resized_at=None,
        thresholds=ANY_DRIFT,
        features=GATES,
        now=NOW,
    )
    assume(isinstance(judgement, Candidate))
    assert isinstance(judgement, Candidate)
    plan = plan_candidate(judgement, world.autoscaler, world.limits)
    assert isinstance(plan, ResizePlan)
    resized = World.patched(running, plan.operations, without=())
    assume(all(name in RESOURCES for _, name in plan.changes))  # no resize changes another one
    causes = [cause.message for cause in resize_causes(running, resized, version)]
    changes_qos = [cause for cause in causes if "QOS Class" in cause]
    refused = qos_refusal(pod, world.decoded(resized).spec)
    assert bool(changes_qos) is (refused is not None)
    assume(acceptable(world, resized))
    assert causes == changes_qos


@MANY
@given(world=worlds())
def test_a_pod_level_request_stays_above_the_minimum_for_pods(world: World) -> None:
    """Beside a pod-level limit, whether or not the API server filled it in (A25, A26).

    A start-up boost goes no higher than ``--max-allowed-cpu-boost``, whatever a LimitRange demands.
    """
    asked = world.asked(world.pod)
    limited = (asked["spec"].get("resources") or {}).get("limits") or {}
    assume(limited and not refusals(asked))
    before, after = pod_requests(asked), pod_requests(world.admitted(world.pod))
    bounds = effective_limits(world.limits, LimitType.POD)
    if bounds is None:
        return
    for name, least in bounds.min.items():
        most = bounds.max.get(name, ZERO)
        contradictory = not most.is_zero and most < least  # and no pod is accepted
        if name in limited and before[name] >= least and not contradictory:
            assert after[name] >= least


def refusals(pod: Json) -> list[str]:
    """What the API server says about the pod's own resources and those of its containers."""
    found = [*pod_level_causes(pod["spec"], "spec")]
    return [f"{cause.field}: {cause.message}" for cause in found]


@MANY
@given(world=worlds(boosts=True))
def test_plain_init_containers_stay_and_sidecars_too_without_the_gate(world: World) -> None:
    """Whatever is recommended for their names (X107)."""
    asked, written = world.asked(world.pod), world.admitted(world.pod)
    gate = world.scales_sidecars
    assert unscaled(written, sidecars=gate) == unscaled(asked, sidecars=gate)


@MANY
@given(world=worlds(boosts=True))
def test_a_boost_is_not_boosted_again(world: World) -> None:
    """Neither what containers have nor what they shall come back to moves (A21, A23)."""
    written = world.admitted(world.pod)
    assume(acceptable(world, written))
    again = world.admitted(written)
    assert resources_of(again) == resources_of(written)
    assert again["spec"].get("resources") == written["spec"].get("resources")
    assert boosts_of(again) == boosts_of(written)


@MANY
@given(world=worlds(boosts=True))
def test_a_pod_whose_boost_was_taken_back_gives_the_updater_nothing_to_do(world: World) -> None:
    written = world.admitted(world.pod)
    assume(acceptable(world, written))
    boosted = boosted_containers(written["metadata"]["annotations"])
    planned = plan_unboost(
        world.decoded(written),
        world.autoscaler,
        world.limits,
        mode=UpdateMode.RECREATE,
        expired=boosted,
        killed_at={},
        now=NOW,
        pod_level=world.pod_level,
    )
    for name in boosted:  # a request that the boost added stays for good: no resize removes one
        assume(("requests", CPU) in numbers(world.asked(world.pod))[name])
    assume(isinstance(planned, tuple))  # else the boost stays: the QoS class would change
    assert isinstance(planned, tuple)
    settled = World.patched(written, planned[0].operations, without=planned[1])
    assert judged(world, settled) == ""
    assert all(cpu_taken_back(world, written, settled, name) for name in boosted)


def cpu_taken_back(world: World, written: Json, settled: Json, name: str) -> bool:
    """Where no CPU is recommended, a container has again what its annotation tells (D33).

    A LimitRange of type Pod may make a target of zero of it, as the recorded rows have it.
    """
    recommendation = world.autoscaler.status.recommendation
    entries = recommendation.container_recommendations if recommendation is not None else ()
    targets = {each.container_name: each.target or {} for each in entries or ()}
    original = parse_startup_boost(written["metadata"]["annotations"][startup_boost_key(name)])
    if original is None or CPU in targets.get(name, ()) or CPU not in original.requests:
        return True  # a recommended target, or nothing to come back to
    if any(item.type == "Pod" for spec in world.limits for item in spec.limits or ()):
        return True
    return numbers(settled)[name]["requests", CPU] == original.requests[CPU].milli


def world_of(
    *containers: Json, targets: Json, items: list[Json], init: Sequence[Json] = (), **spec: Any
) -> World:
    """A world of ordinary objects; ``targets`` by container, ``spec`` of the VPA."""
    return World(
        scales_sidecars=bool(init),
        pod={
            "metadata": {"name": "web-0", "namespace": "default"},
            "spec": {"containers": list(containers), "initContainers": list(init)},
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


def with_pod_level(resources: Json, world: World) -> World:
    """The same with ``spec.resources``."""
    spec = world.pod["spec"] | {"resources": resources}
    return replace(world, pod=world.pod | {"spec": spec})


HAD, GETS = {"cpu": "84m", "memory": "60"}, {"cpu": "85m", "memory": "40"}
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
            app("log"),
            app("extra", requests={"memory": "65"}, limits={"memory": "72"}),
            init=[
                app("sidecar", limits={"memory": "94"}) | {"restartPolicy": "Always"},
                app("init"),
            ],
            targets={"log": {"memory": "99Ki"}, "extra": {"memory": "28"}}
            | {"sidecar": {"memory": "28Ki"}},
            items=[{"type": "Pod", "max": {"memory": "216"}}],
        ),
        {
            "log": {"requests": {"memory": "88652"}},
            "extra": {"requests": {"memory": "24"}, "limits": {"memory": "26"}},
            "sidecar": {"requests": {"memory": "188"}, "limits": {"memory": "188"}},
            "init": {},
        },
        id="A19 a larger limit of one leaves others less",
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
        world_of(
            app("a", requests={"cpu": "4m"}, limits={"cpu": "7m"}),
            app("b", requests={"cpu": "4m"}, limits={"cpu": "7m"}),
            targets={"a": {"cpu": "9"}, "b": {"cpu": "999u"}},
            items=[{"type": "Container", "max": {"cpu": "10m"}}],
        ),
        {
            "a": {"requests": {"cpu": "5m"}, "limits": {"cpu": "8m"}},
            "b": {"requests": {"cpu": "1m"}, "limits": {"cpu": "1m"}},
        },
        id="A19 the API server rounds up what is finer than a millicore",
    ),
    pytest.param(
        with_pod_level(
            {"requests": {"cpu": "34m"}},
            world_of(
                app("a", limits={"cpu": "84m", "memory": "60"}),
                app("b", limits={"cpu": "85m", "memory": "60"}),
                targets={"b": {"cpu": "50m", "memory": "60"}},
                items=[
                    {"type": "Container", "min": {"cpu": "45m"}},
                    {"type": "Pod", "max": {"cpu": "80m", "memory": "100"}},
                ],
            ),
        ),
        {
            "a": {"requests": HAD, "limits": HAD},
            "b": {"requests": GETS, "limits": GETS},
        },
        id="A29 nothing is shared out where the pod's own resources have no room",
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


def sharing(boost: Json, *, most_boost: str = "0", **policy: Any) -> World:
    """A pod whose containers share a maximum; what b has, rounded, moves what is left to a."""
    boosts = {"containerName": "a", "startupBoost": {"cpu": boost}, **policy}
    world = world_of(
        app("a", requests={"cpu": "2m"}, limits={"cpu": "94m"}),
        app("b", requests={"cpu": "28m"}, limits={"cpu": "53m"}),
        targets={"a": {"cpu": "43m"}, "b": {"cpu": "69m"}},
        items=[{"type": "Pod", "max": {"cpu": "100m"}}],
        resourcePolicy={"containerPolicies": [boosts]},
    )
    return replace(world, most_boost=most_boost)


FACTOR = {"type": "Factor", "factor": 9}
QUANTITY = {"type": "Quantity", "quantity": "50m"}

# a gets 1m before its boost. Told from b's limit of 5m, which was rounded from 5.7m, it were 2m.
BOOSTED = [
    pytest.param(sharing(FACTOR), "9m", id="a factor"),
    pytest.param(sharing(QUANTITY), "51m", id="a quantity"),
    pytest.param(sharing(FACTOR, most_boost="8m"), "8m", id="a factor that the flag cuts"),
    pytest.param(sharing(QUANTITY, most_boost="51m"), "51m", id="a quantity just below the cut"),
]


@pytest.mark.parametrize(("world", "cpu"), BOOSTED)
def test_a23_what_a_boost_was_computed_from_stays(world: World, cpu: str) -> None:
    written = world.admitted(world.pod)
    assert resources_of(written)["a"]["requests"]["cpu"] == cpu
    assert resources_of(written)["b"] == {"requests": {"cpu": "3m"}, "limits": {"cpu": "5m"}}
    assert resources_of(world.admitted(written)) == resources_of(written)


def test_a23_another_boost_counts_from_what_is_wanted_now() -> None:
    written = sharing(FACTOR).admitted(sharing(FACTOR).pod)
    changed = sharing({"type": "Factor", "factor": 3})
    assert resources_of(changed.admitted(written))["a"]["requests"]["cpu"] == "6m"


def boosts_of(pod: Json) -> Json:
    annotations = pod["metadata"]["annotations"]
    return {key: annotations[key] for key in annotations if "StartupBoost" in key}
