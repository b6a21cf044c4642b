"""JSON Patch operations, with the sentences of the Go library when one does not fit.

Source: RFC 6902; github.com/evanphx/json-patch as kube-apiserver 1.36 uses it.
"""

from collections.abc import Sequence
from typing import Any, Final

import jsonpatch
import jsonpointer

_FAILURES: Final = (
    jsonpatch.JsonPatchException,
    jsonpointer.JsonPointerException,
    TypeError,  # an operation that is no map, or a path into a scalar
)


class OperationError(ValueError):
    """An operation can't be applied; the message is what a real API server would say."""


def apply_operations(target: Any, operations: Sequence[Any]) -> Any:
    """Return ``target`` after all operations; it is consumed, even when this fails.

    Raises:
        OperationError: the first operation that doesn't fit.
    """
    for operation in operations:
        # The Go library takes a missing value for null; the Python one refuses it.
        if isinstance(operation, dict) and operation.get("op") in ("add", "replace", "test"):
            operation.setdefault("value", None)
    for operation in operations:
        try:
            target = jsonpatch.JsonPatch([operation]).apply(target, in_place=True)
        except _FAILURES as error:
            if not _passes(target, operation):
                raise OperationError(_sentence(operation)) from error
    return target


def _passes(target: Any, operation: Any) -> bool:
    """Do what the Go library does where the RFC and the Python one refuse.

    A member of a map that isn't there can be replaced, and tested for null.
    """
    if not isinstance(operation, dict) or operation.get("op") not in ("replace", "test"):
        return False
    try:
        holder, name = jsonpointer.JsonPointer(operation["path"]).to_last(target)
    except (*_FAILURES, KeyError):
        return False
    if not isinstance(holder, dict) or name in holder:
        return False
    if operation["op"] == "test":
        return operation["value"] is None
    holder[name] = operation["value"]
    return True


def _sentence(operation: Any) -> str:
    if not isinstance(operation, dict):
        return "Unexpected kind: unknown"
    kind, path = operation.get("op"), operation.get("path", "")
    if kind == "test":
        return f"testing value {path} failed: test failed"
    if kind == "replace":
        return f"replace operation does not apply: doc is missing path: {path}: missing value"
    if kind in ("add", "remove"):
        return f'{kind} operation does not apply: doc is missing path: "{path}": missing value'
    if kind in ("move", "copy"):
        source = operation.get("from", "")
        return f"{kind} operation does not apply: doc is missing from path: {source}: missing value"
    return f"Unexpected kind: {kind}"
