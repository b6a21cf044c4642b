"""Capping compared with the reference, and our deviations under LimitRanges for pods."""

from typing import Any

import msgspec

from common.api.autoscaling import RecommendedPodResources, ResourcePolicy
from common.api.core import LimitRangeSpec, Pod
from common.recommendation.actual_resources import containers_of
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.capping import Capped, cap_for_pod
from common.recommendation.pod_amounts import phases_of
from common.recommendation.processing import parse_recommendation
from common.resources import ResourceQuantities
from golden_data import Differences, Row, rows

FIELDS = {
    "target": "target",
    "lowerBound": "lower_bound",
    "upperBound": "upper_bound",
    "uncappedTarget": "uncapped_target",
}


# Rows in which a recommendation lacks a resource (A28). The reference counts it as zero, and sets
# the container's request to zero or to a minimum.
A28 = (
    "r01699 r01708 r01812 r01843 r01850 r01879 r01896 r01978 r01996 r01998 r01999 r02039 r02099 "
    "r02119 r02148 r02168 r02264 r02284 r02516 r02626 r02740 r02758 r02760 r02789 r02793 r02836 "
    "r02885"
)


def _is_a28(row: Row) -> bool:
    return row.id.rpartition("-")[2] in A28.split()


def _named(row: Row) -> set[str]:
    """Return the containers of the recommendation."""
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
        phases=phases_of(pod.spec),
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
        if not row.departure and not _is_a28(row):
            capped = _capped(row)
            want = row.expected["recommendation"].get("containerRecommendations", [])
            notes = {name: list(each) for name, each in capped.notes.items()}
            differences.check(row.id, "recommendation", _jsons(capped), want)
            differences.check(row.id, "notes", notes, row.expected["notes"])
    differences.none_in(5_750)


def test_a28_rows_have_only_recommended_resources() -> None:
    """The reference adds resources, or counts missing ones as zero."""
    differences = Differences()
    for row in rows("capping"):
        if row.departure or not _is_a28(row):
            continue
        given = {
            each["containerName"]: each
            for each in row.input["recommendation"]["containerRecommendations"]
        }
        want = row.expected["recommendation"]["containerRecommendations"]
        got = _jsons(_capped(row))
        differences.check(row.id, "differs", got != want, True)
        for each in got:
            for key in ("target", "lowerBound", "upperBound"):
                named = set(given[each["containerName"]].get(key) or ())
                differences.check(row.id, key, set(each.get(key, ())), named)
    differences.none_in(100)


def test_a13_rows_without_pod_bounds_equal_the_reference() -> None:
    """Only the reference's extra entries differ if the LimitRange for pods changes nothing."""
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


def test_a13_rows_do_not_change_other_containers() -> None:
    differences = Differences()
    for row in rows("capping"):
        if row.departure == "admission.md-A13":
            got = {each.name for each in _capped(row).recommendations}
            differences.check(row.id, "containers", got - _named(row), set())
    differences.none_in(87)
