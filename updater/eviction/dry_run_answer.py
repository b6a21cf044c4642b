"""Decisions from the API server's answer to a dry run of a replacement (X112)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.api.autoscaling import RecommendedPodResources, ResourcePolicy, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod, ResourceRequirements
from common.errors import (
    ConflictError,
    DecodeError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from common.quantity import QuantityError
from common.recommendation.pod_level import PodLevelMode
from common.recommendation.quota import exceeds_without, freed_by
from common.recommendation.scaled_containers import scaled_specs
from updater.decision import Decision, Reason, pause_after, wait
from updater.eviction.replacement_result import ReplacementResult, check_replacement

_NO_RESULT = (
    DecodeError,
    ConflictError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunRefusal:
    """A replacement that was refused in a dry run.

    Policies and quotas may change at any time, so the dry run is repeated at ``until``.
    """

    decision: Decision
    generation: int  # of the controller, whose spec holds the template
    recommendation: RecommendedPodResources | None
    policy: ResourcePolicy | None
    tries: int
    until: datetime

    def stands(self, vpa: VerticalPodAutoscaler, *, now: datetime, generation: int | None) -> bool:
        """Return whether the dry run need not be repeated yet.

        It is repeated at ``until``, or after a change of the controller's generation, the
        recommendation or the resource policy. ``generation`` None counts as unchanged.
        """
        return (
            now < self.until
            and generation in (None, self.generation)
            and vpa.status.recommendation == self.recommendation
            and vpa.spec.resource_policy == self.policy
        )


def refusal_after(
    decision: Decision,
    vpa: VerticalPodAutoscaler,
    *,
    before: DryRunRefusal | None,
    generation: int,
    interval: timedelta,
    now: datetime,
) -> DryRunRefusal:
    """Return a new refusal; the pause doubles with each one in a row."""
    tries = 1 if before is None else before.tries + 1
    until = now + pause_after(tries, interval=interval)
    return DryRunRefusal(
        decision=wait(decision.reason, until=until, detail=decision.detail),
        generation=generation,
        recommendation=vpa.status.recommendation,
        policy=vpa.spec.resource_policy,
        tries=tries,
        until=until,
    )


def after_error(pod: Pod, error: KubeError | DecodeError) -> Decision | None:
    """Return the wait of ``pod`` after a failed dry run; None: it may be evicted.

    A quota counts ``pod`` beside its replacement. Quotas are the last check of the API server, so
    a replacement that fits without ``pod`` passed all others.
    """
    if isinstance(error, _NO_RESULT):
        return wait(Reason.EVICTION_FAILED, detail=f"the dry run had no result: {error}")
    if isinstance(error, ForbiddenError) and "exceeded quota" in str(error):
        try:
            if not exceeds_without(str(error), freed_by(pod)):
                return None
        except QuantityError:
            pass  # the refusal counts
    return wait(Reason.REPLACEMENT_WOULD_BE_REFUSED, detail=str(error))


def after_answer(
    created: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
) -> Decision | None:
    """Return the wait for a replacement like ``created``; None: pods may be evicted."""
    found = check_replacement(created, vpa, limit_ranges, pod_level=pod_level)
    if not found.is_miss:
        return None
    return wait(Reason.REPLACEMENT_LACKS_RECOMMENDATION, detail=_lacking(created, found))


def _lacking(created: Pod, found: ReplacementResult) -> str:
    """Return ``the VPA webhook would not patch it; app would request cpu 100m and memory 50Mi``."""
    cause = (
        "the VPA webhook would not patch it"
        if found is ReplacementResult.UNPATCHED
        else "its requests would not be those recommended"
    )
    stated = ", ".join(
        f"{each.name} would request {_listed(each.resources)}" for each in scaled_specs(created)
    )
    return f"{cause}; {stated}"


def _listed(resources: ResourceRequirements | None) -> str:
    requests = {} if resources is None else resources.requests or {}
    return " and ".join(f"{name} {amount}" for name, amount in requests.items()) or "nothing"
