"""The container policy that applies to a container."""

from hypothesis import given
from hypothesis import strategies as st

from common.api.autoscaling import ContainerPolicy, ResourcePolicy
from common.recommendation.policy import container_policy

NAMES = st.sampled_from(["*", "", *"abcdef"])


def by_the_rule(entries: list[ContainerPolicy], name: str) -> ContainerPolicy | None:
    own = [entry for entry in entries if entry.container_name == name]
    every_other = [entry for entry in entries if entry.container_name == "*"]
    return own[0] if own else every_other[-1] if every_other else None


@given(st.lists(st.builds(ContainerPolicy, container_name=NAMES), max_size=40), NAMES)
def test_the_first_policy_of_the_name_or_the_last_wildcard_applies(
    entries: list[ContainerPolicy], name: str
) -> None:
    policy = ResourcePolicy(container_policies=tuple(entries))
    assert container_policy(policy, name) is by_the_rule(entries, name)
