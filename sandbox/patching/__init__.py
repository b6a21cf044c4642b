"""The three content types of a PATCH, as the API server understands them."""

from sandbox.patching.apply import ContentType, apply_patch

__all__ = ["ContentType", "apply_patch"]
