"""Conditions of workloads and budgets."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sandbox.times import rfc3339


def with_condition(
    conditions: Iterable[Mapping[str, Any]],
    type: str,
    status: bool,  # noqa: FBT001 - the status of the condition
    reason: str,
    message: str,
    *,
    now: datetime,
    **more: Any,
) -> list[dict[str, Any]]:
    """Set one condition; its transition time changes only with its status. ``more`` are fields."""
    text = "True" if status else "False"
    stamp = rfc3339(now)
    made: dict[str, Any] = {
        "type": type,
        "status": text,
        **more,
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message,
    }
    result = []
    found = False
    for one in conditions:
        if one["type"] != type:
            result.append(dict(one))
            continue
        found = True
        if one["status"] == text:
            made["lastTransitionTime"] = one.get("lastTransitionTime", stamp)
        result.append(made)
    if not found:
        result.append(made)
    return result


def without_condition(conditions: Iterable[Mapping[str, Any]], type: str) -> list[dict[str, Any]]:
    """Return the conditions without those of one type."""
    return [dict(one) for one in conditions if one["type"] != type]
