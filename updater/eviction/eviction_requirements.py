"""A VPA's rules on the direction of change, without which no pod of it is evicted (KEP-4831)."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.api.autoscaling import EvictionRequirement, ResourcePolicy
from common.recommendation.policy import container_policy
from common.recommendation.processing import ContainerAmounts
from common.resources import CPU, MEMORY, ResourceQuantities

_NO_REQUESTS: ResourceQuantities = {}
_CONTROLLABLE = (CPU, MEMORY)


class ChangeRequirement(enum.StrEnum):
    """Which way a target must differ from its request."""

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

    ``containers`` are the pod's recommended containers in the order of the spec, whether our
    webhook saw them or not. A requirement holds for a container when any of its resources
    changes the required way. Only resources count that the VPA controls, as ``policy`` says,
    and has a target for (D34). A container without a request for one of them is about to get
    it, so it admits its pod whatever the requirements say. ``requirements`` is None where
    the VPA has no update policy: then there is no rule to meet.

    Differs from the reference, where one single container has to meet all of them (D14).

    Source: updater.md 8; ``scalingDirectionPodEvictionAdmission.Admit``.
    """
    if requirements is None:
        return True
    changes = [
        _Change(requests.get(name, _NO_REQUESTS), _controlled_targets(amounts, policy=policy))
        for name, amounts in containers.items()
    ]
    if any(change.adds_request for change in changes):
        return True
    return bool(changes) and all(
        any(change.meets(requirement) for change in changes) for requirement in requirements
    )


def _controlled_targets(
    amounts: ContainerAmounts, *, policy: ResourcePolicy | None
) -> ResourceQuantities:
    """Return the targets of a container for the resources that the VPA controls.

    The status may hold others until the recommender has read a changed policy.
    """
    mine = container_policy(policy, amounts.name)
    named = None if mine is None else mine.controlled_resources
    controlled = _CONTROLLABLE if named is None else named
    return {name: value for name, value in amounts.target.items() if name in controlled}


@dataclass(frozen=True, slots=True)
class _Change:
    """What an eviction changes about one container; resources without a target stay."""

    requests: ResourceQuantities
    targets: ResourceQuantities

    @property
    def adds_request(self) -> bool:
        return any(resource not in self.requests for resource in self.targets)

    def meets(self, requirement: EvictionRequirement) -> bool:
        """Return whether some resource of the requirement changes the required way."""
        for resource in requirement.resources or ():
            target, request = self.targets.get(resource), self.requests.get(resource)
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
