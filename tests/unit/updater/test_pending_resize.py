"""Resizes that replace a pending one, and withdrawals of a pending resize (X100)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from common.api.core import (
    Container,
    ContainerResizePolicy,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.recommendation.container_resources import WantedResources
from common.recommendation.processing import ContainerAmounts
from common.resources import parse_quantities
from updater.resize.pending_resize import (
    pending_of,
    plan_following,
    plan_other_specs,
    plan_withdrawal,
)
from updater.resize.resize_plan import ResizePlan

Amounts = Mapping[str, str]
HAS = {"cpu": "100m", "memory": "128Mi"}
ASKS = {"cpu": "500m", "memory": "128Mi"}


@dataclass(frozen=True, kw_only=True)
class ContainerCase:
    """A container with a pending resize."""

    asks: Amounts = field(default_factory=lambda: ASKS)  # in the spec
    has: Amounts = field(default_factory=lambda: HAS)  # by the kubelet's report
    allocated: Amounts | None = None  # None: like ``has``
    asks_limits: Amounts | None = None
    limits: Amounts | None = None
    wants: Amounts = field(default_factory=dict)
    wants_limits: Amounts = field(default_factory=dict)


def pod(*containers: ContainerCase) -> Pod:
    policy = (ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer"),)
    return Pod(
        metadata=ObjectMeta(name="web-0"),
        spec=PodSpec(
            containers=tuple(
                Container(
                    name=f"c{index}",
                    resources=ResourceRequirements(requests=one.asks, limits=one.asks_limits),
                    resize_policy=policy,
                )
                for index, one in enumerate(containers)
            )
        ),
        status=PodStatus(
            qos_class="Burstable",
            container_statuses=tuple(
                ContainerStatus(
                    name=f"c{index}",
                    resources=ResourceRequirements(requests=one.has, limits=one.limits),
                    allocated_resources=one.has if one.allocated is None else one.allocated,
                )
                for index, one in enumerate(containers)
            ),
        ),
    )


def follow(*containers: ContainerCase) -> ResizePlan:
    given = pod(*containers)
    wanted = tuple(
        WantedResources(
            requests=parse_quantities(one.wants), limits=parse_quantities(one.wants_limits)
        )
        for one in containers
    )
    names = [each.name for each in given.spec.containers]
    amounts = {
        name: ContainerAmounts(name=name, target=each.requests, lower_bound={}, upper_bound={})
        for name, each in zip(names, wanted, strict=True)
    }
    return plan_following(given, wanted, names, containers=amounts)


def patched_values(plan: ResizePlan) -> dict[str, str]:
    """Return the patched values by path."""
    found = {}
    for each in plan.operations:
        _, _, index, _, kind, resource = each.path.strip("/").split("/")
        found[f"c{index} {kind} {resource}"] = str(each.value)
    return found


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    containers: tuple[ContainerCase, ...]
    lowers: bool = False
    withdraws: bool = False
    cpu: str = ""  # patched value of the first container; empty: none


def wants(cpu: str, memory: str = "128Mi", **more: Amounts) -> ContainerCase:
    return ContainerCase(wants={"cpu": cpu, "memory": memory}, **more)


CASES = [
    Case(id="the same", containers=(wants("500m"),)),
    Case(id="more", containers=(wants("600m"),), cpu="600m"),
    Case(id="less", containers=(wants("400m"),), cpu="400m", lowers=True),
    Case(id="a millicore less", containers=(wants("499m"),), cpu="499m"),
    Case(id="two millicores less", containers=(wants("498m"),), cpu="498m", lowers=True),
    Case(
        id="more of one and less of the other",
        containers=(
            ContainerCase(
                asks={"cpu": "500m", "memory": "1Gi"}, wants={"cpu": "1", "memory": "1Mi"}
            ),
        ),
        cpu="1",
        lowers=True,
    ),
    Case(
        id="equal to the actual resources",
        containers=(wants("100m"),),
        cpu="100m",
        lowers=True,
        withdraws=True,
    ),
    Case(
        id="one millicore from the actual resources",
        containers=(wants("101m"),),
        cpu="100m",
        lowers=True,
        withdraws=True,
    ),
    Case(
        id="two millicores from the actual resources",
        containers=(wants("102m"),),
        cpu="102m",
        lowers=True,
    ),
    Case(
        id="allocated resources take precedence over reported ones",
        containers=(wants("100m", has={**HAS, "cpu": "101m"}, allocated=HAS),),
        cpu="100m",
        lowers=True,
        withdraws=True,
    ),
    Case(
        id="the pending resize is a reduction",
        containers=(wants("100m", asks={**HAS, "cpu": "50m"}),),
        cpu="100m",
        withdraws=True,
    ),
    Case(
        id="one container has its target, the other one gets more",
        containers=(
            wants("100m"),
            ContainerCase(
                asks={**HAS, "cpu": "50m"}, has={**HAS, "cpu": "50m"}, wants={"cpu": "90m"}
            ),
        ),
        cpu="100m",
        lowers=True,
    ),
    Case(
        id="one container has its target, the other one's resize is still pending",
        containers=(wants("100m"), wants("500m")),
        cpu="100m",
        lowers=True,
    ),
    Case(
        id="less than the pending and the actual resources",
        containers=(wants("50m"),),
        cpu="50m",
        lowers=True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_plan_following(case: Case) -> None:
    plan = follow(*case.containers)
    assert (plan.lowers, plan.withdraws) == (case.lowers, case.withdraws)
    assert patched_values(plan).get("c0 requests cpu", "") == case.cpu
    assert plan.restarts is (bool(plan.changes) and not case.withdraws)
    assert bool(plan.changes) is bool(plan.operations)


def test_a_limit_is_reset_with_its_request() -> None:
    limited = wants(
        "101m",
        asks_limits={"cpu": "1"},
        limits={"cpu": "200m"},
        wants_limits={"cpu": "202m"},
    )
    assert patched_values(follow(limited)) == {
        "c0 requests cpu": "100m",
        "c0 requests memory": "128Mi",
        "c0 limits cpu": "200m",
    }
    assert follow(limited).withdraws


def test_a_resize_that_would_be_refused_replaces_no_pending_one() -> None:
    """The pending resize adds a limit, which can't be removed; the old request is above it."""
    given = wants("1", has={**HAS, "cpu": "1"}, asks=HAS, asks_limits={"cpu": "200m"})
    plan = follow(given)
    assert not plan.lowers
    assert not plan.withdraws


