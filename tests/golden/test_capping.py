"""Capping against the reference, and what we do differently under a LimitRange for pods (A13)."""

from typing import Any

import msgspec

from common.api.autoscaling import RecommendedPodResources, ResourcePolicy
from common.api.core import LimitRangeSpec, Pod
from common.recommendation.actual import containers_of
from common.recommendation.capping import Capped, ContainerAmounts, cap_for_pod
from common.recommendation.processing import parse_recommendation
from common.resources import ResourceQuantities
from golden_data import Differences, Row, rows

FIELDS = {
    "target": "target",
    "lowerBound": "lower_bound",
    "upperBound": "upper_bound",
    "uncappedTarget": "uncapped_target",
}


def _named(row: Row) -> set[str]:
    """The containers that the recommendation speaks of."""
    given = row.input["recommendation"].get("containerRecommendations", [])
    return {each["containerName"] for each in given}


def _capped(row: Row, *, pod_items: bool = True) -> Capped:
    pod = msgspec.convert({"metadata": {}, **row.input["pod"]}, Pod)
    recommendation = msgspec.convert(row.input["recommendation"], RecommendedPodResources)
    specs = [
        {"limits": [item for item in spec["limits"] if pod_items or item["type"] != "Pod"]}
        for spec in row.input["limit_ranges"]
    ]
    return cap_for_pod(
        parse_recommendation(recommendation),
        containers=containers_of(pod),
        policy=msgspec.convert(row.input["policy"], ResourcePolicy | None),
        limit_ranges=msgspec.convert(specs, list[LimitRangeSpec]),
    )


def _json(amounts: ContainerAmounts) -> dict[str, Any]:
    maps: dict[str, ResourceQuantities] = {
        key: getattr(amounts, name) for key, name in FIELDS.items()
    }
    filled = {
        key: {name: str(quantity) for name, quantity in values.items()}
        for key, values in maps.items()
        if values or key == "target"
    }
    return {"containerName": amounts.name, **filled}


def _jsons(capped: Capped) -> list[dict[str, Any]]:
    return [_json(each) for each in capped.recommendations]


def test_capping() -> None:
    differences = Differences()
    for row in rows("capping"):
        if not row.departure:
            capped = _capped(row)
            want = row.expected["recommendation"].get("containerRecommendations", [])
            notes = {name: list(each) for name, each in capped.notes.items()}
            differences.check(row.id, "recommendation", _jsons(capped), want)
            differences.check(row.id, "notes", notes, row.expected["notes"])
    differences.none_in(5_800)


def test_a13_rows_that_come_out_the_same() -> None:
    """Where the pod's LimitRange asks for nothing, only the reference's extra entries differ."""
    differences = Differences()
    for row in rows("capping"):
        if row.departure == "admission.md-A13":
            named = _named(row)
            reference = [
                each
                for each in row.expected["recommendation"].get("containerRecommendations", [])
                if each["containerName"] in named
            ]
            if reference == _jsons(_capped(row, pod_items=False)):
                differences.check(row.id, "recommendation", _jsons(_capped(row)), reference)
    differences.none_in(20)


def test_a13_rows_leave_other_containers_alone() -> None:
    differences = Differences()
    for row in rows("capping"):
        if row.departure == "admission.md-A13":
            got = {each.name for each in _capped(row).recommendations}
            differences.check(row.id, "containers", got - _named(row), set())
    differences.none_in(87)
