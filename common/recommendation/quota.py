"""Preflight checks of ResourceQuotas: they find certain refusals only (X111).

The usage in a quota's status includes the pod that is evicted or resized. The usage after the
action is computed from the pod's share before and after it.

Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go;
k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go; kubernetes-resize.md 2.
"""

import re
from collections.abc import Iterable, Iterator

from common.api.core import Pod, PodSpec, ResourceQuota
from common.api.scheduling import SchedulablePodSpec
from common.errors import DecodeError
from common.quantity import ZERO, Quantity
from common.recommendation.pod_amounts import Amounts, PodAmounts, pod_amounts
from common.recommendation.preflight import Check, Refusal
from common.recommendation.qos import QosClass, qos_class
from common.recommendation.quota_scopes import ScopeFacts, is_counted, scope_facts
from common.resources import RESOURCES, ResourceQuantities, parse_quantities

_PARTS = ("requests", "limits")
_NAMES = (*RESOURCES, *(f"{part}.{name}" for part in _PARTS for name in RESOURCES))
_COUNTS = ("pods", "count/pods")
_ONE = Quantity.from_value(1)
_EXCEEDED = re.compile(
    r"exceeded quota: [^,]+, requested: (?P<requested>.+), used: (?P<used>.+), "
    r"limited: (?P<limited>\S+)"
)

Share = ResourceQuantities
"""A pod's usage, by the names that quotas use for resources."""


def share_of(pod: Pod, spec: PodSpec | None = None) -> Share:
    """Return the share of a running pod: the largest of spec, actual and allocated resources.

    ``spec`` replaces the pod's spec, to compute the share after a resize that the kubelet hasn't
    applied yet.

    Raises:
        QuantityError: an amount is no quantity.
    """
    return _share(_used(pod, pod.spec if spec is None else spec))


def freed_by(pod: Pod) -> Share:
    """Return the usage that a deleted pod releases, for every resource.

    The overhead counts in requests, and in limits of resources that have one.

    Raises:
        QuantityError: an amount is no quantity.
    """
    whole = _used(pod, pod.spec).whole
    requests, limits = dict(whole.requests), dict(whole.limits)
    for name, amount in parse_quantities(pod.spec.overhead).items():
        requests[name] = requests.get(name, ZERO) + amount
        if name in limits:
            limits[name] += amount
    return {
        **dict.fromkeys(_COUNTS, _ONE),
        **requests,
        **{f"requests.{name}": amount for name, amount in requests.items()},
        **{f"limits.{name}": amount for name, amount in limits.items()},
    }


def _used(pod: Pod, spec: PodSpec) -> PodAmounts:
    status = pod.status
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return pod_amounts(spec, statuses)


def share_of_new(spec: PodSpec) -> Share:
    """Return the share of a new pod.

    Raises:
        QuantityError: an amount is no quantity.
    """
    return _share(pod_amounts(spec))


def _share(amounts: PodAmounts) -> Share:
    whole, found = amounts.whole, dict[str, Quantity]()
    for name in RESOURCES:
        if name in whole.requests:
            found[name] = found[f"requests.{name}"] = whole.requests[name]
        if name in whole.limits:
            found[f"limits.{name}"] = whole.limits[name]
    return found


def growth(old: Share, new: Share) -> dict[str, Quantity]:
    """Return by how much the new share exceeds the old one, for resources that grow."""
    grown = {name: amount - old.get(name, ZERO) for name, amount in new.items()}
    return {name: amount for name, amount in grown.items() if amount.sign > 0}


def resize_refusal(
    quotas: Iterable[ResourceQuota],
    pod: Pod,
    resized: PodSpec,
    *,
    taken: ResourceQuantities,
) -> Refusal | None:
    """Return why a quota would refuse a resize to this spec; None if no refusal is certain.

    A quota only refuses growth. ``taken`` is the usage of other actions of ours since its status.
    While a resize is infeasible, the spec doesn't count, so no refusal is certain.

    Raises:
        QuantityError: an amount of the pod or of a quota is no quantity.
    """
    conditions = pod.status.conditions or ()
    if any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in conditions):
        return None
    old, new = share_of(pod), share_of(pod, resized)
    grown = growth(old, new)
    for quota in _certain(quotas, resized):
        for message in _over(quota, old, {name: new[name] for name in grown}, taken):
            return Refusal(Check.QUOTA, message)
    return None


