"""Decreases of memory limits in place: the part that live usage allows (X139, X140)."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from common.api.core import Container, Pod
from common.quantity import ZERO, Quantity
from common.recommendation.container_resources import WantedResources
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_specs
from common.resources import MEMORY, ResourceQuantities, memory_quantity, parse_quantities
from updater.decision import Decision, Reason, ending, wait
from updater.evaluate.quick_oom_kills import ContainerOomKill
from updater.evaluate.unlearnt_ooms import keep_memory, without_memory
from updater.resize.limit_decrease import LimitDecrease
from updater.resize.pending_resize import granted_resources, is_pending

WINDOW = timedelta(minutes=15)  # of usage
_MIB = 1 << 20
_AFTER_DECREASE = timedelta(hours=1)  # an OOM kill within it is blamed on the decrease
_FLOOR_LASTS = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDecreaseRules:
    """When a memory limit may go down in place."""

    margin: float = 0.1  # relative to usage: 0.1 is ten percent
    largest_step: float = 0.25  # relative to the present limit
    pause: timedelta = timedelta(minutes=5)  # before each step, in which usage is observed
    stale: timedelta = timedelta(minutes=2)  # age of the newest sample


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The largest memory usage of a container in the running window."""

    most: int  # bytes
    oldest: datetime  # the first sample
    newest: datetime  # the last sample


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStep:
    """The memory that a container gets now.

    ``held`` is the reason that its memory stays; None: it gets ``limit`` and ``request``.
    """

    container: str
    before: Quantity | None  # the present limit
    limit: Quantity | None
    request: Quantity
    is_last: bool = False  # the wanted amounts are reached
    held: Decision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentDecrease:
    """The last decrease of a container's memory limit that the API server accepted."""

    at: datetime
    limit: Quantity  # before
    is_last: bool  # no further step follows


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFloor:
    """The limit below which no pod's container of this name goes in place, after an OOM kill."""

    amount: Quantity
    until: datetime


def limit_decreases(
    pod: Pod, wanted: Iterable[WantedResources], chosen: Collection[str]
) -> tuple[LimitDecrease, ...]:
    """Return the decreases of memory limits in place that a resize to ``wanted`` would bring.

    A limit that is added where there was none is a decrease, too. A container that restarts for a
    change of memory has none: it starts below the new limit. The present limit is the granted one,
    so a pending decrease is judged again in each pass. A decrease that the kubelet is applying is
    none.

    Raises:
        QuantityError: one of the values is no quantity.
    """
    pairs = [
        (container, want)
        for container, want in zip(scaled_specs(pod), wanted, strict=True)
        if container.name in chosen and MEMORY in want.limits and not _restarts(container)
    ]
    if not pairs:
        return ()
    granted, pending = granted_resources(pod), is_pending(pod)
    found = []
    for container, want in pairs:
        limit, new = granted[container.name].limits.get(MEMORY), want.limits[MEMORY]
        resources = container.resources
        spec = parse_quantities(None if resources is None else resources.limits).get(MEMORY)
        if limit is not None and new >= limit:
            continue
        if not pending and spec is not None and new >= spec:
            continue
        request = granted[container.name].requests.get(MEMORY, ZERO)
        found.append(
            LimitDecrease(
                container=container.name,
                limit=limit,
                request=request,
                new_limit=new,
                new_request=want.requests.get(MEMORY, request),
                waits=pending and spec is not None and (limit is None or spec < limit),
            )
        )
    return tuple(found)


