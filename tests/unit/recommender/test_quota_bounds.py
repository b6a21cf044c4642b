"""Bounds on the pods of VPAs by ResourceQuotas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.api.core import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from common.api.meta import ObjectMeta
from common.quantity import Quantity
from common.recommendation.quota_scopes import ScopeFacts
from common.resources import CPU
from common.scheduling.pod_sum import PhaseSum, PodSum
from recommender.estimate.quota_bounds import (
    PodUse,
    QuotaWorkload,
    WantedTargets,
    quota_bounds,
    quota_claims,
)

FACTS = ScopeFacts(is_best_effort=False, is_terminating=False, priority_class="")
UNKNOWN_PRIORITY = ScopeFacts(is_best_effort=False, is_terminating=False)


def quota(
    hard: str = "1",
    used: str = "0",
    *,
    resource: str = "requests.cpu",
    name: str = "team",
    **spec: Any,
) -> ResourceQuota:
    return ResourceQuota(
        metadata=ObjectMeta(name=name, namespace="shop"),
        spec=ResourceQuotaSpec(**spec),
        status=ResourceQuotaStatus(hard={resource: hard}, used={resource: used}),
    )


def workload(
    target: int,
    *,
    pods: int = 1,
    using: Sequence[int] = (),
    least: int = 0,
    fixed: int = 0,
    ratio: int = 2,
    uncapped: int | None = None,
    facts: ScopeFacts = FACTS,
    published: int = 0,
    competes: bool = True,
) -> QuotaWorkload:
    """Return a workload whose pods have one scaled container; ``using`` are its present pods."""
    request, limit = ({"app": Fraction(each)} for each in (1, ratio))
    uses = tuple(
        PodUse(
            count=1,
            used={
                "cpu": Quantity.from_milli(each),
                "requests.cpu": Quantity.from_milli(each),
                "limits.cpu": Quantity.from_milli(ratio * each),
            },
            facts=facts,
        )
        for each in using
    )
    sums = {
        "requests.cpu": PodSum((PhaseSum(fixed, request),)),
        "limits.cpu": PodSum((PhaseSum(ratio * fixed, limit),)),
        "requests.memory": PodSum((PhaseSum(0),)),
        "limits.memory": PodSum((PhaseSum(0),)),
    }
    wanted = WantedTargets(
        uncapped={CPU: {"app": target if uncapped is None else uncapped}},
        targets={CPU: {"app": target}},
        minimums={CPU: {"app": least}},
    )
    return QuotaWorkload(
        pods=pods,
        uses=uses,
        facts=facts,
        sums=sums,
        claims=quota_claims(sums, wanted, pods),
        published={name: pods * each.of({"app": published}) for name, each in sums.items()},
        competes=competes,
    )


@pytest.mark.parametrize(
    ("quotas", "workloads", "most"),
    [
        pytest.param([quota("1")], {"web": workload(300)}, {"web": 1000}, id="an empty quota"),
        pytest.param(
            [quota("1", "700m")], {"web": workload(300)}, {"web": 300}, id="what others leave"
        ),
        pytest.param(
            [quota("1", "700m")],
            {"web": workload(300, using=[200])},
            {"web": 500},
            id="what others leave, and its own use",
        ),
        pytest.param(
            [quota("1", "700m")],
            {"web": workload(300, pods=5, using=[100, 100])},
            {"web": 100},
            id="divided by the pods of a rollout",
        ),
        pytest.param(
            [quota("1", "700m")],
            {"web": workload(300, pods=3)},
            {"web": 100},
            id="a pod's bound just divides the room",
        ),
        pytest.param(
            [quota("1", "701m")],
            {"web": workload(300, pods=3)},
            {"web": 99},
            id="a pod's bound is rounded down",
        ),
        pytest.param(
            [quota("1", "1200m")], {"web": workload(300)}, {"web": 0}, id="an exceeded quota"
        ),
        pytest.param(
            [quota("1", "100m")],
            {"web": workload(300, using=[200])},
            {"web": 1000},
            id="usage that the quota hasn't counted yet frees nothing",
        ),
        pytest.param(
            [quota("1", resource="cpu")], {"web": workload(300)}, {"web": 1000}, id="the name cpu"
        ),
        pytest.param(
            [quota("1", "400m", resource="limits.cpu")],
            {"web": workload(300, using=[100])},
            {"web": 800},
            id="limits are bounded by the quota on limits",
        ),
        pytest.param([quota("1", resource="pods")], {"web": workload(300)}, {}, id="other names"),
        pytest.param(
            [quota("1Gi", resource="requests.memory")],
            {"web": workload(300)},
            {},
            id="a resource that the VPA doesn't scale",
        ),
        pytest.param(
            [quota("1", name="a"), quota("500m", name="b")],
            {"web": workload(300)},
            {"web": 500},
            id="the smallest of several quotas",
        ),
        pytest.param(
            [quota("1", scopes=("Terminating",))], {"web": workload(300)}, {}, id="another scope"
        ),
        pytest.param(
            [quota("1", scopes=("NotTerminating",))],
            {"web": workload(300)},
            {"web": 1000},
            id="its own scope",
        ),
        pytest.param(
            [quota("1", scopes=("PriorityClass",))],
            {"web": workload(300, facts=UNKNOWN_PRIORITY)},
            {},
            id="a scope that can't be judged",
        ),
        pytest.param([quota("much")], {"web": workload(300)}, {}, id="an unreadable quota"),
        pytest.param([quota("1")], {"web": workload(300, pods=0)}, {}, id="scaled to zero"),
        pytest.param(
            [quota("1", "600m")],
            {"web": workload(300), "api": workload(600)},
            {"web": 133, "api": 266},
            id="two workloads share the room in proportion",
        ),
        pytest.param(
            [quota("1", "600m")],
            {"web": workload(300, pods=2), "api": workload(600)},
            {"web": 100, "api": 200},
            id="with more pods a workload gets more",
        ),
        pytest.param(
            [quota("1")],
            {"web": workload(300), "api": workload(600)},
            {"web": 400, "api": 700},
            id="two workloads that fit may each take what is left",
        ),
        pytest.param(
            [quota("1", "600m")],
            {"web": workload(100, uncapped=600), "api": workload(600)},
            {"web": 300, "api": 300},
            id="maxAllowed leaves a part of a share to the other",
        ),
        pytest.param(
            [quota("1", "600m")],
            {"web": workload(300, least=250), "api": workload(600)},
            {"web": 250, "api": 150},
            id="minAllowed of one lowers the share of the other",
        ),
        pytest.param(
            [quota("1", "900m")],
            {
                "web": workload(300, using=[200]),
                "api": workload(500, competes=False, using=[200]),
            },
            {"web": 300, "api": 300},
            id="a VPA in mode Off doesn't compete: it may take what isn't used yet",
        ),
        pytest.param(
            [quota("1", "750m")],
            {
                "web": workload(300, pods=4, using=[250, 250, 250]),
                "api": workload(100, competes=False),
            },
            {"web": 250, "api": 250},
            id="a workload that is scaled to zero may take what a surge doesn't use yet",
        ),
        pytest.param(
            [quota("1", "1")],
            {
                "web": workload(200, pods=4, using=[200, 200, 200, 200]),
                "api": workload(300, pods=2, using=[100, 100]),
            },
            {"web": 142, "api": 100},
            id="a workload doesn't grow to its share while the others use more than theirs",
        ),
        pytest.param(
            [quota("1", "970m")],
            {
                "web": workload(200, pods=4, using=[200, 200, 200, 170]),
                "api": workload(300, pods=2, using=[100, 100]),
            },
            {"web": 142, "api": 115},
            id="it grows into room that is free",
        ),
        pytest.param(
            [quota("1", "1")],
            {
                "web": workload(200, pods=4, using=[200, 200, 200, 200]),
                "api": workload(300, pods=3, using=[100, 100], published=90),
            },
            {"web": 117, "api": 90},
            id="it keeps its published target if that is within its share",
        ),
        pytest.param(
            [quota("1", "1")],
            {
                "web": workload(200, pods=4, using=[200, 200, 200, 200]),
                "api": workload(300, pods=2, using=[100, 100], published=250),
            },
            {"web": 142, "api": 214},
            id="and not if it is above its share",
        ),
        pytest.param(
            [quota("1", "500m")],
            {
                "web": workload(300, using=[200]),
                "api": workload(500, competes=False, using=[200]),
            },
            {"web": 700, "api": 700},
            id="whatever the others want",
        ),
    ],
)
def test_bounds_on_the_sum_of_a_pod(
    quotas: Sequence[ResourceQuota],
    workloads: Mapping[str, QuotaWorkload],
    most: Mapping[str, int],
) -> None:
    found = quota_bounds(quotas, workloads)

    assert {key: min(each.most for each in bounds) for key, bounds in found.items()} == most


def test_a_bound_states_its_numbers() -> None:
    rivals = {"web": workload(300, pods=2, using=[100]), "api": workload(600)}

    (bound,) = quota_bounds([quota("1", "600m")], rivals)["web"]

    assert (bound.quota, bound.name, bound.resource) == ("team", "requests.cpu", CPU)
    assert (bound.hard, bound.others, bound.pods, bound.rivals) == (1000, 500, 2, 1)


def test_usage_that_the_quota_has_not_counted_yet_is_not_that_of_others() -> None:
    """The usage of a quota follows its pods after some time."""
    off = {"web": workload(300, using=[200], competes=False)}

    (bound,) = quota_bounds([quota("1", "100m")], off)["web"]

    assert (bound.others, bound.most) == (0, 1000)


AMOUNTS = st.integers(0, 2_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The arguments of a random workload."""

    target: int
    least: int
    workload: QuotaWorkload


