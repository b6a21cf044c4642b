"""Read a nested description (from YAML) field by field; every complaint names the field.

A description is written by hand: a misspelt key must not be ignored,
and ``nodes[0].memory: not a quantity: '16Gib'`` is worth more than a traceback.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from enum import Enum, auto
from typing import Any, TypeVar

from common.errors import ConfigError
from common.flags import duration as go_duration
from common.quantity import Quantity

T = TypeVar("T")


class _Required(Enum):
    REQUIRED = auto()


REQUIRED = _Required.REQUIRED


class Section:
    """A mapping of the description, and where it stands.

    ``take`` and its kin return one field each; :meth:`close` rejects the fields that were not read.
    All raise ConfigError.
    """

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path or 'description'}: not a mapping: {value!r}")
        self._value = {str(key): item for key, item in value.items()}
        self._taken: set[str] = set()
        self.path = path

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def field(self, key: str) -> str:
        """The full name of a field, for messages."""
        return f"{self.path}.{key}" if self.path else key

    def raw(self, key: str, default: Any = None) -> Any:
        """The field as it was written."""
        self._taken.add(key)
        value = self._value.get(key)
        return default if value is None else value

    def take(self, key: str, parse: Callable[[object], T], default: T | _Required = REQUIRED) -> T:
        """The field, parsed; ``parse`` raises ValueError on a value that it can't take."""
        value = self.raw(key)
        if value is None:
            if isinstance(default, _Required):
                raise ConfigError(f"{self.field(key)}: missing")
            return default
        try:
            return parse(value)
        except ValueError as error:
            raise ConfigError(f"{self.field(key)}: {error}") from error

    def section(self, key: str) -> "Section":
        """A mapping inside this one; empty where it is absent."""
        return Section(self.raw(key, {}), self.field(key))

    def items(self, key: str) -> Iterator[tuple[object, str]]:
        """The entries of a list, each with its full name; none where it is absent."""
        value = self.raw(key, ())
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ConfigError(f"{self.field(key)}: not a list: {value!r}")
        for index, item in enumerate(value):
            yield item, f"{self.field(key)}[{index}]"

    def sections(self, key: str) -> Iterator["Section"]:
        """The entries of a list of mappings."""
        for item, path in self.items(key):
            yield Section(item, path)

    def close(self) -> None:
        """Reject the fields that were not read."""
        unknown = sorted(self._value.keys() - self._taken)
        if unknown:
            known = ", ".join(sorted(self._taken))
            raise ConfigError(f"{self.field(unknown[0])}: unknown field (known here: {known})")


def text(value: object) -> str:
    """Text; a bare number or Boolean was meant as text, too."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise ValueError(f"not text: {value!r}")


def whole(value: object) -> int:
    """A whole number, not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"not a whole number: {value!r}")
    return value


def number(value: object) -> float:
    """A number, not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"not a number: {value!r}")
    return float(value)


def truth(value: object) -> bool:
    """``true`` or ``false``."""
    if not isinstance(value, bool):
        raise ValueError(f"not true or false: {value!r}")  # noqa: TRY004 - a value, not a bug
    return value


def seconds(value: object) -> float:
    """A Go duration (``1h30m``) or a bare number of seconds."""
    if isinstance(value, str):
        return go_duration(value) / timedelta(seconds=1)
    return number(value)


def quantity(value: object) -> Quantity:
    """A Kubernetes quantity, not negative."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"not a quantity: {value!r}")  # noqa: TRY004 - a value, not a bug
    parsed = Quantity.from_json(value)
    if parsed.nanos < 0:
        raise ValueError(f"a negative quantity: {value!r}")
    return parsed


def labels(value: object) -> dict[str, str]:
    """A mapping of texts."""
    if not isinstance(value, Mapping):
        raise ValueError(f"not a mapping: {value!r}")  # noqa: TRY004 - a value, not a bug
    return {text(key): text(item) for key, item in value.items()}


def texts(value: object) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"not a list: {value!r}")  # noqa: TRY004 - a value, not a bug
    return tuple(text(item) for item in value)
