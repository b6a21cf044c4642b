"""Whose policy counts, in short lists and in endless ones."""

from collections.abc import Iterator
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from common.api.autoscaling import ContainerPolicy, ResourcePolicy
from common.recommendation.policy import container_policy

NAMES = st.sampled_from(["*", "", *"abcdef"])


class Counted(tuple[ContainerPolicy, ...]):
    """Remembers each time that it was read from the beginning."""

    __slots__ = ()
    reads: ClassVar[list[int]] = []

    def __iter__(self) -> Iterator[ContainerPolicy]:
        self.reads.append(len(self))
        return super().__iter__()


def by_the_rule(entries: list[ContainerPolicy], name: str) -> ContainerPolicy | None:
    own = [entry for entry in entries if entry.container_name == name]
    every_other = [entry for entry in entries if entry.container_name == "*"]
    return own[0] if own else every_other[-1] if every_other else None


@given(st.lists(st.builds(ContainerPolicy, container_name=NAMES), max_size=40), NAMES)
def test_the_first_of_the_name_or_the_last_for_every_other(
    entries: list[ContainerPolicy], name: str
) -> None:
    policy = ResourcePolicy(container_policies=tuple(entries))
    assert container_policy(policy, name) is by_the_rule(entries, name)


def test_an_endless_list_is_read_once_for_all_containers() -> None:
    """It would be ten million comparisons for one pod, and all others would wait for it."""
    names = [f"c{number}" for number in range(1000)]
    entries = Counted(ContainerPolicy(container_name=name) for name in names)
    policy = ResourcePolicy(container_policies=entries)
    Counted.reads.clear()
    found = [container_policy(policy, name) for name in names]
    assert Counted.reads == [1000]
    assert found == list(entries)