def memory_step(
    decrease: LimitDecrease,
    *,
    use: MemoryUse | None,
    floor: MemoryFloor | None,
    last: SentDecrease | None,
    rules: MemoryDecreaseRules,
    now: datetime,
) -> MemoryStep:
    """Return the part of the decrease that is sent now.

    It is sent if the largest usage, plus the margin, is at most the new limit. A decrease by more
    than a quarter of the present limit goes in steps of a quarter, in whole MiB, with a pause after
    each. The request goes as much of the way as the limit. The memory stays as it is if usage is
    unknown, stale or above the next step, or was watched for less than the pause. A ``floor`` after
    an OOM kill ends the way above the wanted limit. A limit that is added has no steps. A step that
    waits for the kubelet needs no pause: it is judged again.

    Source: AEP-4016 and AEP-8818, risks of memory decreases.
    """
    target = decrease.new_limit
    if floor is not None and now < floor.until and target < floor.amount:
        target = floor.amount
        if decrease.limit is not None and target >= decrease.limit:
            detail = (
                f"a container {decrease.container} was OOM-killed within an hour after its memory "
                f"limit went down from {floor.amount}"
            )
            return _hold(
                decrease, wait(Reason.OOM_AFTER_DECREASE, until=floor.until, detail=detail)
            )
    until = None if last is None else ending(last.at, rules.pause)
    if until is not None and now < until and not decrease.waits:
        return _hold(decrease, wait(Reason.MEMORY_DECREASE_PAUSED, until=until))
    if use is None or abs(now - use.newest) > rules.stale:
        return _hold(decrease, wait(Reason.MEMORY_USAGE_UNKNOWN, detail=_unknown(decrease, use)))
    limit = target
    if decrease.limit is not None:
        limit = max(limit, _lowest_step(decrease.limit, rules.largest_step))
    needed = math.ceil(use.most * (1 + rules.margin))
    if needed > limit.value:
        detail = _in_use(decrease, use, needed, limit, rules.margin)
        return _hold(decrease, wait(Reason.MEMORY_IN_USE, detail=detail))
    watched = min(rules.pause, WINDOW)
    if now - use.oldest < watched:
        until = ending(use.oldest, watched)
        return _hold(decrease, wait(Reason.MEMORY_DECREASE_PAUSED, until=until))
    return MemoryStep(
        container=decrease.container,
        before=decrease.limit,
        limit=limit,
        request=_request_of_step(decrease, limit),
        is_last=limit == target,
    )


def _hold(decrease: LimitDecrease, decision: Decision) -> MemoryStep:
    return MemoryStep(
        container=decrease.container,
        before=decrease.limit,
        limit=decrease.limit,
        request=decrease.request,
        held=decision,
    )


def _unknown(decrease: LimitDecrease, use: MemoryUse | None) -> str:
    """Return the numbers of a decrease whose usage is not known."""
    present = "none" if decrease.limit is None else decrease.limit
    text = f"container {decrease.container}: memory limit {present} -> {decrease.new_limit}"
    return text if use is None else f"{text}, last usage at {use.newest:%Y-%m-%dT%H:%M:%SZ}"


