"""The sums of a pod that ResourceQuotas count."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from common.quantity import ZERO
from common.recommendation.pod_amounts import Amounts, Phase, PodAmounts
from common.resources import RESOURCES, ResourceQuantities
from common.scheduling.pod_claims import number
from common.scheduling.pod_sum import PhaseSum, PodSum

REQUESTS = "requests"
LIMITS = "limits"


def pod_sums(
    amounts: PodAmounts,
    scaled: Mapping[str, Collection[str]],
    *,
    overhead: ResourceQuantities,
    fixed_limits: Collection[str] = (),
    template: Mapping[str, Amounts] | None = None,
) -> Mapping[str, PodSum]:
    """Return the sums of a pod by the names that quotas use, such as ``limits.memory``.

    ``scaled`` are the containers with a target, by resource; those in ``fixed_limits`` keep their
    limits. ``template`` are the resources in the workload's pod template, by container: they decide
    the ratio of limit and request, because a new pod starts from them. A pod-level amount replaces
    the sum of the containers, and no target changes it. ``overhead`` counts in requests, and in
    limits if the pod has any.
    """
    names = set[str]().union(*scaled.values())
    phases, stated = amounts.phases(names), template or {}
    found: dict[str, PodSum] = {}
    for resource in RESOURCES:
        mine = frozenset(scaled.get(resource, ()))
        more = number(resource, overhead.get(resource, ZERO))
        for part in (REQUESTS, LIMITS):
            follow = mine if part == REQUESTS else mine.difference(fixed_limits)
            sums = tuple(_phase_sum(each, part, resource, follow, stated) for each in phases)
            if amounts.stanza is not None and resource in _of(amounts.stanza, part):
                sums = (PhaseSum(number(resource, _of(amounts.stanza, part)[resource])),)
            is_limited = any(each.fixed or each.ratios for each in sums)
            if more and (part == REQUESTS or is_limited):
                sums = tuple(replace(each, fixed=each.fixed + more) for each in sums)
            found[f"{part}.{resource}"] = PodSum(sums)
    return found


def _phase_sum(
    phase: Phase,
    part: str,
    resource: str,
    follow: Collection[str],
    stated: Mapping[str, Amounts],
) -> PhaseSum:
    """Return the sum of a phase; the amounts of the containers in ``follow`` follow targets."""
    fixed = number(resource, _of(phase.fixed, part).get(resource, ZERO))
    ratios: dict[str, Fraction] = {}
    present: dict[str, int] = {}
    for name, each in phase.scaled.items():
        ratio = None
        if name in follow:
            sources = (stated.get(name), each)
            ratio = Fraction(1) if part == REQUESTS else limit_ratio(resource, sources)
        now = number(resource, _of(each, part).get(resource, ZERO))
        if ratio is None:
            fixed += now
        else:
            ratios[name], present[name] = ratio, now
    return PhaseSum(fixed, ratios, present)


def limit_ratio(resource: str, sources: Sequence[Amounts | None]) -> Fraction | None:
    """Return the ratio of limit and request in the first source with a limit; None without one.

    A limit without a request follows the recommended request as it is.

    Source: ``common.recommendation.limit_scaling``.
    """
    for source in sources:
        limit = ZERO if source is None else source.limits.get(resource, ZERO)
        if source is None or limit.is_zero:
            continue
        request = source.requests.get(resource, ZERO)
        if request.is_zero:
            return Fraction(1)
        return Fraction(number(resource, limit), number(resource, request))
    return None


def _of(amounts: Amounts, part: str) -> ResourceQuantities:
    return amounts.requests if part == REQUESTS else amounts.limits
