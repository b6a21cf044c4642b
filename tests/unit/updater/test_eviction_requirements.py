"""Requirements on the direction of changes for evictions: updater.md 8, D14, D34; KEP-4831."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.api.autoscaling import ContainerPolicy, EvictionRequirement, ResourcePolicy
from common.recommendation.processing import ContainerAmounts
from common.resources import parse_quantities
from updater.eviction.eviction_requirements import requirements_met

HIGHER, LOWER = "TargetHigherThanRequests", "TargetLowerThanRequests"


def rule(change: str, *resources: str) -> EvictionRequirement:
    return EvictionRequirement(resources=resources, change_requirement=change)


PRESENT = {"cpu": "100m", "memory": "100Mi"}
GROWS = {"cpu": "200m", "memory": "200Mi"}
MIXED = {"cpu": "200m", "memory": "50Mi"}
SAME = PRESENT

CASES = {
    "no policy": (None, [(PRESENT, SAME)], True),
    "no rules": ((), [(PRESENT, SAME)], True),
    "cpu must grow, grows": ((rule(HIGHER, "cpu"),), [(PRESENT, GROWS)], True),
    "cpu must grow, stays": ((rule(HIGHER, "cpu"),), [(PRESENT, SAME)], False),
    "cpu must fall, grows": ((rule(LOWER, "cpu"),), [(PRESENT, GROWS)], False),
    "either must fall, memory falls": ((rule(LOWER, "cpu", "memory"),), [(PRESENT, MIXED)], True),
    "both rules must hold": (
        (rule(HIGHER, "cpu"), rule(LOWER, "memory")),
        [(PRESENT, MIXED)],
        True,
    ),
    "one of two rules holds": (
        (rule(HIGHER, "cpu"), rule(HIGHER, "memory")),
        [(PRESENT, MIXED)],
        False,
    ),
    "each rule holds for another container (D14)": (
        (rule(HIGHER, "cpu"), rule(LOWER, "memory")),
        [(PRESENT, GROWS), (PRESENT, {"cpu": "50m", "memory": "50Mi"})],
        True,
    ),
    "a request for a targeted resource is missing": (
        (rule(LOWER, "cpu"),),
        [({"cpu": "100m"}, GROWS)],
        True,
    ),
    "a request is missing, and its container has no target for it (D34)": (
        (rule(LOWER, "cpu"),),
        [({"cpu": "100m"}, {"cpu": "200m"})],
        False,
    ),
    "both requests are missing, and another container's target is too low (D34)": (
        (rule(HIGHER, "cpu"),),
        [({}, {}), (PRESENT, {"cpu": "50m"})],
        False,
    ),
    "a resource without a target doesn't fall (D34)": (
        (rule(LOWER, "memory"),),
        [(PRESENT, {"cpu": "200m"})],
        False,
    ),
    "a resource without a target in a pair: the other one decides (D34)": (
        (rule(LOWER, "cpu", "memory"),),
        [(PRESENT, {"cpu": "50m"})],
        True,
    ),
    "a resource without a target doesn't fall from a missing request (D34)": (
        (rule(LOWER, "memory"),),
        [({"cpu": "100m"}, {"cpu": "50m"})],
        False,
    ),
    "a target of zero falls": (
        (rule(LOWER, "memory"),),
        [(PRESENT, {"memory": "0"})],
        True,
    ),
    "unknown change": ((rule("TargetOther", "cpu"),), [(PRESENT, GROWS)], False),
    "no resources": ((rule(HIGHER),), [(PRESENT, GROWS)], False),
    "nothing recommended": ((rule(HIGHER, "cpu"),), [], False),
}


@pytest.mark.parametrize(("rules", "containers", "want"), CASES.values(), ids=CASES)
def test_requirements_met(
    rules: tuple[EvictionRequirement, ...] | None,
    containers: list[tuple[dict[str, str], dict[str, str]]],
    *,
    want: bool,
) -> None:
    names = [f"c{index}" for index in range(len(containers))]
    met = requirements_met(
        rules,
        requests={
            name: parse_quantities(present)
            for name, (present, _) in zip(names, containers, strict=True)
        },
        containers={
            name: ContainerAmounts(name=name, target=parse_quantities(target))
            for name, (_, target) in zip(names, containers, strict=True)
        },
    )
    assert met is want


# Policies; True: the target of memory counts.
CPU_ALONE = ContainerPolicy(container_name="app", controlled_resources=("cpu",))
ANY_CPU_ALONE = ContainerPolicy(container_name="*", controlled_resources=("cpu",))
NEITHER = ContainerPolicy(container_name="app", controlled_resources=())
UNSPECIFIED = ContainerPolicy(container_name="app")
OF_ANOTHER = ContainerPolicy(container_name="other", controlled_resources=("cpu",))


@pytest.mark.parametrize(
    ("present", "policies", "want"),
    [
        pytest.param(PRESENT, (UNSPECIFIED,), True, id="both are controlled"),
        pytest.param(PRESENT, (OF_ANOTHER,), True, id="a policy of another container"),
        pytest.param(PRESENT, (CPU_ALONE,), False, id="memory isn't controlled"),
        pytest.param(PRESENT, (ANY_CPU_ALONE,), False, id="memory isn't controlled anywhere"),
        pytest.param(PRESENT, (NEITHER,), False, id="nothing is controlled"),
        pytest.param({"cpu": "200m"}, (UNSPECIFIED,), True, id="a request will be added"),
        pytest.param({"cpu": "200m"}, (CPU_ALONE,), False, id="no request will be added"),
    ],
)
def test_a_target_of_a_resource_that_is_not_controlled_is_ignored(
    present: dict[str, str], policies: tuple[ContainerPolicy, ...], *, want: bool
) -> None:
    """D34: the status has this target until the recommender has read the policy."""
    met = requirements_met(
        (rule(HIGHER, "memory"),),
        requests={"app": parse_quantities(present)},
        containers={"app": ContainerAmounts(name="app", target=parse_quantities(GROWS))},
        policy=ResourcePolicy(container_policies=policies),
    )
    assert met is want


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory"]), st.sampled_from(["100", "200", "300"])
)


@given(
    containers=st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=3),
    others=st.lists(AMOUNTS, min_size=3, max_size=3),
    rules=st.lists(
        st.builds(
            rule,
            st.sampled_from([HIGHER, LOWER, "TargetOther"]),
            st.sampled_from(["cpu", "memory"]),
        ),
        max_size=2,
    ),
)
def test_requests_of_resources_without_a_target_are_ignored(
    containers: list[tuple[dict[str, str], dict[str, str]]],
    others: list[dict[str, str]],
    rules: list[EvictionRequirement],
) -> None:
    """D34: the result doesn't depend on requests of resources without a target."""

    def met(requests: list[dict[str, str]]) -> bool:
        return requirements_met(
            rules,
            requests={str(i): parse_quantities(each) for i, each in enumerate(requests)},
            containers={
                str(i): ContainerAmounts(name=str(i), target=parse_quantities(target))
                for i, (_, target) in enumerate(containers)
            },
        )

    changed = [
        {name: value for name, value in requests.items() if name in target}
        | {name: value for name, value in other.items() if name not in target}
        for (requests, target), other in zip(containers, others, strict=False)
    ]
    assert met(changed) is met([requests for requests, _ in containers])
