"""The condition CappedByQuota, with the numbers that lead to it."""

from common.resources import CPU, cpu_quantity
from recommender.estimate.post_processing import humanize
from recommender.estimate.quota_capping import QuotaFinding, WithinQuotas
from recommender.publish.status import ConditionType, LimitFinding, listed

_LOWERED = "TargetsLowered"
_LOWERED_LATER = "TargetsLoweredLater"
_DOES_NOT_FIT = "RolloutDoesNotFit"
_SENTENCES = 4  # one for each resource of a quota; more don't help
_CAPPED = "{names}: targets are lowered so that the pods of a rollout fit. "
_GROWS = "They may grow at {at:%H:%M} UTC, if the room is still there. "
_TOO_MUCH = "The pods of a rollout do not fit, not even with the lowest targets. "
_NOT_YET = (
    "The pods of a rollout do not fit now. The targets stay for a while in case that changes. "
)
_BOUND = (
    "ResourceQuota {quota} allows {hard} of {name}, of which other pods use {others}{rivals}. "
    "{pods} may use {most}, {need}."
)
_PODS = "Each of the {number} pods of a rollout"
_ONE_POD = "The only pod of a rollout"
_RIVALS = " and {number} other {vpas} a share of the rest"
_WANTED = "and the recommendation wants {needed}"
_LEAST = "but it needs at least {lowered}"
_STAYS = "but the target stays at {lowered} until {until:%H:%M} UTC"


def quota_findings(limited: WithinQuotas) -> tuple[LimitFinding, ...]:
    """Return the finding for the condition; none while the pods of a rollout fit all quotas."""
    if not limited.findings:
        return ()
    ordered = sorted(limited.findings, key=lambda each: (each.is_met, each.bound.most))
    unmet = [each for each in ordered if not each.is_met]
    if not unmet:
        reason, first = _LOWERED, _CAPPED.format(names=listed(limited.containers))
        if limited.grows_at is not None:
            first += _GROWS.format(at=limited.grows_at)
    elif all(each.until for each in unmet):
        reason, first = _LOWERED_LATER, _NOT_YET
    else:
        reason, first = _DOES_NOT_FIT, _TOO_MUCH
    message = first + " ".join(map(_sentence, ordered[:_SENTENCES]))
    return (LimitFinding(ConditionType.CAPPED_BY_QUOTA, reason, message),)


def _sentence(finding: QuotaFinding) -> str:
    bound, rivals = finding.bound, ""
    if bound.rivals:
        vpas = "VPA gets" if bound.rivals == 1 else "VPAs get"
        rivals = _RIVALS.format(number=bound.rivals, vpas=vpas)
    hard, others, most, needed, lowered = (
        _text(bound.resource, amount)
        for amount in (bound.hard, bound.others, bound.most, finding.needed, finding.lowered)
    )
    return _BOUND.format(
        quota=bound.quota,
        name=bound.name,
        hard=hard,
        others=others,
        rivals=rivals,
        pods=_ONE_POD if bound.pods == 1 else _PODS.format(number=bound.pods),
        most=most,
        need=_need(finding).format(needed=needed, lowered=lowered, until=finding.until),
    )


def _need(finding: QuotaFinding) -> str:
    if finding.is_met:
        return _WANTED
    return _LEAST if finding.until is None else _STAYS


def _text(resource: str, amount: int) -> str:
    """Return a short quantity: ``1500m``, ``3.50Gi``."""
    return str(cpu_quantity(amount)) if resource == CPU else humanize(amount)
