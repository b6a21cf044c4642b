"""The three content types of a PATCH, as the API server understands them."""

from sandbox.patching.apply import ContentType, apply_patch, copied
from sandbox.patching.operations import OperationError, apply_operations

__all__ = [
    "ContentType",
    "OperationError",
    "apply_operations",
    "apply_patch",
    "copied",
]
