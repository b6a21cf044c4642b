"""The rules of kinds that have few: PriorityClasses and ControllerRevisions.

Endpoints have none here: a real server refuses those on loopback, where all of this cluster is.

Source: k8s.io/kubernetes pkg/apis/scheduling/validation and pkg/apis/apps/validation.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import (
    field_forbidden,
    field_immutable,
    field_not_supported,
    field_required,
)
from sandbox.objects.rules.numbers import negative_causes

Json = Mapping[str, Any]

_SYSTEM: Final = "system-"
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_HIGHEST: Final = 1_000_000_000  # of what a user defines
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")


def priority_causes(priority: Json) -> Iterator[Cause]:
    """Names that begin with ``system-`` and large values are the system's."""
    name, value = priority["metadata"]["name"], priority.get("value") or 0
    if name.startswith(_SYSTEM):
        if problem := _system_problem(priority, name, value):
            text = (
                f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. "
                f"error: {problem}"
            )
            yield field_forbidden("metadata.name", text)
    elif value > _HIGHEST:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        yield field_forbidden("value", text)
    policy = priority.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION:
        yield field_not_supported("preemptionPolicy", policy, _PREEMPTION)


def changed_priority_causes(old: Json, new: Json) -> Iterator[Cause]:
    """What pods have copied doesn't change."""
    if (old.get("value") or 0) != (new.get("value") or 0):
        yield field_forbidden("value", "may not be changed in an update.")
    before, after = old.get("preemptionPolicy"), new.get("preemptionPolicy")
    if before != after:
        yield field_immutable("preemptionPolicy", after)


def _system_problem(priority: Json, name: str, value: int) -> str:
    known = SYSTEM_PRIORITIES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    if priority.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def revision_causes(revision: Json) -> Iterator[Cause]:
    """A number, and an object that it is of."""
    yield from negative_causes(revision, "", "revision")
    data = revision.get("data")
    if data is None:
        yield field_required("data", "data is mandatory")
    elif not isinstance(data, Mapping):
        yield field_required("data", "data must be a valid JSON object")


def changed_revision_causes(old: Json, new: Json) -> Iterator[Cause]:
    """What is remembered doesn't change; its number may."""
    yield from negative_causes(new, "", "revision")
    if old.get("data") != new.get("data"):
        yield field_immutable("data", new.get("data"))
