"""Whether a namespace's LimitRanges would refuse the pod that takes an evicted one's place.

An eviction that no replacement can follow takes a replica away for nothing. The judgement
is that of the API server's LimitRanger, in its arithmetic.

Source: updater.md 13; k8s.io/kubernetes plugin/pkg/admission/limitranger/admission.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.base import QuantityJson
from common.api.core import (
    Container,
    LimitRangeItem,
    LimitRangeSpec,
    Pod,
    PodStatus,
    ResourceRequirements,
)
from common.errors import DecodeError
from common.quantity import MAX_INT64, Quantity
from common.recommendation.boosts import before_boost
from common.recommendation.container_resources import WantedResources, wanted_resources
from common.recommendation.limit_range import LimitType
from common.recommendation.policy import container_policy, is_off
from common.recommendation.processing import process
from common.recommendation.scaled_containers import scaled_specs
from common.recommendation.startup_boost import boosted
from common.resources import RESOURCES, ResourceQuantities, in_order, parse_quantities

_ALWAYS = "Always"
_MAX_MILLI = MAX_INT64 // 1000  # the largest amount whose thousandths fit an int64
_NOTHING = WantedResources()

_RawAmounts = Mapping[str, QuantityJson]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a container, or the pod as a whole, asks for."""

    who: str = "the pod"
    requests: dict[str, Quantity] = field(default_factory=dict)
    limits: dict[str, Quantity] = field(default_factory=dict)
    sidecar: bool = False  # an init container that stays

    def add(self, other: "_Asked") -> None:
        _add(self.requests, other.requests)
        _add(self.limits, other.limits)

    def raise_to(self, other: "_Asked") -> None:
        _raise_to(self.requests, other.requests)
        _raise_to(self.limits, other.limits)


def refusal(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    most_boost: Quantity | None = None,
) -> str:
    """Why a replacement of the pod would be refused, as one sentence; empty if it wouldn't be.

    ``limit_ranges`` are all of the pod's namespace; without any the answer costs nothing. The
    pod's template isn't known: it is taken to be the pod's spec as it was before start-up boosts,
    with the defaults of today's LimitRanges. Admission patches that, and then every Container
    and Pod item has its say: min, max and maxLimitRequestRatio, of init containers too. So has
    the rule that no request may be above its limit, which a default can break. That the pod
    that runs breaks the same bound changes nothing: it was there first, its replacement wasn't.

    ``most_boost`` bounds the CPU of a start-up boost as admission does, zero is no bound, and None
    says that admission boosts nobody: the gate is off. A boost that admission can't compute makes
    it leave the whole pod alone. Quotas aren't judged: what comes of those is seen afterwards.

    Raises:
        QuantityError: a quantity in the VPA, the pod or a LimitRange is none.
    """
    if not any(spec.limits for spec in limit_ranges):
        return ""
    template = _template(before_boost(pod), limit_ranges)
    processed = process(template, vpa, limit_ranges)
    wanted = wanted_resources(template, vpa, processed, limit_ranges)
    if most_boost is not None:
        wanted = _boosted(template, vpa, wanted, most=most_boost)
    containers = [
        _asked(container, wanted=change)
        for container, change in zip(template.spec.containers, wanted, strict=True)
    ]
    init_containers = [_asked(each, init=True) for each in template.spec.init_containers or ()]
    items = [item for spec in limit_ranges for item in spec.limits or ()]
    whole = _whole_pod(containers, init_containers, template.spec.resources)
    return next(_problems(items, (*containers, *init_containers), whole), "")


# What the replacement asks for


def _template(pod: Pod, limit_ranges: Sequence[LimitRangeSpec]) -> Pod:
    """The pod as it comes to admission: defaults filled in, and nothing running yet."""
    limits, requests = _defaults(limit_ranges)
    spec = replace(
        pod.spec,
        containers=tuple(_filled(each, limits, requests) for each in pod.spec.containers),
        init_containers=tuple(
            _filled(each, limits, requests) for each in pod.spec.init_containers or ()
        ),
    )
    return replace(pod, spec=spec, status=PodStatus())


def _defaults(limit_ranges: Iterable[LimitRangeSpec]) -> tuple[_RawAmounts, _RawAmounts]:
    """Default limits and requests; the first LimitRange that has one fills it in."""
    limits: dict[str, QuantityJson] = {}
    requests: dict[str, QuantityJson] = {}
    for spec in limit_ranges:
        items = [item for item in spec.limits or () if item.type == LimitType.CONTAINER]
        own_limits: dict[str, QuantityJson] = {}
        own_requests: dict[str, QuantityJson] = {}
        for item in items:
            own_limits |= item.default or {}
            own_requests |= item.default_request or {}
        limits = own_limits | limits
        requests = own_requests | requests
    return limits, requests


def _filled(container: Container, limits: _RawAmounts, requests: _RawAmounts) -> Container:
    """A limit is the request where there is none; only then come a LimitRange's defaults."""
    there = container.resources or ResourceRequirements()
    own = there.limits or {}
    resources = ResourceRequirements(
        requests={**requests, **own, **(there.requests or {})}, limits={**limits, **own}
    )
    return replace(container, resources=resources)


