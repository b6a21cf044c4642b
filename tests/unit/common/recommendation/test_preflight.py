"""Pods that the API server would refuse, compared with the rules and with the sandbox."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from admitted_pods import Json, World, worlds
from builders import container, pod, recommendation, vpa
from common.annotations import startup_boost_key
from common.api.autoscaling import (
    ContainerPolicy,
    GenericStartupBoost,
    StartupBoost,
    VerticalPodAutoscaler,
)
from common.api.core import (
    Container,
    ContainerStatus,
    LimitRangeItem,
    LimitRangeSpec,
    Pod,
    PodStatus,
    ResourceRequirements,
)
from common.patches import add
from common.quantity import ZERO, Quantity, QuantityError
from common.recommendation.expected_pod import replacement_spec, resized_spec
from common.recommendation.pod_level import PodLevelMode
from common.recommendation.preflight import Check, Refusal, qos_refusal, spec_refusal
from common.resources import parse_quantities
from sandbox.admission.limit_ranger import broken_bounds
from sandbox.objects.pod_resources import complete_pod_resources
from sandbox.objects.rules.amounts import pod_level_causes

Amounts = Mapping[str, str]


def refusal(
    running: Pod,
    autoscaler: VerticalPodAutoscaler,
    ranges: Sequence[LimitRangeSpec],
    *,
    most_boost: Quantity | None = None,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
) -> str:
    """Return why the replacement of a pod would be refused, or an empty string."""
    spec = replacement_spec(running, autoscaler, ranges, most_boost=most_boost, pod_level=pod_level)
    found = spec_refusal(spec, ranges)
    return "" if found is None else found.message


def item(kind: str = "Container", **parts: Amounts) -> LimitRangeItem:
    return LimitRangeItem(type=kind, **parts)


def app(requests: Amounts | None = None, limits: Amounts | None = None) -> Container:
    return container(requests=requests, limits=limits)


def init(requests: Amounts, *, restart_policy: str | None = None) -> Container:
    resources = ResourceRequirements(requests=requests, limits=requests)
    return Container(name="setup", resources=resources, restart_policy=restart_policy)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A container with a request of 100m and a target of 1 CPU; limits follow."""

    id: str
    want: str
    items: tuple[LimitRangeItem, ...] = ()
    has: Container = field(default_factory=lambda: app({"cpu": "100m"}))
    others: tuple[Container, ...] = ()
    init: tuple[Container, ...] = ()
    whole: ResourceRequirements | None = None
    only_requests: bool = False
    target: Amounts = field(default_factory=lambda: {"cpu": "1"})


LIMITED = app({"cpu": "100m"}, {"cpu": "200m"})
EQUAL = app({"cpu": "100m"}, {"cpu": "100m"})
PROXY = container("proxy", requests={"cpu": "1"}, limits={"cpu": "1"})

