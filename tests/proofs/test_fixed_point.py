"""The fixed point: an admitted pod isn't changed any more (updater.md D31, admission.md 6).

For any pod, VPA and LimitRanges, the updater doesn't update an admitted pod, and admitting it
again changes nothing. ``admitted_pods`` applies the admission plugins in a cluster's order.
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
from updater.evaluate.update_verdict import Thresholds
from updater.plan.candidate import Candidate, judge_pod, plan_unboost
from updater.plan.candidate_resize import plan_candidate
from updater.resize.resize_plan import ResizePlan
from updater.state import PodMemory

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=30)
ANY_DRIFT = Thresholds(min_change=1e-12)

pytestmark = pytest.mark.timeout(600)  # includes the time to shrink a counterexample

EXAMPLES = settings(
    max_examples=int(os.environ.get("PROPERTY_EXAMPLES", "100")),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def updater_decision(world: World, pod: Json) -> str:
    """Return the updater's reason to update a pod of any age; empty if it wouldn't update it."""
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
            return ""  # the pod-level resources leave no room for the target
        return "" if judgement.needs_nothing else judgement.reason.value
    targets = {
        name: {resource: str(value) for resource, value in amounts.target.items()}
        for name, amounts in judgement.processed.containers.items()
    }
    return f"{judgement.why}: has {resources_of(pod)}, wants {targets}"


def acceptable(world: World, pod: Json) -> bool:
    """Return True if requests don't exceed limits and the LimitRange allows the smallest request.

    The API server refuses all other pods, with or without our patch. For some of them LimitRanger
    set a limit below the request. For others the smallest request, a millicore or a byte, has a
    proportional limit above the LimitRange's maximum; the recorded rows ignore the maximum there.
    Pods that break the LimitRange because of the policy are acceptable (A9).
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


@EXAMPLES
@given(world=worlds())
def test_the_updater_does_not_change_an_admitted_pod(world: World) -> None:
    written = world.admitted(world.pod)
    assume(acceptable(world, written))
    assert updater_decision(world, written) == ""


@EXAMPLES
@given(world=worlds())
def test_admitting_an_admitted_pod_changes_nothing(world: World) -> None:
    written = world.admitted(world.pod)
    assume(acceptable(world, written))
    again = world.admitted(written)
    assert resources_of(again) == resources_of(written)
    assert again["spec"].get("resources") == written["spec"].get("resources")


@EXAMPLES
@given(world=worlds(boosts=True))
def test_a_pod_within_its_pod_level_resources_stays_within_them(world: World) -> None:
    """Our patch never makes the API server refuse a pod for ``spec.resources`` (A25, A26)."""
    asked = world.asked(world.pod)
    assume(not refusals(asked))
    assert refusals(world.admitted(world.pod)) == []


@EXAMPLES
@given(world=worlds())
def test_a_resize_of_a_pod_with_pod_level_resources_is_valid(world: World) -> None:
    """The API server accepts the updater's resize, unless the QoS class would change."""
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
    assume(all(name in RESOURCES for _, name in plan.changes))  # others can't be resized
    causes = [cause.message for cause in resize_causes(running, resized, version)]
    changes_qos = [cause for cause in causes if "QOS Class" in cause]
    refused = qos_refusal(pod, world.decoded(resized).spec)
    assert bool(changes_qos) is (refused is not None)
    assume(acceptable(world, resized))
    assert causes == changes_qos


@EXAMPLES
@given(world=worlds())
def test_a_pod_level_request_stays_above_the_minimum_for_pods(world: World) -> None:
    """For pods with a pod-level limit, set by the user or by the API server (A25, A26).

    ``--max-allowed-cpu-boost`` limits a startup boost even below a LimitRange's minimum.
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
        contradictory = not most.is_zero and most < least  # then no pod is accepted
        if name in limited and before[name] >= least and not contradictory:
            assert after[name] >= least


def refusals(pod: Json) -> list[str]:
    """Return the API server's errors about pod-level resources and those of the containers."""
    found = [*pod_level_causes(pod["spec"], "spec")]
    return [f"{cause.field}: {cause.message}" for cause in found]


@EXAMPLES
@given(world=worlds(boosts=True))
def test_plain_init_containers_and_sidecars_without_the_gate_are_not_changed(world: World) -> None:
    """A recommendation with their name is ignored (X107)."""
    asked, written = world.asked(world.pod), world.admitted(world.pod)
    gate = world.scales_sidecars
    assert unscaled(written, sidecars=gate) == unscaled(asked, sidecars=gate)


