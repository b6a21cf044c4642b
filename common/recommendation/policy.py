"""A VPA's resource policy for one container.

Source: recommender.md 1.3; ``GetContainerResourcePolicy``,
vertical-pod-autoscaler/pkg/utils/vpa/api.go.
"""

import enum

from common.api.autoscaling import ContainerPolicy, ResourcePolicy, VerticalPodAutoscaler

EVERY_OTHER = "*"  # container name in the policy for all other containers


class ContainerMode(enum.StrEnum):
    """The scaling mode of a container."""

    AUTO = "Auto"
    OFF = "Off"


class ControlledValues(enum.StrEnum):
    """The values of a container that are scaled."""

    REQUESTS_AND_LIMITS = "RequestsAndLimits"
    REQUESTS_ONLY = "RequestsOnly"


def container_policy(
    source: VerticalPodAutoscaler | ResourcePolicy | None, name: str
) -> ContainerPolicy | None:
    """Return the policy in force for a container.

    The first entry with its name wins; without one the last entry named ``*``; else none.
    """
    policy = source.spec.resource_policy if isinstance(source, VerticalPodAutoscaler) else source
    entries = (policy.container_policies if policy is not None else None) or ()
    wildcard: ContainerPolicy | None = None
    for entry in entries:
        if entry.container_name == name:
            return entry
        if entry.container_name == EVERY_OTHER:
            wildcard = entry
    return wildcard


def is_off(policy: ContainerPolicy | None) -> bool:
    """Return True if the container is not scaled."""
    return policy is not None and policy.mode == ContainerMode.OFF


def controlled_values(policy: ContainerPolicy | None) -> str:
    """Return the controlled values of a policy; the default is requests and limits."""
    if policy is None or policy.controlled_values is None:
        return ControlledValues.REQUESTS_AND_LIMITS
    return policy.controlled_values
