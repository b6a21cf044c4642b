"""From a live pod to a candidate for an update, or to the reason why it is none."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.features import FeatureGates
from common.quantity import Quantity, QuantityError
from common.recommendation.actual import actual_requests
from common.recommendation.changes import ResourceChange, request_changes
from common.recommendation.container_resources import wanted_resources
from common.recommendation.pod_level import PodLevelMode, pod_level_bounds
from common.recommendation.processing import Processed, process
from common.recommendation.unboosted_pod import before_boost
from common.resources import ResourceQuantities
from updater.decision import Decision, Reason, ending, leave
from updater.evaluate.recommendation_fit import Measured, RecommendationFit
from updater.evaluate.unlearnt_ooms import (
    UnlearntOom,
    amounts_at_kills,
    keep_memory,
    lowered,
    unlearnt_ooms,
)
from updater.evaluate.update_order import (
    ContainerOomKill,
    Drift,
    Thresholds,
    Verdict,
    judge,
    needs_memory,
    quick_ooms,
)
from updater.plan.finished_resizes import answered_ooms
from updater.resize.pending_resize import pending_of
from updater.resize.resize_plan import (
    ResizePlan,
    plan_resize,
    unfinished_restarts,
)
from updater.resize.resize_state import ResizeStatus, resize_status
from updater.resize.startup_boost import unboosted, with_earlier_cpu
from updater.state import PodMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pod that is worth an update, with what the next decisions need.

    One that isn't worth an update, but has a pending resize, is ``left`` as it is unless the
    recommendation asks for another size than that resize (X100). It is never evicted.
    """

    pod: Pod
    processed: Processed
    requests: Mapping[str, ResourceQuantities]  # present ones, rounding forgiven
    drift: Drift
    verdict: Verdict
    ooms: tuple[ContainerOomKill, ...]  # quick ones, of containers that need more memory
    unlearnt: tuple[UnlearntOom, ...] = ()
    left: Decision | None = None  # None: it is worth an update

    @property
    def why(self) -> Reason:
        return Reason(self.verdict.value)

    @property
    def changes(self) -> tuple[ResourceChange, ...]:
        """Return how the pod's requests differ from what is recommended."""
        targets = {name: amounts.target for name, amounts in self.processed.containers.items()}
        return request_changes(self.requests, targets)


_LEFT = {verdict: leave(Reason(verdict.value)) for verdict in Verdict if not verdict.wants_update}


def judge_pod(
    pod: Pod,
    fit: RecommendationFit,
    *,
    memory: PodMemory,
    resized_at: datetime | None,
    thresholds: Thresholds,
    features: FeatureGates,
    now: datetime,
) -> Candidate | Decision:
    """Compare the pod with its recommendation and see whether it is worth an update.

    ``resized_at`` is the pod's last resize that we know of. It starts the pod's age anew and
    answers earlier OOM kills (D18, D28), unless it is still going on: then it did not
    succeed yet, and its fallback must not wait for half a day. A quick OOM kill counts where
    the killed container gets more memory (D35).

    Source: updater.md 7.
    """
    drift = fit.drift(pod)
    if isinstance(drift, Decision):
        return drift
    vpa = fit.vpa
    settled = resized_at if resize_status(pod) is ResizeStatus.NONE else None
    ooms = quick_ooms(
        pod,
        vpa,
        threshold=oom_threshold(vpa, thresholds.quick_oom, features),
        updated_at=settled,
        spent=answered_ooms(pod, memory),
    )
    if ooms and drift.resource_diff:
        measured = fit.measured(pod)
        if isinstance(measured, Decision):
            return measured
        amounts, requests = measured.processed.containers, measured.requests
        ooms = tuple(kill for kill in ooms if needs_memory(kill, amounts, requests=requests))
    started_at = _later(pod.status.start_time, settled)
    verdict = judge(
        drift,
        started_at=started_at,
        oomed_quickly=bool(ooms),
        thresholds=thresholds,
        now=now,
    )
    if verdict is Verdict.DRIFTED and drift.resource_diff == 0:
        return _LEFT[Verdict.NO_CHANGE]  # with a threshold of zero the reference evicts it
    if verdict is Verdict.TOO_YOUNG:
        return leave(Reason.TOO_YOUNG, until=ending(started_at, thresholds.min_lifetime))
    if not verdict.wants_update:
        return _LEFT[verdict]
    measured = fit.measured(pod)
    if isinstance(measured, Decision):
        return measured
    return Candidate(
        pod=pod,
        processed=measured.processed,
        requests=measured.requests,
        drift=measured.drift,
        verdict=verdict,
        ooms=ooms,
        unlearnt=_unlearnt(measured, pod, memory, now),
    )


