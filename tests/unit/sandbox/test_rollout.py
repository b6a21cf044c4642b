"""Rollouts of Deployments: replica counts, percentages and both sides of each bound."""

from dataclasses import dataclass

import pytest

from sandbox.controllers.rollout import (
    Replicas,
    Tolerance,
    first_replicas,
    recreate,
    resolved,
    rolling_update,
)


def old(wanted: int, available: int | None = None, name: str = "old") -> Replicas:
    there = wanted if available is None else available
    return Replicas(name=name, wanted=wanted, present=wanted, available=there)


def new(wanted: int, available: int | None = None) -> Replicas:
    return old(wanted, available, name="new")


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: dict[str, int]
    new: Replicas
    old: tuple[Replicas, ...] = ()
    replicas: int = 4
    surge: int = 1
    unavailable: int = 1


CASES = [
    Case(id="nothing to do", new=new(4), want={}),
    Case(id="scaled up without old pods", new=new(1), want={"new": 4}),
    Case(id="scaled down without old pods", new=new(6), want={"new": 4}),
    Case(id="increases by the surge first", new=new(0), old=(old(4),), want={"new": 1}),
    Case(id="increases by the missing pods", new=new(1), old=(old(2),), want={"new": 3}),
    Case(
        id="no surge left: one old pod may be unavailable",
        new=new(1, 0),
        old=(old(4),),
        want={"old": 3},
    ),
    Case(
        id="no surge left: no old pod may be unavailable, the new pod is not available",
        new=new(1, 0),
        old=(old(4),),
        unavailable=0,
        want={},
    ),
    Case(
        id="no surge left: the new pod is available",
        new=new(1, 1),
        old=(old(4),),
        unavailable=0,
        want={"old": 3},
    ),
    Case(
        id="unhealthy old pods are deleted first, regardless of age",
        new=new(1, 0),
        old=(old(2, name="a"), old(2, 0, name="b")),
        want={"b": 1},
    ),
    Case(
        id="the oldest is deleted first",
        new=new(1, 1),
        old=(old(2, name="a"), old(2, name="b")),
        want={"a": 0},
    ),
    Case(id="the last old ones", new=new(4, 4), old=(old(1),), want={"old": 0}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rolling_update(case: Case) -> None:
    tolerance = Tolerance(surge=case.surge, unavailable=case.unavailable)
    assert rolling_update(case.replicas, case.new, case.old, tolerance) == case.want


def test_recreate_waits_until_all_old_pods_are_gone() -> None:
    assert recreate(3, new(0), [old(3)]) == {"old": 0}
    leaving = Replicas(name="old", wanted=0, present=1)
    assert recreate(3, new(0), [leaving]) == {}
    assert recreate(3, new(0), [Replicas(name="old", wanted=0)]) == {"new": 3}
    assert recreate(3, new(3), []) == {}


@pytest.mark.parametrize(
    ("replicas", "there", "tolerance", "want"),
    [
        (3, [], Tolerance(surge=1, unavailable=0), 3),
        (3, [old(3)], Tolerance(surge=1, unavailable=0), 1),
        (3, [old(3)], Tolerance(surge=0, unavailable=1), 0),
        (3, [old(3)], None, 0),
        (3, [Replicas(name="old", wanted=0, present=1)], None, 0),
        (3, [], None, 3),
    ],
)
def test_first_replicas(
    replicas: int, there: list[Replicas], tolerance: Tolerance | None, want: int
) -> None:
    assert first_replicas(replicas, there, tolerance) == want


@pytest.mark.parametrize(
    ("value", "up", "want"),
    [(2, True, 2), ("25%", True, 1), ("25%", False, 0), ("50%", False, 1), ("100%", True, 3)],
)
def test_resolved_of_three(value: int | str, want: int, *, up: bool) -> None:
    assert resolved(value, 3, up=up) == want


def test_maximums_of_zero_would_block_the_rollout() -> None:
    assert Tolerance.of({"maxSurge": 0, "maxUnavailable": "25%"}, 3) == Tolerance(
        surge=0, unavailable=1
    )
