"""OOM kills that a recommendation doesn't reflect yet, and the changes that they delay (D36)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from common.api.core import Pod
from common.quantity import Quantity, QuantityError
from common.recommendation.actual_resources import actual_resources
from common.recommendation.container_resources import WantedResources
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_specs, scaled_statuses
from common.resources import MEMORY, ResourceQuantities, parse_quantities
from updater.decision import Decision, Reason, ending, wait
from updater.evaluate.drift import observed_containers
from updater.evaluate.quick_oom_kills import ContainerOomKill, is_oom_kill

_REMEMBERED = timedelta(days=1)
_LEARNING = timedelta(minutes=2)  # the recommender's default interval, twice


@dataclass(frozen=True, slots=True)
class UnlearntOom:
    """The newest OOM kill of a container whose memory target isn't above the amount at the kill."""

    container: str
    lowers: bool  # the target is below the request
    until: datetime  # the end of the delay


def newest_kills(pod: Pod) -> tuple[ContainerOomKill, ...]:
    """Return the last OOM kill with a time of each container."""
    found = {}
    for status in scaled_statuses(pod):
        for state in (status.last_state, status.state):  # in the order in which they happened
            ended = None if state is None else state.terminated
            if ended is not None and is_oom_kill(ended) and ended.finished_at is not None:
                found[status.name] = ContainerOomKill(status.name, ended.finished_at)
    return tuple(found.values())


def amounts_at_kills(
    pod: Pod, known: Mapping[ContainerOomKill, Quantity]
) -> Mapping[ContainerOomKill, Quantity]:
    """Return the memory at which the newest kills happened.

    It is the amount in ``known``, or else the container's present limit, or its request without a
    limit. Kills of containers with neither, or with unreadable quantities, are left out. Callers
    keep the result before a resize changes the amount.
    """
    kills = newest_kills(pod)
    if all(kill in known for kill in kills) and len(kills) == len(known):
        return known
    amounts = {kill: known.get(kill) or _may_use(pod, kill.container) for kill in kills}
    return {kill: amount for kill, amount in amounts.items() if amount is not None}


def unlearnt_ooms(
    containers: Mapping[str, ContainerAmounts],
    *,
    requests: Mapping[str, ResourceQuantities],
    killed_at: Mapping[ContainerOomKill, Quantity],
    now: datetime,
) -> tuple[UnlearntOom, ...]:
    """Return the kills that delay changes of the pod now.

    A kill is learnt once the memory target is above the amount in ``killed_at``. A cap (a
    LimitRange, maxAllowed, or RequestsOnly with the limit) can keep the target below it, so a kill
    counts for a day at most. If the target doesn't lower the request, it counts for two minutes:
    a second eviction would otherwise follow when the target rises.

    ``containers`` are the processed amounts, ``requests`` the pod's present requests.
    """
    found = []
    for kill, amount in killed_at.items():
        amounts = containers.get(kill.container)
        target = None if amounts is None else amounts.target.get(MEMORY)
        if target is None or target > amount:
            continue
        request = requests[kill.container].get(MEMORY)
        lowers = request is not None and target < request
        until = ending(kill.finished_at, _REMEMBERED if lowers else _LEARNING)
        if until is not None and now < until:
            found.append(UnlearntOom(kill.container, lowers, until))
    return tuple(found)


def _may_use(pod: Pod, container: str) -> Quantity | None:
    resources = actual_resources(pod, container)
    if resources is None:
        return None
    try:
        limit = parse_quantities(resources.limits).get(MEMORY)
        return limit or parse_quantities(resources.requests).get(MEMORY)
    except QuantityError:  # a container that the spec lacks may have any report
        return None


def hold_eviction(pod: Pod, unlearnt: Collection[UnlearntOom]) -> Decision | None:
    """Return the wait for OOM kills to be learnt; None: an eviction isn't delayed.

    Only kills of containers that the VPA webhook observes count, because an eviction changes the
    memory of no others.
    """
    if not unlearnt:
        return None
    observed = observed_containers(pod)
    ends = [each.until for each in unlearnt if observed is None or each.container in observed]
    return wait(Reason.OOM_NOT_LEARNT_YET, until=max(ends)) if ends else None


def lowered(unlearnt: Iterable[UnlearntOom]) -> Mapping[str, datetime]:
    """Return the containers whose memory a resize must not lower, with the end of the delay."""
    return {each.container: each.until for each in unlearnt if each.lowers}


def keep_memory(
    pod: Pod, wanted: Iterable[WantedResources], *, of: Collection[str]
) -> tuple[WantedResources, ...]:
    """Return ``wanted`` without the memory of the containers in ``of``."""
    if not of:
        return tuple(wanted)
    return tuple(
        replace(want, requests=_without_memory(want.requests), limits=_without_memory(want.limits))
        if container.name in of
        else want
        for container, want in zip(scaled_specs(pod), wanted, strict=True)
    )


def without_memory(amounts: ContainerAmounts) -> ContainerAmounts:
    """Return the amounts without the memory target."""
    return replace(amounts, target=_without_memory(amounts.target))


def _without_memory(amounts: ResourceQuantities) -> ResourceQuantities:
    return {name: value for name, value in amounts.items() if name != MEMORY}
