"""Correct replacements: the annotation, and requests within the processed bounds (D31)."""

from dataclasses import dataclass, field

import msgspec
import pytest

from builders import container, pod, recommendation, vpa
from common.annotations import OBSERVED_CONTAINERS, startup_boost_key
from common.api.autoscaling import ContainerPolicy, ContainerRecommendation
from common.api.core import Container, LimitRangeItem, LimitRangeSpec, Pod
from updater.eviction.replacement_result import ReplacementResult, check_replacement


def recommended(
    cpu: str, lower: str, upper: str, *, name: str = "app"
) -> tuple[ContainerRecommendation]:
    return (recommendation(name, target={"cpu": cpu}, lower={"cpu": lower}, upper={"cpu": upper}),)


def app(cpu: str | None) -> Container:
    return container(requests=None if cpu is None else {"cpu": cpu})


NOW = recommended("500m", "400m", "600m")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pod with the annotation for ``app``; the target is 500m, the range 400m to 600m."""

    id: str
    want: ReplacementResult
    has: tuple[Container, ...] = field(default_factory=lambda: (app("500m"),))
    annotation: str | None = "app"
    now: tuple[ContainerRecommendation, ...] | None = NOW
    then: tuple[ContainerRecommendation, ...] | None = NOW
    boosted: bool = False


SIDECAR = container("proxy", requests={"cpu": "5"})

CASES = [
    Case(id="as recommended", want=ReplacementResult.RIGHT),
    Case(id="at the lower bound", has=(app("400m"),), want=ReplacementResult.RIGHT),
    Case(id="at the upper bound", has=(app("600m"),), want=ReplacementResult.RIGHT),
    Case(id="below the range", has=(app("399m"),), want=ReplacementResult.OUTSIDE_RANGE),
    Case(id="above the range", has=(app("601m"),), want=ReplacementResult.OUTSIDE_RANGE),
    Case(id="no request", has=(app(None),), want=ReplacementResult.OUTSIDE_RANGE),
    Case(id="no annotation", annotation=None, want=ReplacementResult.UNPATCHED),
    Case(
        id="no annotation, out of range",
        annotation=None,
        has=(app("1"),),
        want=ReplacementResult.UNPATCHED,
    ),
    Case(id="an annotation that can't be read", annotation=";'", want=ReplacementResult.RIGHT),
    Case(
        id="an annotation that can't be read, out of range",
        annotation=";'",
        has=(app("1"),),
        want=ReplacementResult.OUTSIDE_RANGE,
    ),
    Case(id="the annotation names no container", annotation="", want=ReplacementResult.UNKNOWN),
    Case(id="no recommendation", now=None, want=ReplacementResult.UNKNOWN),
    Case(
        id="no recommendation, no annotation",
        now=None,
        annotation=None,
        want=ReplacementResult.UNKNOWN,
    ),
    Case(
        id="only another container has a recommendation",
        now=recommended("1", "1", "1", name="other"),
        want=ReplacementResult.UNKNOWN,
    ),
    Case(id="an invalid request", has=(app("much"),), want=ReplacementResult.UNKNOWN),
    Case(
        id="a container that another webhook injected",
        has=(app("500m"), SIDECAR),
        now=(*NOW, *recommended("1", "1", "1", name="proxy")),
        want=ReplacementResult.RIGHT,
    ),
    Case(
        id="one of two is out of range",
        has=(app("500m"), SIDECAR),
        annotation="app, proxy",
        now=(*NOW, *recommended("1", "1", "1", name="proxy")),
        then=None,
        want=ReplacementResult.OUTSIDE_RANGE,
    ),
    Case(
        id="a rounding difference (D31)",
        has=(app("501m"),),
        now=recommended("500m", "500m", "500m"),
        then=None,
        want=ReplacementResult.RIGHT,
    ),
    Case(
        id="more than a rounding difference",
        has=(app("502m"),),
        now=recommended("500m", "500m", "500m"),
        then=None,
        want=ReplacementResult.OUTSIDE_RANGE,
    ),
    Case(
        id="the recommendation moved after the pod was admitted",
        now=recommended("900m", "800m", "1"),
        want=ReplacementResult.RIGHT,
    ),
    Case(
        id="the recommendation moved before the pod was admitted",
        has=(app("900m"),),
        now=recommended("900m", "800m", "1"),
        want=ReplacementResult.RIGHT,
    ),
    Case(
        id="the recommendation moved twice",
        has=(app("700m"),),
        now=recommended("900m", "800m", "1"),
        want=ReplacementResult.RIGHT,
    ),
    Case(
        id="the recommendation moved the other way",
        has=(app("399m"),),
        now=recommended("900m", "800m", "1"),
        want=ReplacementResult.OUTSIDE_RANGE,
    ),
    Case(
        id="a rounding difference from the earlier recommendation",
        has=(app("501m"),),
        then=recommended("500m", "500m", "500m"),
        now=recommended("300m", "200m", "400m"),
        want=ReplacementResult.RIGHT,
    ),
    Case(
        id="no earlier recommendation",
        then=None,
        has=(app("1"),),
        want=ReplacementResult.OUTSIDE_RANGE,
    ),
    Case(
        id="an earlier recommendation of another container",
        then=recommended("1", "1", "1", name="other"),
        has=(app("1"),),
        want=ReplacementResult.OUTSIDE_RANGE,
    ),
    Case(
        id="more CPU while it is boosted",
        boosted=True,
        has=(app("2"),),
        want=ReplacementResult.RIGHT,
    ),
    Case(
        id="less CPU while it is boosted",
        boosted=True,
        has=(app("399m"),),
        want=ReplacementResult.OUTSIDE_RANGE,
    ),
]


def observed(case: Case) -> Pod:
    annotations = {} if case.annotation is None else {OBSERVED_CONTAINERS: case.annotation}
    if case.boosted:
        annotations[startup_boost_key("app")] = '{"requests":{"cpu":"100m"},"limits":{}}'
    return pod(containers=case.has, annotations=annotations)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_check_replacement(case: Case) -> None:
    now, then = vpa(recommendations=case.now), vpa(recommendations=case.then)
    assert check_replacement(observed(case), now, (), then=then) is case.want


def test_bounds_are_processed_for_the_pod() -> None:
    capped = vpa(
        recommendations=NOW,
        policies=(ContainerPolicy(container_name="app", max_allowed={"cpu": "300m"}),),
    )
    seen = pod(containers=(app("300m"),), annotations={OBSERVED_CONTAINERS: "app"})
    assert check_replacement(seen, capped, ()) is ReplacementResult.RIGHT
    assert check_replacement(seen, vpa(recommendations=NOW), ()) is ReplacementResult.OUTSIDE_RANGE
    bound = LimitRangeItem(type="Container", min={"cpu": "700m"})
    limited = container(requests={"cpu": "700m"}, limits={"cpu": "700m"})
    raised = msgspec.structs.replace(seen, spec=pod(containers=(limited,)).spec)
    limits = (LimitRangeSpec(limits=(bound,)),)
    assert check_replacement(raised, vpa(recommendations=NOW), limits) is ReplacementResult.RIGHT
    assert (
        check_replacement(raised, vpa(recommendations=NOW), ()) is ReplacementResult.OUTSIDE_RANGE
    )
