"""ResourceQuota: usage of pods, and its limits.

Compute resources and the number of pods are enforced, with the four scopes that a pod's own fields
decide. Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go, k8s.io/kubernetes
pkg/quota/v1/evaluator/core/pods.go; kubernetes-resize.md section 2.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from common.quantity import ZERO, Quantity
from common.resources import parse_quantities
from sandbox.objects.pod_resources import (
    QosClass,
    containers_of,
    pod_limits,
    pod_requests,
    qos_class,
    resources_of,
)

Usage = dict[str, Quantity]

_REQUESTED: Final = ("cpu", "memory", "ephemeral-storage")


def pod_usage(pod: Mapping[str, Any], now: datetime) -> Usage:
    """Return the usage of a pod. A pod that has ended, or is overdue, only counts as an object."""
    one = Quantity.from_value(1)
    usage = {"count/pods": one, "pods": one}
    if _has_ended(pod, now):
        del usage["pods"]
        return usage
    requests = pod_requests(pod, with_status=True)
    for name, amount in requests.items():
        if name in _REQUESTED:
            usage[name] = amount
        usage[f"requests.{name}"] = amount
    for name, amount in pod_limits(pod, with_status=True).items():
        usage[f"limits.{name}"] = amount
    return usage


def in_scope(quota: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Return True if the quota counts this pod."""
    scopes = (quota.get("spec") or {}).get("scopes") or ()
    if not scopes:
        return True
    best_effort = qos_class(pod) is QosClass.BEST_EFFORT
    terminating = (pod["spec"].get("activeDeadlineSeconds") or -1) >= 0
    facts = {
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "Terminating": terminating,
        "NotTerminating": not terminating,
    }
    return all(facts.get(scope, False) for scope in scopes)


def missing_resources(quota: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    """Return the values that containers must set because the quota counts them; empty if none.

    The text reads ``limits.memory for: app,side; requests.cpu for: app``.
    """
    needed = [name for name in _hard(quota) if _is_compute(name)]
    unset: dict[str, list[str]] = {}
    for container in containers_of(pod):
        set_here = {f"limits.{name}" for name in resources_of(container, "limits")}
        for name in resources_of(container, "requests"):
            set_here |= {name, f"requests.{name}"}
        for name in needed:
            if name not in set_here:
                unset.setdefault(name, []).append(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(unset[name]))}" for name in sorted(unset))


def exceeded(quota: Mapping[str, Any], increase: Usage) -> str:
    """Return why ``increase`` exceeds the quota; empty if it doesn't."""
    hard = _hard(quota)
    used = parse_quantities((quota.get("status") or {}).get("used"))
    name = quota["metadata"]["name"]
    asked = {one: amount for one, amount in increase.items() if one in hard and amount.sign > 0}
    unknown = sorted(one for one in asked if one not in used)
    if unknown:
        return f"status unknown for quota: {name}, resources: {','.join(unknown)}"
    over = sorted(one for one, amount in asked.items() if used[one] + amount > hard[one])
    if not over:
        return ""
    return (
        f"exceeded quota: {name}, requested: {_printed(asked, over)}, "
        f"used: {_printed(used, over)}, limited: {_printed(hard, over)}"
    )


def charged(quota: Mapping[str, Any], increase: Usage) -> dict[str, Any] | None:
    """Return ``status.used`` with the increase added; None if the quota counts none of it."""
    used = parse_quantities((quota.get("status") or {}).get("used"))
    asked = {name: amount for name, amount in increase.items() if name in used and amount.sign > 0}
    if not asked:
        return None
    return {
        name: str((amount + asked.get(name, ZERO)).canonical()) for name, amount in used.items()
    }


def quota_status(
    quota: Mapping[str, Any], usages: Iterable[tuple[Mapping[str, Any], Usage]]
) -> dict[str, Any]:
    """Return ``status``: the hard limits, and the sum of the usage in scope.

    ``usages`` are pairs of a pod and its usage.
    """
    hard = _hard(quota)
    total = dict.fromkeys(hard, ZERO)
    for pod, usage in usages:
        if not in_scope(quota, pod):
            continue
        for name in hard:
            if name in usage:
                total[name] += usage[name]
    return {
        "hard": {name: str(amount) for name, amount in hard.items()},
        "used": {name: str(amount.canonical()) for name, amount in total.items()},
    }


def difference(new: Usage, old: Usage) -> Usage:
    """Return ``new`` minus ``old``."""
    return {name: amount - old.get(name, ZERO) for name, amount in new.items()}


def _hard(quota: Mapping[str, Any]) -> dict[str, Quantity]:
    return parse_quantities((quota.get("spec") or {}).get("hard"))


def _is_compute(name: str) -> bool:
    return name in _REQUESTED or name.startswith(("requests.", "limits."))


def _printed(amounts: Mapping[str, Quantity], names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)


def _has_ended(pod: Mapping[str, Any], now: datetime) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    meta = pod["metadata"]
    deleted = meta.get("deletionTimestamp")  # the grace period is in it
    return bool(deleted) and now > datetime.fromisoformat(deleted)
