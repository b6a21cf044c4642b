"""Requests and targets of a pod as sums over its recommended containers."""

import functools
import operator
from collections.abc import Mapping, Sequence

from common.api.autoscaling import VpaStatus
from common.quantity import Quantity, QuantityError
from common.read_model.updater import PlannedPod
from common.recommendation.processing import ContainerAmounts, parse_recommendation
from common.resources import RESOURCES, ResourceQuantities, parse_quantities
from kubectl_vpa.results.status import ResourceStatus
from updater.evaluate.recommendation_fit import Measured

Sums = Mapping[str, ResourceStatus]
"""By resource: cpu and memory."""


def of_pod(measured: Measured) -> Sums:
    """Return the sums for one pod, with the recommendation as fitted to it."""
    return {
        resource: _sums(resource, measured.requests, measured.processed.containers)
        for resource in RESOURCES
    }


def of_planned(pod: PlannedPod) -> Sums:
    """Return the sums for a pod of the updater's plan."""
    requests = {each.name: parse_quantities(each.requests) for each in pod.containers}
    targets = {
        each.name: ContainerAmounts(name=each.name, target=parse_quantities(each.target))
        for each in pod.containers
    }
    return {resource: _sums(resource, requests, targets) for resource in RESOURCES}


def of_status(status: VpaStatus) -> Sums:
    """Return the sums of the targets in a status, without pods to compare them with."""
    try:
        recommended = (
            () if status.recommendation is None else parse_recommendation(status.recommendation)
        )
    except QuantityError:
        recommended = ()
    by_name = {each.name: each for each in recommended}
    return {resource: _sums(resource, {}, by_name) for resource in RESOURCES}


def largest(sums: Sums) -> float | None:
    """Return the relative change that is the largest in either direction."""
    drifts = [each.drift for each in sums.values() if each.drift is not None]
    return max(drifts, key=abs, default=None)


def _sums(
    resource: str,
    requests: Mapping[str, ResourceQuantities],
    containers: Mapping[str, ContainerAmounts],
) -> ResourceStatus:
    present = [
        request
        for name, amounts in containers.items()
        if resource in amounts.target and (request := requests.get(name, {}).get(resource))
    ]
    targets = [each.target[resource] for each in containers.values() if resource in each.target]
    request, target = _sum(present), _sum(targets)
    drift = None
    if request is not None and target is not None and request.nanos:
        drift = round(target.nanos / request.nanos - 1, 4)
    return ResourceStatus(
        request=None if request is None else str(request),
        target=None if target is None else str(target),
        drift=drift,
    )


def _sum(quantities: Sequence[Quantity]) -> Quantity | None:
    return functools.reduce(operator.add, quantities) if quantities else None
