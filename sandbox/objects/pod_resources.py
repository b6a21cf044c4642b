"""Resources of a pod: sums over containers, quality of service, canonical quantities.

Pods are plain dictionaries here, as the API server holds them.

Source: k8s.io/component-helpers/resource/helpers.go, k8s.io/kubernetes
pkg/apis/core/v1/helper/qos/qos.go; kubernetes-resize.md 1.1, 1.4 and section 4.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.quantity import ZERO, Quantity, QuantityError
from common.resources import parse_quantities

Amounts = dict[str, Quantity]

_COMPUTE: Final = ("cpu", "memory")
_MILLI_SCALE: Final = -3
_LARGEST: Final = Quantity.parse("1e100")


class QosClass(enum.StrEnum):
    """Quality of service, as ``status.qosClass`` spells it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def resources_of(holder: Mapping[str, Any], part: str) -> Amounts:
    """Return ``resources.<part>`` of a container, a container status or a pod's spec."""
    return parse_quantities((holder.get("resources") or {}).get(part))


def containers_of(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield init containers, then containers. Ephemeral ones request nothing."""
    spec = pod.get("spec") or {}
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def is_sidecar(init_container: Mapping[str, Any]) -> bool:
    """Return True if the init container keeps running beside the containers."""
    return init_container.get("restartPolicy") == "Always"


def qos_class(pod: Mapping[str, Any]) -> QosClass:
    """Return the class of the spec. Pod-level resources override those of containers."""
    spec = pod.get("spec") or {}
    holders = [spec] if spec.get("resources") else list(containers_of(pod))
    requests: Amounts = {}
    limits: Amounts = {}
    all_limited = True
    for holder in holders:
        _add_positive(requests, resources_of(holder, "requests"))
        limited = _add_positive(limits, resources_of(holder, "limits"))
        all_limited = all_limited and limited == set(_COMPUTE)
    if not requests and not limits:
        return QosClass.BEST_EFFORT
    if all_limited and requests == limits:
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE


def pod_requests(pod: Mapping[str, Any], *, with_status: bool = False) -> Amounts:
    """Return what the pod requests of its node, including init containers and overhead.

    With ``with_status``, each container counts with the largest of spec, actual and allocated
    values, as in the scheduler and quotas. The spec of an infeasible resize doesn't count.
    """
    total = _pod_total(pod, "requests", with_status=with_status)
    spec = pod.get("spec") or {}
    for name, amount in resources_of(spec, "requests").items():
        if name in _COMPUTE:
            total[name] = amount
    _add(total, parse_quantities(spec.get("overhead")))
    return total


def pod_limits(pod: Mapping[str, Any], *, with_status: bool = False) -> Amounts:
    """Return the sum of limits by the rules of ``pod_requests``."""
    total = _pod_total(pod, "limits", with_status=with_status)
    spec = pod.get("spec") or {}
    for name, amount in resources_of(spec, "limits").items():
        if name in _COMPUTE:
            total[name] = amount
    for name, amount in parse_quantities(spec.get("overhead")).items():
        if name in total:
            total[name] += amount
    return total


def is_infeasible(pod: Mapping[str, Any]) -> bool:
    """Return True if the kubelet has rejected the desired resources permanently."""
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )


def canonical_amounts(raw: dict[str, Any]) -> None:
    """Rewrite a ResourceList in place in the form that the API server stores.

    A value finer than a thousandth is rounded up.

    Raises:
        QuantityError: a value isn't a quantity.

    Source: ``SetDefaults_ResourceList``.
    """
    for name, value in raw.items():
        raw[name] = canonical_text(value)


def canonical_text(value: Any) -> str:
    """Return a quantity as the API server stores it: ``0.25`` is ``250m``, ``1000m`` is ``1``.

    Raises:
        QuantityError: it isn't a quantity, or so large that a sum could not be parsed.
    """
    quantity = Quantity.from_json(value)
    if not -_LARGEST <= quantity <= _LARGEST:
        raise QuantityError(value, QuantityError.TOO_LARGE)
    if quantity.nanos % 1_000_000:
        quantity = quantity.round_up(_MILLI_SCALE)
    return str(quantity.canonical())


def complete_pod_resources(pod: dict[str, Any]) -> None:
    """Make quantities canonical, and add a request for every limit without one, in place.

    The API server does this for each pod that it decodes: created, updated, patched by a client or
    by a webhook.

    Raises:
        QuantityError: a value isn't a quantity.

    Source: ``SetDefaults_Pod``.
    """
    spec = pod.get("spec") or {}
    for holder in (spec, *containers_of(pod)):
        resources = holder.get("resources")
        if not resources:
            continue
        for part in ("limits", "requests"):
            raw = resources.get(part)
            if raw is None:
                resources.pop(part, None)
            else:
                canonical_amounts(raw)
        limits = resources.get("limits")
        if limits and holder is not spec:
            requests = resources.setdefault("requests", {})
            for name, value in limits.items():
                requests.setdefault(name, value)
    _complete_pod_level(spec)
    if spec.get("overhead"):
        canonical_amounts(spec["overhead"])


def _complete_pod_level(spec: dict[str, Any]) -> None:
    """Add missing pod-level requests beside pod-level limits.

    A request is the sum of the containers, or the limit without one.

    Source: ``defaultPodRequests``.
    """
    resources = spec.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    inside = _pod_total({"spec": spec}, "requests", with_status=False)
    for name in _COMPUTE:
        if name in inside:
            requests.setdefault(name, str(inside[name].canonical()))
        elif name in limits:
            requests.setdefault(name, limits[name])
    if requests:
        resources["requests"] = requests


def same_amounts(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> bool:
    """Return True if two ResourceLists are numerically equal. Absent equals empty."""
    return left == right or parse_quantities(left) == parse_quantities(right)


def _pod_total(pod: Mapping[str, Any], part: str, *, with_status: bool) -> Amounts:
    spec = pod.get("spec") or {}
    status = pod.get("status") or {}
    statuses: dict[str, dict[str, Any]] = {}
    if with_status:
        for name in ("containerStatuses", "initContainerStatuses"):
            statuses.update({one["name"]: one for one in status.get(name) or ()})
    infeasible = with_status and is_infeasible(pod)

    def wanted(container: Mapping[str, Any]) -> Amounts:
        reported = statuses.get(container["name"])
        return _container_amounts(container, reported, part, infeasible=infeasible)

    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, wanted(container))
    sidecars: Amounts = {}
    initializing: Amounts = {}
    for container in spec.get("initContainers") or ():
        needed = wanted(container)
        if is_sidecar(container):
            _add(total, needed)
            _add(sidecars, needed)
            needed = dict(sidecars)
        else:
            _add(needed, sidecars)
        _raise_to(initializing, needed)
    _raise_to(total, initializing)
    return total


def _container_amounts(
    container: Mapping[str, Any],
    reported: Mapping[str, Any] | None,
    part: str,
    *,
    infeasible: bool,
) -> Amounts:
    if reported is None:
        return resources_of(container, part)
    result = resources_of(reported, part)
    if part == "requests":
        _raise_to(result, parse_quantities(reported.get("allocatedResources")))
    if not infeasible:
        _raise_to(result, resources_of(container, part))
    return result


def _add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: Amounts, least: Mapping[str, Quantity]) -> None:
    for name, amount in least.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def _add_positive(total: Amounts, more: Mapping[str, Quantity]) -> set[str]:
    """Add positive amounts of CPU and memory. Return their names."""
    positive = {name: more[name] for name in _COMPUTE if more.get(name, ZERO).sign > 0}
    _add(total, positive)
    return set(positive)