CASES = [
    Case(id="no LimitRange", want=""),
    Case(
        id="an item for claims", items=(item("PersistentVolumeClaim", max={"cpu": "1"}),), want=""
    ),
    Case(
        id="max: no limit at all",
        items=(item(max={"cpu": "2"}),),
        want="container app would have no cpu limit, and the LimitRange's max for a Container is 2",
    ),
    Case(
        id="max: the target is capped to it",
        items=(item(max={"cpu": "500m"}),),
        has=LIMITED,
        want="",
    ),
    Case(
        id="max: of a container without a recommendation",
        items=(item(max={"cpu": "900m"}),),
        has=LIMITED,
        others=(PROXY,),
        want="the cpu limit of container proxy would be 1, and the LimitRange's max for a "
        "Container is 900m",
    ),
    Case(
        id="max: of an init container",
        items=(item(max={"cpu": "900m"}),),
        has=LIMITED,
        init=(init({"cpu": "901m"}),),
        want="the cpu limit of init container setup would be 901m, and the LimitRange's max for a "
        "Container is 900m",
    ),
    Case(
        id="max: exactly met",
        items=(item(max={"cpu": "1"}),),
        has=LIMITED,
        others=(PROXY,),
        want="",
    ),
    Case(
        id="max: a limit that stands, with RequestsOnly",
        items=(item(max={"cpu": "150m"}),),
        has=LIMITED,
        only_requests=True,
        want="the cpu limit of container app would be 200m, and the LimitRange's max for a "
        "Container is 150m",
    ),
    Case(
        id="max: of a resource without a recommendation",
        items=(item(max={"ephemeral-storage": "1Gi"}),),
        want="container app would have no ephemeral-storage limit, and the LimitRange's max for a "
        "Container is 1Gi",
    ),
    Case(
        id="max: the default limit is filled in",
        items=(item(max={"memory": "1Gi"}, default={"memory": "1Gi"}),),
        want="",
    ),
    Case(
        id="min: no request",
        items=(item(min={"memory": "64Mi"}),),
        want="container app would have no memory request, and the LimitRange's min for a "
        "Container is 64Mi",
    ),
    Case(
        id="min: the default request is filled in",
        items=(item(min={"memory": "64Mi"}, default_request={"memory": "64Mi"}),),
        want="",
    ),
    Case(id="min: the target is raised to it", items=(item(min={"cpu": "2"}),), has=EQUAL, want=""),
    Case(
        id="min: a limit is the request if there is none",
        items=(item(min={"memory": "64Mi"}),),
        has=app({"cpu": "100m"}, {"memory": "64Mi"}),
        want="",
    ),
    Case(
        id="min: a limit below it",
        items=(item(min={"cpu": "300m"}),),
        others=(container("proxy", requests={"cpu": "300m"}, limits={"cpu": "299m"}),),
        want="the cpu request of container proxy would be 300m, above the limit of 299m",
    ),
    Case(
        id="ratio: at the bound",
        items=(item(max_limit_request_ratio={"cpu": "2"}),),
        has=LIMITED,
        want="",
    ),
    Case(
        id="ratio: above the bound",
        items=(item(max_limit_request_ratio={"cpu": "1999m"}),),
        has=LIMITED,
        want="the cpu request of container app would be 1, its limit 2, and the LimitRange's "
        "maxLimitRequestRatio for a Container is 1999m",
    ),
    Case(
        id="ratio: no limit",
        items=(item(max_limit_request_ratio={"cpu": "2"}),),
        want="container app would have no cpu limit, and the LimitRange's maxLimitRequestRatio "
        "for a Container is 2",
    ),
    Case(
        id="ratio: reduced by a lower target while the limit stays",
        items=(item(max_limit_request_ratio={"cpu": "2"}),),
        has=LIMITED,
        only_requests=True,
        target={"cpu": "99m"},
        want="the cpu request of container app would be 99m, its limit 200m, and the LimitRange's "
        "maxLimitRequestRatio for a Container is 2",
    ),
    Case(
        id="a default limit that came later is below the request",
        items=(item(default={"memory": "64Mi"}, default_request={"memory": "64Mi"}),),
        has=app({"cpu": "100m", "memory": "100Mi"}),
        want="the memory request of container app would be 100Mi, above the limit of 64Mi",
    ),
    Case(
        id="Pod max: the others would leave nothing, so all containers share it (A29)",
        items=(item("Pod", max={"cpu": "900m"}),),
        has=EQUAL,
        others=(PROXY,),
        want="",
    ),
    Case(
        id="Pod max: the rest is shared",
        items=(item("Pod", max={"cpu": "1500m"}),),
        has=EQUAL,
        others=(PROXY,),
        want="",
    ),
    Case(
        id="Pod max: an init container alone needs more",
        items=(item("Pod", max={"cpu": "1500m"}),),
        has=EQUAL,
        init=(init({"cpu": "1600m"}),),
        want="the cpu limit of the pod would be 1600m, and the LimitRange's max for a Pod is 1500m",
    ),
    Case(
        id="Pod max: an init container that is gone when the others start",
        items=(item("Pod", max={"cpu": "1500m"}),),
        has=EQUAL,
        init=(init({"cpu": "1500m"}),),
        want="",
    ),
    Case(
        id="Pod max: the others get what a sidecar leaves",
        items=(item("Pod", max={"cpu": "1500m"}),),
        has=EQUAL,
        init=(init({"cpu": "600m"}, restart_policy="Always"),),
        want="",
    ),
    Case(
        id="Pod max: a sidecar leaves nothing to the others",
        items=(item("Pod", max={"cpu": "1500m"}),),
        has=EQUAL,
        init=(init({"cpu": "1500m"}, restart_policy="Always"),),
        want="the cpu limit of the pod would be 2500m, and the LimitRange's max for a Pod is 1500m",
    ),
    Case(
        id="Pod max: pod-level resources count instead",
        items=(item("Pod", max={"cpu": "1500m"}),),
        has=EQUAL,
        whole=ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "2"}),
        want="the cpu limit of the pod would be 2, and the LimitRange's max for a Pod is 1500m",
    ),
    Case(
        id="Pod min: no request",
        items=(item("Pod", min={"memory": "64Mi"}),),
        want="the pod would have no memory request, and the LimitRange's min for a Pod is 64Mi",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_refusal(case: Case) -> None:
    plain = pod(containers=(case.has, *case.others))
    spec = msgspec.structs.replace(plain.spec, init_containers=case.init, resources=case.whole)
    values = "RequestsOnly" if case.only_requests else "RequestsAndLimits"
    autoscaler = vpa(
        policies=(ContainerPolicy(container_name="app", controlled_values=values),),
        recommendations=(recommendation(target=case.target),),
    )
    ranges = (LimitRangeSpec(limits=case.items),) if case.items else ()
    found = refusal(msgspec.structs.replace(plain, spec=spec), autoscaler, ranges)
    assert found == case.want


# Pod-level resources


@dataclass(frozen=True, kw_only=True)
class Stanza:
    """A container with a request of 1 CPU and a limit of 2, in a pod with pod-level resources."""

    id: str
    want: str = ""
    requests: Amounts | None = None
    limits: Amounts | None = None
    has: Container = field(default_factory=lambda: app({"cpu": "1"}, {"cpu": "2"}))
    others: tuple[Container, ...] = ()
    init: tuple[Container, ...] = ()


SUM = "the cpu requests of the containers would add up to {}, above the pod-level request of {}"
STANZAS = [
    Stanza(id="no request, no limit"),
    Stanza(id="the request is met exactly", requests={"cpu": "1"}),
    Stanza(id="the request is exceeded", requests={"cpu": "999m"}, want=SUM.format("1", "999m")),
    Stanza(
        id="requests of all containers add up",
        requests={"cpu": "1999m"},
        others=(PROXY,),
        want=SUM.format("2", "1999m"),
    ),
    Stanza(
        id="a sidecar adds to the sum",
        requests={"cpu": "1599m"},
        init=(init({"cpu": "600m"}, restart_policy="Always"),),
        want=SUM.format("1600m", "1599m"),
    ),
    Stanza(
        id="an init container that ends counts alone",
        requests={"cpu": "1599m"},
        init=(init({"cpu": "1600m"}),),
        want=SUM.format("1600m", "1599m"),
    ),
    Stanza(
        id="an init container that is smaller", requests={"cpu": "1"}, init=(init({"cpu": "1"}),)
    ),
    Stanza(
        id="a limit of the pod, the request is the sum",
        limits={"cpu": "2"},
        others=(PROXY,),
    ),
    Stanza(
        id="a limit of the pod below the sum of requests",
        limits={"cpu": "2"},
        others=(PROXY, container("log", requests={"cpu": "1m"})),
        want="the cpu request of the pod would be 2001m, above the limit of 2",
    ),
    Stanza(
        id="a limit of one container exceeds it",
        limits={"cpu": "1999m"},
        want="the cpu limit of container app would be 2, above the pod-level limit of 1999m",
    ),
    Stanza(id="limits may add up to more", limits={"cpu": "2"}, others=(PROXY,)),
    Stanza(
        id="the limit of an init container does not count",
        limits={"cpu": "2"},
        requests={"cpu": "3"},
        has=app({"cpu": "1"}),
        init=(init({"cpu": "3"}),),
        want="the cpu request of the pod would be 3, above the limit of 2",
    ),
    Stanza(
        id="the request above the limit",
        requests={"memory": "2Gi"},
        limits={"memory": "1Gi"},
        want="the memory request of the pod would be 2Gi, above the limit of 1Gi",
    ),
    Stanza(
        id="another resource has no bound", requests={"memory": "1Gi"}, limits={"memory": "1Gi"}
    ),
]


@pytest.mark.parametrize("case", STANZAS, ids=lambda case: case.id)
def test_pod_level_resources(case: Stanza) -> None:
    spec = msgspec.structs.replace(
        pod(containers=(case.has, *case.others)).spec,
        init_containers=case.init,
        resources=ResourceRequirements(requests=case.requests, limits=case.limits),
    )
    found = spec_refusal(spec, ())
    if not case.want:
        assert found is None
    else:
        assert found == Refusal(Check.POD_LEVEL, case.want)
    as_json = {"spec": msgspec.to_builtins(spec)}
    complete_pod_resources(as_json)
    causes = list(pod_level_causes(as_json["spec"], "spec"))
    assert bool(causes) is bool(case.want), "as the API server judges"


# Resizes


def test_a_resized_spec_has_the_patched_amounts_and_the_current_defaults() -> None:
    plain = pod(containers=(container("proxy"), Container(name="app")))
    spec = msgspec.structs.replace(
        plain.spec,
        init_containers=(init({"cpu": "1"}, restart_policy="Always"),),
        resources=ResourceRequirements(limits={"cpu": "4"}),
    )
    operations = (
        add("/spec/containers/1/resources", {}),
        add("/spec/containers/1/resources/requests", {}),
        add("/spec/containers/1/resources/requests/cpu", "250m"),
        add("/spec/containers/1/resources/requests/x.io~1gpu", "1"),
        add("/spec/initContainers/0/resources/requests/cpu", "2"),
        add("/spec/resources/limits/cpu", "5"),
    )
    ranges = (LimitRangeSpec(limits=(item(default={"memory": "64Mi"}),)),)
    found = resized_spec(spec, operations, ranges)
    _, changed = found.containers
    assert changed.resources == ResourceRequirements(
        requests={"cpu": "250m", "x.io/gpu": "1"}, limits={"memory": "64Mi"}
    )
    (sidecar,) = found.init_containers or ()
    assert sidecar.resources is not None
    assert sidecar.resources.requests == {"cpu": "2"}
    assert found.resources == ResourceRequirements(limits={"cpu": "5"})
    assert spec.containers[1].resources is None, "the pod of the cache stays as it is"


BOTH = {"cpu": "1", "memory": "1Gi"}
RESIZES: dict[str, tuple[Container, str, tuple[LimitRangeItem, ...], Refusal | None]] = {
    "Burstable stays": (app({"cpu": "1"}), "2", (), None),
    "Burstable would be Guaranteed": (
        app({"cpu": "500m", "memory": "1Gi"}, BOTH),
        "1",
        (),
        Refusal(Check.QOS_CLASS, "the QoS class would change from Burstable to Guaranteed"),
    ),
    "Guaranteed would be Burstable": (
        app(BOTH, BOTH),
        "500m",
        (),
        Refusal(Check.QOS_CLASS, "the QoS class would change from Guaranteed to Burstable"),
    ),
    "BestEffort would be Burstable": (
        app({}),
        "500m",
        (),
        Refusal(Check.QOS_CLASS, "the QoS class would change from BestEffort to Burstable"),
    ),
    "a default limit would make it Guaranteed": (
        app({"cpu": "500m", "memory": "1Gi"}, {"memory": "1Gi"}),
        "1",
        (item(default={"cpu": "1"}),),
        Refusal(Check.QOS_CLASS, "the QoS class would change from Burstable to Guaranteed"),
    ),
}


@pytest.mark.parametrize(("has", "cpu", "items", "want"), RESIZES.values(), ids=RESIZES)
def test_the_qos_class_after_a_resize(
    has: Container, cpu: str, items: tuple[LimitRangeItem, ...], want: Refusal | None
) -> None:
    running = pod(containers=(has,))
    operations = (add("/spec/containers/0/resources/requests/cpu", cpu),)
    resized = resized_spec(running.spec, operations, (LimitRangeSpec(limits=items),))
    assert qos_refusal(running, resized) == want


def test_the_qos_class_in_the_status_counts() -> None:
    running = pod(containers=(app({"cpu": "1"}),))
    recorded = msgspec.structs.replace(running, status=PodStatus(qos_class="Guaranteed"))
    assert qos_refusal(running, running.spec) is None
    assert qos_refusal(recorded, running.spec) is not None


# Start-up boosts


@dataclass(frozen=True, kw_only=True)
class Boost:
    """A container with request 100m, limit 200m and target 300m; the maximum is 1500m."""

    id: str
    want: str
    boost: GenericStartupBoost
    most: Quantity | None = ZERO
    mode: str | None = None
    had: str = ""  # request before the boost of the running pod; empty: not boosted


TOO_MUCH = "the cpu limit of container app would be {}, and the LimitRange's max for a Container is"
BOOSTS = [
    Boost(id="twice fits", boost=GenericStartupBoost(type="Factor", factor=2), want=""),
    Boost(
        id="three times would not: the limit follows",
        boost=GenericStartupBoost(type="Factor", factor=3),
        want=TOO_MUCH.format("1800m"),
    ),
    Boost(
        id="half a CPU more would not",
        boost=GenericStartupBoost(type="Quantity", quantity="500m"),
        want=TOO_MUCH.format("1600m"),
    ),
    Boost(
        id="the gate is off: no boost",
        boost=GenericStartupBoost(type="Factor", factor=3),
        most=None,
        want="",
    ),
    Boost(
        id="admission bounds the boost",
        boost=GenericStartupBoost(type="Factor", factor=3),
        most=Quantity.parse("700m"),
        want="",
    ),
    Boost(
        id="a container of mode Off has no boost",
        boost=GenericStartupBoost(type="Factor", factor=3),
        mode="Off",
        want="",
    ),
    Boost(
        id="a boost that can't be computed is ignored",
        boost=GenericStartupBoost(type="Factor"),
        want="",
    ),
    Boost(
        id="the original request of a boosted pod counts",
        boost=GenericStartupBoost(type="Factor", factor=3),
        had="100m",
        want=TOO_MUCH.format("1800m"),
    ),
]


@pytest.mark.parametrize("case", BOOSTS, ids=lambda case: case.id)
def test_boosts_of_the_replacement(case: Boost) -> None:
    has = LIMITED
    annotations = {}
    if case.had:
        has = app({"cpu": "900m"}, {"cpu": "1500m"})
        original = {"requests": {"cpu": case.had}, "limits": {"cpu": "200m"}}
        annotations = {startup_boost_key("app"): json.dumps(original)}
    policy = ContainerPolicy(
        container_name="app", mode=case.mode, startup_boost=StartupBoost(cpu=case.boost)
    )
    autoscaler = vpa(policies=(policy,), recommendations=(recommendation(target={"cpu": "300m"}),))
    found = refusal(
        pod(containers=(has,), annotations=annotations),
        autoscaler,
        (LimitRangeSpec(limits=(item(max={"cpu": "1500m"}),)),),
        most_boost=case.most,
    )
    assert found == (f"{case.want} 1500m" if case.want else "")


def test_the_kubelets_report_is_not_the_template() -> None:
    plain = pod(containers=(LIMITED,))
    reported = ContainerStatus(
        name="app", resources=ResourceRequirements(requests={"cpu": "1m"}, limits={"cpu": "9"})
    )
    running = msgspec.structs.replace(
        plain, status=PodStatus(phase="Running", container_statuses=(reported,))
    )
    ranges = (LimitRangeSpec(limits=(item(max_limit_request_ratio={"cpu": "2"}),)),)
    assert not refusal(running, vpa(recommendations=(recommendation(),)), ranges)


def test_the_first_limit_range_fills_in() -> None:
    ranges = [
        LimitRangeSpec(limits=(item(default={"memory": amount}),)) for amount in ("300Mi", "50Mi")
    ]
    autoscaler = vpa(recommendations=(recommendation(target={"cpu": "1"}),))
    assert not refusal(pod(), autoscaler, ranges)
    assert "above the limit of 50Mi" in refusal(pod(), autoscaler, ranges[::-1])


def test_an_invalid_bound() -> None:
    ranges = (LimitRangeSpec(limits=(item(max_limit_request_ratio={"cpu": "twice"}),)),)
    with pytest.raises(QuantityError):
        refusal(pod(), vpa(recommendations=(recommendation(),)), ranges)


@st.composite
def bounded(draw: st.DrawFn) -> tuple[World, Json]:
    """Draw a pod that some LimitRanges admitted, and other LimitRanges.

    The policies and start-up boosts of its VPA are new, too.
    """
    before, now = draw(worlds()), draw(worlds(boosts=True))
    running = before.admitted(before.pod)
    spec = running["spec"]
    spec["initContainers"] = [
        {**copy.deepcopy(each), "name": f"init-{number}", **draw(st.sampled_from(RESTARTS))}
        for number, each in enumerate(spec["containers"][: draw(st.integers(0, 2))])
    ]
    limit_ranges = copy.deepcopy(list(now.limit_ranges))
    for limit_range in limit_ranges:
        if draw(st.booleans()):
            ratio = draw(st.sampled_from(["1", "1500m", "3", "100"]))
            limit_range["spec"]["limits"][0]["maxLimitRequestRatio"] = {"cpu": ratio}
    autoscaler = {**before.vpa, "spec": now.vpa["spec"]}
    advice = autoscaler["status"]["recommendation"]["containerRecommendations"]
    for_init = [{**each, "containerName": f"init-{at}"} for at, each in enumerate(advice[:1])]
    world = World(
        pod=running,
        vpa={
            **autoscaler,
            "status": {"recommendation": {"containerRecommendations": [*advice, *for_init]}},
        },
        limit_ranges=limit_ranges,
        most_boost=now.most_boost,
        scales_sidecars=before.scales_sidecars,
    )
    return world, running


RESTARTS: list[dict[str, Any]] = [{}, {"restartPolicy": "Always"}]


def is_refused(replacement: Json, limit_ranges: list[Json]) -> bool:
    spec = replacement["spec"]
    for each in (*spec["containers"], *spec["initContainers"]):
        resources = each.get("resources") or {}
        requests = parse_quantities(resources.get("requests"))
        for name, limit in parse_quantities(resources.get("limits")).items():
            if requests[name] > limit:
                return True
    if any(pod_level_causes(spec, "spec")):
        return True
    return any(broken_bounds(replacement, limit_range) for limit_range in limit_ranges)


@settings(
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(bounded())
def test_predictions_agree_with_the_sandbox(case: tuple[World, Json]) -> None:
    world, running = case
    assume(not is_refused(running, []))  # a request above its limit: the pod wouldn't run
    replacement = world.admitted(running)
    found = refusal(
        world.decoded(running),
        world.autoscaler,
        world.limits,
        most_boost=Quantity.parse(world.most_boost),
        pod_level=world.pod_level,
    )
    assert bool(found) == is_refused(replacement, world.stored_limit_ranges), found
