"""Preflight checks: the API server's validation of the pod that an action results in.

They check the spec of the replacement after an eviction, or of the resized pod (X110).
:mod:`common.recommendation.quota` checks ResourceQuotas.

Source: updater.md 13, D30 and X6; spec/pod-level-resources.md;
k8s.io/kubernetes plugin/pkg/admission/limitranger/admission.go.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.api.base import QuantityJson
from common.api.core import LimitRangeItem, LimitRangeSpec, Pod, PodSpec
from common.quantity import MAX_INT64, Quantity
from common.recommendation.limit_range import LimitType
from common.recommendation.pod_amounts import Amounts, PodAmounts, pod_amounts
from common.recommendation.qos import qos_class
from common.resources import in_order, parse_quantities

_MAX_MILLI = MAX_INT64 // 1000  # the largest amount whose thousandths fit an int64


class Check(enum.StrEnum):
    """The rule that the pod would violate."""

    LIMIT = "limit"  # a request above its limit
    POD_LEVEL = "pod_level"  # containers that don't fit into ``spec.resources``
    LIMIT_RANGE = "limit_range"
    QUOTA = "quota"
    QOS_CLASS = "qos_class"  # no resize may change it
    UNREADABLE = "unreadable"  # a malformed quantity, so that no check is possible


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why the API server would refuse a pod; ``message`` has the numbers."""

    check: Check
    message: str


def spec_refusal(
    spec: PodSpec, limit_ranges: Sequence[LimitRangeSpec], *, present: PodSpec | None = None
) -> Refusal | None:
    """Return why the API server would refuse a pod with this spec; None if it wouldn't.

    Check that no request is above its limit, that the containers fit into the pod-level resources,
    and min, max and maxLimitRequestRatio of all Container and Pod items of ``limit_ranges``, which
    are all of the namespace. Init containers count, too. ``present`` is the spec of the running
    pod: if a request in it is above its limit, the API server doesn't enforce that rule.

    Raises:
        QuantityError: a quantity in the pod or a LimitRange is malformed.
    """
    amounts = pod_amounts(spec)
    before = () if present is None else pod_amounts(present).all_containers
    return next(_refusals(amounts, limit_ranges, {each.name: each for each in before}), None)


def qos_refusal(pod: Pod, resized: PodSpec) -> Refusal | None:
    """Return why a resize to this spec would change the pod's QoS class; None if it wouldn't.

    The present class is that of the status, because the API server compares with it.

    Source: kubernetes-resize.md 1.4.

    Raises:
        QuantityError: a quantity in the pod is malformed.
    """
    before, after = pod.status.qos_class or qos_class(pod.spec), qos_class(resized)
    if after == before:
        return None
    return Refusal(Check.QOS_CLASS, f"the QoS class would change from {before} to {after}")


def _refusals(
    pod: PodAmounts, limit_ranges: Sequence[LimitRangeSpec], present: Mapping[str, Amounts]
) -> Iterator[Refusal]:
    for each in pod.all_containers:
        before = present.get(each.name)
        yield from (Refusal(Check.LIMIT, found) for found in _above_limit(each, before))
    if pod.stanza is not None:
        found = _outside_stanza(pod, pod.stanza)
        yield from (Refusal(Check.POD_LEVEL, each) for each in found)
    items = (item for spec in limit_ranges for item in spec.limits or ())
    yield from (Refusal(Check.LIMIT_RANGE, found) for found in _outside_items(pod, items))


def _above_limit(amounts: Amounts, present: Amounts | None = None) -> Iterator[str]:
    for name in in_order(amounts.limits):
        if _is_above(amounts, name) and not (present is not None and _is_above(present, name)):
            request, limit = amounts.requests[name], amounts.limits[name]
            yield f"{_described(amounts, name, 'request', request)}, above the limit of {limit}"


def _is_above(amounts: Amounts, name: str) -> bool:
    request, limit = amounts.requests.get(name), amounts.limits.get(name)
    return request is not None and limit is not None and request > limit


def _outside_stanza(pod: PodAmounts, stanza: Amounts) -> Iterator[str]:
    """Yield the violations of pod-level resources.

    The pod-level request bounds the sum of requests; the limit bounds each regular container.
    """
    yield from _above_limit(stanza)
    inside = pod.inside
    for name in in_order(stanza.requests):
        request = stanza.requests[name]
        if name in inside.requests and inside.requests[name] > request:
            yield (
                f"the {name} requests of the containers would add up to {inside.requests[name]}, "
                f"above the pod-level request of {request}"
            )
    for each in pod.containers:
        for name in in_order(each.limits):
            if name in stanza.limits and each.limits[name] > stanza.limits[name]:
                yield (
                    f"{_described(each, name, 'limit', each.limits[name])}, "
                    f"above the pod-level limit of {stanza.limits[name]}"
                )


def _outside_items(pod: PodAmounts, items: Iterable[LimitRangeItem]) -> Iterator[str]:
    for item in items:
        if item.type == LimitType.CONTAINER:
            for amounts in pod.all_containers:
                yield from _violations(item, amounts)
        elif item.type == LimitType.POD:
            yield from _violations(item, pod.whole)


def _violations(item: LimitRangeItem, amounts: Amounts) -> Iterator[str]:
    """Yield the violated bounds of an item; a missing amount violates its bound."""
    checks = (
        ("min", item.min, _below),
        ("max", item.max, _above),
        ("maxLimitRequestRatio", item.max_limit_request_ratio, _too_far_apart),
    )
    for part, raw, check in checks:
        for name, bound in _bounds(raw):
            problem = check(amounts, name, bound)
            if problem:
                yield f"{problem}, and the LimitRange's {part} for a {item.type} is {bound}"


def _below(amounts: Amounts, name: str, least: Quantity) -> str:
    request, limit = amounts.requests.get(name), amounts.limits.get(name)
    if request is None or request < least:
        return _described(amounts, name, "request", request)
    if limit is not None and limit < least:
        return _described(amounts, name, "limit", limit)
    return ""


def _above(amounts: Amounts, name: str, most: Quantity) -> str:
    request, limit = amounts.requests.get(name), amounts.limits.get(name)
    if limit is None or limit > most:
        return _described(amounts, name, "limit", limit)
    if request is not None and request > most:
        return _described(amounts, name, "request", request)
    return ""


def _too_far_apart(amounts: Amounts, name: str, most: Quantity) -> str:
    request, limit = amounts.requests.get(name), amounts.limits.get(name)
    if request is None or request.is_zero:
        return _described(amounts, name, "request", request)
    if limit is None or limit.is_zero:
        return _described(amounts, name, "limit", limit)
    if _ratio_breaks(request, limit, most):
        return f"{_described(amounts, name, 'request', request)}, its limit {limit}"
    return ""


def _described(amounts: Amounts, name: str, part: str, amount: Quantity | None) -> str:
    if amount is None:
        return f"{amounts.title} would have no {name} {part}"
    return f"the {name} {part} of {amounts.title} would be {amount}"


def _bounds(raw: Mapping[str, QuantityJson] | None) -> list[tuple[str, Quantity]]:
    bounds = parse_quantities(raw)
    return [(name, bounds[name]) for name in in_order(bounds)]


def _ratio_breaks(request: Quantity, limit: Quantity, most: Quantity) -> bool:
    """Compare the ratio in floating point, as the API server does, with the same rounding."""
    in_milli = all(one.value <= _MAX_MILLI for one in (request, limit, most))
    ratio = limit.milli / request.milli if in_milli else limit.value / request.value
    return ratio * 1000 > most.milli
