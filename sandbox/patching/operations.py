"""JSON Patch operations (RFC 6902)."""

from collections.abc import Sequence
from typing import Any

import jsonpatch
import jsonpointer


class OperationError(ValueError):
    """An operation can't be applied."""


def apply_operations(target: Any, operations: Sequence[Any]) -> dict[str, Any]:
    """Return ``target`` after all operations; it is consumed, even when this fails.

    Raises:
        OperationError: an operation doesn't fit, or the result is no map.
    """
    try:
        # The Go library of an API server reads a missing value as null.
        complete = [{"value": None, **operation} for operation in operations]
        target = jsonpatch.JsonPatch(complete).apply(target, in_place=True)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        TypeError,  # an operation that is no map, or a path into a scalar
    ) as error:
        raise OperationError(str(error)) from error
    if not isinstance(target, dict):
        raise OperationError("the result is no map")
    return target