@EXAMPLES
@given(world=worlds(boosts=True))
def test_a_boost_is_not_boosted_again(world: World) -> None:
    """Neither the containers' resources nor their values without the boost change (A21, A23)."""
    written = world.admitted(world.pod)
    assume(acceptable(world, written))
    again = world.admitted(written)
    assert resources_of(again) == resources_of(written)
    assert again["spec"].get("resources") == written["spec"].get("resources")
    assert boost_annotations(again) == boost_annotations(written)


@EXAMPLES
@given(world=worlds(boosts=True))
def test_the_updater_does_not_change_a_pod_whose_boost_ended(world: World) -> None:
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
    for name in boosted:  # no resize can remove a request that the boost added
        assume(("requests", CPU) in numbers(world.asked(world.pod))[name])
    # Otherwise the end of the boost would change the QoS class.
    assume(isinstance(planned, ResizePlan))
    assert isinstance(planned, ResizePlan)
    keys = [startup_boost_key(name) for name in boosted]
    settled = World.patched(written, planned.operations, without=keys)
    assert updater_decision(world, settled) == ""
    assert all(cpu_is_restored(world, written, settled, name) for name in boosted)


def cpu_is_restored(world: World, written: Json, settled: Json, name: str) -> bool:
    """Return True if a container without a CPU target has the value of its annotation (D33).

    A LimitRange of type Pod may change that value to a target of zero, as in the recorded rows.
    """
    recommendation = world.autoscaler.status.recommendation
    entries = recommendation.container_recommendations if recommendation is not None else ()
    targets = {each.container_name: each.target or {} for each in entries or ()}
    original = parse_startup_boost(written["metadata"]["annotations"][startup_boost_key(name)])
    if original is None or CPU in targets.get(name, ()) or CPU not in original.requests:
        return True  # there is a target, or no former request
    if any(item.type == "Pod" for spec in world.limits for item in spec.limits or ()):
        return True
    return numbers(settled)[name]["requests", CPU] == original.requests[CPU].milli


def world_with(
    *containers: Json, targets: Json, items: list[Json], init: Sequence[Json] = (), **spec: Any
) -> World:
    """Return a world with ordinary objects; ``targets`` by container, ``spec`` of the VPA."""
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
    """Return a world whose pod has these pod-level resources."""
    spec = world.pod["spec"] | {"resources": resources}
    return replace(world, pod=world.pod | {"spec": spec})


BEFORE, AFTER = {"cpu": "84m", "memory": "60"}, {"cpu": "85m", "memory": "40"}
REQUESTS_ONLY = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}

