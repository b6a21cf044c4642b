"""Directions of change without which nothing is evicted: updater.md 8, D14; KEP-4831."""

import pytest

from common.api.autoscaling import EvictionRequirement
from common.recommendation.processing import ContainerAmounts
from common.resources import parse_quantities
from updater.eviction_requirements import requirements_met

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
    "a request is missing": ((rule(LOWER, "cpu"),), [({"cpu": "100m"}, GROWS)], True),
    "a target is missing and counts as zero": (
        (rule(LOWER, "memory"),),
        [(PRESENT, {"cpu": "200m"})],
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
