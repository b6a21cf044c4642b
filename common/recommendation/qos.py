"""The quality-of-service class that requests and limits give a pod.

A resize may not change it, so it is computed before one is sent.

Source: kubernetes-resize.md 1.4; ``ComputePodQOS``, k8s.io/kubernetes/pkg/apis/core/helper/qos.
"""

import enum
from collections.abc import Mapping, Sequence

from common.api.core import NO_RESOURCES, PodSpec
from common.quantity import Quantity
from common.resources import RESOURCES, ResourceQuantities, parse_quantities


class QosClass(enum.StrEnum):
    """The values of ``status.qosClass``."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class_of(
    containers: Sequence[tuple[ResourceQuantities, ResourceQuantities]],
) -> QosClass:
    """Return the class of a pod, from (requests, limits) of all its containers, init ones included.

    Only cpu and memory count, and zero counts as missing.
    """
    stated = [(_stated(requests), _stated(limits)) for requests, limits in containers]
    if not any(requests or limits for requests, limits in stated):
        return QosClass.BEST_EFFORT
    if all(len(limits) == len(RESOURCES) and requests == limits for requests, limits in stated):
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE


def qos_class(spec: PodSpec) -> QosClass:
    """Return the class of a pod with this spec; if it has pod-level resources, only they count.

    Raises:
        QuantityError: a request or a limit is no quantity.
    """
    stanza = spec.resources
    if stanza is not None and (stanza.requests or stanza.limits):
        stated = [stanza]
    else:
        containers = (*(spec.init_containers or ()), *spec.containers)
        stated = [container.resources or NO_RESOURCES for container in containers]
    return qos_class_of(
        [(parse_quantities(each.requests), parse_quantities(each.limits)) for each in stated]
    )


def _stated(quantities: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {
        name: quantities[name]
        for name in RESOURCES
        if name in quantities and not quantities[name].is_zero
    }
