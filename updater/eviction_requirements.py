"""A VPA's rules on the direction of change, without which no pod of it is evicted (KEP-4831)."""

import enum
from collections.abc import Mapping, Sequence

from common.api.autoscaling import EvictionRequirement
from common.quantity import ZERO
from common.recommendation.processing import ContainerAmounts
from common.resources import CPU, MEMORY, ResourceQuantities

_NO_REQUESTS: ResourceQuantities = {}


class ChangeRequirement(enum.StrEnum):
    """Which way a target must differ from its request."""

    TARGET_HIGHER_THAN_REQUESTS = "TargetHigherThanRequests"
    TARGET_LOWER_THAN_REQUESTS = "TargetLowerThanRequests"


def requirements_met(
    requirements: Sequence[EvictionRequirement] | None,
    *,
    requests: Mapping[str, ResourceQuantities],
    containers: Mapping[str, ContainerAmounts],
) -> bool:
    """Whether every requirement holds for at least one recommended container.

    ``containers`` are the pod's recommended containers in the order of the spec, whether our
    webhook saw them or not. A requirement holds for a container when any of its resources
    changes the required way. A container without a cpu or a memory request is about to get
    one, so it admits its pod whatever the requirements say. ``requirements`` is None where
    the VPA has no update policy: then there is no rule to meet.

    Differs from the reference, where one single container has to meet all of them (D14).

    Source: updater.md 8; ``scalingDirectionPodEvictionAdmission.Admit``.
    """
    if requirements is None:
        return True
    for name in containers:
        present = requests.get(name, _NO_REQUESTS)
        if CPU not in present or MEMORY not in present:
            return True
    return bool(containers) and all(
        any(
            _holds(requirement, requests[name], amounts.target)
            for name, amounts in containers.items()
        )
        for requirement in requirements
    )


def _holds(
    requirement: EvictionRequirement, requests: ResourceQuantities, target: ResourceQuantities
) -> bool:
    for resource in requirement.resources or ():
        wanted = target.get(resource, ZERO).milli
        present = requests.get(resource, ZERO).milli
        if requirement.change_requirement == ChangeRequirement.TARGET_HIGHER_THAN_REQUESTS:
            if wanted > present:
                return True
        elif requirement.change_requirement == ChangeRequirement.TARGET_LOWER_THAN_REQUESTS:
            if wanted < present:
                return True
        else:
            return False
    return False
