"""The results of ``kubectl vpa simulate``."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

import builders
from common.api.autoscaling import ContainerPolicy, VpaStatus
from common.vpa_creation.policy import CreationPolicy
from kubectl_vpa.judge.pod_groups import PodGroups
from kubectl_vpa.judge.simulation import (
    deviating,
    simulated_numbers,
    totals,
    with_policy,
)
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.results.simulate import NowAndSimulated, SimulatedNumbers
from recommender.model.keys import VpaKey

KEY = VpaKey("default", "web")


def status(
    target: Mapping[str, str],
    *,
    lower: Mapping[str, str] | None = None,
    upper: Mapping[str, str] | None = None,
) -> VpaStatus:
    recommendation = builders.recommendation(target=target, lower=lower, upper=upper)
    return builders.vpa(recommendations=(recommendation,)).status


def facts(pods: int | None = 2, *, published: VpaStatus | None = None) -> VpaFacts:
    groups = PodGroups()
    groups.add(builders.pod(f"web-{number}") for number in range(pods or 0))
    return VpaFacts(
        vpa=replace(builders.vpa(), status=published or VpaStatus()),
        groups=None if pods is None else list(groups.groups.values()),
    )


ONE = {"cpu": "1"}
POLICIES = [
    pytest.param(
        (), {"max_allowed": ONE}, {"*": {"max_allowed": {"cpu": "1"}}}, id="no policy yet"
    ),
    pytest.param(
        (ContainerPolicy(container_name="app", max_allowed={"cpu": "2", "memory": "1Gi"}),),
        {"max_allowed": ONE},
        {
            "app": {"max_allowed": {"cpu": "1", "memory": "1Gi"}},
            "*": {"max_allowed": {"cpu": "1"}},
        },
        id="the other resource keeps its bound",
    ),
    pytest.param(
        (ContainerPolicy(container_name="*", mode="Off"),),
        {"min_allowed": ONE, "controlled_resources": ("cpu",)},
        {"*": {"mode": "Off"}},
        id="what is off stays off",
    ),
    pytest.param(
        (ContainerPolicy(container_name="*", controlled_resources=("memory",)),),
        {"controlled_resources": ("cpu",)},
        {"*": {"controlled_resources": ("cpu",)}},
        id="controlled resources are replaced",
    ),
]


@pytest.mark.parametrize(("before", "change", "after"), POLICIES)
def test_a_change_applies_to_all_policies(
    before: tuple[ContainerPolicy, ...], change: dict[str, Any], after: dict[str, dict[str, Any]]
) -> None:
    changed = with_policy(builders.vpa(policies=before), CreationPolicy(**change))
    policy = changed.spec.resource_policy
    found = {
        each.container_name: {
            name: value
            for name in ("mode", "min_allowed", "max_allowed", "controlled_resources")
            if (value := getattr(each, name))
        }
        for each in (policy.container_policies if policy is not None else None) or ()
    }
    assert found == after


def numbers(
    now: VpaStatus | None, simulated: VpaStatus | None, *, pods: int | None = 2
) -> list[SimulatedNumbers]:
    before, after = ({} if each is None else {KEY: each} for each in (now, simulated))
    return list(simulated_numbers([facts(pods)], before, after))


def test_both_numbers_and_the_difference_of_all_pods() -> None:
    now = status({"cpu": "100m", "memory": "1Gi"}, lower={"cpu": "50m"}, upper={"cpu": "1"})
    then = status({"cpu": "150m", "memory": "512Mi"}, lower={"cpu": "60m"}, upper={"cpu": "1"})
    cpu, memory = numbers(now, then, pods=3)
    assert (cpu.resource, cpu.container, cpu.pods) == ("cpu", "app", 3)
    assert cpu.target == NowAndSimulated(now="100m", simulated="150m")
    assert cpu.lower_bound == NowAndSimulated(now="50m", simulated="60m")
    assert cpu.upper_bound == NowAndSimulated(now="1", simulated="1")
    assert (cpu.change, cpu.difference) == (0.5, "150m")
    assert memory.lower_bound == NowAndSimulated(now=None, simulated=None)
    assert (memory.change, memory.difference) == (-0.5, "-1536Mi")


@pytest.mark.parametrize(
    ("now", "simulated", "pods", "want"),
    [
        pytest.param(None, None, 2, [], id="no recommendation"),
        pytest.param("1", None, 2, [("1", None, None, None)], id="no longer recommended"),
        pytest.param(None, "1", 2, [(None, "1", None, None)], id="newly recommended"),
        pytest.param("1", "2", None, [("1", "2", 1.0, None)], id="pods not seen"),
        pytest.param("1", "2", 0, [("1", "2", 1.0, "0")], id="no pods"),
        pytest.param("0", "2", 1, [("0", "2", None, "2")], id="from nothing"),
    ],
)
def test_what_is_not_known_is_none(
    now: str | None, simulated: str | None, pods: int | None, want: list[Any]
) -> None:
    before, after = (None if each is None else status({"cpu": each}) for each in (now, simulated))
    found = [
        (each.target.now, each.target.simulated, each.change, each.difference)
        for each in numbers(before, after, pods=pods)
    ]
    assert found == want


def test_sums_cover_what_is_known_with_both_settings() -> None:
    both = numbers(status({"cpu": "1", "memory": "1Gi"}), status({"cpu": "2"}))
    more = numbers(status({"cpu": "500m"}), status({"cpu": "250m"}), pods=4)
    unseen = numbers(status({"cpu": "5"}), status({"cpu": "6"}), pods=None)
    cpu, memory = totals([*both, *more, *unseen])
    assert (cpu.now, cpu.simulated, cpu.difference, cpu.change) == ("4", "5", "1", 0.25)
    assert (memory.now, memory.simulated, memory.change) == ("0", "0", None)


@pytest.mark.parametrize(
    ("published", "computed", "want"),
    [
        pytest.param(status({"cpu": "100m"}), status({"cpu": "105m"}), 0, id="five percent"),
        pytest.param(status({"cpu": "100m"}), status({"cpu": "106m"}), 1, id="more"),
        pytest.param(status({"cpu": "100m"}), status({"cpu": "94m"}), 1, id="less"),
        pytest.param(status({"cpu": "100m"}), status({"memory": "1Gi"}), 0, id="another resource"),
        pytest.param(VpaStatus(), status({"cpu": "1"}), 0, id="nothing published"),
        pytest.param(status({"cpu": "100m"}), None, 0, id="nothing computed"),
    ],
)
def test_statuses_that_differ_are_counted(
    published: VpaStatus, computed: VpaStatus | None, want: int
) -> None:
    now = {} if computed is None else {KEY: computed}
    assert deviating([facts(published=published)], now) == want