def test_containers_with_a_pending_resize() -> None:
    given = pod(
        ContainerCase(), ContainerCase(asks=HAS), ContainerCase(asks=HAS, has=ASKS, allocated=HAS)
    )
    assert pending_of(given, ("c0", "c1", "c2")) == {"c0"}
    assert pending_of(given, ("c1", "c2")) == frozenset()


def test_without_reported_resources_nothing_is_pending() -> None:
    given = pod(ContainerCase())
    unreported = Pod(metadata=given.metadata, spec=given.spec)
    assert pending_of(unreported, ("c0",)) == frozenset()


def amounts(*names: str) -> dict[str, ContainerAmounts]:
    return {
        name: ContainerAmounts(name=name, target={}, lower_bound={}, upper_bound={})
        for name in names
    }


def test_a_withdrawal_restarts_nothing_and_covers_only_recommended_containers() -> None:
    plan = plan_withdrawal(pod(ContainerCase(), ContainerCase()), amounts("c0"))
    assert plan is not None
    assert patched_values(plan) == {"c0 requests cpu": "100m", "c0 requests memory": "128Mi"}
    assert plan.withdraws
    assert not plan.restarts


NO_WITHDRAWAL = {
    "the spec has the actual resources": ContainerCase(asks=HAS),
    "an added request": ContainerCase(has={"memory": "128Mi"}),
    "an added limit below the request": ContainerCase(
        has={"cpu": "1"}, asks={"cpu": "100m"}, asks_limits={"cpu": "200m"}
    ),
}


@pytest.mark.parametrize("given", NO_WITHDRAWAL.values(), ids=NO_WITHDRAWAL)
def test_resizes_that_cannot_be_withdrawn(given: ContainerCase) -> None:
    assert plan_withdrawal(pod(given), amounts("c0")) is None


ADDED = ContainerCase(has={"memory": "128Mi"}, asks={"cpu": "500m", "memory": "128Mi"})
OTHER_SPECS: dict[str, tuple[ContainerCase, list[dict[str, str]]]] = {
    "no added resource: a withdrawal": (
        ContainerCase(),
        [{"c0 requests cpu": "100m", "c0 requests memory": "128Mi"}],
    ),
    "CPU was added": (ADDED, [{"c0 requests cpu": "1m"}, {"c0 requests cpu": "499m"}]),
    "CPU was added, and memory raised": (
        ContainerCase(has={"memory": "64Mi"}, asks={"cpu": "500m", "memory": "128Mi"}),
        [
            {"c0 requests memory": "64Mi"},
            {"c0 requests cpu": "1m"},
            {"c0 requests cpu": "499m"},
        ],
    ),
    "memory was added": (
        ContainerCase(has={"cpu": "500m"}, asks={"cpu": "500m", "memory": "128"}),
        [{"c0 requests memory": "1"}, {"c0 requests memory": "127"}],
    ),
    "a millicore was added": (
        ContainerCase(has={}, asks={"cpu": "1m", "ephemeral-storage": "1Gi"}),
        [{"c0 requests cpu": "0"}],
    ),
}


@pytest.mark.parametrize(("given", "want"), OTHER_SPECS.values(), ids=OTHER_SPECS)
def test_specs_that_make_the_kubelet_retry(
    given: ContainerCase, want: list[dict[str, str]]
) -> None:
    plans = list(plan_other_specs(pod(given, ADDED), amounts("c0")))
    assert [patched_values(plan) for plan in plans] == want
    assert [plan.withdraws for plan in plans[1:]] == [False] * len(plans[1:])