# The updater replaced each of these pods again and again before the rule in its id.
REGRESSIONS = [
    pytest.param(
        world_with(
            app(requests={"cpu": "100m"}, limits={"cpu": "1"}),
            targets={"app": {"cpu": "700m"}},
            items=[{"type": "Container", "max": {"cpu": "4"}}],
            resourcePolicy=REQUESTS_ONLY,
        ),
        {"app": {"requests": {"cpu": "700m"}, "limits": {"cpu": "1"}}},
        id="A18 a limit that isn't controlled is not raised above the LimitRange",
    ),
    pytest.param(
        world_with(
            app(requests={"memory": "11"}, limits={"memory": "16"}),
            targets={"app": {"memory": "100"}},
            items=[{"type": "Container", "max": {"memory": "3"}}],
        ),
        {"app": {"requests": {"memory": "2"}, "limits": {"memory": "2"}}},
        id="A19 the rounded limit has another ratio",
    ),
    pytest.param(
        world_with(
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
        id="A19 a larger limit of one container leaves less for others",
    ),
    pytest.param(
        world_with(
            app("a", requests={"memory": "1"}, limits={"memory": "100"}),
            app("b", requests={"memory": "100"}, limits={"memory": "100"}),
            targets={"a": {"memory": "5"}, "b": {"memory": "1000"}},
            items=[{"type": "Pod", "max": {"memory": "200"}}],
        ),
        {
            "a": {"requests": {"memory": "1"}, "limits": {"memory": "100"}},
            "b": {"requests": {"memory": "133"}, "limits": {"memory": "133"}},
        },
        id="A20 no request is scaled down to zero",
    ),
    pytest.param(
        world_with(
            app("a", requests={"cpu": "4m"}, limits={"cpu": "7m"}),
            app("b", requests={"cpu": "4m"}, limits={"cpu": "7m"}),
            targets={"a": {"cpu": "9"}, "b": {"cpu": "999u"}},
            items=[{"type": "Container", "max": {"cpu": "10m"}}],
        ),
        {
            "a": {"requests": {"cpu": "5m"}, "limits": {"cpu": "8m"}},
            "b": {"requests": {"cpu": "1m"}, "limits": {"cpu": "1m"}},
        },
        id="A19 the API server rounds fractions of a millicore up",
    ),
    pytest.param(
        with_pod_level(
            {"requests": {"cpu": "34m"}},
            world_with(
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
            "a": {"requests": BEFORE, "limits": BEFORE},
            "b": {"requests": AFTER, "limits": AFTER},
        },
        id="A29 without room in the pod-level resources nothing is distributed",
    ),
    pytest.param(
        world_with(app(), targets={"app": {"": "1", "cpu": "2"}}, items=[]),
        {"app": {"requests": {"cpu": "2"}}},
        id="A22 a resource without a name isn't a target",
    ),
    pytest.param(
        world_with(app(), targets={"app": {"cpu": "0"}}, items=[]),
        {"app": {"requests": {"cpu": "0"}}},
        id="D31 a request of zero equals a target of zero",
    ),
]


@pytest.mark.parametrize(("world", "want"), REGRESSIONS)
def test_regressions_reach_a_fixed_point(world: World, want: Json) -> None:
    written = world.admitted(world.pod)
    assert resources_of(written) == want
    assert updater_decision(world, written) == ""
    assert resources_of(world.admitted(written)) == want


def pod_with_shared_maximum(boost: Json, *, most_boost: str = "0", **policy: Any) -> World:
    """Return a pod whose containers share a maximum; b's rounded value changes the rest for a."""
    boosts = {"containerName": "a", "startupBoost": {"cpu": boost}, **policy}
    world = world_with(
        app("a", requests={"cpu": "2m"}, limits={"cpu": "94m"}),
        app("b", requests={"cpu": "28m"}, limits={"cpu": "53m"}),
        targets={"a": {"cpu": "43m"}, "b": {"cpu": "69m"}},
        items=[{"type": "Pod", "max": {"cpu": "100m"}}],
        resourcePolicy={"containerPolicies": [boosts]},
    )
    return replace(world, most_boost=most_boost)


FACTOR = {"type": "Factor", "factor": 9}
QUANTITY = {"type": "Quantity", "quantity": "50m"}

# Without the boost a gets 1m. Computed from b's limit of 5m, rounded from 5.7m, it would be 2m.
BOOSTED = [
    pytest.param(pod_with_shared_maximum(FACTOR), "9m", id="a factor"),
    pytest.param(pod_with_shared_maximum(QUANTITY), "51m", id="a quantity"),
    pytest.param(
        pod_with_shared_maximum(FACTOR, most_boost="8m"),
        "8m",
        id="a factor above the flag's maximum",
    ),
    pytest.param(
        pod_with_shared_maximum(QUANTITY, most_boost="51m"), "51m", id="a quantity at the maximum"
    ),
]


@pytest.mark.parametrize(("world", "cpu"), BOOSTED)
def test_a23_the_base_of_a_boost_is_kept(world: World, cpu: str) -> None:
    written = world.admitted(world.pod)
    assert resources_of(written)["a"]["requests"]["cpu"] == cpu
    assert resources_of(written)["b"] == {"requests": {"cpu": "3m"}, "limits": {"cpu": "5m"}}
    assert resources_of(world.admitted(written)) == resources_of(written)


def test_a23_another_boost_starts_from_the_current_target() -> None:
    written = pod_with_shared_maximum(FACTOR).admitted(pod_with_shared_maximum(FACTOR).pod)
    changed = pod_with_shared_maximum({"type": "Factor", "factor": 3})
    assert resources_of(changed.admitted(written))["a"]["requests"]["cpu"] == "6m"


def boost_annotations(pod: Json) -> Json:
    annotations = pod["metadata"]["annotations"]
    return {key: annotations[key] for key in annotations if "StartupBoost" in key}