@st.composite
def any_demand(draw: st.DrawFn) -> Demand:
    target, least = draw(AMOUNTS), draw(AMOUNTS)
    made = workload(
        target,
        pods=draw(st.integers(1, 5)),
        using=draw(st.lists(AMOUNTS, max_size=3)),
        least=least,
        fixed=draw(st.integers(0, 200)),
        ratio=draw(st.integers(1, 4)),
        uncapped=draw(AMOUNTS),
    )
    return Demand(target=target, least=min(target, least), workload=made)


@given(
    st.lists(any_demand(), min_size=1, max_size=5),
    AMOUNTS,
    st.integers(0, 20_000),
    st.sampled_from(("cpu", "requests.cpu", "limits.cpu")),
)
def test_rollouts_fit_the_quota_unless_minimums_forbid_it(
    demands: list[Demand], others: int, hard: int, name: str
) -> None:
    workloads = {key: each.workload for key, each in enumerate(demands)}
    full = quota(resource=name)
    own = sum(each.used(full, name, CPU) for each in workloads.values())
    there = quota(f"{hard}m", f"{others + own}m", resource=name)

    found = quota_bounds([there], workloads)

    rollouts, least = 0, 0
    for key, each in enumerate(demands):
        (bound,), pods = found[key], each.workload.pods
        lowered = bound.pod.capped({"app": each.target}, {"app": each.least}, bound.most)
        rollouts += pods * bound.pod.of(lowered)
        least += pods * bound.pod.of({"app": each.least})
        assert lowered["app"] >= each.least
    assert rollouts + others <= max(hard, least + others)
