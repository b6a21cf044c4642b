"""Values as Go prints them, for messages that quote a patch."""

from typing import Any


def go_text(value: Any) -> str:
    """``%v`` of a decoded JSON value: ``map[a:1 b:[x y]]``, maps ordered by key."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{go_text(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def go_type(value: object) -> str:
    """How Go's JSON decoder names a kind of value."""
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, str):
        return "string"
    return "bool" if isinstance(value, bool) else "number"
