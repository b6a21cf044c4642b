"""A resize that the node can't hold, as the updater remembers it."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from common.api.core import Pod
from common.recommendation.scaled_containers import scaled_specs
from common.resources import ResourceQuantities, parse_quantities
from updater.resize.resize_status import ResizeStatus
from updater.snapshot.live_node import NodeCapacity

Targets = Mapping[str, ResourceQuantities]
"""Requests by container name."""


class Part(enum.Enum):
    """The state of the part of an infeasible resize that the node can hold (X102)."""

    UNTRIED = enum.auto()
    SENT = enum.auto()  # the remembered targets are the rest
    REFUSED = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """Requests that did not fit on the node, or that have no room there now."""

    targets: Targets
    reported: bool  # by the kubelet in the pod's status; False: by a refused call
    node: NodeCapacity | None = None  # at that time; None: unknown
    # Of a rest that waits for room beside the node's other pods: the start of the first deferred
    # resize. None: the node's allocatable is too small.
    deferred_since: datetime | None = None
    part: Part = Part.UNTRIED


def lower_somewhere(current: Targets, than: Targets) -> bool:
    """Return whether some amount is lower now; names on one side only don't count.

    Source: updater.md 9.
    """
    return any(
        amount < than[name][resource]
        for name, resources in current.items()
        if name in than
        for resource, amount in resources.items()
        if resource in than[name]
    )


def spec_requests(pod: Pod) -> dict[str, ResourceQuantities]:
    """Return the requests in the pod's spec by container."""
    return {
        container.name: parse_quantities(
            None if container.resources is None else container.resources.requests
        )
        for container in scaled_specs(pod)
    }


def still_infeasible(remembered: Infeasible | None, status: ResizeStatus) -> Infeasible | None:
    """Return the remembered requests, without those that the kubelet no longer reports."""
    if remembered is None or not remembered.reported:
        return remembered
    return remembered if status is ResizeStatus.INFEASIBLE else None


def lowest(targets: Targets, failed: Targets) -> Targets:
    """Return the targets, each at most the amount that failed before."""
    return {
        name: {
            resource: min(amount, failed.get(name, {}).get(resource, amount))
            for resource, amount in amounts.items()
        }
        for name, amounts in targets.items()
    }
