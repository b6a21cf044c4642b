"""Which replacements a LimitRange refuses: by rule, and as the sandbox's LimitRanger."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from admitted_pods import Json, World, worlds
from builders import container, pod, recommendation, vpa
from common.annotations import startup_boost_key
from common.api.autoscaling import ContainerPolicy, GenericStartupBoost, StartupBoost
from common.api.core import (
    Container,
    ContainerStatus,
    LimitRangeItem,
    LimitRangeSpec,
    Pod,
    PodStatus,
    ResourceRequirements,
)
from common.quantity import ZERO, Quantity, QuantityError
from common.recommendation.refusals import refusal
from common.resources import parse_quantities
from sandbox.admission.limit_ranger import broken_bounds

Amounts = Mapping[str, str]


def item(kind: str = "Container", **parts: Amounts) -> LimitRangeItem:
    return LimitRangeItem(type=kind, **parts)


def app(requests: Amounts | None = None, limits: Amounts | None = None) -> Container:
    return container(requests=requests, limits=limits)


def init(requests: Amounts, *, restart_policy: str | None = None) -> Container:
    resources = ResourceRequirements(requests=requests, limits=requests)
    return Container(name="setup", resources=resources, restart_policy=restart_policy)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A container that asks for 100m and is recommended 1 CPU; limits follow."""

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
    Case(id="max: capped to it", items=(item(max={"cpu": "500m"}),), has=LIMITED, want=""),
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
        id="max: of a resource that nobody recommends",
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
    Case(id="min: raised to it", items=(item(min={"cpu": "2"}),), has=EQUAL, want=""),
    Case(
        id="min: a limit is the request where there is none",
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
        id="ratio: shrunk by a lower target while the limit stands",
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
        id="Pod max: others take it all",
        items=(item("Pod", max={"cpu": "900m"}),),
        has=EQUAL,
        others=(PROXY,),
        want="the cpu limit of the pod would be 2, and the LimitRange's max for a Pod is 900m",
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
        id="Pod max: a sidecar stays beside the others",
        items=(item("Pod", max={"cpu": "1500m"}),),
        has=EQUAL,
        init=(init({"cpu": "600m"}, restart_policy="Always"),),
        want="the cpu limit of the pod would be 1600m, and the LimitRange's max for a Pod is 1500m",
    ),
    Case(
        id="Pod max: what is stated for the whole pod counts instead",
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


# Start-up boosts


@dataclass(frozen=True, kw_only=True)
class Boost:
    """A container of 100m, limited to 200m, is recommended 300m; a CPU may be 1500m at most."""

    id: str
    want: str
    boost: GenericStartupBoost
    most: Quantity | None = ZERO
    mode: str | None = None
    had: str = ""  # before the boost of the pod that runs; empty: it has none


TOO_MUCH = "the cpu limit of container app would be {}, and the LimitRange's max for a Container is"
BOOSTS = [
    Boost(id="twice fits", boost=GenericStartupBoost(type="Factor", factor=2), want=""),
    Boost(
        id="three times would not: the limit follows",
        boost=GenericStartupBoost(type="Factor", factor=3),
        want=TOO_MUCH.format("1800m"),
    ),
    Boost(
        id="nor would half a CPU more",
        boost=GenericStartupBoost(type="Quantity", quantity="500m"),
        want=TOO_MUCH.format("1600m"),
    ),
    Boost(
        id="the gate is off, nobody is boosted",
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
        id="a container of mode Off has none",
        boost=GenericStartupBoost(type="Factor", factor=3),
        mode="Off",
        want="",
    ),
    Boost(
        id="a boost that can't be computed leaves the pod alone",
        boost=GenericStartupBoost(type="Factor"),
        want="",
    ),
    Boost(
        id="of a pod that is boosted the original counts",
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


def test_a_bound_that_is_no_quantity() -> None:
    ranges = (LimitRangeSpec(limits=(item(max_limit_request_ratio={"cpu": "twice"}),)),)
    with pytest.raises(QuantityError):
        refusal(pod(), vpa(recommendations=(recommendation(),)), ranges)


@st.composite
def bounded(draw: st.DrawFn) -> tuple[World, Json]:
    """A pod that some LimitRanges admitted, under others, with init containers and ratios.

    What its VPA says of policies and start-up boosts is also new.
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
    world = World(pod=running, vpa=autoscaler, limit_ranges=limit_ranges, most_boost=now.most_boost)
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
    return any(broken_bounds(replacement, limit_range) for limit_range in limit_ranges)


@settings(
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(bounded())
def test_as_the_api_server_judges(case: tuple[World, Json]) -> None:
    world, running = case
    assume(not is_refused(running, []))  # a request above its limit: it wouldn't run
    replacement = world.admitted(running)
    found = refusal(
        msgspec.convert(running, Pod),
        world.autoscaler,
        world.limits,
        most_boost=Quantity.parse(world.most_boost),
    )
    assert bool(found) == is_refused(replacement, world.stored_limit_ranges), found
