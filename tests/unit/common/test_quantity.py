"""Quantities: rounding, parsing, printing, and properties over random values."""

from dataclasses import FrozenInstanceError, dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import DecodeError
from common.quantity import (
    MAX_INT64,
    ZERO,
    Format,
    Quantity,
    QuantityError,
    divide_toward_zero,
    divide_up,
    parse_milli,
    parse_value,
    saturate,
)


@dataclass(frozen=True, kw_only=True)
class Division:
    id: str
    dividend: int
    up: int
    toward_zero: int


DIVISIONS = [
    Division(id="zero", dividend=0, up=0, toward_zero=0),
    Division(id="whole", dividend=20, up=2, toward_zero=2),
    Division(id="just above", dividend=21, up=3, toward_zero=2),
    Division(id="just below", dividend=19, up=2, toward_zero=1),
    Division(id="negative whole", dividend=-20, up=-2, toward_zero=-2),
    Division(id="negative just above", dividend=-19, up=-2, toward_zero=-1),
    Division(id="negative just below", dividend=-21, up=-3, toward_zero=-2),
    Division(id="beyond floats", dividend=10**30 + 1, up=10**29 + 1, toward_zero=10**29),
]


@pytest.mark.parametrize("case", DIVISIONS, ids=lambda case: case.id)
def test_rounding(case: Division) -> None:
    assert divide_up(case.dividend, 10) == case.up
    assert divide_toward_zero(case.dividend, 10) == case.toward_zero


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (MAX_INT64, MAX_INT64),
        (MAX_INT64 + 1, MAX_INT64),
        (-MAX_INT64 - 1, -MAX_INT64 - 1),
        (-MAX_INT64 - 2, -MAX_INT64 - 1),
    ],
)
def test_saturate(value: int, want: int) -> None:
    assert saturate(value) == want


@dataclass(frozen=True, kw_only=True)
class Text:
    text: str
    printed: str
    canonical: str = ""


TEXTS = [
    Text(text="1.5Gi", printed="1536Mi"),
    Text(text="1024Mi", printed="1Gi"),
    Text(text="1000Mi", printed="1000Mi"),
    Text(text="1000m", printed="1"),
    Text(text="0.5", printed="500m"),
    Text(text="1e3", printed="1e3"),
    Text(text="1E3", printed="1E3", canonical="1e3"),
    Text(text="1.500", printed="1.500", canonical="1500m"),
    Text(text="12.345", printed="12.345", canonical="12345m"),
    Text(text="1.2340", printed="1234m"),
    Text(text="+5Mi", printed="+5Mi", canonical="5Mi"),
    Text(text="+4Mi", printed="+4Mi", canonical="4Mi"),
    Text(text="+8Mi", printed="8Mi"),
    Text(text="00012", printed="00012", canonical="12"),
    Text(text="0.3Ki", printed="307200m"),
    Text(text="1023", printed="1023"),
    Text(text="512Ki", printed="512Ki"),
    Text(text="-0.5Gi", printed="-512Mi"),
    Text(text=".", printed="0"),
    Text(text="690000E", printed="690000E"),
]


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.text)
def test_texts(case: Text) -> None:
    quantity = Quantity.parse(case.text)
    assert str(quantity) == case.printed
    assert str(quantity.canonical()) == (case.canonical or case.printed)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", QuantityError.FORMAT),
        ("1 Gi", QuantityError.FORMAT),
        ("12x", QuantityError.FORMAT),
        ("\u0661", QuantityError.FORMAT),
        ("1" * 257, QuantityError.FORMAT),
        ("e", QuantityError.SUFFIX),
        ("1ki", QuantityError.SUFFIX),
        ("1e201", QuantityError.TOO_LARGE),
        ("1e999999999", QuantityError.TOO_LARGE),
    ],
)
def test_invalid_quantities(text: str, problem: str) -> None:
    with pytest.raises(QuantityError, match="not a quantity") as caught:
        Quantity.parse(text)
    assert caught.value.problem == problem
    assert isinstance(caught.value, DecodeError)