def _asked(
    container: Container, *, wanted: WantedResources = _NOTHING, init: bool = False
) -> _Asked:
    resources = container.resources or ResourceRequirements()
    limits = parse_quantities(resources.limits) | dict(wanted.limits)
    requests = limits | parse_quantities(resources.requests) | dict(wanted.requests)
    return _Asked(
        who=f"{'init container' if init else 'container'} {container.name}",
        requests=requests,
        limits=limits,
        sidecar=init and container.restart_policy == _ALWAYS,
    )


def _boosted(
    template: Pod,
    vpa: VerticalPodAutoscaler,
    wanted: Sequence[WantedResources],
    *,
    most: Quantity,
) -> tuple[WantedResources, ...]:
    """What admission asks for while the containers start."""
    found = []
    try:
        for container, want in zip(scaled_specs(template), wanted, strict=True):
            policy = container_policy(vpa, container.name)
            boost = None
            if not is_off(policy):
                boost = boosted(
                    container,
                    vpa,
                    policy,
                    requests=want.requests,
                    limits=want.limits,
                    most=most,
                )
            found.append(
                want
                if boost is None
                else WantedResources(requests=boost.requests, limits=boost.limits)
            )
    except DecodeError:
        return (_NOTHING,) * len(wanted)
    return tuple(found)


def _whole_pod(
    containers: Iterable[_Asked],
    init_containers: Iterable[_Asked],
    stated: ResourceRequirements | None,
) -> _Asked:
    """Containers and sidecars together, or more where the start needs more.

    What is stated for the pod as a whole counts instead. Overhead doesn't count here.

    Source: ``podRequests`` and ``podLimits`` of the LimitRanger.
    """
    total, starting, sidecars = _Asked(), _Asked(), _Asked()
    for container in containers:
        total.add(container)
    for container in init_containers:
        step = _Asked()
        step.add(sidecars)
        step.add(container)
        if container.sidecar:
            total.add(container)
            sidecars.add(container)
        starting.raise_to(step)
    total.raise_to(starting)
    if stated is not None:
        total.requests.update(_compute(stated.requests))
        total.limits.update(_compute(stated.limits))
    return total


def _compute(raw: _RawAmounts | None) -> dict[str, Quantity]:
    return {name: amount for name, amount in parse_quantities(raw).items() if name in RESOURCES}


def _add(total: dict[str, Quantity], more: ResourceQuantities) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: dict[str, Quantity], least: ResourceQuantities) -> None:
    for name, amount in least.items():
        total[name] = max(total[name], amount) if name in total else amount


# What is wrong with it


def _problems(
    items: Iterable[LimitRangeItem], containers: Sequence[_Asked], whole: _Asked
) -> Iterator[str]:
    for asked in containers:
        yield from _above_limit(asked)
    for item in items:
        if item.type == LimitType.CONTAINER:
            for asked in containers:
                yield from _broken(item, asked)
        elif item.type == LimitType.POD:
            yield from _broken(item, whole)


def _above_limit(asked: _Asked) -> Iterator[str]:
    for name in in_order(asked.limits):
        request, limit = asked.requests[name], asked.limits[name]
        if request > limit:
            yield f"{_said(asked, name, 'request', request)}, above the limit of {limit}"


def _broken(item: LimitRangeItem, asked: _Asked) -> Iterator[str]:
    """Each bound of an item that is broken; a missing amount breaks the bound on it."""
    judges = (
        ("min", item.min, _below),
        ("max", item.max, _above),
        ("maxLimitRequestRatio", item.max_limit_request_ratio, _too_far_apart),
    )
    for part, raw, judge in judges:
        for name, bound in _bounds(raw):
            problem = judge(asked, name, bound)
            if problem:
                yield f"{problem}, and the LimitRange's {part} for a {item.type} is {bound}"


def _below(asked: _Asked, name: str, least: Quantity) -> str:
    request, limit = asked.requests.get(name), asked.limits.get(name)
    if request is None or request < least:
        return _said(asked, name, "request", request)
    return _said(asked, name, "limit", limit) if limit is not None and limit < least else ""


def _above(asked: _Asked, name: str, most: Quantity) -> str:
    request, limit = asked.requests.get(name), asked.limits.get(name)
    if limit is None or limit > most:
        return _said(asked, name, "limit", limit)
    return _said(asked, name, "request", request) if request is not None and request > most else ""


def _too_far_apart(asked: _Asked, name: str, most: Quantity) -> str:
    request, limit = asked.requests.get(name), asked.limits.get(name)
    if request is None or request.is_zero:
        return _said(asked, name, "request", request)
    if limit is None or limit.is_zero:
        return _said(asked, name, "limit", limit)
    if _ratio_breaks(request, limit, most):
        return f"{_said(asked, name, 'request', request)}, its limit {limit}"
    return ""


def _said(asked: _Asked, name: str, part: str, amount: Quantity | None) -> str:
    if amount is None:
        return f"{asked.who} would have no {name} {part}"
    return f"the {name} {part} of {asked.who} would be {amount}"


def _bounds(raw: _RawAmounts | None) -> list[tuple[str, Quantity]]:
    bounds = parse_quantities(raw)
    return [(name, bounds[name]) for name in in_order(bounds)]


def _ratio_breaks(request: Quantity, limit: Quantity, most: Quantity) -> bool:
    """In floating point, as the API server divides: at the very edge its rounding decides."""
    in_milli = all(one.value <= _MAX_MILLI for one in (request, limit, most))
    ratio = limit.milli / request.milli if in_milli else limit.value / request.value
    return ratio * 1000 > most.milli
