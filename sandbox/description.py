"""Conversion of YAML and JSON into described types, with errors that name the field."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, TypeVar

import msgspec

from common.errors import ConfigError
from common.flags import duration
from common.quantity import Quantity

T = TypeVar("T")

Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

if TYPE_CHECKING:
    Seconds: TypeAlias = float
    SecondsOrNever: TypeAlias = float
    PositiveSeconds: TypeAlias = float
else:

    class Seconds(float):
        """Seconds, from a Go duration (``1h30m``) or a number."""

        def __new__(cls, raw: Any) -> Self:
            if isinstance(raw, bool):
                raise ValueError(f"not a duration: {raw!r}")  # noqa: TRY004 - a value, not a bug
            written = isinstance(raw, str) and not raw.isdecimal()
            seconds = duration(raw) / timedelta(seconds=1) if written else float(raw)
            if seconds < 0:
                raise ValueError(f"a negative duration: {raw!r}")
            return super().__new__(cls, seconds)

    class SecondsOrNever(Seconds):
        """Seconds, or infinity for ``never``."""

        def __new__(cls, raw: Any) -> Self:
            return float.__new__(cls, "inf") if raw == "never" else super().__new__(cls, raw)

    class PositiveSeconds(Seconds):
        """Seconds above zero."""

        def __new__(cls, raw: Any) -> Self:
            seconds = super().__new__(cls, raw)
            if seconds == 0:
                raise ValueError(f"not a duration above 0: {raw!r}")
            return seconds


class Amount:
    """A quantity that isn't negative. msgspec would decode a ``Quantity`` by its fields."""

    def __init__(self, raw: Any) -> None:
        """Raise ValueError for an invalid quantity."""
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            raise ValueError(f"not a quantity: {raw!r}")  # noqa: TRY004 - a value, not a bug
        self.quantity = Quantity.from_json(raw)
        if self.quantity.nanos < 0:
            raise ValueError(f"a negative quantity: {raw!r}")


class Described(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True
):
    """A mapping of a description. Field names are written with dashes."""


def read(raw: object, described: type[T], field: str = "") -> T:
    """Convert a value that was read from YAML or JSON. Text is accepted for numbers and Booleans.

    Raises:
        ConfigError: an unknown field or an invalid value; the message begins with its full name.
    """
    try:
        return msgspec.convert(
            raw, described, strict=False, dec_hook=lambda custom, value: custom(value)
        )
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        name = f"{field}{place.removesuffix('`')}".removeprefix(".")
        raise ConfigError(f"{name}: {text}" if name else text) from error
