"""Detection of a lowered recommendation compared with the reference (updater.md 9)."""

from typing import Any

import msgspec

from common.api.autoscaling import RecommendedPodResources
from common.recommendation.processing import parse_recommendation
from golden_data import Differences, rows
from updater.resize.infeasible_resize import Targets, lower_somewhere


def targets_of(raw: dict[str, Any] | None) -> Targets:
    recommended = msgspec.convert(raw or {}, RecommendedPodResources)
    return {amounts.name: amounts.target for amounts in parse_recommendation(recommended)}


def test_lower_recommendation() -> None:
    differences = Differences()
    for row in rows("lower_recommendation"):
        lower = lower_somewhere(targets_of(row.input["current"]), targets_of(row.input["stored"]))
        differences.check(row.id, "lower", lower, row.expected["lower_somewhere"])
    differences.none_in(200)