def _unlearnt(
    measured: Measured, pod: Pod, memory: PodMemory, now: datetime
) -> tuple[UnlearntOom, ...]:
    return unlearnt_ooms(
        measured.processed.containers,
        requests=measured.requests,
        killed_at=amounts_at_kills(pod, memory.killed_at),
        now=now,
    )


def note_kills(memory: PodMemory, pod: Pod) -> PodMemory:
    """Remember at how much memory a candidate's containers were killed, whatever they get."""
    killed_at = amounts_at_kills(pod, memory.killed_at)
    return memory if killed_at == memory.killed_at else replace(memory, killed_at=killed_at)


def pending_candidate(
    pod: Pod, fit: RecommendationFit, decision: Decision, *, memory: PodMemory, now: datetime
) -> Candidate | None:
    """Return a pod with a pending resize as a candidate, though it needs nothing (X100).

    ``decision`` is why it needs nothing. None: its recommended containers request what they have.
    """
    if not decision.needs_nothing:
        return None
    measured = fit.measured(pod)
    if isinstance(measured, Decision) or not pending_of(pod, measured.processed.containers):
        return None
    return Candidate(
        pod=pod,
        processed=measured.processed,
        requests=measured.requests,
        drift=measured.drift,
        verdict=Verdict(decision.reason.value),
        ooms=(),
        unlearnt=_unlearnt(measured, pod, memory, now),
        left=decision,
    )


def oom_threshold(
    vpa: VerticalPodAutoscaler, default: timedelta, features: FeatureGates
) -> timedelta:
    """Up to which age an OOM kill is quick; the VPA's own value needs the PerVPAConfig gate."""
    policy = vpa.spec.update_policy
    if features.per_vpa_config and policy is not None and policy.evict_after_oom_seconds:
        return timedelta(seconds=policy.evict_after_oom_seconds)
    return default


def _later(start: datetime | None, resized: datetime | None) -> datetime | None:
    if start is None or resized is None:
        return start
    return max(start, resized)


def note_resizing(memory: PodMemory, status: ResizeStatus, *, now: datetime) -> PodMemory:
    """Remember since when we see a pod resizing; forget it once it has stopped."""
    if status is ResizeStatus.NONE:
        return memory if memory.resizing_seen_at is None else replace(memory, resizing_seen_at=None)
    return memory if memory.resizing_seen_at is not None else replace(memory, resizing_seen_at=now)


def is_out(pod: Pod, memory: PodMemory, *, now: datetime) -> bool:
    """Return whether an unfinished resize restarts the pod's containers (D32).

    A pod whose quantities can't be read counts as out, too, and so does one that a call without
    an answer may still take down (X8): the budget is a promise.
    """
    if memory.unanswered_until is not None and now < memory.unanswered_until:
        return True
    if memory.sent is not None and memory.sent.restarts and not memory.shows(pod):
        return True
    status = resize_status(pod)
    if status is ResizeStatus.INFEASIBLE:
        return False  # the kubelet has dropped it: nothing is going to restart
    try:
        return unfinished_restarts(pod, resizing=status is not ResizeStatus.NONE)
    except QuantityError:
        return True


def plan_unboost(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    mode: UpdateMode,
    expired: Collection[str],
    killed_at: Mapping[ContainerOomKill, Quantity],
    now: datetime,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
) -> tuple[ResizePlan, tuple[str, ...]] | Decision:
    """Return the resize that ends the ``expired`` boosts, and the annotations to remove.

    What is recommended is fitted to the pod as it will be without them, as admission did: under
    a LimitRange for pods the boost of one container would count against the others (A21).
    A container whose OOM kill isn't learnt yet keeps its memory (D36).
    """
    try:
        bare = before_boost(pod, expired)
        bounds = pod_level_bounds(pod, pod_level, limit_ranges, bare=bare)
        processed = None
        if mode is not UpdateMode.OFF:
            processed = process(bare, vpa, limit_ranges, bounds=bounds)
        recommended = wanted_resources(bare, vpa, processed, limit_ranges)
        recommended = with_earlier_cpu(bare, recommended, expired=expired)
        ended = unboosted(pod, recommended, expired=expired)
        if ended is None:
            return leave(Reason.UNREADABLE)
        wanted = ended.wanted
        if processed is not None:
            amounts = processed.containers
            requests = {name: actual_requests(pod, name) for name in amounts}
            known = amounts_at_kills(pod, killed_at)
            kills = unlearnt_ooms(amounts, requests=requests, killed_at=known, now=now)
            wanted = keep_memory(pod, wanted, of=lowered(kills))
        plan = plan_resize(pod, wanted, ended.containers, containers={}, bounds=bounds)
    except QuantityError:
        return leave(Reason.UNREADABLE)
    return plan, ended.annotations
