"""The rules that LimitRanges, ResourceQuotas and PodDisruptionBudgets keep.

Source: ``ValidateLimitRange`` and ``ValidateResourceQuotaSpec``, k8s.io/kubernetes
pkg/apis/core/validation/validation.go; pkg/apis/policy/validation/validation.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from common.quantity import Quantity
from common.resources import in_order, parse_quantities
from sandbox.errors import (
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_not_supported,
)
from sandbox.objects.rules.metadata import metadata_causes
from sandbox.objects.rules.numbers import NOT_NEGATIVE, share_causes, share_limit_causes

Json = Mapping[str, Any]

COUNTED_PLAINLY: Final = (
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
)
"""Resources that a quota also counts by their bare names, without ``count/``."""

_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_ONE: Final = Quantity.parse("1")
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "storage")
_BY_TYPE: Final = ("services.loadbalancers", "services.nodeports")
_SCOPES: Final = frozenset(
    {
        "BestEffort",
        "CrossNamespacePodAffinity",
        "NotBestEffort",
        "NotTerminating",
        "PriorityClass",
        "Terminating",
        "VolumeAttributesClass",
    }
)


def limit_range_causes(limit_range: Json) -> Iterator[Cause]:
    """Bounds and defaults must agree with each other, and a type comes once."""
    seen: set[str] = set()
    for index, item in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", item.get("type", "")
        if kind in seen:
            yield field_duplicate(f"{path}.type", kind)
        seen.add(kind)
        if kind == "Pod":
            for part in ("default", "defaultRequest"):
                if item.get(part):
                    text = "may not be specified when `type` is 'Pod'"
                    yield field_forbidden(f"{path}.{part}", text)
        yield from _bound_causes(item, path)


def quota_causes(quota: Json) -> Iterator[Cause]:
    """What is bounded must be known, and no bound is negative."""
    spec = quota.get("spec") or {}
    hard = parse_quantities(spec.get("hard"))
    for name in in_order(hard):
        path = f"spec.hard[{name}]"
        if not _is_qualified(name):
            text = "must be a standard resource type or fully qualified"
            yield field_invalid(path, name, text)
            yield field_invalid(path, name, "must be a standard resource for quota")
        if hard[name].sign < 0:
            yield field_invalid(path, str(hard[name]), NOT_NEGATIVE)
    scopes = spec.get("scopes") or []
    if not _SCOPES.issuperset(scopes):
        yield field_invalid("spec.scopes", scopes, "unsupported scope")


def budget_causes(budget: Json) -> Iterator[Cause]:
    """One count or percentage, of pods that a well-formed selector finds."""
    spec = budget.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {
            "MinAvailable": least,
            "Selector": spec.get("selector"),
            "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield field_invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            yield from share_causes(f"spec.{name}", value)
            yield from share_limit_causes(f"spec.{name}", value)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        yield field_not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)
    labels = (spec.get("selector") or {}).get("matchLabels")
    for cause in metadata_causes({"labels": labels}, custom=False):
        yield Cause(reason=cause.reason, message=cause.message, field="spec.selector.matchLabels")


def _bound_causes(item: Json, path: str) -> Iterator[Cause]:
    least, most = parse_quantities(item.get("min")), parse_quantities(item.get("max"))
    limits = parse_quantities(item.get("default"))
    requests = parse_quantities(item.get("defaultRequest"))
    ratios = parse_quantities(item.get("maxLimitRequestRatio"))
    for name in in_order({**least, **most, **limits, **requests, **ratios}):
        low, high = least.get(name), most.get(name)
        limit, request, ratio = limits.get(name), requests.get(name), ratios.get(name)
        for part, shown, (lower, called), (upper, than) in (
            ("min", low, (low, "min"), (high, "max")),
            ("defaultRequest", request, (low, "min"), (request, "default request")),
            ("defaultRequest", request, (request, "default request"), (high, "max")),
            (
                "defaultRequest",
                request,
                (request, "default request"),
                (limit, "default limit"),
            ),
            ("default", low, (low, "min"), (limit, "default")),
            ("default", high, (limit, "default"), (high, "max")),
        ):
            if lower is not None and upper is not None and lower > upper:
                text = f"{called} value {lower} is greater than {than} value {upper}"
                yield field_invalid(f"{path}.{part}[{name}]", str(shown), text)
        if ratio is not None and ratio < _ONE:
            where = f"{path}.maxLimitRequestRatio[{name}]"
            yield field_invalid(where, str(ratio), f"ratio {ratio} is less than 1")


def _is_qualified(name: str) -> bool:
    """Whether a quota may bound it: a resource, a request or limit of one, or a count."""
    base = name.removeprefix("requests.").removeprefix("limits.")
    return (
        "/" in name
        or name in (*COUNTED_PLAINLY, *_BY_TYPE)
        or base in _RESOURCES
        or base.startswith("hugepages-")
    )
