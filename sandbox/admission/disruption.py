"""The status of a PodDisruptionBudget: how many pods may go, and why no more.

Source: k8s.io/kubernetes pkg/controller/disruption/disruption.go,
pkg/apis/policy/validation (percentages); kubernetes-resize.md 5.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

from sandbox.times import rfc3339

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""How long an eviction counts against the budget before the pod is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedPod:
    """What counts of a pod that a budget selects."""

    name: str
    healthy: bool  # ready, and not being deleted
    controller: str = ""  # UID of its controller, empty for a bare pod
    expected: int = 0  # replicas that the controller asks for


def scaled(value: int | str, total: int) -> int:
    """An absolute number, or a percentage of ``total`` rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return ceil(total * int(value[:-1]) / 100)
    return int(value)


def budget_status(
    budget: Mapping[str, Any], pods: Iterable[GuardedPod], now: datetime
) -> dict[str, Any]:
    """Compute the status of ``budget`` over the pods that its selector matches.

    Pods named in ``disruptedPods`` count as gone for two minutes after their eviction.
    """
    spec, old = budget.get("spec") or {}, budget.get("status") or {}
    pods = list(pods)
    disrupted = _still_disrupted(old.get("disruptedPods") or {}, pods, now)
    healthy = sum(pod.healthy and pod.name not in disrupted for pod in pods)
    expected, desired = _expected_and_desired(spec, pods)
    allowed = healthy - desired if expected > 0 else 0
    generation = (budget.get("metadata") or {}).get("generation", 0)
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "disruptionsAllowed": max(allowed, 0),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": [dict(one) for one in old.get("conditions") or ()],
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    set_disruption_allowed(status, generation, now)
    return status


def set_disruption_allowed(status: dict[str, Any], generation: int, now: datetime) -> None:
    """Make the condition DisruptionAllowed say what ``disruptionsAllowed`` says."""
    allowed = status["disruptionsAllowed"] > 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": generation,
        "lastTransitionTime": rfc3339(now),
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    conditions = status.setdefault("conditions", [])
    for place, one in enumerate(conditions):
        if one["type"] == condition["type"]:
            if one["status"] == condition["status"]:
                condition["lastTransitionTime"] = one["lastTransitionTime"]
            conditions[place] = condition
            return
    conditions.append(condition)


def _expected_and_desired(spec: Mapping[str, Any], pods: list[GuardedPod]) -> tuple[int, int]:
    """Expected pods, and how many of them must be healthy.

    A percentage or ``maxUnavailable`` needs controllers that say how many pods there should
    be; pods without one count for nothing there.
    """
    controllers = {pod.controller: pod.expected for pod in pods if pod.controller}
    expected = sum(controllers.values())
    if "maxUnavailable" in spec:
        return expected, max(expected - scaled(spec["maxUnavailable"], expected), 0)
    least = spec.get("minAvailable", 1)
    if isinstance(least, str):
        return expected, scaled(least, expected)
    return len(pods), least


def _still_disrupted(
    disrupted: Mapping[str, str], pods: list[GuardedPod], now: datetime
) -> dict[str, str]:
    present = {pod.name for pod in pods if pod.healthy}
    return {
        name: since
        for name, since in disrupted.items()
        if name in present and datetime.fromisoformat(since) + DELETION_TIMEOUT > now
    }