def replacement_refusal(
    quotas: Iterable[ResourceQuota],
    pod: Pod,
    replacement: PodSpec,
    *,
    taken: ResourceQuantities,
) -> Refusal | None:
    """Return why a quota would refuse the replacement of a pod; None if no refusal is certain.

    The evicted pod's share counts as free. If the quota was lowered below its current usage, it
    refuses even a smaller replacement. It also refuses any pod that omits a resource it counts.
    ``taken`` is the usage of other actions of ours since its status.

    Raises:
        QuantityError: an amount of the pod or of a quota is no quantity.
    """
    old, new = share_of(pod), share_of_new(replacement)
    for quota in _certain(quotas, replacement):
        for message in (*_unstated(quota, replacement), *_over(quota, old, new, taken)):
            return Refusal(Check.QUOTA, message)
    return None


def _certain(quotas: Iterable[ResourceQuota], spec: PodSpec) -> Iterator[ResourceQuota]:
    """Yield the quotas that certainly count the pod."""
    if isinstance(spec, SchedulablePodSpec):
        facts = scope_facts(
            spec, priority_class=spec.priority_class_name, deadline=spec.active_deadline_seconds
        )
    else:
        facts = ScopeFacts(is_best_effort=qos_class(spec) is QosClass.BEST_EFFORT)
    return (quota for quota in quotas if is_counted(quota.spec, facts))


def _over(quota: ResourceQuota, old: Share, new: Share, taken: ResourceQuantities) -> Iterator[str]:
    hard, used = parse_quantities(quota.status.hard), parse_quantities(quota.status.used)
    for name in _NAMES:
        if name not in hard or name not in used or name not in new:
            continue
        others = used[name] - old.get(name, ZERO) + taken.get(name, ZERO)
        if others + new[name] > hard[name]:
            yield (
                f"ResourceQuota {quota.metadata.name} allows {hard[name]} of {name}, other pods "
                f"use {others.canonical()}, and the pod would use {new[name]} instead of "
                f"{old.get(name, ZERO)}"
            )


def _unstated(quota: ResourceQuota, spec: PodSpec) -> Iterator[str]:
    """Yield the counted resources that containers omit; with pod-level resources they may."""
    amounts = pod_amounts(spec)
    if amounts.stanza is not None:
        return
    for name in _NAMES:
        if name not in (quota.status.hard or {}):
            continue
        for each in amounts.all_containers:
            if not _states(each, name):
                yield (
                    f"{each.title} would leave out {name}, which ResourceQuota "
                    f"{quota.metadata.name} counts"
                )


def _states(amounts: Amounts, name: str) -> bool:
    part, _, resource = name.rpartition(".")
    return resource in (amounts.limits if part == "limits" else amounts.requests)


def exceeds_without(message: str, freed: Share) -> bool:
    """Return True if a quota that refused a pod would also do so after the old pod is deleted.

    ``message`` is that of the API server; ``freed`` is the usage that the old pod releases
    (``freed_by``). An unknown message counts as a refusal.
    """
    found = _EXCEEDED.search(message)
    if found is None:
        return True
    try:
        requested, used, limited = (
            parse_quantities(_listed(found[part])) for part in ("requested", "used", "limited")
        )
    except DecodeError:
        return True
    return any(
        name not in requested
        or name not in used
        or used[name] - freed.get(name, ZERO) + requested[name] > most
        for name, most in limited.items()
    )


def _listed(text: str) -> dict[str, str]:
    """Parse ``requests.cpu=1,requests.memory=2Gi``."""
    return dict(each.partition("=")[::2] for each in text.split(","))
