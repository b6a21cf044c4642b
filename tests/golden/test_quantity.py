"""Quantities compared with the reference: parsing, printing, arithmetic, rounding."""

from fractions import Fraction
from typing import Any

import msgspec

from common.quantity import Quantity, QuantityError
from golden_data import Differences, Row, rows


def _parse(text: str, *, json: bool = False) -> Quantity | None:
    try:
        return Quantity.from_json(msgspec.json.decode(text)) if json else Quantity.parse(text)
    except (QuantityError, msgspec.DecodeError):
        return None


def _check_parse(row: Row, differences: Differences) -> None:
    want: dict[str, Any] = row.expected
    quantity = _parse(row.input["text"])
    differences.check(row.id, "valid", quantity is not None, want["valid"])
    if quantity is None or not want["valid"]:
        return
    differences.check(row.id, "format", quantity.format, want["format"])
    differences.check(row.id, "exact", Fraction(quantity.nanos, 10**9), Fraction(want["exact"]))
    differences.check(row.id, "sign", quantity.sign, want["sign"])
    differences.check(row.id, "string", str(quantity), want["string"])
    differences.check(row.id, "canonical", str(quantity.canonical()), want["canonical"])
    for unit, rounded, whole in (("milli", quantity.milli, -3), ("value", quantity.value, 0)):
        if unit in want and not want.get(f"{unit}_overflow"):
            differences.check(row.id, unit, str(rounded), want[unit])
        name = "whole_milli" if unit == "milli" else "whole_unit"
        differences.check(row.id, name, quantity.round_up(whole) == quantity, want[name])


def test_parse() -> None:
    differences = Differences()
    for row in rows("quantity"):
        if row.input["op"] == "parse":
            _check_parse(row, differences)
    differences.none_in(20_000)


_X127 = {"1E3": '"1k"', "1e-3": '"1m"'}  # the notation of a JSON number is lost


def test_json() -> None:
    differences = Differences()
    for row in rows("quantity"):
        if row.input["op"] == "json":
            text = row.input["json"]
            quantity = _parse(text, json=True)
            want = row.expected["marshalled"] if row.expected["valid"] else None
            differences.check(row.id, "json", quantity and f'"{quantity}"', _X127.get(text, want))
    differences.none_in(15)


def test_arithmetic() -> None:
    differences = Differences()
    for row in rows("quantity"):
        op = row.input["op"]
        if op in ("parse", "json"):
            continue
        left = Quantity.parse(row.input["a"])
        right = Quantity.parse(row.input.get("b", "0"))
        if op == "cmp":
            got = (left > right) - (left < right)
            differences.check(row.id, op, got, row.expected)
            differences.check(row.id, "equal", left == right, row.expected == 0)
        elif op == "round_up":
            rounded = left.round_up(row.input["scale"])
            differences.check(row.id, "exact", rounded == left, row.expected["exact"])
            differences.check(row.id, op, str(rounded), row.expected["string"])
        else:
            results = {"add": left + right, "sub": left - right, "neg": -left}
            differences.check(row.id, op, str(results[op]), row.expected)
    differences.none_in(3_000)
