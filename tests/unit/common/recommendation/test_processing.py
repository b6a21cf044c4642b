"""Processed recommendations of one pod; worked examples from admission.md section 14."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import container, pod, recommendation, vpa
from common.api.autoscaling import ContainerPolicy, ContainerRecommendation
from common.api.base import QuantityJson
from common.api.core import Container, ContainerStatus, LimitRangeItem, LimitRangeSpec, PodStatus
from common.quantity import Quantity, QuantityError
from common.recommendation.container_resources import WantedResources, wanted_resources
from common.recommendation.processing import ContainerAmounts, order_bounds, process
from common.resources import RESOURCES, ResourceQuantities, parse_quantities

Texts = Mapping[str, QuantityJson]


def texts(quantities: ResourceQuantities) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in quantities.items()}


def limit_range(
    kind: str = "Container",
    *,
    max: Texts | None = None,
    min: Texts | None = None,
    default: Texts | None = None,
) -> LimitRangeSpec:
    return LimitRangeSpec(limits=(LimitRangeItem(type=kind, max=max, min=min, default=default),))


def wanted(
    containers: tuple[Container, ...],
    recommendations: tuple[ContainerRecommendation, ...] | None,
    *,
    policies: tuple[ContainerPolicy, ...] = (),
    limit_ranges: tuple[LimitRangeSpec, ...] = (),
    status: PodStatus | None = None,
) -> tuple[WantedResources, ...]:
    autoscaler = vpa(recommendations=recommendations, policies=policies)
    it = pod(containers=containers)
    if status is not None:
        it = type(it)(metadata=it.metadata, spec=it.spec, status=status)
    processed = process(it, autoscaler, limit_ranges)
    return wanted_resources(it, autoscaler, processed, limit_ranges)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One container ``app``: its resources, its recommendation, and the expected resources."""

    id: str
    target: Texts
    want: Texts
    want_limits: Texts
    requests: Texts | None = None
    limits: Texts | None = None
    policy: ContainerPolicy | None = None
    limit_range: LimitRangeSpec | None = None
    notes: tuple[str, ...] = ()


NO_MEMORY_LIMIT = "memory: limit NOT set since originalLimit is nil or 0"