def _lowest_step(limit: Quantity, largest_step: float) -> Quantity:
    """Return the limit after the largest step; zero for a limit of a few MiB, which has no step."""
    present = limit.value
    lowest = -(-(present - int(present * largest_step)) // _MIB) * _MIB
    return memory_quantity(lowest) if lowest < present else ZERO


def _in_use(
    decrease: LimitDecrease, use: MemoryUse, needed: int, limit: Quantity, margin: float
) -> str:
    present = "there is none" if decrease.limit is None else f"it is {decrease.limit}"
    return (
        f"container {decrease.container} used {_mib(use.most)}, with a margin of {margin:.0%} "
        f"{_mib(needed)}; the new memory limit would be {limit}, now {present}"
    )


def _mib(count: int) -> str:
    """Return an amount of bytes in whole MiB, rounded up, for a reader."""
    return f"{-(-count // _MIB)}Mi"


def _request_of_step(decrease: LimitDecrease, limit: Quantity) -> Quantity:
    """Return the request that goes as much of the way as the limit, in whole MiB, rounded up."""
    if decrease.limit is None or limit == decrease.new_limit:
        return decrease.new_request
    way = decrease.limit.value - decrease.new_limit.value
    gone = decrease.limit.value - limit.value
    change = decrease.request.value - decrease.new_request.value
    amount = decrease.request.value - change * gone // way
    return min(memory_quantity(-(-amount // _MIB) * _MIB), limit)


def _restarts(container: Container) -> bool:
    return any(
        policy.resource_name == MEMORY and policy.restart_policy == "RestartContainer"
        for policy in container.resize_policy or ()
    )


# The effect of steps on a resize


def with_steps(
    pod: Pod, wanted: Iterable[WantedResources], steps: Sequence[MemoryStep]
) -> tuple[WantedResources, ...]:
    """Return ``wanted`` with the memory of the steps; held memory is left out.

    In a pod with a pending resize it is the granted memory; otherwise the kubelet could still grant
    what the spec asks for.
    """
    held = {each.container for each in steps if each.held is not None}
    left_out = frozenset() if is_pending(pod) else held
    kept = keep_memory(pod, wanted, of=left_out)
    moved = {each.container: each for each in steps if each.container not in left_out}
    if not moved:
        return kept
    return tuple(
        _stepped(want, moved[container.name]) if container.name in moved else want
        for container, want in zip(scaled_specs(pod), kept, strict=True)
    )


def _stepped(want: WantedResources, step: MemoryStep) -> WantedResources:
    requests, limits = dict(want.requests), dict(want.limits)
    if limits.pop(MEMORY, None) is not None and step.limit is not None:
        limits[MEMORY] = step.limit
    if requests.pop(MEMORY, None) is not None and step.request != ZERO:
        requests[MEMORY] = step.request
    return replace(want, requests=requests, limits=limits)


def targets_of_steps(
    pod: Pod, containers: Mapping[str, ContainerAmounts], steps: Sequence[MemoryStep]
) -> Mapping[str, ContainerAmounts]:
    """Return the recommended amounts with the memory of the steps, as ``with_steps`` does."""
    if not steps:
        return containers
    found, pending = dict(containers), is_pending(pod)
    for each in steps:
        amounts = found.get(each.container)
        if amounts is None:
            continue
        if each.request == ZERO or (each.held is not None and not pending):
            found[each.container] = without_memory(amounts)
        elif MEMORY in amounts.target:
            target = {**amounts.target, MEMORY: each.request}
            found[each.container] = replace(amounts, target=target)
    return found


def first_hold(steps: Iterable[MemoryStep]) -> Decision | None:
    """Return the wait of the first held container; None: no memory is held."""
    return next((each.held for each in steps if each.held is not None), None)


def with_reached(
    decreases: Mapping[str, SentDecrease],
    containers: Mapping[str, ContainerAmounts],
    requests: Mapping[str, ResourceQuantities],
) -> Mapping[str, SentDecrease]:
    """Return the decreases; those are the last whose memory target isn't below the request."""
    return {
        name: each
        if each.is_last or _is_lower(containers.get(name), requests.get(name, {}))
        else replace(each, is_last=True)
        for name, each in decreases.items()
    }


def _is_lower(amounts: ContainerAmounts | None, requests: ResourceQuantities) -> bool:
    target = None if amounts is None else amounts.target.get(MEMORY)
    return target is not None and target < requests.get(MEMORY, ZERO)


# OOM kills after decreases


def floors_after(
    decreases: Mapping[str, SentDecrease], kills: Mapping[ContainerOomKill, Quantity]
) -> dict[str, MemoryFloor]:
    """Return the floors, by container, of OOM kills within an hour after a decrease.

    ``kills`` have the memory at each kill. Below the limit before the decrease it shows that the
    kubelet had applied the decrease. Kills have whole seconds.
    """
    found = {}
    for kill, amount in kills.items():
        decrease, killed_at = decreases.get(kill.container), kill.finished_at
        if decrease is None or killed_at is None or amount >= decrease.limit:
            continue
        if decrease.at.replace(microsecond=0) <= killed_at <= decrease.at + _AFTER_DECREASE:
            found[kill.container] = MemoryFloor(
                amount=decrease.limit, until=killed_at + _FLOOR_LASTS
            )
    return found


def merged_floors(
    known: Mapping[str, MemoryFloor], new: Mapping[str, MemoryFloor], *, now: datetime
) -> Mapping[str, MemoryFloor]:
    """Return the floors that still stand; of two for a container the larger values count."""
    found = {name: floor for name, floor in known.items() if now < floor.until}
    for name, floor in new.items():
        before = found.get(name, floor)
        found[name] = MemoryFloor(
            amount=max(floor.amount, before.amount), until=max(floor.until, before.until)
        )
    return found
