"""The rules of numbers, and of shares: a number of pods, or a percentage of them.

Source: ``ValidateNonnegativeField``, k8s.io/apimachinery pkg/api/validation/generic.go;
``ValidatePositiveIntOrPercent`` and ``IsNotMoreThan100Percent``, k8s.io/kubernetes
pkg/apis/apps/validation/validation.go.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import field_invalid

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_PERCENT: Final = re.compile(r"[0-9]+%")
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def negative_causes(holder: Mapping[str, Any], path: str, *names: str) -> Iterator[Cause]:
    """Every one of the numbers that is there and below zero; an empty path is the object's."""
    for name in names:
        value = holder.get(name)
        if isinstance(value, int) and value < 0:
            yield field_invalid(f"{path}.{name}" if path else name, value, NOT_NEGATIVE)


def share_causes(path: str, value: object) -> Iterator[Cause]:
    """A share is a number that isn't negative, or a percentage."""
    if isinstance(value, int):
        if value < 0:
            yield field_invalid(path, value, NOT_NEGATIVE)
    elif _PERCENT.fullmatch(str(value)) is None:
        yield field_invalid(path, value, _PERCENT_RULE)


def share_limit_causes(path: str, value: object) -> Iterator[Cause]:
    """A percentage is at most the whole."""
    if _PERCENT.fullmatch(str(value)) is not None and share_value(value) > 100:
        yield field_invalid(path, value, "must not be greater than 100%")


def share_value(value: object) -> int:
    """The number, of a percentage too; 0 where there is none."""
    text = str(value).removesuffix("%")
    return int(text) if text.lstrip("-").isdecimal() else 0
