"""The spec that the API server validates after an eviction or a resize."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import (
    NO_RESOURCES,
    Container,
    LimitRangeSpec,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from common.errors import DecodeError
from common.patches import Operation, parse_pointer
from common.quantity import Quantity, QuantityError
from common.recommendation.admitted_resources import admitted_resources
from common.recommendation.container_resources import WantedResources
from common.recommendation.limit_range import LimitType
from common.recommendation.pod_level import PodLevelMode, PodLevelResources
from common.recommendation.scaled_containers import scaled_specs, with_changed_scaled
from common.recommendation.unboosted_pod import before_boost

_Raw = dict[str, Any]


def replacement_spec(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    most_boost: Quantity | None = None,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
) -> PodSpec:
    """Return the spec of the pod that replaces an evicted one.

    The template of the pod is assumed to be its spec before start-up boosts, with the defaults of
    the present LimitRanges. Apply admission's patch to it. ``most_boost`` bounds the CPU of a
    start-up boost. Zero is no bound; None disables boosts (the gate is off). If a boost can't be
    computed, admission doesn't patch the pod. ``pod_level`` is admission's
    ``--pod-level-resources``.

    Raises:
        QuantityError: a quantity in the VPA, the pod or a LimitRange is malformed.
    """
    spec = _defaulted(before_boost(pod).spec, limit_ranges)
    template = replace(pod, spec=spec, status=PodStatus())
    try:
        admitted = admitted_resources(
            template, vpa, limit_ranges, most_boost=most_boost, pod_level=pod_level
        )
    except QuantityError:
        raise
    except DecodeError:
        return spec
    names = (each.name for each in scaled_specs(template))
    changes = dict(zip(names, admitted.containers, strict=True))
    patched = with_changed_scaled(
        template,
        spec=lambda each: _patched(each, changes[each.name]),
        status=lambda each: each,
    )
    whole = patched.spec.resources
    if whole is None or not admitted.pod_level:
        return patched.spec
    return replace(patched.spec, resources=_changed(whole, admitted.pod_level))


def resized_spec(
    spec: PodSpec, operations: Iterable[Operation], limit_ranges: Sequence[LimitRangeSpec]
) -> PodSpec:
    """Return the spec after a patch of the resize subresource.

    The LimitRanger sets its defaults in a resize as in a new pod.
    """
    document = {"spec": msgspec.to_builtins(spec)}
    for operation in operations:
        *parents, last = parse_pointer(operation.path)
        place: Any = document
        for token in parents:
            place = place[int(token) if isinstance(place, list | tuple) else token]
        place[last] = dict(operation.value) if operation.value == {} else operation.value
    return _defaulted(msgspec.convert(document["spec"], PodSpec), limit_ranges)


def _defaulted(spec: PodSpec, limit_ranges: Sequence[LimitRangeSpec]) -> PodSpec:
    """Set the defaults of the API server and of the LimitRanges."""
    limits, requests = _defaults(limit_ranges)
    return replace(
        spec,
        containers=tuple(_filled(each, limits, requests) for each in spec.containers),
        init_containers=tuple(
            _filled(each, limits, requests) for each in spec.init_containers or ()
        ),
    )


def _defaults(limit_ranges: Iterable[LimitRangeSpec]) -> tuple[_Raw, _Raw]:
    """Return the default limits and requests; the first LimitRange that has a default wins."""
    limits: _Raw = {}
    requests: _Raw = {}
    for spec in limit_ranges:
        own_limits: _Raw = {}
        own_requests: _Raw = {}
        for item in spec.limits or ():
            if item.type != LimitType.CONTAINER:
                continue
            own_limits |= item.default or {}
            own_requests |= item.default_request or {}
        limits = own_limits | limits
        requests = own_requests | requests
    return limits, requests


def _filled(container: Container, limits: _Raw, requests: _Raw) -> Container:
    """Set missing limits to the default, and missing requests to the own limit or the default."""
    present = container.resources or NO_RESOURCES
    own = present.limits or {}
    resources = ResourceRequirements(
        requests={**requests, **own, **(present.requests or {})}, limits={**limits, **own}
    )
    return replace(container, resources=resources)


def _patched(container: Container, wanted: WantedResources) -> Container:
    return replace(container, resources=_changed(container.resources or NO_RESOURCES, wanted))


def _changed(
    present: ResourceRequirements, wanted: WantedResources | PodLevelResources
) -> ResourceRequirements:
    return ResourceRequirements(
        requests=dict(present.requests or {}) | _texts(wanted.requests),
        limits=dict(present.limits or {}) | _texts(wanted.limits),
    )


def _texts(amounts: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
