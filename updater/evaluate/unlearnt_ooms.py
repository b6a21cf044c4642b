"""OOM kills that a recommendation doesn't reflect yet, and what they hold back (D36)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from common.api.core import Pod
from common.quantity import Quantity, QuantityError
from common.recommendation.actual import actual_resources
from common.recommendation.container_resources import WantedResources
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_specs, scaled_statuses
from common.resources import MEMORY, ResourceQuantities, parse_quantities
from updater.decision import Decision, Reason, ending, wait
from updater.evaluate.update_order import ContainerOomKill, is_oom_kill, observed_containers

_REMEMBERED = timedelta(days=1)
_LEARNING = timedelta(minutes=2)  # the recommender's default interval, twice


@dataclass(frozen=True, slots=True)
class UnlearntOom:
    """The newest OOM kill of a container whose memory target isn't above what killed it."""

    container: str
    lowers: bool  # the target is below the request
    until: datetime  # from then on the kill holds nothing back


def newest_kills(pod: Pod) -> tuple[ContainerOomKill, ...]:
    """Return the last dated OOM kill of each container that has one."""
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
    """Return the memory at which the newest kills happened, by what is known or what there is now.

    The amount is the container's limit, or its request where it has no limit. To be remembered
    from the first pass that could change it; a container with neither has no amount, nor has one
    whose request or limit is no quantity.
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
    """Return the kills that hold back changes of the pod now.

    A kill is learnt once the memory target is above the amount at which it happened, which
    ``killed_at`` says. A cap (a LimitRange, maxAllowed, or RequestsOnly with the limit) can keep
    the target below that amount, so no kill counts for longer than a day. One whose container
    keeps or gains memory counts for two minutes: an eviction would otherwise be followed by a
    second one when the target moves.

    ``containers`` and ``requests`` are processed targets and present requests.
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
    """Return the wait of a pod for which a replacement would come too early, if it has to wait.

    An eviction changes the memory of containers that our webhook has seen, and of no others.
    """
    if not unlearnt:
        return None
    observed = observed_containers(pod)
    ends = [each.until for each in unlearnt if observed is None or each.container in observed]
    return wait(Reason.OOM_NOT_LEARNT_YET, until=max(ends)) if ends else None


def lowered(unlearnt: Iterable[UnlearntOom]) -> Mapping[str, datetime]:
    """Return the containers whose memory a resize leaves as it is, and until when."""
    return {each.container: each.until for each in unlearnt if each.lowers}


def keep_memory(
    pod: Pod, wanted: Iterable[WantedResources], *, of: Collection[str]
) -> tuple[WantedResources, ...]:
    """Return what is wanted for the scaled containers, without the memory of some."""
    if not of:
        return tuple(wanted)
    return tuple(
        replace(want, requests=_without_memory(want.requests), limits=_without_memory(want.limits))
        if container.name in of
        else want
        for container, want in zip(scaled_specs(pod), wanted, strict=True)
    )


def without_memory(amounts: ContainerAmounts) -> ContainerAmounts:
    """Return the amounts of a container whose memory stays as it is."""
    return replace(amounts, target=_without_memory(amounts.target))


def _without_memory(amounts: ResourceQuantities) -> ResourceQuantities:
    return {name: value for name, value in amounts.items() if name != MEMORY}
