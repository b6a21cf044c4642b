"""Kubernetes quantities: exact values, and the texts that Kubernetes prints.

A quantity is a number of whole nano-units together with a format, the family of suffixes in
which it is written: ``100m`` and ``1k`` are decimal, ``64Mi`` is binary, ``1e3`` is an exponent.
Python's integers make the arithmetic exact; where a result has to fit an int64 it saturates.

Source: recommender.md section 2; ``resource.Quantity``, k8s.io/apimachinery/pkg/api/resource.
"""

import enum
import functools
import re
from dataclasses import dataclass
from typing import Self

from common.errors import DecodeError

MAX_INT64 = 2**63 - 1

_NANOS = 10**9  # of a unit
_NANOS_OF_MILLI = 10**6
_LONGEST_TEXT = 256  # characters; quantities in practice have about ten
_LARGEST_EXPONENT = 200  # decimal; a value of 1e999999999 would fill the memory
_LONGEST_CACHED = 24  # characters
_FAST_DIGITS = 15  # so many digits times 1000 stay inside an int64

_DECIMAL = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ("", *_BINARY)

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]+)")


class QuantityError(DecodeError, ValueError):
    """An error for a text, or a JSON value, that is no quantity.

    ``problem`` is the API server's message, without the invalid text.
    """

    FORMAT = (
        "quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )
    SUFFIX = "unable to parse quantity's suffix"
    TOO_LARGE = "the quantity is out of range"

    def __init__(self, text: object, problem: str) -> None:
        shown = repr(text)
        super().__init__(f"not a quantity: {shown[:_LONGEST_TEXT]}: {problem}")
        self.problem = problem


class Format(enum.StrEnum):
    """A family of suffixes; the values are Kubernetes' names."""

    DECIMAL_SI = "DecimalSI"  # n u m k M G T P E
    BINARY_SI = "BinarySI"  # Ki Mi Gi Ti Pi Ei
    DECIMAL_EXPONENT = "DecimalExponent"  # e3


def divide_up(dividend: int, divisor: int) -> int:
    """Divide and round away from zero, as Kubernetes does for every loss of precision.

    ``divisor`` is positive.
    """
    if dividend < 0:
        return dividend // divisor
    return -(-dividend // divisor)


def divide_toward_zero(dividend: int, divisor: int) -> int:
    """Divide and drop the fraction, as Go's ``/`` does; ``divisor`` is positive."""
    if dividend < 0:
        return -(-dividend // divisor)
    return dividend // divisor


def saturate(value: int) -> int:
    """Limit a number to the range of an int64, in which the reference wraps around."""
    return max(-MAX_INT64 - 1, min(MAX_INT64, value))


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount with the text that it was parsed from.

    Equality, order and hash are numeric: ``1Gi`` equals ``1024Mi``. Arithmetic gives the
    canonical text in the format of the left operand, or of the right one if the left is zero.
    """

    nanos: int  # the exact value in nano-units
    format: Format = Format.DECIMAL_SI
    text: str = ""  # the original text; empty: print the canonical text

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """Parse a text such as ``250m``, ``1.5Gi`` or ``1e3``.

        This is as lenient as the API server: a missing mantissa is zero. Fractions of a
        nano-unit are rounded away from zero, and a binary text is cut at the int64 maximum.

        Raises:
            QuantityError: the text is no quantity, or its exponent is too large.
        """
        return _parse_cached(text) if len(text) <= _LONGEST_CACHED else _parse(text)

    @classmethod
    def from_json(cls, raw: str | int | float | None) -> "Quantity":  # noqa: PYI041 - JSON has both
        """Parse a decoded JSON value; null is zero, and spaces inside a string are ignored.

        A decoded number has lost its literal text, so ``1E3`` reads like ``1000``.

        Raises:
            QuantityError: the value is no quantity; an empty string and a boolean are none.
        """
        if raw is None:
            return ZERO
        if isinstance(raw, str):
            return cls.parse(raw.strip())
        if isinstance(raw, bool):
            raise QuantityError(raw, QuantityError.FORMAT)
        return cls.parse(repr(raw))

    @classmethod
    def from_milli(cls, milli: int, format: Format = Format.DECIMAL_SI) -> Self:
        """Return a quantity of thousandths of a unit."""
        return cls(milli * _NANOS_OF_MILLI, format)

    @classmethod
    def from_value(cls, value: int, format: Format = Format.DECIMAL_SI) -> Self:
        """Return a quantity of whole units."""
        return cls(value * _NANOS, format)

    @property
    def milli(self) -> int:
        """Return thousandths of a unit, rounded away from zero, within int64."""
        return saturate(divide_up(self.nanos, _NANOS_OF_MILLI))

    @property
    def value(self) -> int:
        """Return whole units, rounded away from zero, within int64."""
        return saturate(divide_up(self.nanos, _NANOS))

    @property
    def is_zero(self) -> bool:
        return self.nanos == 0

    @property
    def sign(self) -> int:
        """Return minus one, zero or one."""
        return (self.nanos > 0) - (self.nanos < 0)

    def canonical(self) -> "Quantity":
        """Return the same amount without its original text."""
        return Quantity(self.nanos, self.format)

    def round_up(self, scale: int) -> "Quantity":
        """Round away from zero to a multiple of ten to the power of ``scale`` (0 = units)."""
        step = 10 ** max(scale + 9, 0)
        return Quantity(divide_up(self.nanos, step) * step, self.format)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: "Quantity") -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: "Quantity") -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: "Quantity") -> bool:
        return self.nanos >= other.nanos

    def __str__(self) -> str:
        return self.text or _canonical_text(self.nanos, self.format)


ZERO = Quantity(0)


def parse_unsigned(text: str) -> Quantity:
    """Parse a quantity that is not negative.

    Raises:
        ValueError: it is negative, or no quantity.
    """
    found = Quantity.parse(text)
    if found.sign < 0:
        raise ValueError(f"must not be negative: {text!r}")
    return found


def parse_milli(raw: str | int | float | None) -> int:  # noqa: PYI041 - JSON has both
    """Return thousandths of a unit of a JSON value, rounded up, faster than ``Quantity`` does.

    Raises:
        QuantityError: the value is no quantity.
    """
    if isinstance(raw, str) and raw.isascii():
        digits = raw[:-1]
        last = raw[-1:]
        if last == "m":
            if len(digits) <= _FAST_DIGITS and digits.isdigit():
                return int(digits)
        elif last == "n":
            if len(digits) <= _FAST_DIGITS and digits.isdigit():
                return -(-int(digits) // 1_000_000)
        elif len(raw) <= _FAST_DIGITS and raw.isdigit():
            return int(raw) * 1000
    return Quantity.from_json(raw).milli


def parse_value(raw: str | int | float | None) -> int:  # noqa: PYI041 - JSON has both
    """Return whole units of a JSON value, rounded up, faster than ``Quantity`` does.

    Raises:
        QuantityError: the value is no quantity.
    """
    if isinstance(raw, str) and len(raw) <= _FAST_DIGITS and raw.isascii():
        if raw.isdigit():
            return int(raw)
        digits = raw[:-2]
        if digits.isdigit():
            suffix = raw[-2:]
            if suffix == "Ki":
                return int(digits) << 10
            if suffix == "Mi":
                return min(int(digits) << 20, MAX_INT64)
            if suffix == "Gi":
                return min(int(digits) << 30, MAX_INT64)
    return Quantity.from_json(raw).value


def _parse(text: str) -> Quantity:
    shape = _SHAPE.fullmatch(text)
    if shape is None or not text or len(text) > _LONGEST_TEXT:
        raise QuantityError(text, QuantityError.FORMAT)
    sign, whole, point, fraction, suffix = shape.groups(default="")
    digits = (whole.lstrip("0") or "0") + fraction
    if suffix in _BINARY:
        nanos, family = _binary(digits, len(fraction), _BINARY[suffix])
        kept = not point and _keeps_binary(digits, _BINARY[suffix])
    else:
        exponent, family = _decimal_exponent(text, suffix)
        power = exponent - len(fraction)
        nanos = _decimal(digits, power)
        kept = _keeps_decimal(digits, power)
    return Quantity(-nanos if sign == "-" else nanos, family, text if kept else "")


_parse_cached = functools.lru_cache(maxsize=16384)(_parse)


def _decimal_exponent(text: str, suffix: str) -> tuple[int, Format]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], Format.DECIMAL_SI
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise QuantityError(text, QuantityError.SUFFIX)
    power = int(exponent[1])
    if power > _LARGEST_EXPONENT:
        raise QuantityError(text, QuantityError.TOO_LARGE)
    return power, Format.DECIMAL_EXPONENT


def _decimal(digits: str, power: int) -> int:
    """Return nano-units of ``digits`` times ten to the ``power``, rounded up."""
    shift = power + 9
    if shift >= 0:
        scaled: int = int(digits) * 10**shift
        return scaled
    # A divisor larger than all digits always rounds up to one, for any exponent.
    return divide_up(int(digits), 10 ** min(-shift, len(digits)))


def _binary(digits: str, fraction: int, power: int) -> tuple[int, Format]:
    """Return nano-units of ``digits`` with ``fraction`` decimals, times 2**power."""
    nanos = divide_up((int(digits) << power) * _NANOS, 10**fraction)
    nanos = min(nanos, MAX_INT64 * _NANOS)
    # Binary suffixes can't express amounts below one unit.
    return nanos, Format.DECIMAL_SI if 0 < nanos < _NANOS else Format.BINARY_SI


def _keeps_decimal(digits: str, power: int) -> bool:
    """Return True if the reference parses the text with its fast path, which keeps the text."""
    return (
        len(digits) <= 18
        and power >= -9
        and power % 3 == 0
        and not digits.endswith("000")
        and not digits.startswith("0")
    )


def _keeps_binary(digits: str, power: int) -> bool:
    return len(digits) + power * 3 // 10 + 1 <= 15 and int(digits) % 8 != 0


def _canonical_text(nanos: int, format: Format) -> str:
    """Return the text with the largest suffix of the family that leaves a whole number."""
    if nanos == 0:
        return "0"
    value, rest = divmod(abs(nanos), _NANOS)
    if format is Format.BINARY_SI and rest == 0 and value >= 1024:
        return ("-" if nanos < 0 else "") + _binary_text(value)
    exponent = -9
    last = _LARGEST_EXPONENT * 2 if format is Format.DECIMAL_EXPONENT else 18
    while exponent < last and nanos % 1000 == 0:
        nanos //= 1000
        exponent += 3
    if format is Format.DECIMAL_EXPONENT:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def _binary_text(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY):
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIX[power]}"
