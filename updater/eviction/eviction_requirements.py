"""The evictionRequirements of a VPA: directions of change that allow an eviction (KEP-4831)."""

import enum
from collections.abc import Mapping, Sequence

from common.api.autoscaling import EvictionRequirement, ResourcePolicy
from common.recommendation.policy import container_policy
from common.recommendation.processing import ContainerAmounts
from common.resources import CPU, MEMORY, ResourceQuantities

_NO_REQUESTS: ResourceQuantities = {}
_CONTROLLABLE = (CPU, MEMORY)


class ChangeRequirement(enum.StrEnum):
    """The direction in which a target must differ from its request."""

    TARGET_HIGHER_THAN_REQUESTS = "TargetHigherThanRequests"
    TARGET_LOWER_THAN_REQUESTS = "TargetLowerThanRequests"


def requirements_met(
    requirements: Sequence[EvictionRequirement] | None,
    *,
    requests: Mapping[str, ResourceQuantities],
    containers: Mapping[str, ContainerAmounts],
    policy: ResourcePolicy | None = None,
) -> bool:
    """Return whether every requirement holds for at least one recommended container.

    A requirement holds for a container if any of its resources changes in the required direction.
    Only resources with a target that the VPA controls by ``policy`` count (D34). A container
    without a request for one of them meets all requirements. ``requirements`` is None for a VPA
    without an update policy: then the result is True.

    Unlike here, one container has to meet all requirements in the reference (D14).

    Source: updater.md 8; ``scalingDirectionPodEvictionAdmission.Admit``.
    """
    if requirements is None:
        return True
    changes = [
        (requests.get(name, _NO_REQUESTS), _controlled_targets(amounts, policy=policy))
        for name, amounts in containers.items()
    ]
    if any(targets.keys() - present.keys() for present, targets in changes):
        return True
    return bool(changes) and all(
        any(_meets(requirement, *change) for change in changes) for requirement in requirements
    )


def _controlled_targets(
    amounts: ContainerAmounts, *, policy: ResourcePolicy | None
) -> ResourceQuantities:
    """Return the targets of a container for the resources that the VPA controls.

    The status may have others until the recommender has read a changed policy.
    """
    mine = container_policy(policy, amounts.name)
    named = None if mine is None else mine.controlled_resources
    controlled = _CONTROLLABLE if named is None else named
    return {name: value for name, value in amounts.target.items() if name in controlled}


def _meets(
    requirement: EvictionRequirement, requests: ResourceQuantities, targets: ResourceQuantities
) -> bool:
    """Return whether a resource of the requirement changes in the required direction."""
    for resource in requirement.resources or ():
        target, request = targets.get(resource), requests.get(resource)
        if target is None or request is None:
            continue
        if requirement.change_requirement == ChangeRequirement.TARGET_HIGHER_THAN_REQUESTS:
            met = target.milli > request.milli
        elif requirement.change_requirement == ChangeRequirement.TARGET_LOWER_THAN_REQUESTS:
            met = target.milli < request.milli
        else:
            return False
        if met:
            return True
    return False
