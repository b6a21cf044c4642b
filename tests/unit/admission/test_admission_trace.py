"""The trace of each number, from the recommendation to the patch."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from admission.pod_patch import pod_patch
from builders import container, pod, recommendation, vpa
from common.api.autoscaling import (
    ContainerPolicy,
    GenericStartupBoost,
    StartupBoost,
    VerticalPodAutoscaler,
)
from common.api.core import Container, LimitRangeItem, LimitRangeSpec, Pod, ResourceRequirements
from common.features import FeatureGates
from common.quantity import ZERO, Quantity
from common.recommendation.admission_trace import admission_trace
from common.recommendation.admitted_resources import admitted_resources
from common.recommendation.decision_trace import Amount, DecisionTrace

BOOST = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=3))
IN_STATUS = "recommended in the VPA's status"


def limit_range(kind: str, **bounds: dict[str, str]) -> LimitRangeSpec:
    return LimitRangeSpec(limits=(LimitRangeItem(type=kind, **bounds),))


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    way: list[tuple[str, str | None]]  # expected steps and values of cpu, from 250m
    amount: Amount = Amount.REQUEST
    has: Container = field(default_factory=lambda: container(requests={"cpu": "100m"}))
    policy: ContainerPolicy | None = None
    limits: LimitRangeSpec | None = None
    whole: ResourceRequirements | None = None  # pod-level resources
    mode: str = "Recreate"
    most_boost: str = "0"
    lower: str = "200m"


CASES = [
    Case(id="unchanged", way=[(IN_STATUS, "250m")]),
    Case(
        id="minAllowed",
        policy=ContainerPolicy(container_name="*", min_allowed={"cpu": "1"}),
        way=[(IN_STATUS, "250m"), ("capped to minAllowed", "1")],
    ),
    Case(
        id="the policy takes precedence over the LimitRange",
        has=container(requests={"cpu": "100m"}, limits={"cpu": "100m"}),
        limits=limit_range("Container", max={"cpu": "200m"}),
        policy=ContainerPolicy(container_name="app", min_allowed={"cpu": "220m"}),
        way=[
            (IN_STATUS, "250m"),
            ("capped to fit Max in container LimitRange", "200m"),
            ("capped to minAllowed", "220m"),
        ],
    ),
    Case(
        id="Min of a container LimitRange",
        limits=limit_range("Container", min={"cpu": "300m"}),
        way=[(IN_STATUS, "250m"), ("capped to fit Min in container LimitRange", "300m")],
    ),
    Case(
        id="Max of a pod LimitRange",
        has=container(requests={"cpu": "100m"}, limits={"cpu": "100m"}),
        limits=limit_range("Pod", max={"cpu": "90m"}),
        way=[
            (IN_STATUS, "250m"),
            ("lowered in proportion to fit Max in pod LimitRange", "90m"),
        ],
    ),
    Case(
        id="Min of a pod LimitRange",
        has=container(requests={"cpu": "100m"}, limits={"cpu": "100m"}),
        limits=limit_range("Pod", min={"cpu": "400m"}),
        way=[
            (IN_STATUS, "250m"),
            ("raised in proportion to fit Min in pod LimitRange", "400m"),
        ],
    ),
    Case(
        id="RequestsOnly, request",
        has=container(requests={"cpu": "100m"}, limits={"cpu": "150m"}),
        policy=ContainerPolicy(container_name="app", controlled_values="RequestsOnly"),
        way=[(IN_STATUS, "250m"), ("capped to container limit", "150m")],
    ),
    Case(
        id="RequestsOnly, limit",
        amount=Amount.LIMIT,
        has=container(requests={"cpu": "100m"}, limits={"cpu": "150m"}),
        policy=ContainerPolicy(container_name="app", controlled_values="RequestsOnly"),
        way=[("left as it is: controlledValues is RequestsOnly", "150m")],
    ),
    Case(
        id="a limit in proportion",
        amount=Amount.LIMIT,
        has=container(requests={"cpu": "100m"}, limits={"cpu": "200m"}),
        way=[("in the proportion to the request that it had before", "500m")],
    ),
    Case(
        id="a limit that is the request",
        amount=Amount.LIMIT,
        has=container(requests={"cpu": "100m"}, limits={"cpu": "100m"}),
        way=[("same as the request: they were equal before", "250m")],
    ),
    Case(
        id="no limit",
        amount=Amount.LIMIT,
        way=[("none: the container has no limit, and the LimitRange no default", None)],
    ),
    Case(
        id="A14, a bound that the caps move to the wrong side of the target",
        amount=Amount.LOWER_BOUND,
        lower="300m",
        way=[
            (IN_STATUS, "300m"),
            ("moved to the target: lower bound <= target <= upper bound", "250m"),
        ],
    ),
    Case(
        id="A17, switched off",
        policy=ContainerPolicy(container_name="app", mode="Off"),
        way=[(IN_STATUS, "250m"), ("dropped: the container's policy has mode Off", None)],
    ),
    Case(
        id="a boost, capped",
        policy=ContainerPolicy(container_name="app", startup_boost=BOOST),
        most_boost="700m",
        way=[
            (IN_STATUS, "250m"),
            ("start-up boost: Factor 3", "750m"),
            ("capped to --max-allowed-cpu-boost", "700m"),
        ],
    ),
    Case(
        id="a boost of mode Off",
        mode="Off",
        policy=ContainerPolicy(container_name="app", startup_boost=BOOST),
        way=[
            ("requested by the pod: no request is recommended", "100m"),
            ("start-up boost: Factor 3", "300m"),
        ],
    ),
    Case(
        id="a boost below the limit",
        has=container(requests={"cpu": "100m"}, limits={"cpu": "400m"}),
        policy=ContainerPolicy(
            container_name="app", startup_boost=BOOST, controlled_values="RequestsOnly"
        ),
        way=[
            (IN_STATUS, "250m"),
            ("start-up boost: Factor 3", "750m"),
            ("start-up boost: kept below the container limit (RequestsOnly)", "399m"),
        ],
    ),
    Case(
        id="the limit of a boost",
        amount=Amount.LIMIT,
        has=container(requests={"cpu": "100m"}, limits={"cpu": "400m"}),
        policy=ContainerPolicy(container_name="app", startup_boost=BOOST),
        way=[
            ("in the proportion to the request that it had before", "1"),
            ("start-up boost: in the proportion to the request that it had before", "3"),
        ],
    ),
    Case(
        id="spec.resources of the pod, request",
        whole=ResourceRequirements(requests={"cpu": "240m"}),
        way=[
            (IN_STATUS, "250m"),
            ("lowered in proportion to fit spec.resources of the pod", "240m"),
        ],
    ),
    Case(
        id="spec.resources of the pod, limit",
        amount=Amount.LIMIT,
        has=container(requests={"cpu": "100m"}, limits={"cpu": "200m"}),
        whole=ResourceRequirements(requests={"cpu": "300m"}, limits={"cpu": "400m"}),
        way=[
            ("in the proportion to the request that it had before", "500m"),
            ("cut at the limit in spec.resources of the pod", "400m"),
        ],
    ),
    Case(
        id="spec.resources of the pod, boost",
        whole=ResourceRequirements(requests={"cpu": "500m"}),
        policy=ContainerPolicy(container_name="app", startup_boost=BOOST),
        way=[
            (IN_STATUS, "250m"),
            ("start-up boost: Factor 3", "750m"),
            ("start-up boost: cut to fit spec.resources of the pod", "500m"),
        ],
    ),
]


def trace_of(
    pod: Pod,
    controlling: VerticalPodAutoscaler,
    limits: Sequence[LimitRangeSpec] = (),
    *,
    most_boost: Quantity | None = None,
) -> DecisionTrace:
    admitted = admitted_resources(pod, controlling, limits, most_boost=most_boost, with_bounds=True)
    return admission_trace(pod, controlling, admitted)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_steps(case: Case) -> None:
    controlling = vpa(
        mode=case.mode,
        policies=() if case.policy is None else (case.policy,),
        recommendations=(
            recommendation(
                target={"cpu": "250m"}, lower={"cpu": case.lower}, upper={"cpu": "600m"}
            ),
        ),
    )
    plain = pod(containers=(case.has,))
    spec = msgspec.structs.replace(plain.spec, resources=case.whole)
    given = msgspec.structs.replace(plain, spec=spec)
    limits = () if case.limits is None else (case.limits,)
    most = Quantity.parse(case.most_boost) if case.most_boost != "0" else ZERO
    gates = FeatureGates.parse("CPUStartupBoost=true")
    patch = pod_patch(given, controlling, limits, features=gates, most_boost=most).operations
    trace = trace_of(given, controlling, limits, most_boost=most)
    way = [step for step in trace.of("app") if (step.amount, step.resource) == (case.amount, "cpu")]
    assert [
        (step.reason, None if step.after is None else str(step.after)) for step in way
    ] == case.way
    assert [step.before for step in way] == [None, *(step.after for step in way[:-1])]
    # The value of the last step is in the patch.
    paths = {Amount.REQUEST: "requests", Amount.LIMIT: "limits"}
    if case.amount in paths and "left as it is" not in way[-1].reason:
        path = f"/spec/containers/0/resources/{paths[case.amount]}/cpu"
        written = [each.value for each in patch if each.path == path]
        assert written == [str(way[-1].after)] * (way[-1].after is not None)


def test_a_recommendation_for_a_container_that_the_pod_lacks() -> None:
    controlling = vpa(recommendations=(recommendation("old", target={"cpu": "1"}),))
    trace = trace_of(pod(), controlling)
    assert [(step.reason, step.after) for step in trace.of("old")] == [
        (IN_STATUS, Quantity.parse("1")),
        ("dropped: the pod has no such container", None),
    ]


def test_an_unreadable_recommendation_for_another_container_is_ignored() -> None:
    strange = recommendation("old", target={"cpu": "much"})
    controlling = vpa(recommendations=(strange, recommendation(target={"cpu": "1"})))
    trace = trace_of(pod(), controlling)
    assert trace.of("old") == ()
    assert trace.of("app")


def test_a29_a_container_that_shares_without_a_recommendation_is_recorded() -> None:
    has = {"cpu": "400m"}
    two = (container(requests=has, limits=has), container("b", requests=has, limits=has))
    trace = trace_of(
        pod(containers=two),
        vpa(recommendations=(recommendation(target=has),)),
        (limit_range("Pod", max={"cpu": "400m"}),),
    )
    request, limit = (each for each in trace.of("b") if each.resource == "cpu")
    assert "although nothing is recommended for it" in request.reason
    assert (str(request.after), str(limit.after)) == ("200m", "200m")
