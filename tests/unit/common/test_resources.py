"""Edge cases of amounts; ordinary ones are in the golden data."""

import math

import pytest

from common.quantity import QuantityError
from common.resources import (
    MAX_AMOUNT,
    amount,
    cpu_from_cores,
    cpu_quantity,
    in_order,
    memory_quantity,
    parse_quantities,
    scale,
)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (0.999, 0),
        (1.999, 1),
        (-0.001, 0),
        (-math.inf, 0),
        (1e14, MAX_AMOUNT),
        (1.1e14, MAX_AMOUNT),
        (math.inf, MAX_AMOUNT),
    ],
)
def test_amount(value: float, want: int) -> None:
    assert amount(value) == want


def test_not_a_number_is_below_any_minimum() -> None:
    assert amount(math.nan) < 0


def test_conversions() -> None:
    assert cpu_from_cores(0.0019) == 1
    assert scale(1000, 1.15) == 1150
    for number in (0, 25, 1000, 10**14):
        assert cpu_quantity(number).milli == number
        assert memory_quantity(number).value == number


def test_parse_quantities() -> None:
    parsed = parse_quantities({"memory": "1.5Gi", "cpu": 2})
    assert {name: str(quantity) for name, quantity in parsed.items()} == {
        "memory": "1536Mi",
        "cpu": "2",
    }
    assert parse_quantities(None) == {}
    with pytest.raises(QuantityError, match="'much'"):
        parse_quantities({"cpu": "much"})


def test_in_order() -> None:
    assert in_order(["storage", "memory", "a/gpu", "cpu"]) == ["cpu", "memory", "a/gpu", "storage"]
