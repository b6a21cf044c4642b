"""The CPU boost that a container gets while it starts (gate CPUStartupBoost).

Source: admission.md 7; vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch/
resource_updates.go.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from common.annotations import OriginalResources
from common.api.autoscaling import ContainerPolicy, GenericStartupBoost, VerticalPodAutoscaler
from common.api.core import Container
from common.errors import DecodeError
from common.quantity import ZERO, Quantity
from common.recommendation.limit_scaling import proportional_limit
from common.recommendation.policy import ControlledValues, controlled_values
from common.recommendation.trail import Change
from common.resources import CPU, ResourceQuantities, parse_quantities

_MILLI = Quantity.from_milli(1)

PRESENT = "requested by the pod: no request is recommended"
CAPPED = "capped to --max-allowed-cpu-boost"
BELOW_LIMIT = "start-up boost: kept below the container limit (RequestsOnly)"


class BoostType(enum.StrEnum):
    """How the boosted request follows from the ordinary one."""

    FACTOR = "Factor"
    QUANTITY = "Quantity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Boosted:
    """What a container shall have while it starts, and what it shall get back afterwards.

    ``changes`` are the steps of the CPU request; ``limit`` says how the CPU limit follows from it,
    and is empty where the boost leaves the limit alone.
    """

    requests: ResourceQuantities
    limits: ResourceQuantities
    original: OriginalResources
    changes: tuple[Change, ...] = ()
    limit: str = ""


def has_boost(vpa: VerticalPodAutoscaler) -> bool:
    """Whether the VPA asks for a start-up boost at any level; the gate is not consulted."""
    if vpa.spec.startup_boost is not None:
        return True
    policy = vpa.spec.resource_policy
    policies = policy.container_policies if policy is not None else None
    return any(entry.startup_boost is not None for entry in policies or ())


def boosted(
    container: Container,
    vpa: VerticalPodAutoscaler,
    policy: ContainerPolicy | None,
    *,
    requests: ResourceQuantities,
    limits: ResourceQuantities,
    most: Quantity,
) -> Boosted | None:
    """Raise the wanted CPU of a container; None where no boost is asked for.

    ``requests`` and ``limits`` are those wanted without the boost, ``most`` bounds the boosted
    request unless it is zero, and ``policy`` is the one in force for the container; minAllowed,
    maxAllowed and controlledResources don't restrict a boost. A boost of a type that we don't
    know is none (A5).

    Raises:
        DecodeError: the boost lacks its number, or the factor is below one.
        QuantityError: a quantity of the container or of the boost is none.
    """
    cpu = _cpu_boost(vpa, policy)
    if cpu is None or cpu.type not in (BoostType.FACTOR, BoostType.QUANTITY):
        return None
    resources = container.resources
    own_requests = parse_quantities(resources.requests if resources is not None else None)
    own_limits = parse_quantities(resources.limits if resources is not None else None)
    base = _first_set(requests.get(CPU), own_requests.get(CPU))
    request = _request(cpu, base)
    changes = [] if CPU in requests else [Change(CPU, PRESENT, base)]
    changes.append(Change(CPU, _told(cpu), request))
    if not most.is_zero and request > most:
        request = most
        changes.append(Change(CPU, CAPPED, request))
    rule = ""
    limit = own_limits.get(CPU, ZERO)
    new_limits: Mapping[str, Quantity] = limits
    if controlled_values(policy) == ControlledValues.REQUESTS_ONLY:
        if not limit.is_zero and request > limit:
            # One less than the limit, or the pod's QoS class would change.
            request = limit - _MILLI if limit > _MILLI else limit
            changes.append(Change(CPU, BELOW_LIMIT, request))
    else:
        scaled = proportional_limit(
            CPU, request, limit=limit, request=own_requests.get(CPU), default=None
        )
        if scaled.quantity is not None:
            new_limits = {**limits, CPU: scaled.quantity}
            rule = f"start-up boost: {scaled.rule}"
    return Boosted(
        requests={**requests, CPU: request},
        limits=new_limits,
        original=OriginalResources(requests=own_requests, limits=own_limits),
        changes=tuple(changes),
        limit=rule,
    )


def _cpu_boost(
    vpa: VerticalPodAutoscaler, policy: ContainerPolicy | None
) -> GenericStartupBoost | None:
    """The container's own boost, else the VPA's."""
    if policy is not None and policy.startup_boost is not None:
        return policy.startup_boost.cpu
    return vpa.spec.startup_boost.cpu if vpa.spec.startup_boost is not None else None


def _request(boost: GenericStartupBoost, base: Quantity) -> Quantity:
    if boost.type == BoostType.FACTOR:
        if boost.factor is None or boost.factor < 1:
            raise DecodeError(f"startupBoost: a factor of at least 1 is needed: {boost.factor}")
        return Quantity.from_milli(base.milli * boost.factor)
    if boost.quantity is None:
        raise DecodeError("startupBoost: type Quantity needs a quantity")
    return Quantity.from_milli(base.milli + Quantity.from_json(boost.quantity).milli)


def _told(boost: GenericStartupBoost) -> str:
    by = f"Factor {boost.factor}" if boost.type == BoostType.FACTOR else f"+ {boost.quantity}"
    return f"start-up boost: {by}"


def _first_set(*quantities: Quantity | None) -> Quantity:
    return next((given for given in quantities if given is not None and not given.is_zero), ZERO)
