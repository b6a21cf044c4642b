"""Taking over fields of one object into another."""

from collections.abc import Mapping
from typing import Any


def copy_fields(target: dict[str, Any], source: Mapping[str, Any], *names: str) -> None:
    """Make ``target`` have these fields exactly as ``source`` has them, or not at all."""
    for name in names:
        if name in source:
            target[name] = source[name]
        else:
            target.pop(name, None)
