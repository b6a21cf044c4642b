"""The rule of numbers that may not be negative.

Source: ``ValidateNonnegativeField``, k8s.io/apimachinery pkg/api/validation/generic.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import field_invalid

NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def negative_causes(holder: Mapping[str, Any], path: str, *names: str) -> Iterator[Cause]:
    """Every one of the numbers that is there and below zero."""
    for name in names:
        value = holder.get(name)
        if isinstance(value, int) and value < 0:
            yield field_invalid(f"{path}.{name}", value, NOT_NEGATIVE)
