"""Pods with pod-level resources: amounts of their containers and of the pod (A25-A27).

``a`` and ``b`` are containers with 200m of CPU each. ``a`` may have a limit; ``b`` has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pytest

from builders import container, pod, recommendation, vpa
from common.api.autoscaling import (
    ContainerPolicy,
    GenericStartupBoost,
    StartupBoost,
    VerticalPodAutoscaler,
)
from common.api.core import (
    Container,
    LimitRangeItem,
    LimitRangeSpec,
    Pod,
    ResourceRequirements,
)
from common.quantity import ZERO
from common.recommendation.admission_trace import admission_trace
from common.recommendation.admitted_resources import AdmittedResources, admitted_resources
from common.recommendation.pod_level import PodLevelMode, Unfit, pod_level_bounds
from common.recommendation.processing import process
from common.recommendation.unboosted_pod import before_boost
from common.resources import CPU, MEMORY, ResourceQuantities

Texts = Mapping[str, str]


def resources(
    *, requests: Texts | None = None, limits: Texts | None = None
) -> ResourceRequirements:
    return ResourceRequirements(requests=requests, limits=limits)


def pod_with_resources(
    stated: ResourceRequirements | None,
    *containers: Container,
    init: tuple[Container, ...] = (),
) -> Pod:
    plain = pod(containers=containers)
    spec = msgspec.structs.replace(plain.spec, resources=stated, init_containers=init or None)
    return msgspec.structs.replace(plain, spec=spec)


def init_container(cpu: str, *, sidecar: bool = False) -> Container:
    found = container("sidecar" if sidecar else "init", requests={"cpu": cpu})
    return msgspec.structs.replace(found, restart_policy="Always" if sidecar else None)


def limit_range(kind: str, **bounds: Texts) -> LimitRangeSpec:
    return LimitRangeSpec(limits=(LimitRangeItem(type=kind, **bounds),))


def cpu(amounts: ResourceQuantities) -> str:
    return str(amounts[CPU]) if CPU in amounts else ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """``want`` has the CPU requests of a and b after admission; empty: unchanged."""

    id: str
    want: tuple[str, str]
    request: str | None = None  # of the pod as a whole
    limit: str | None = None
    targets: tuple[str | None, str | None] = ("900m", "600m")
    limit_of_a: str | None = None
    want_limit_of_a: str = ""
    want_whole: tuple[str, str] = ("", "")  # request and limit; empty: unchanged
    init: tuple[Container, ...] = ()
    limit_ranges: tuple[LimitRangeSpec, ...] = ()
    unfit: Unfit | None = None


KEEP = [
    Case(id="without its own cpu the pod bounds nothing", want=("900m", "600m")),
    Case(id="own request: shared proportionally", request="1", want=("600m", "400m")),
    Case(id="own request, equal to the target", request="1500m", want=("900m", "600m")),
    Case(id="own request, one millicore below the target", request="1499m", want=("899m", "599m")),
    Case(
        id="own request beside a limit: one millicore is left, so that it does not look filled in",
        request="1",
        limit="2",
        want=("599m", "399m"),
    ),
    Case(
        id="own request equal to the target, beside a limit",
        request="1500m",
        limit="2",
        want=("899m", "599m"),
    ),
    Case(
        id="own request one millicore above the target, beside a limit",
        request="1501m",
        limit="2",
        want=("900m", "600m"),
    ),
    Case(
        id="filled in: the request follows",
        request="400m",
        limit="2",
        want=("900m", "600m"),
        want_whole=("1500m", ""),
    ),
    Case(
        id="filled in: up to the limit",
        request="400m",
        limit="1",
        want=("600m", "400m"),
        want_whole=("1", ""),
    ),
    Case(
        id="filled in: the request follows downwards, too",
        request="400m",
        limit="1",
        targets=("50m", "50m"),
        want=("50m", "50m"),
        want_whole=("100m", ""),
    ),
    Case(
        id="one millicore above the containers: the user's own request",
        request="401m",
        limit="1",
        want=("240m", "160m"),
    ),
    Case(id="without a limit: the user's own request", request="400m", want=("240m", "160m")),
    Case(
        id="request and limit equal: the request stays",
        request="1",
        limit="1",
        want=("600m", "400m"),
    ),
    Case(
        id="only a limit, and nothing filled in yet: the API server does it",
        limit="1",
        want=("600m", "400m"),
    ),
    Case(
        id="b has no recommendation and keeps its request",
        request="1",
        targets=("900m", None),
        want=("800m", ""),
    ),
    Case(
        id="b takes all but a millicore",
        request="201m",
        targets=("900m", None),
        want=("1m", ""),
    ),
    Case(
        id="b takes all of it",
        request="200m",
        targets=("900m", None),
        want=("", ""),
        unfit=Unfit((CPU,)),
    ),
    Case(
        id="a native sidecar counts, too",
        request="1",
        init=(init_container("100m", sidecar=True),),
        want=("540m", "360m"),
    ),
    Case(
        id="a plain init container takes no room from containers that run later",
        request="1",
        init=(init_container("1"),),
        want=("600m", "400m"),
    ),
    Case(
        id="filled in for a plain init container that needs more than all the others",
        request="700m",
        limit="2",
        init=(init_container("700m"),),
        targets=("300m", "300m"),
        want=("300m", "300m"),
    ),
    Case(
        id="looks filled in once the others are below the plain init container",
        request="300m",
        limit="2",
        init=(init_container("300m"),),
        want=("900m", "600m"),
        want_whole=("1500m", ""),
    ),
    Case(
        id="filled in for an init container beside the sidecar before it",
        request="800m",
        limit="2",
        init=(init_container("100m", sidecar=True), init_container("700m")),
        want=("900m", "600m"),
        want_whole=("1600m", ""),
    ),
    Case(
        id="a limit in proportion up to that of the pod",
        request="1800m",
        limit="4500m",
        limit_of_a="1",
        want=("900m", "600m"),
        want_limit_of_a="4500m",
    ),
    Case(
        id="a limit in proportion is cut at that of the pod",
        request="1800m",
        limit="4499m",
        limit_of_a="1",
        want=("900m", "600m"),
        want_limit_of_a="4499m",
    ),
    Case(
        id="no container gets less than a LimitRange's minimum",
        request="1",
        targets=("9", "200m"),
        limit_ranges=(limit_range("Container", min={"cpu": "100m"}),),
        want=("900m", "100m"),
    ),
    Case(
        id="a LimitRange's minimum does not fit",
        request="400m",
        limit_ranges=(limit_range("Container", min={"cpu": "201m"}),),
        want=("", ""),
        unfit=Unfit((CPU,)),
    ),
    Case(
        id="a LimitRange for containers above the pod's limit bounds no request",
        request="1800m",
        limit="2",
        limit_of_a="1",
        limit_ranges=(limit_range("Container", max={"cpu": "3"}),),
        want=("900m", "600m"),
        want_limit_of_a="2",
    ),
    Case(
        id="a LimitRange for containers below the pod's limit does",
        request="1800m",
        limit="4",
        limit_of_a="1",
        limit_ranges=(limit_range("Container", max={"cpu": "3"}),),
        want=("600m", "600m"),
        want_limit_of_a="3",
    ),
    Case(
        id="a LimitRange for pods counts the pod's own values",
        request="1800m",
        limit="4",
        limit_of_a="1",
        limit_ranges=(limit_range("Pod", max={"cpu": "4"}, min={"cpu": "1800m"}),),
        want=("900m", "600m"),
        want_limit_of_a="4",
    ),
    Case(
        id="filled in: a LimitRange's minimum for pods, which the containers reach",
        request="400m",
        limit="4",
        targets=("100m", "100m"),
        limit_ranges=(limit_range("Pod", min={"cpu": "1"}),),
        limit_of_a="1",
        want=("500m", "500m"),
        want_limit_of_a="2500m",
        want_whole=("1", ""),
    ),
    Case(
        id="filled in: a native sidecar helps to reach it",
        request="1",
        limit="4",
        targets=("100m", "100m"),
        init=(init_container("600m", sidecar=True),),
        limit_ranges=(limit_range("Pod", min={"cpu": "1"}),),
        limit_of_a="1",
        want=("200m", "200m"),
        want_limit_of_a="1",
    ),
    Case(
        id="filled in: a minimum that is the pod's limit is left to the pod's request",
        request="400m",
        limit="4",
        targets=("100m", "100m"),
        limit_ranges=(limit_range("Pod", min={"cpu": "4"}),),
        want=("100m", "100m"),
        want_whole=("4", ""),
    ),
    Case(
        id="filled in: a minimum for pods is reached without limits, too",
        request="400m",
        limit="4",
        targets=("100m", "100m"),
        limit_ranges=(limit_range("Pod", min={"cpu": "301m"}),),
        want=("151m", "151m"),
        want_whole=("302m", ""),
    ),
    Case(
        id="filled in: a container that isn't recommended counts towards a minimum for pods",
        request="400m",
        limit="4",
        targets=("1m", None),
        limit_ranges=(limit_range("Pod", min={"cpu": "300m"}),),
        want=("100m", ""),
        want_whole=("300m", ""),
    ),
    Case(
        id="filled in: a minimum for pods that can't be reached leaves the pod as it is",
        request="400m",
        limit="4",
        targets=("0", None),
        limit_ranges=(limit_range("Pod", min={"cpu": "300m"}),),
        want=("", ""),
        unfit=Unfit((CPU,)),
    ),
    Case(
        id="own request: a minimum for pods raises nothing",
        request="401m",
        limit="4",
        targets=("100m", "100m"),
        limit_ranges=(limit_range("Pod", min={"cpu": "300m"}),),
        want=("100m", "100m"),
    ),
    Case(
        id="a LimitRange for pods counts the sum of limits where the pod has none",
        request="1800m",
        limit_of_a="1",
        targets=("900m", None),
        limit_ranges=(limit_range("Pod", max={"cpu": "2"}),),
        want=("400m", ""),
        want_limit_of_a="2",
    ),
]

FOLLOW = [
    Case(id="without its own cpu nothing follows", want=("900m", "600m")),
    Case(
        id="proportional to the sum", request="1", want=("900m", "600m"), want_whole=("3750m", "")
    ),
    Case(
        id="downwards, too",
        request="1",
        targets=("50m", "50m"),
        want=("50m", "50m"),
        want_whole=("250m", ""),
    ),
    Case(
        id="the limit in proportion to the request",
        request="1",
        limit="2",
        want=("900m", "600m"),
        want_whole=("3750m", "7500m"),
    ),
    Case(
        id="request and limit stay equal",
        request="1",
        limit="1",
        want=("900m", "600m"),
        want_whole=("3750m", "3750m"),
    ),
    Case(
        id="the same sum in another proportion moves nothing",
        request="1",
        targets=("300m", "100m"),
        want=("300m", "100m"),
    ),
    Case(
        id="b keeps its request, which counts",
        request="1",
        targets=("600m", None),
        want=("600m", ""),
        want_whole=("2", ""),
    ),
    Case(
        id="never below what an init container needs",
        request="1",
        init=(init_container("1"),),
        targets=("50m", "50m"),
        want=("50m", "50m"),
    ),
    Case(
        id="a native sidecar counts before and after",
        request="1",
        init=(init_container("100m", sidecar=True),),
        want=("900m", "600m"),
        want_whole=("3200m", ""),
    ),
    Case(
        id="a LimitRange for pods bounds request and limit",
        request="1",
        limit="2",
        limit_ranges=(limit_range("Pod", max={"cpu": "4"}),),
        want=("900m", "600m"),
        want_whole=("3750m", "4"),
    ),
    Case(
        id="a LimitRange for pods bounds the containers, too",
        request="1",
        limit="1",
        limit_ranges=(limit_range("Pod", max={"cpu": "1"}),),
        want=("600m", "400m"),
    ),
    Case(
        id="a LimitRange's minimum for pods",
        request="1",
        limit="2",
        targets=("50m", "50m"),
        limit_ranges=(limit_range("Pod", min={"cpu": "500m"}),),
        want=("50m", "50m"),
        want_whole=("500m", "1"),
    ),
    Case(
        id="a container's limit that grows more than its pod's raises the pod's",
        request="400m",
        limit="1",
        limit_of_a="1",
        targets=("400m", "200m"),
        want=("400m", "200m"),
        want_limit_of_a="2",
        want_whole=("600m", "2"),
    ),
]


def admitted(case: Case, mode: PodLevelMode) -> tuple[Pod, AdmittedResources]:
    stated = resources(
        requests={"cpu": case.request} if case.request else None,
        limits={"cpu": case.limit} if case.limit else None,
    )
    limits = {"cpu": case.limit_of_a} if case.limit_of_a else None
    it = pod_with_resources(
        stated,
        container("a", requests={"cpu": "200m"}, limits=limits),
        container("b", requests={"cpu": "200m"}),
        init=case.init,
    )
    given = [
        recommendation(name, target={"cpu": target})
        for name, target in zip("ab", case.targets, strict=True)
        if target is not None
    ]
    autoscaler = vpa(recommendations=tuple(given))
    return it, admitted_resources(it, autoscaler, case.limit_ranges, pod_level=mode)


def check_case(case: Case, found: AdmittedResources) -> None:
    a, b = found.containers
    assert (cpu(a.requests), cpu(b.requests)) == case.want
    assert cpu(a.limits) == case.want_limit_of_a
    assert (cpu(found.pod_level.requests), cpu(found.pod_level.limits)) == case.want_whole
    assert found.unfit == case.unfit


@pytest.mark.parametrize("case", KEEP, ids=lambda case: case.id)
def test_keep(case: Case) -> None:
    check_case(case, admitted(case, PodLevelMode.KEEP)[1])


@pytest.mark.parametrize("case", FOLLOW, ids=lambda case: case.id)
def test_follow(case: Case) -> None:
    check_case(case, admitted(case, PodLevelMode.FOLLOW)[1])


def test_follow_takes_the_new_sum_where_containers_had_no_request() -> None:
    it = pod_with_resources(resources(requests={"cpu": "1"}), container("a"), container("b"))
    autoscaler = vpa(
        recommendations=tuple(recommendation(name, target={"cpu": "300m"}) for name in "ab")
    )
    found = admitted_resources(it, autoscaler, (), pod_level=PodLevelMode.FOLLOW)
    assert cpu(found.pod_level.requests) == "600m"


def test_follow_counts_requests_that_the_api_server_would_fill_in_beside_a_limit() -> None:
    """After a second admission the pod has a pod-level CPU request, and the result is the same."""
    it = pod_with_resources(
        resources(requests={"memory": "1"}, limits={"memory": "2"}), container("a")
    )
    policy = ContainerPolicy(container_name="a", min_allowed={"cpu": "3m"})
    autoscaler = vpa(policies=(policy,), recommendations=(recommendation("a"),))
    most = limit_range("Pod", max={"cpu": "2m"})
    found = admitted_resources(it, autoscaler, (most,), pod_level=PodLevelMode.FOLLOW)
    assert cpu(found.containers[0].requests) == "2m"
    assert cpu(found.pod_level.requests) == "2m"


def test_memory_and_cpu_are_shared_separately() -> None:
    """Each has its own bound, and bounds of bytes are rounded down."""
    it = pod_with_resources(
        resources(requests={"cpu": "2", "memory": "100"}),
        container("a", requests={"cpu": "1", "memory": "10"}),
        container("b", requests={"cpu": "1", "memory": "10"}),
    )
    given = tuple(recommendation(name, target={"cpu": "1", "memory": "151"}) for name in "ab")
    found = admitted_resources(it, vpa(recommendations=given), ())
    assert [str(each.requests[CPU]) for each in found.containers] == ["1", "1"]
    assert [str(each.requests[MEMORY]) for each in found.containers] == ["50", "50"]


def test_a_filled_in_memory_request_reaches_a_minimum_for_pods_to_the_byte() -> None:
    """Requests that are raised proportionally and rounded down would lack one byte."""
    has = {"memory": "300Mi"}
    it = pod_with_resources(
        resources(requests={"memory": "600Mi"}, limits={"memory": "1Gi"}),
        container("a", requests=has, limits=has),
        container("b", requests=has, limits=has),
    )
    given = (
        recommendation("a", target={"memory": "100Mi"}),
        recommendation("b", target={"memory": "50Mi"}),
    )
    least = limit_range("Pod", min={"memory": "500Mi"})
    found = admitted_resources(it, vpa(recommendations=given), (least,))
    assert [str(each.requests[MEMORY]) for each in found.containers] == ["349525334", "174762666"]
    assert str(found.pod_level.requests[MEMORY]) == "500Mi"


def exhausted_pod(*, memory: str | None) -> tuple[Pod, VerticalPodAutoscaler]:
    """Return a pod whose container b has all its CPU; ``memory`` is recommended for a."""
    it = pod_with_resources(
        resources(requests={"cpu": "1"}),
        container("a", requests={"cpu": "0", "memory": "64Mi"}),
        container("b", requests={"cpu": "1"}),
    )
    target = {"cpu": "100m"} | ({} if memory is None else {"memory": memory})
    return it, vpa(recommendations=(recommendation("a", target=target),))


def test_one_resource_without_room_does_not_hold_back_the_other() -> None:
    it, autoscaler = exhausted_pod(memory="256Mi")
    found = admitted_resources(it, autoscaler, ())
    a, b = found.containers
    assert {name: str(value) for name, value in a.requests.items()} == {"memory": "256Mi"}
    assert a.notes == ("cpu left as it is: spec.resources of the pod have no room for it",)
    assert b.requests == {}
    assert found.unfit is None
    trace = admission_trace(it, autoscaler, found)
    ends = [(each.resource, each.reason) for each in trace.of("a") if each.after is None]
    assert ("cpu", "dropped: spec.resources of the pod leave no room for it") in ends


def test_without_another_target_the_reason_names_the_resource() -> None:
    it, autoscaler = exhausted_pod(memory=None)
    unfit = admitted_resources(it, autoscaler, ()).unfit
    assert unfit is not None
    assert unfit.reason == "pod_level_resources_exhausted"
    assert "for the recommended cpu:" in unfit.meaning


def test_a_request_that_looks_filled_in_before_a_boost_is_the_users_own() -> None:
    """The containers request 1 CPU, as the pod does, only before the boost of a."""
    it = pod_with_resources(
        resources(requests={"cpu": "1"}, limits={"cpu": "4"}),
        container("a", requests={"cpu": "400m"}),
        container("b", requests={"cpu": "500m"}),
    )
    annotation = {"vpaCpuStartupBoost/a": '{"requests":{"cpu":"500m"},"limits":{}}'}
    meta = msgspec.structs.replace(it.metadata, annotations=annotation)
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2))
    autoscaler = vpa(
        policies=(ContainerPolicy(container_name="a", startup_boost=boost),),
        recommendations=(
            recommendation("a", target={"cpu": "200m"}),
            recommendation("b", target={"cpu": "500m"}),
        ),
    )
    given = msgspec.structs.replace(it, metadata=meta)
    found = admitted_resources(given, autoscaler, (), most_boost=ZERO)
    assert [cpu(each.requests) for each in found.containers] == ["400m", "500m"]
    assert cpu(found.pod_level.requests) == ""


def test_lower_and_upper_bound_take_the_same_steps() -> None:
    it = pod_with_resources(
        resources(requests={"cpu": "1"}),
        container("a", requests={"cpu": "200m"}),
        container("b", requests={"cpu": "200m"}),
    )
    given = tuple(
        recommendation(name, target={"cpu": "1"}, lower={"cpu": "800m"}, upper={"cpu": "2"})
        for name in "ab"
    )
    bounds = pod_level_bounds(it, PodLevelMode.KEEP, ())
    processed = process(it, vpa(recommendations=given), (), bounds=bounds)
    assert processed is not None
    a = processed.containers["a"]
    assert (cpu(a.lower_bound), cpu(a.target), cpu(a.upper_bound)) == ("500m", "500m", "500m")


def test_a_pod_without_pod_level_resources_has_no_bounds() -> None:
    assert (
        pod_level_bounds(pod_with_resources(None, container("a")), PodLevelMode.FOLLOW, ()) is None
    )
    empty = pod_with_resources(resources(), container("a"))
    assert pod_level_bounds(empty, PodLevelMode.KEEP, ()) is None


@dataclass(frozen=True, kw_only=True)
class Boost:
    """One container of 200m with a boost of factor 4, for which 300m are recommended."""

    id: str
    stated: ResourceRequirements
    want: str
    mode: PodLevelMode = PodLevelMode.KEEP
    want_whole: str = ""
    init: tuple[Container, ...] = field(default=())


BOOSTS = [
    Boost(id="it fits", stated=resources(requests={"cpu": "1200m"}), want="1200m"),
    Boost(id="cut by a millicore", stated=resources(requests={"cpu": "1199m"}), want="1199m"),
    Boost(id="no room for the boost", stated=resources(requests={"cpu": "300m"}), want="300m"),
    Boost(
        id="filled in: the request follows",
        stated=resources(requests={"cpu": "200m"}, limits={"cpu": "2"}),
        want="1200m",
        want_whole="1200m",
    ),
    Boost(
        id="filled in: up to the limit",
        stated=resources(requests={"cpu": "200m"}, limits={"cpu": "1"}),
        want="1",
        want_whole="1",
    ),
    Boost(
        id="follow",
        stated=resources(requests={"cpu": "400m"}),
        mode=PodLevelMode.FOLLOW,
        want="1200m",
        want_whole="2400m",
    ),
    Boost(
        id="beside a native sidecar",
        stated=resources(requests={"cpu": "1"}),
        init=(init_container("100m", sidecar=True),),
        want="900m",
    ),
]


@pytest.mark.parametrize("case", BOOSTS, ids=lambda case: case.id)
def test_a_boost_fits_into_the_pod(case: Boost) -> None:
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=4))
    policy = ContainerPolicy(container_name="*", startup_boost=boost)
    found = admitted_resources(
        pod_with_resources(case.stated, container(requests={"cpu": "200m"}), init=case.init),
        vpa(policies=(policy,), recommendations=(recommendation(target={"cpu": "300m"}),)),
        (),
        pod_level=case.mode,
        most_boost=ZERO,
    )
    assert cpu(found.containers[0].requests) == case.want
    assert cpu(found.pod_level.requests) == case.want_whole


def test_before_a_boost_a_request_that_was_filled_in_was_lower() -> None:
    annotation = {"vpaCpuStartupBoost/app": '{"requests":{"cpu":"200m"},"limits":{}}'}
    it = pod_with_resources(
        resources(requests={"cpu": "800m"}, limits={"cpu": "2"}),
        container(requests={"cpu": "800m"}),
    )
    meta = msgspec.structs.replace(it.metadata, annotations=annotation)
    bare = before_boost(msgspec.structs.replace(it, metadata=meta))
    assert bare.spec.resources == resources(requests={"cpu": "200m"}, limits={"cpu": "2"})


def test_the_trace_records_cuts_to_pod_level_resources() -> None:
    it = pod_with_resources(
        resources(requests={"cpu": "300m"}),
        container("a", requests={"cpu": "100m"}),
        container("b", requests={"cpu": "200m"}),
    )
    autoscaler = vpa(recommendations=(recommendation("a", target={"cpu": "1"}),))
    trace = admission_trace(it, autoscaler, admitted_resources(it, autoscaler, ()))
    steps = [(each.reason, str(each.after)) for each in trace.of("a") if each.resource == "cpu"]
    assert ("lowered in proportion to fit spec.resources of the pod", "100m") in steps
