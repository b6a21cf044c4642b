"""Start-up boosts: more CPU for containers while they start (gate CPUStartupBoost).

Source: admission.md 7; vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch/
resource_updates.go.
"""

import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from common.annotations import OriginalResources
from common.api.autoscaling import ContainerPolicy, GenericStartupBoost, VerticalPodAutoscaler
from common.api.core import NO_RESOURCES, Container, Pod
from common.errors import DecodeError
from common.quantity import ZERO, Quantity
from common.recommendation.decision_trace import ResourceStep
from common.recommendation.limit_scaling import proportional_limit
from common.recommendation.policy import ControlledValues, container_policy, controlled_values
from common.recommendation.scaled_containers import scaled_specs
from common.resources import CPU, ResourceQuantities, one_unit, parse_quantities

PRESENT = "requested by the pod: no request is recommended"
CAPPED = "capped to --max-allowed-cpu-boost"
NO_ROOM = "start-up boost: cut to fit spec.resources of the pod"
BELOW_LIMIT = "start-up boost: kept below the container limit (RequestsOnly)"


class BoostType(enum.StrEnum):
    """The computation of the boosted request: multiply by a factor, or add a quantity."""

    FACTOR = "Factor"
    QUANTITY = "Quantity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Boosted:
    """The resources of a container during its start, and the original ones to restore afterwards.

    ``request_steps`` are those of the CPU request. ``limit_steps`` are those of the CPU limit, none
    if the boost doesn't change it.
    """

    requests: ResourceQuantities
    limits: ResourceQuantities
    original: OriginalResources
    request_steps: tuple[ResourceStep, ...] = ()
    limit_steps: tuple[ResourceStep, ...] = ()


def boosted(
    container: Container,
    vpa: VerticalPodAutoscaler,
    policy: ContainerPolicy | None,
    *,
    requests: ResourceQuantities,
    limits: ResourceQuantities,
    most: Quantity,
    room: Quantity | None = None,
) -> Boosted | None:
    """Return the boosted resources of a container; None without a boost of a known type (A5).

    ``requests`` and ``limits`` are the wanted ones without the boost. ``most`` bounds the boosted
    request unless it is zero; ``room`` bounds it in a pod with pod-level resources. ``policy`` is
    that of the container. Its minAllowed, maxAllowed and controlledResources don't restrict a
    boost.

    Raises:
        DecodeError: the boost lacks its number, or the factor is below one.
        QuantityError: a quantity of the container or of the boost is malformed.
    """
    cpu = _cpu_boost(vpa, policy)
    if cpu is None:
        return None
    own_requests, own_limits = _requests(container), _limits(container)
    base = _first_set(requests.get(CPU), own_requests.get(CPU))
    request = _request(cpu, base)
    steps = [] if CPU in requests else [ResourceStep(CPU, PRESENT, base)]
    steps.append(ResourceStep(CPU, _described(cpu), request))
    if not most.is_zero and request > most:
        request = most
        steps.append(ResourceStep(CPU, CAPPED, request))
    if room is not None and request > room:
        request = room
        steps.append(ResourceStep(CPU, NO_ROOM, request))
    limit_steps: tuple[ResourceStep, ...] = ()
    limit = own_limits.get(CPU, ZERO)
    new_limits: Mapping[str, Quantity] = limits
    if controlled_values(policy) == ControlledValues.REQUESTS_ONLY:
        if not limit.is_zero and request > limit:
            # One unit less than the limit, or the pod's QoS class would change.
            request = _below(limit)
            steps.append(ResourceStep(CPU, BELOW_LIMIT, request))
    else:
        scaled = proportional_limit(
            CPU, request, limit=limit, request=own_requests.get(CPU), default=None
        )
        if scaled.quantity is not None:
            new_limits = {**limits, CPU: scaled.quantity}
            rule = f"start-up boost: {scaled.rule}"
            limit_steps = (ResourceStep(CPU, rule, scaled.quantity),)
    return Boosted(
        requests={**requests, CPU: request},
        limits=new_limits,
        original=OriginalResources(requests=own_requests, limits=own_limits),
        request_steps=tuple(steps),
        limit_steps=limit_steps,
    )


