"""Merging of LimitRanges and proportional limits compared with the reference."""

from typing import Any

import msgspec

from common.api.core import LimitRangeSpec
from common.quantity import Quantity
from common.recommendation.limit_range import EffectiveLimits, LimitType, effective_limits
from common.recommendation.limit_scaling import (
    boundary_request,
    proportional_limits,
    scale_proportionally,
)
from common.resources import ResourceQuantities, parse_quantities
from golden_data import Differences, rows


def _texts(quantities: ResourceQuantities) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in quantities.items()}


def _quantities(raw: dict[str, Any], *names: str) -> list[Quantity]:
    return [Quantity.parse(raw[name]) for name in names]


def test_scale_proportionally() -> None:
    differences = Differences()
    for row in rows("scale_proportionally"):
        scaled, base, result = _quantities(row.input, "scaled", "base", "result")
        got = scale_proportionally(
            row.input["resource"],
            scaled,
            base=base,
            result=result,
            round_up=row.input["rounding"] == "up",
        )
        differences.check(row.id, "scaled", str(got.quantity), row.expected)
    differences.none_in(900)


def test_boundary_request() -> None:
    differences = Differences()
    for row in rows("boundary_request"):
        limit, request, default, boundary = _quantities(
            row.input, "limit", "request", "default_limit", "boundary"
        )
        got = boundary_request(
            row.input["resource"], boundary, limit=limit, request=request, default=default
        )
        differences.check(row.id, "boundary", str(got), row.expected)
    differences.none_in(797)


def test_proportional_limit() -> None:
    differences = Differences()
    for row in rows("proportional_limit"):
        got = proportional_limits(
            parse_quantities(row.input["recommendation"]),
            limits=parse_quantities(row.input["limits"]),
            requests=parse_quantities(row.input["requests"]),
            defaults=parse_quantities(row.input["default_limits"]),
        )
        differences.check(row.id, "limits", _texts(got.quantities), row.expected["limits"] or {})
        differences.check(row.id, "notes", list(got.notes), row.expected["notes"])
    differences.none_in(4_142)


def _item(limits: EffectiveLimits | None, kind: LimitType) -> dict[str, Any] | None:
    if limits is None:
        return None
    maps = {"max": limits.max, "min": limits.min, "default": limits.default}
    return {"type": str(kind)} | {name: _texts(each) for name, each in maps.items() if each}


def test_limit_range_merge() -> None:
    differences = Differences()
    for row in rows("limit_range_merge"):
        specs = msgspec.convert(row.input["limit_ranges"], list[LimitRangeSpec])
        for kind in LimitType:
            got = _item(effective_limits(specs, kind), kind)
            differences.check(row.id, kind, got, row.expected[kind.lower()])
    differences.none_in(600)