def test_the_smallest_exponents_round_up_to_a_nano_unit() -> None:
    assert Quantity.parse("1e-999999999").nanos == 1
    assert Quantity.parse("0e-999999999").is_zero


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        (None, "0"),
        (" 5 ", "5"),
        (100_000_000, "100M"),
        (1.5, "1500m"),
        (-3, "-3"),
        (1e21, "1e+21"),
    ],
)
def test_decoded_json(raw: str | float | None, want: str) -> None:
    assert str(Quantity.from_json(raw)) == want


@pytest.mark.parametrize("raw", ["", "x", True, float("nan"), float("inf")])
def test_decoded_json_that_is_an_invalid_quantity(raw: str | float) -> None:
    with pytest.raises(QuantityError):
        Quantity.from_json(raw)


@pytest.mark.parametrize(
    ("text", "milli", "value"),
    [
        ("1234567n", 2, 1),
        ("1000001n", 2, 1),
        ("12345u", 13, 1),
        ("1536500m", 1536500, 1537),
        ("-1500m", -1500, -2),
        ("8.1Pi", 9119789245425254400, 9119789245425255),
        ("8.2Pi", MAX_INT64, 9232379236109517),
        ("100E", MAX_INT64, MAX_INT64),
    ],
)
def test_whole_amounts_round_away_from_zero_and_saturate(text: str, milli: int, value: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.milli, quantity.value) == (milli, value)


def test_equality_is_numeric() -> None:
    assert Quantity.parse("1Gi") == Quantity.parse("1024Mi")
    assert len({Quantity.parse("1"), Quantity.parse("1000m"), Quantity.parse("1e0")}) == 1
    assert Quantity.parse("1") != 1
    assert Quantity.parse("1n") != ZERO


def test_a_quantity_is_a_value() -> None:
    with pytest.raises(FrozenInstanceError):
        ZERO.nanos = 1  # type: ignore[misc]  # the test checks that this fails


def test_a_sum_has_the_format_of_its_nonzero_term() -> None:
    mebibyte, thousand = Quantity.parse("1Mi"), Quantity.parse("1k")
    assert (ZERO + mebibyte).format is Format.BINARY_SI
    assert (mebibyte + thousand).format is Format.BINARY_SI
    assert (thousand + mebibyte).format is Format.DECIMAL_SI


SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "E-2"]
TEXT = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**16).map(str),
    st.one_of(st.just(""), st.integers(0, 10**6).map(lambda digits: f".{digits}")),
    st.sampled_from(SUFFIXES),
)
FEW = settings(max_examples=100, deadline=None, database=None)


@FEW
@given(TEXT)
def test_printed_quantities_parse_back(text: str) -> None:
    quantity = Quantity.parse(text)
    assert Quantity.parse(str(quantity)) == quantity
    assert Quantity.parse(str(quantity.canonical())) == quantity


@FEW
@given(TEXT)
def test_the_fast_paths_agree_with_quantity(text: str) -> None:
    quantity = Quantity.parse(text)
    assert parse_milli(text) == quantity.milli
    assert parse_value(text) == quantity.value


@FEW
@given(TEXT, TEXT)
def test_subtraction_undoes_addition(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert a + b - b == a
    assert (a < b) == ((a - b).sign < 0)
    assert ZERO - a == -a


@pytest.mark.parametrize("raw", ["", "m", "n", "Ki", "²m", "²", None, 7, 2.5])
def test_the_fast_paths_fall_back(raw: str | float | None) -> None:
    try:
        quantity = Quantity.from_json(raw)
    except QuantityError:
        with pytest.raises(QuantityError):
            parse_milli(raw)
        with pytest.raises(QuantityError):
            parse_value(raw)
    else:
        assert parse_milli(raw) == quantity.milli
        assert parse_value(raw) == quantity.value