def written_before_boosts(
    pod: Pod,
    bare: Pod,
    vpa: VerticalPodAutoscaler,
    *,
    most: Quantity,
    full: Collection[str] = (),
) -> dict[str, dict[str, Quantity | None]]:
    """Return the requests that an earlier admission wanted without the boost, by container (A23).

    ``bare`` is the pod before its boosts. Memory is the present request, because a boost doesn't
    change it. CPU is the request from which the boost was computed; None if a bound has cut the
    boost, as for the ``full`` containers, which request all the room of pod-level resources.

    Raises:
        DecodeError: the boost lacks its number, or the factor is below one.
        QuantityError: a quantity of a container or of the boost is malformed.
    """
    written: dict[str, dict[str, Quantity | None]] = {}
    for now, before in zip(scaled_specs(pod), scaled_specs(bare), strict=True):
        if now is before:
            continue
        requests: dict[str, Quantity | None] = dict(_requests(now))
        policy = container_policy(vpa, now.name)
        boost, request = _cpu_boost(vpa, policy), requests.get(CPU)
        if boost is not None and request is not None:
            cut = now.name in full or any(
                request >= bound for bound in _bounds(before, policy, most)
            )
            requests[CPU] = None if cut else _base(boost, request)
        written[now.name] = requests
    return written


def _bounds(
    container: Container, policy: ContainerPolicy | None, most: Quantity
) -> Iterator[Quantity]:
    """Yield the bounds of a boosted request."""
    if not most.is_zero:
        yield most
    limit = _limits(container).get(CPU, ZERO)
    if controlled_values(policy) == ControlledValues.REQUESTS_ONLY and not limit.is_zero:
        yield _below(limit)


def _below(limit: Quantity) -> Quantity:
    millicore = one_unit(CPU)
    return limit - millicore if limit > millicore else limit


def _requests(container: Container) -> dict[str, Quantity]:
    return parse_quantities((container.resources or NO_RESOURCES).requests)


def _limits(container: Container) -> dict[str, Quantity]:
    return parse_quantities((container.resources or NO_RESOURCES).limits)


def _cpu_boost(
    vpa: VerticalPodAutoscaler, policy: ContainerPolicy | None
) -> GenericStartupBoost | None:
    """Return the container's own boost, or else the VPA's; None if its type is unknown."""
    own = policy.startup_boost if policy is not None else None
    boost = own if own is not None else vpa.spec.startup_boost
    cpu = boost.cpu if boost is not None else None
    return cpu if cpu is not None and cpu.type in (BoostType.FACTOR, BoostType.QUANTITY) else None


def _request(boost: GenericStartupBoost, base: Quantity) -> Quantity:
    if boost.type == BoostType.FACTOR:
        return Quantity.from_milli(base.milli * _factor(boost))
    return Quantity.from_milli(base.milli + _added(boost))


def _base(boost: GenericStartupBoost, request: Quantity) -> Quantity:
    """Return the request from which a boosted request was computed; the inverse of ``_request``."""
    if boost.type == BoostType.FACTOR:
        return Quantity.from_milli(request.milli // _factor(boost))
    return Quantity.from_milli(request.milli - _added(boost))


def _factor(boost: GenericStartupBoost) -> int:
    if boost.factor is None or boost.factor < 1:
        raise DecodeError(f"startupBoost: a factor of at least 1 is needed: {boost.factor}")
    return boost.factor


def _added(boost: GenericStartupBoost) -> int:
    """Return the added millicores."""
    if boost.quantity is None:
        raise DecodeError("startupBoost: type Quantity needs a quantity")
    return Quantity.from_json(boost.quantity).milli


def _described(boost: GenericStartupBoost) -> str:
    by = f"Factor {boost.factor}" if boost.type == BoostType.FACTOR else f"+ {boost.quantity}"
    return f"start-up boost: {by}"


def _first_set(*quantities: Quantity | None) -> Quantity:
    return next((given for given in quantities if given is not None and not given.is_zero), ZERO)
