"""The quality-of-service class that requests and limits give a pod.

A resize may not change it, so it is computed before one is sent.

Source: kubernetes-resize.md 1.4; ``ComputePodQOS``, k8s.io/kubernetes/pkg/apis/core/helper/qos.
"""

import enum
from collections.abc import Mapping, Sequence

from common.api.core import Pod, ResourceRequirements
from common.quantity import Quantity
from common.recommendation.container_resources import WantedResources
from common.resources import RESOURCES, ResourceQuantities, parse_quantities

_NOTHING = WantedResources()


class QosClass(enum.StrEnum):
    """As ``status.qosClass`` spells it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class_of(
    containers: Sequence[tuple[ResourceQuantities, ResourceQuantities]],
) -> QosClass:
    """The class of a pod, from (requests, limits) of all its containers, init ones included.

    Only cpu and memory count, and a zero counts as absent.
    """
    stated = [(_stated(requests), _stated(limits)) for requests, limits in containers]
    if not any(requests or limits for requests, limits in stated):
        return QosClass.BEST_EFFORT
    if all(len(limits) == len(RESOURCES) and requests == limits for requests, limits in stated):
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE


def qos_class(pod: Pod) -> QosClass:
    """The class of a pod as its spec stands.

    Raises:
        QuantityError: a request or a limit is no quantity.
    """
    return qos_after(pod, {})


def qos_after(pod: Pod, wanted: Mapping[str, WantedResources]) -> QosClass:
    """The class of a pod once its spec says what is ``wanted``, by container name.

    Raises:
        QuantityError: a request or a limit is no quantity.
    """
    changes = [_NOTHING] * len(pod.spec.init_containers or ())
    changes += [wanted.get(container.name, _NOTHING) for container in pod.spec.containers]
    containers = (*(pod.spec.init_containers or ()), *pod.spec.containers)
    specs = (container.resources or ResourceRequirements() for container in containers)
    return qos_class_of(
        [
            (
                {**parse_quantities(spec.requests), **change.requests},
                {**parse_quantities(spec.limits), **change.limits},
            )
            for spec, change in zip(specs, changes, strict=True)
        ]
    )


def _stated(quantities: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {
        name: quantities[name]
        for name in RESOURCES
        if name in quantities and not quantities[name].is_zero
    }
