"""The status of a PodDisruptionBudget.

Source: k8s.io/kubernetes pkg/controller/disruption/disruption.go, pkg/apis/policy/validation
(percentages); kubernetes-resize.md 5.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final

from sandbox.objects.conditions import with_condition

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""The time for which an eviction counts against the budget before the pod is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedPod:
    """The properties of a pod that its budget counts."""

    name: str
    healthy: bool  # ready, and not being deleted
    controller: str = ""  # UID of its controller, empty for a bare pod
    expected: int = 0  # desired replicas of the controller


def scaled(value: int | str, total: int) -> int:
    """Return an absolute number, or a percentage of ``total`` rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return ceil(total * int(value[:-1]) / 100)
    return int(value)


def budget_status(
    budget: Mapping[str, Any], pods: Iterable[GuardedPod], now: datetime
) -> dict[str, Any]:
    """Return the status of ``budget`` over the pods that its selector matches.

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
        "conditions": old.get("conditions"),
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    set_disruption_allowed(status, generation, now)
    return status


def set_disruption_allowed(status: dict[str, Any], generation: int, now: datetime) -> None:
    """Set the condition DisruptionAllowed from ``disruptionsAllowed``."""
    allowed = status["disruptionsAllowed"] > 0
    status["conditions"] = with_condition(
        status.get("conditions") or (),
        "DisruptionAllowed",
        allowed,
        "SufficientPods" if allowed else "InsufficientPods",
        "",
        now=now,
        observedGeneration=generation,
    )


def _expected_and_desired(spec: Mapping[str, Any], pods: list[GuardedPod]) -> tuple[int, int]:
    """Return the expected number of pods, and how many of them must be healthy.

    A percentage or ``maxUnavailable`` needs controllers with a number of replicas. Pods without a
    controller don't count then.
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
