"""The two generations of the Event: stored as ``v1``, also served as ``events.k8s.io/v1``."""

from typing import Any

_RENAMED = (
    # core, events.k8s.io
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)
_LEFT_OUT = ("reportingComponent", "reportingInstance")  # when they are empty
_TO_NEW = dict(_RENAMED)
_TO_CORE = {new: core for core, new in _RENAMED}


def to_new(event: dict[str, Any]) -> dict[str, Any]:
    """A core event in the shape of ``events.k8s.io/v1``."""
    return {
        _TO_NEW.get(name, name): value
        for name, value in event.items()
        if value or name not in _LEFT_OUT
    }


def to_core(event: dict[str, Any]) -> dict[str, Any]:
    """An ``events.k8s.io/v1`` event in the shape that is stored."""
    return {_TO_CORE.get(name, name): value for name, value in event.items()}
