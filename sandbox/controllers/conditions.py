"""Conditions of workloads and budgets."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sandbox.times import rfc3339


def with_condition(
    conditions: Iterable[Mapping[str, Any]],
    type: str,
    status: bool,  # noqa: FBT001 - what the condition says
    reason: str,
    message: str,
    *,
    now: datetime,
    timed: bool = False,
) -> list[dict[str, Any]]:
    """The conditions with one of them set; its transition time moves with its status only.

    ``timed`` also writes ``lastUpdateTime``, which moves with reason and message.
    """
    text = "True" if status else "False"
    stamp = rfc3339(now)
    made: dict[str, Any] = {"type": type, "status": text, "lastTransitionTime": stamp}
    if timed:
        made["lastUpdateTime"] = stamp
    made |= {"reason": reason, "message": message}
    result = []
    found = False
    for one in conditions:
        if one["type"] != type:
            result.append(dict(one))
            continue
        found = True
        if one["status"] == text:
            made["lastTransitionTime"] = one.get("lastTransitionTime", stamp)
            same = (one.get("reason"), one.get("message")) == (reason, message)
            if timed and same:
                made["lastUpdateTime"] = one.get("lastUpdateTime", stamp)
        result.append(made)
    if not found:
        result.append(made)
    return result


def without_condition(conditions: Iterable[Mapping[str, Any]], type: str) -> list[dict[str, Any]]:
    """The conditions without those of one type."""
    return [dict(one) for one in conditions if one["type"] != type]