CASES = [
    Case(
        id="1: nothing set",
        target={"cpu": "587m", "memory": "262144k"},
        want={"cpu": "587m", "memory": "262144k"},
        want_limits={},
    ),
    Case(
        id="2: proportional limits keep their family",
        requests={"cpu": "100m", "memory": "100Mi"},
        limits={"cpu": "200m", "memory": "200Mi"},
        target={"cpu": "250m", "memory": "262144k"},
        want={"cpu": "250m", "memory": "262144k"},
        want_limits={"cpu": "500m", "memory": "500Mi"},
    ),
    Case(
        id="3: only a memory limit",
        requests={"cpu": "100m", "memory": "100Mi"},
        limits={"memory": "200Mi"},
        target={"cpu": "250m", "memory": "262144k"},
        want={"cpu": "250m", "memory": "262144k"},
        want_limits={"memory": "500Mi"},
        notes=("cpu: limit NOT set since originalLimit is nil or 0",),
    ),
    Case(
        id="4: RequestsOnly, capped by the limits",
        requests={"cpu": "1", "memory": "100Mi"},
        limits={"cpu": "2", "memory": "200Mi"},
        target={"cpu": "3", "memory": "500Mi"},
        policy=ContainerPolicy(
            container_name="app",
            max_allowed={"cpu": "5", "memory": "1Gi"},
            controlled_values="RequestsOnly",
        ),
        want={"cpu": "2", "memory": "200Mi"},
        want_limits={},
        notes=("cpu capped to container limit", "memory capped to container limit"),
    ),
    Case(
        id="5: the wildcard policy",
        requests={"cpu": "1", "memory": "100Mi"},
        limits={"cpu": "10", "memory": "100Mi"},
        target={"cpu": "7", "memory": "40Mi"},
        policy=ContainerPolicy(
            container_name="*", max_allowed={"cpu": "5"}, min_allowed={"memory": "64Mi"}
        ),
        want={"cpu": "5", "memory": "64Mi"},
        want_limits={"cpu": "50", "memory": "64Mi"},
        notes=("cpu capped to maxAllowed", "memory capped to minAllowed"),
    ),
    Case(
        id="6: the LimitRange's default limit",
        requests={"cpu": "2", "memory": "100Mi"},
        target={"cpu": "3", "memory": "200Mi"},
        limit_range=limit_range(default={"cpu": "4", "memory": "100Mi"}),
        want={"cpu": "3", "memory": "200Mi"},
        want_limits={"cpu": "6", "memory": "200Mi"},
    ),
    Case(
        id="7: the LimitRange's minimum and maximum",
        requests={"cpu": "1", "memory": "1G"},
        limits={"cpu": "1", "memory": "1G"},
        target={"cpu": "2", "memory": "200M"},
        limit_range=limit_range(max={"cpu": "1"}, min={"memory": "500M"}),
        want={"cpu": "1", "memory": "500M"},
        want_limits={"cpu": "1", "memory": "500M"},
        notes=(
            "cpu capped to fit Max in container LimitRange",
            "memory capped to fit Min in container LimitRange",
        ),
    ),
    Case(
        id="12: policy beats LimitRange",
        requests={"cpu": "500m"},
        limits={"cpu": "1"},
        target={"cpu": "2"},
        policy=ContainerPolicy(container_name="*", min_allowed={"cpu": "1500m"}),
        limit_range=limit_range(max={"cpu": "1"}),
        want={"cpu": "1500m"},
        want_limits={"cpu": "3"},
        notes=(
            "cpu capped to fit Max in container LimitRange",
            "cpu capped to minAllowed",
            NO_MEMORY_LIMIT,
        ),
    ),
    Case(
        id="13: RequestsOnly, LimitRange minimum above the limit",
        requests={"cpu": "1", "memory": "50M"},
        limits={"cpu": "1", "memory": "100M"},
        target={"cpu": "1", "memory": "200M"},
        policy=ContainerPolicy(container_name="*", controlled_values="RequestsOnly"),
        limit_range=limit_range(min={"memory": "500M"}),
        want={"cpu": "1", "memory": "100M"},
        want_limits={},
        notes=(
            "memory capped to fit Min in container LimitRange",
            "memory capped to container limit",
        ),
    ),
    Case(
        id="14: ratios are rounded down",
        requests={"cpu": "1500m", "memory": "150"},
        limits={"cpu": "2", "memory": "200"},
        target={"cpu": "1", "memory": "100"},
        want={"cpu": "1", "memory": "100"},
        want_limits={"cpu": "1333m", "memory": "133"},
    ),
    Case(
        id="15: limits without requests",
        limits={"cpu": "2", "memory": "200Mi"},
        target={"cpu": "250m", "memory": "262144k"},
        want={"cpu": "250m", "memory": "262144k"},
        want_limits={"cpu": "250m", "memory": "262144k"},
    ),
    Case(
        id="16: only cpu is recommended",
        requests={"cpu": "1", "memory": "1M"},
        limits={"cpu": "10", "memory": "10M"},
        target={"cpu": "2"},
        want={"cpu": "2"},
        want_limits={"cpu": "20"},
        notes=("memory: limit NOT set since recommendedRequest is nil or 0",),
    ),
    Case(
        id="a resource without a name is dropped",
        target={"": "1", "cpu": "2"},
        want={"cpu": "2"},
        want_limits={},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_one_container(case: Case) -> None:
    (got,) = wanted(
        (container(requests=case.requests, limits=case.limits),),
        (recommendation(target=case.target),),
        policies=(case.policy,) if case.policy is not None else (),
        limit_ranges=(case.limit_range,) if case.limit_range is not None else (),
    )
    assert texts(got.requests) == case.want
    assert texts(got.limits) == case.want_limits
    assert got.notes == case.notes


def test_without_a_recommendation_nothing_is_wanted() -> None:
    containers = (container(limits={"cpu": "1"}), container("proxy", limits={"cpu": "1"}))
    assert process(pod(containers=containers), vpa(), ()) is None
    assert wanted(containers, None) == (WantedResources(), WantedResources())


def test_an_empty_recommendation_is_not_a_missing_one() -> None:
    processed = process(pod(), vpa(recommendations=()), ())
    assert processed is not None
    assert processed.containers == {}


def test_recommendations_for_containers_that_the_pod_lacks_are_dropped() -> None:
    processed = process(pod(), vpa(recommendations=(recommendation("gone"),)), ())
    assert processed is not None
    assert processed.containers == {}


def test_invalid_recommendations_for_containers_that_the_pod_lacks_are_ignored() -> None:
    strange = recommendation("gone", target={"cpu": "much"})
    processed = process(pod(), vpa(recommendations=(strange, recommendation())), ())
    assert processed is not None
    assert list(processed.containers) == ["app"]


def test_the_first_of_two_entries_for_one_container_counts() -> None:
    (got,) = wanted(
        (container(),),
        (recommendation(target={"cpu": "1"}), recommendation(target={"cpu": "2"})),
    )
    assert texts(got.requests) == {"cpu": "1"}


def test_resources_in_the_status_take_precedence_over_the_spec() -> None:
    actual = container(requests={"cpu": "1"}, limits={"cpu": "3"}).resources
    (got,) = wanted(
        (container(requests={"cpu": "1"}, limits={"cpu": "1"}),),
        (recommendation(target={"cpu": "2"}),),
        status=PodStatus(container_statuses=(ContainerStatus(name="app", resources=actual),)),
    )
    assert texts(got.limits) == {"cpu": "6"}


def test_an_invalid_quantity_raises_an_error() -> None:
    with pytest.raises(QuantityError, match="'much'"):
        process(pod(), vpa(recommendations=(recommendation(target={"cpu": "much"}),)), ())


def test_bounds_of_resources_without_a_target_are_not_parsed() -> None:
    """A tenant can write tens of thousands of them, for each container of each pod."""
    strange = {"cpu": "500m", **{f"example.com/r{number}": "much" for number in range(10)}}
    policy = ContainerPolicy(container_name="*", max_allowed=strange)
    (got,) = wanted((container(),), (recommendation(target={"cpu": "1"}),), policies=(policy,))
    assert texts(got.requests) == {"cpu": "500m"}


def test_a17_a_container_that_is_off_gets_nothing() -> None:
    app, proxy = wanted(
        (container(requests={"cpu": "1"}), container("proxy", requests={"cpu": "1"})),
        (recommendation(target={"cpu": "2"}), recommendation("proxy", target={"cpu": "2"})),
        policies=(
            ContainerPolicy(container_name="app"),
            ContainerPolicy(container_name="*", mode="Off"),
        ),
    )
    assert texts(app.requests) == {"cpu": "2"}
    assert proxy == WantedResources()


def test_a17_a_container_that_is_off_still_counts_under_a_pod_limit() -> None:
    """It is dropped before the LimitRange for pods applies, so its current limit counts."""
    app, proxy = wanted(
        (
            container(requests={"cpu": "1"}, limits={"cpu": "1"}),
            container("proxy", requests={"cpu": "1"}, limits={"cpu": "1"}),
        ),
        (recommendation(target={"cpu": "4"}), recommendation("proxy", target={"cpu": "9"})),
        policies=(ContainerPolicy(container_name="proxy", mode="Off"),),
        limit_ranges=(limit_range("Pod", max={"cpu": "3"}),),
    )
    assert texts(app.requests) == {"cpu": "2"}
    assert proxy == WantedResources()


def test_example_8_two_containers_share_the_maximum() -> None:
    same = {"cpu": "1m"}
    a, b = wanted(
        (container("a", requests=same, limits=same), container("b", requests=same, limits=same)),
        (recommendation("a", target={"cpu": "15m"}), recommendation("b", target={"cpu": "100m"})),
        limit_ranges=(limit_range("Pod", max={"cpu": "90m"}),),
    )
    assert (texts(a.requests), texts(a.limits)) == ({"cpu": "11m"}, {"cpu": "11m"})
    assert (texts(b.requests), texts(b.limits)) == ({"cpu": "78m"}, {"cpu": "78m"})
    assert a.notes == b.notes == (NO_MEMORY_LIMIT,)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Containers ``a`` and ``b``, request = limit, under a LimitRange for pods."""

    id: str
    resource: str
    targets: tuple[str, str]
    want: tuple[str, str]
    min: str | None = None
    max: str | None = None


SHARED = [
    Shared(
        id="cpu below the minimum is rounded up",
        resource="cpu",
        targets=("15m", "100m"),
        min="150m",
        want=("20m", "131m"),
    ),
    Shared(
        id="memory above the maximum",
        resource="memory",
        targets=("1Gi", "2Gi"),
        max="1Gi",
        want=("357913941", "715827882"),
    ),
    Shared(
        id="memory below the minimum is rounded down",
        resource="memory",
        targets=("1Gi", "2Gi"),
        min="4Gi",
        want=("1431655765", "2863311530"),
    ),
    Shared(
        id="exactly at the maximum",
        resource="cpu",
        targets=("1", "2"),
        max="3",
        want=("1", "2"),
    ),
    Shared(
        id="exactly at the maximum, above the minimum",
        resource="cpu",
        targets=("1", "2"),
        min="1",
        max="3",
        want=("1", "2"),
    ),
    Shared(
        id="exactly at the minimum",
        resource="cpu",
        targets=("1", "2"),
        min="3",
        want=("1", "2"),
    ),
    Shared(
        id="no memory stays no memory",
        resource="memory",
        targets=("0", "2Gi"),
        max="1Gi",
        want=("0", "1Gi"),
    ),
]


@pytest.mark.parametrize("case", SHARED, ids=lambda case: case.id)
def test_pod_limits(case: Shared) -> None:
    has = {case.resource: "1"}
    bounds = limit_range(
        "Pod",
        min={case.resource: case.min} if case.min else None,
        max={case.resource: case.max} if case.max else None,
    )
    got = wanted(
        (container("a", requests=has, limits=has), container("b", requests=has, limits=has)),
        tuple(
            recommendation(name, target={case.resource: target})
            for name, target in zip("ab", case.targets, strict=True)
        ),
        limit_ranges=(bounds,),
    )
    assert tuple(str(each.requests[case.resource]) for each in got) == case.want


def test_example_11_a_container_without_recommendation_is_left_alone() -> None:
    """admission.md A13; the reference gives 400M to one container and 100M to the other."""
    has = container(
        "a", requests={"cpu": "1", "memory": "50M"}, limits={"cpu": "1", "memory": "100M"}
    )
    a, b = wanted(
        (has, Container(name="b", resources=has.resources)),
        (recommendation("a", target={"cpu": "1", "memory": "200M"}),),
        limit_ranges=(limit_range("Pod", min={"memory": "500M"}),),
    )
    assert texts(a.requests) == {"cpu": "1", "memory": "450M"}
    assert texts(a.limits) == {"cpu": "1", "memory": "900M"}
    assert b == WantedResources()


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """``app`` has a target of one core; ``b`` has no recommendation and keeps its request."""

    id: str
    b: str
    want: str
    want_b: str = ""  # empty: unchanged
    min: str | None = None
    max: str | None = None


FIXED = [
    Fixed(id="app gets the rest", b="1", max="1500m", want="500m"),
    Fixed(id="one millicore is left", b="1", max="1001m", want="1m"),
    Fixed(id="A29 nothing is left", b="1", max="1", want="500m", want_b="500m"),
    Fixed(id="A29 less than nothing is left", b="2", max="1", want="334m", want_b="666m"),
    Fixed(id="raised to the minimum", b="1", min="3", want="2"),
    Fixed(id="it fits", b="1", min="2", max="2", want="1"),
]


@pytest.mark.parametrize("case", FIXED, ids=lambda case: case.id)
def test_a13_a_container_without_recommendation_keeps_its_share(case: Fixed) -> None:
    has = {"cpu": "1"}
    app, b = wanted(
        (
            container(requests=has, limits=has),
            container("b", requests={"cpu": case.b}, limits={"cpu": case.b}),
        ),
        (recommendation(target={"cpu": "1"}),),
        limit_ranges=(
            limit_range(
                "Pod",
                min={"cpu": case.min} if case.min else None,
                max={"cpu": case.max} if case.max else None,
            ),
        ),
    )
    assert texts(app.requests) == {"cpu": case.want}
    assert texts(b.requests) == ({"cpu": case.want_b} if case.want_b else {})


TOGETHER = (limit_range("Pod", max={"cpu": "400m", "memory": "1Gi"}),)


def test_a29_if_nothing_is_left_all_containers_share_both_resources() -> None:
    """The example of the issue: with limits of 800m no pod would be created."""
    app_has, b_has = {"cpu": "100m", "memory": "600Mi"}, {"cpu": "400m", "memory": "600Mi"}
    app, b = wanted(
        (
            container(requests=app_has, limits=app_has),
            container("b", requests=b_has, limits=b_has),
        ),
        (recommendation(target={"cpu": "400m", "memory": "600Mi"}),),
        limit_ranges=TOGETHER,
    )
    for each in (app, b):
        assert texts(each.requests) == {"cpu": "200m", "memory": "512Mi"}
        assert texts(each.limits) == {"cpu": "200m", "memory": "512Mi"}


def test_a29_the_result_is_not_changed_again() -> None:
    """The second time something is left, so the other container keeps its request (A13)."""
    half = {"cpu": "200m", "memory": "512Mi"}
    app, b = wanted(
        (container(requests=half, limits=half), container("b", requests=half, limits=half)),
        (recommendation(target={"cpu": "400m", "memory": "600Mi"}),),
        limit_ranges=TOGETHER,
    )
    assert texts(app.requests) == half
    assert b == WantedResources()


def test_a29_a_container_with_a_fixed_limit_is_not_reduced() -> None:
    has = {"cpu": "1"}
    app, b = wanted(
        (container(requests=has, limits=has), container("b", requests=has, limits=has)),
        (recommendation(target={"cpu": "1"}),),
        policies=(ContainerPolicy(container_name="b", controlled_values="RequestsOnly"),),
        limit_ranges=(limit_range("Pod", max={"cpu": "1"}),),
    )
    assert texts(app.requests) == {"cpu": "1"}
    assert b == WantedResources()


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """``a`` and ``b`` have one core and 1000 bytes each; a has a target for memory alone."""

    id: str
    bounds: LimitRangeSpec
    want_a: Mapping[str, str]
    want_b: Mapping[str, str]


LACKING = [
    Lacking(
        id="Pod min: cpu",
        bounds=limit_range("Pod", min={"cpu": "5"}),
        want_a={"memory": "3k"},
        want_b={"cpu": "4", "memory": "2k"},
    ),
    Lacking(
        id="Pod max: cpu",
        bounds=limit_range("Pod", max={"cpu": "2500m"}),
        want_a={"memory": "3k"},
        want_b={"cpu": "1500m", "memory": "2k"},
    ),
    Lacking(
        id="Pod max: memory, shared by both",
        bounds=limit_range("Pod", max={"memory": "2500"}),
        want_a={"memory": "1500"},
        want_b={"cpu": "2", "memory": "1k"},
    ),
    Lacking(
        id="Container min",
        bounds=limit_range(min={"cpu": "3"}),
        want_a={"memory": "3k"},
        want_b={"cpu": "3", "memory": "2k"},
    ),
]


@pytest.mark.parametrize("case", LACKING, ids=lambda case: case.id)
def test_a28_a_resource_that_is_not_recommended_stays(case: Lacking) -> None:
    has = {"cpu": "1", "memory": "1000"}
    a, b = wanted(
        (container("a", requests=has, limits=has), container("b", requests=has, limits=has)),
        (
            recommendation("a", target={"memory": "3000"}),
            recommendation("b", target={"cpu": "2", "memory": "2000"}),
        ),
        limit_ranges=(case.bounds,),
    )
    assert (texts(a.requests), texts(b.requests)) == (case.want_a, case.want_b)


LISTS = st.lists(st.sampled_from(RESOURCES), unique=True)
RANGES = st.lists(
    st.builds(
        lambda kind, low, high: limit_range(kind, min=low, max=high),
        st.sampled_from(["Pod", "Container"]),
        st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 400)),
        st.dictionaries(st.sampled_from(RESOURCES), st.integers(400, 4000)),
    ),
    max_size=2,
)


@settings(max_examples=200, deadline=None, database=None)
@given(given_=st.lists(LISTS, min_size=1, max_size=3), ranges=RANGES, numbers=st.data())
def test_a28_no_limit_range_adds_a_resource(
    given_: list[list[str]], ranges: list[LimitRangeSpec], numbers: st.DataObject
) -> None:
    """A resource without a target is not in the result, except by A29."""

    def drawn(names: list[str]) -> dict[str, QuantityJson]:
        return {name: numbers.draw(st.integers(1, 1000)) for name in names}

    has = drawn(list(RESOURCES))
    own = {name: value for name, value in has.items() if isinstance(value, int)}
    room = all(
        sum(own.values()) * len(given_) < high
        for each in ranges
        for one in each.limits or ()
        for high in (one.max or {}).values()
        if isinstance(high, int)
    )
    got = wanted(
        tuple(container(f"c{index}", requests=has, limits=has) for index in range(len(given_))),
        tuple(
            recommendation(f"c{index}", target=drawn(names)) for index, names in enumerate(given_)
        ),
        limit_ranges=tuple(ranges),
    )
    for names, each in zip(given_, got, strict=True):
        assert set(names) <= set(each.requests)
        assert all(quantity.sign > 0 for quantity in each.requests.values())
        if room:
            assert set(each.requests) == set(names)


def test_a13_a_pod_that_was_patched_is_not_changed_again() -> None:
    bounds = (limit_range("Pod", max={"cpu": "1500m"}),)
    fixed = container("b", requests={"cpu": "700m"}, limits={"cpu": "700m"})
    recommended = (recommendation(target={"cpu": "5"}),)
    first, _ = wanted(
        (container(requests={"cpu": "100m"}, limits={"cpu": "200m"}), fixed),
        recommended,
        limit_ranges=bounds,
    )
    again, _ = wanted(
        (container(requests=texts(first.requests), limits=texts(first.limits)), fixed),
        recommended,
        limit_ranges=bounds,
    )
    assert texts(first.requests) == {"cpu": "400m"}
    assert (again.requests, again.limits) == (first.requests, first.limits)


@pytest.mark.parametrize(
    ("requests", "want"),
    [({"cpu": "0"}, "250m"), ({"cpu": "100m"}, "250m"), (None, "250m")],
    ids=["request of zero", "request below the limit", "no request"],
)
def test_a_limit_counts_under_a_maximum_for_pods_with_any_request(
    requests: Texts | None, want: str
) -> None:
    """The API server adds up the limits of the containers."""
    app, burst = wanted(
        (
            container(requests={"cpu": "100m"}, limits={"cpu": "200m"}),
            container("burst", requests=requests, limits={"cpu": "500m"}),
        ),
        (recommendation(target={"cpu": "900m"}),),
        limit_ranges=(limit_range("Pod", max={"cpu": "1"}),),
    )
    assert texts(app.requests) == {"cpu": want}
    assert burst == WantedResources()


def test_a29_a_limit_beside_a_request_of_zero_stays() -> None:
    """It can't be scaled, so the other containers get less."""
    app, proxy, burst = wanted(
        (
            container(requests={"cpu": "100m"}, limits={"cpu": "100m"}),
            container("proxy", requests={"cpu": "600m"}, limits={"cpu": "600m"}),
            container("burst", requests={"cpu": "0"}, limits={"cpu": "400m"}),
        ),
        (recommendation(target={"cpu": "600m"}),),
        limit_ranges=(limit_range("Pod", max={"cpu": "1"}),),
    )
    assert texts(app.requests) == texts(proxy.requests) == {"cpu": "300m"}
    assert burst == WantedResources()


def test_a_container_without_recommended_bounds_is_processed() -> None:
    """Its bounds stay absent; the reference crashes here (admission.md 6.4)."""
    has = {"cpu": "1"}
    processed = process(
        pod(containers=(container("a", requests=has, limits=has), container("b"))),
        vpa(
            recommendations=(
                recommendation("a", target=has, upper={"cpu": "4"}),
                recommendation("b", target=has),
            )
        ),
        (limit_range("Pod", max={"cpu": "2"}),),
    )
    assert processed is not None
    assert texts(processed.containers["a"].upper_bound) == {"cpu": "2"}
    assert processed.containers["b"].upper_bound == {}


def test_containers_with_neither_requests_nor_recommendation_are_processed() -> None:
    """The reference crashes here (admission.md 6.4)."""
    has = {"cpu": "1"}
    app, b = wanted(
        (container(requests=has, limits=has), Container(name="b")),
        (recommendation(target={"cpu": "4"}),),
        limit_ranges=(limit_range("Pod", max={"cpu": "2"}),),
    )
    assert texts(app.requests) == {"cpu": "2"}
    assert b == WantedResources()


def amounts(target: str, *, lower: str, upper: str) -> ContainerAmounts:
    return ContainerAmounts(
        name="app",
        target=parse_quantities({"cpu": target}),
        lower_bound=parse_quantities({"cpu": lower, "memory": "1"}),
        upper_bound=parse_quantities({"cpu": upper, "memory": "1"}),
    )


@pytest.mark.parametrize(
    ("lower", "upper", "want"),
    [
        ("1", "3", ("1", "3")),
        ("2", "2", ("2", "2")),
        ("2001m", "3", ("2", "3")),
        ("1", "1999m", ("1", "2")),
        ("3", "1", ("2", "2")),
    ],
)
def test_a14_order_of_bounds(lower: str, upper: str, want: tuple[str, str]) -> None:
    ordered = order_bounds(amounts("2", lower=lower, upper=upper))
    assert (str(ordered.lower_bound["cpu"]), str(ordered.upper_bound["cpu"])) == want
    assert str(ordered.lower_bound["memory"]) == "1"


CPU_TEXT = st.integers(1, 20_000).map(lambda milli: f"{milli}m")
BOUND = st.none() | CPU_TEXT
FEW = settings(max_examples=60, deadline=None, database=None)


@FEW
@given(target=CPU_TEXT, lower=CPU_TEXT, upper=CPU_TEXT, low=BOUND, high=BOUND, limit=BOUND)
def test_capping_properties(
    *, target: str, lower: str, upper: str, low: str | None, high: str | None, limit: str | None
) -> None:
    """Capped values are in the policy's range, bounds are in order, and capping is idempotent."""
    policy = ContainerPolicy(
        container_name="app",
        min_allowed={"cpu": low} if low else None,
        max_allowed={"cpu": high} if high else None,
    )
    it = pod(containers=(container(requests={"cpu": "1"}, limits={"cpu": limit or "2"}),))
    ranges = (limit_range(max={"cpu": "9"}, min={"cpu": "50m"}),)

    def once(*values: str) -> ContainerAmounts:
        at, below, above = ({"cpu": value} for value in values)
        processed = process(
            it,
            vpa(
                policies=(policy,),
                recommendations=(recommendation(target=at, lower=below, upper=above),),
            ),
            ranges,
        )
        assert processed is not None
        return processed.containers["app"]

    got = once(target, lower, upper)
    result = got.target["cpu"]
    assert got.lower_bound["cpu"] <= result <= got.upper_bound["cpu"]
    if high:
        assert result <= Quantity.parse(high)
    if low and (not high or Quantity.parse(low) <= Quantity.parse(high)):
        assert Quantity.parse(low) <= result
    again = once(str(result), str(got.lower_bound["cpu"]), str(got.upper_bound["cpu"]))
    assert (again.target, again.lower_bound, again.upper_bound) == (
        got.target,
        got.lower_bound,
        got.upper_bound,
    )


@FEW
@given(
    targets=st.lists(st.integers(1, 10**10), min_size=1, max_size=4),
    maximum=st.integers(1, 10**10),
)
def test_under_a_pods_maximum_the_sum_of_limits_fits(targets: list[int], maximum: int) -> None:
    names = [f"c{index}" for index in range(len(targets))]
    has = dict.fromkeys(RESOURCES, "1")
    got = wanted(
        tuple(container(name, requests=has, limits=has) for name in names),
        tuple(
            recommendation(name, target={"memory": target})
            for name, target in zip(names, targets, strict=True)
        ),
        limit_ranges=(limit_range("Pod", max={"memory": maximum}),),
    )
    sizes = [each.limits["memory"].value for each in got]
    last_bytes = sum(size == 1 for size in sizes)  # that A20 left
    assert sum(sizes) <= maximum + last_bytes
