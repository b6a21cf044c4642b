"""Judges whether a live pod is a candidate for an update."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.features import FeatureGates
from common.quantity import Quantity, QuantityError
from common.recommendation.actual_resources import actual_requests
from common.recommendation.container_resources import wanted_resources
from common.recommendation.pod_level import PodLevelMode, pod_level_bounds
from common.recommendation.processing import Processed, process
from common.recommendation.resource_changes import ResourceChange, request_changes
from common.recommendation.scaled_containers import scaled_specs
from common.recommendation.unboosted_pod import before_boost
from common.resources import ResourceQuantities
from updater.decision import Decision, Reason, ending, leave
from updater.evaluate.drift import Drift, eligible_containers, measure
from updater.evaluate.quick_oom_kills import ContainerOomKill, needs_memory, quick_ooms
from updater.evaluate.recommendation_fit import Measured, RecommendationFit
from updater.evaluate.unlearnt_ooms import (
    UnlearntOom,
    amounts_at_kills,
    keep_memory,
    lowered,
    unlearnt_ooms,
    without_memory,
)
from updater.evaluate.update_verdict import WANTS_UPDATE, Thresholds, judge
from updater.plan.finished_resizes import answered_ooms
from updater.resize.memory_decrease import MemoryStep, limit_decreases
from updater.resize.pending_resize import pending_of
from updater.resize.resize_plan import ResizePlan, plan_resize, unfinished_restarts
from updater.resize.resize_status import ResizeStatus, resize_status
from updater.resize.startup_boost_end import unboosted, with_earlier_cpu
from updater.state import PodMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pod that needs an update, with the inputs of the next decisions.

    A pod that needs none, but has a pending resize, has the decision ``left``. It changes only if
    the recommendation differs from that resize (X100), and is never evicted.
    """

    pod: Pod
    processed: Processed
    requests: Mapping[str, ResourceQuantities]  # those of the pod, rounding forgiven
    drift: Drift
    why: Reason
    ooms: tuple[ContainerOomKill, ...]  # quick ones, of containers that need more memory
    unlearnt: tuple[UnlearntOom, ...] = ()
    left: Decision | None = None  # None: the pod needs an update
    only: frozenset[str] | None = None  # containers that change; None: by the reason
    memory_steps: tuple[MemoryStep, ...] = ()  # of containers whose memory limit goes down in place

    @property
    def changes(self) -> tuple[ResourceChange, ...]:
        """Return the differences of the pod's requests from the targets."""
        targets = {name: amounts.target for name, amounts in self.processed.containers.items()}
        return request_changes(self.requests, targets)


def judge_pod(
    pod: Pod,
    fit: RecommendationFit,
    *,
    memory: PodMemory,
    resized_at: datetime | None,
    thresholds: Thresholds,
    features: FeatureGates,
    pending: bool = False,
    lowering: Collection[str] = (),
    unfinished: frozenset[str] = frozenset(),
    held: Collection[str] = (),
    now: datetime,
) -> Candidate | Decision:
    """Return the pod as a candidate, or the decision that it needs no update.

    ``resized_at`` is the pod's last known resize. It restarts the pod's age and answers earlier
    OOM kills (D18, D28), unless it is unfinished; otherwise an eviction instead of it could be
    delayed by the minimum lifetime. A quick OOM kill counts if the killed container gets more
    memory (D35). ``pending``: the pod has a pending resize that may be replaced; with one of a
    recommended container it is a candidate even if it needs no update (X100), and so it is with a
    failed decrease of the memory limit of a container in ``lowering`` (X139). ``unfinished`` are
    containers that got a step of a resize: they need the rest although the pod is young (X138,
    X139). ``held`` are containers whose memory stays for now; it counts as no difference.

    Source: updater.md 7.
    """
    measured = fit.measured(pod)
    if isinstance(measured, Decision):
        return measured
    drift, vpa = measured.drift, fit.vpa
    if held:
        drift = _drift_without_memory(pod, measured, of=held)
    finished = resized_at if resize_status(pod) is ResizeStatus.NONE else None
    ooms = quick_ooms(
        pod,
        vpa,
        threshold=oom_threshold(vpa, thresholds.quick_oom, features),
        updated_at=finished,
        spent=answered_ooms(pod, memory),
    )
    if ooms and drift.resource_diff:
        amounts, requests = measured.processed.containers, measured.requests
        ooms = tuple(kill for kill in ooms if needs_memory(kill, amounts, requests=requests))
    started_at = pod.status.start_time
    if started_at is not None and finished is not None:
        started_at = max(started_at, finished)
    why = judge(
        drift,
        started_at=started_at,
        oomed_quickly=bool(ooms),
        thresholds=thresholds,
        now=now,
    )
    if why is Reason.DRIFTED and drift.resource_diff == 0:
        why = Reason.NO_CHANGE  # the reference evicts it if the threshold is zero
    only = unfinished.intersection(measured.processed.containers)
    if why is Reason.TOO_YOUNG and only and drift.resource_diff >= thresholds.min_change:
        why = Reason.DRIFTED
    else:
        only = frozenset()
    left = None
    if why not in WANTS_UPDATE:
        until = ending(started_at, thresholds.min_lifetime) if why is Reason.TOO_YOUNG else None
        left = leave(why, until=until)
        names = measured.processed.containers
        if names.keys().isdisjoint(lowering) and not (pending and pending_of(pod, names)):
            return left
    return Candidate(
        pod=pod,
        processed=measured.processed,
        requests=measured.requests,
        drift=drift,
        why=why,
        ooms=ooms if left is None else (),
        unlearnt=unlearnt_ooms(
            measured.processed.containers,
            requests=measured.requests,
            killed_at=amounts_at_kills(pod, memory.killed_at),
            now=now,
        ),
        left=left,
        only=only or None,
    )


def _drift_without_memory(pod: Pod, measured: Measured, *, of: Collection[str]) -> Drift:
    containers = {
        name: without_memory(amounts) if name in of else amounts
        for name, amounts in measured.processed.containers.items()
    }
    return measure(measured.requests, eligible_containers(pod, containers))


def note_kills(memory: PodMemory, pod: Pod) -> PodMemory:
    """Return the memory of a candidate with the amounts at its OOM kills."""
    killed_at = amounts_at_kills(pod, memory.killed_at)
    return memory if killed_at == memory.killed_at else replace(memory, killed_at=killed_at)


def oom_threshold(
    vpa: VerticalPodAutoscaler, default: timedelta, features: FeatureGates
) -> timedelta:
    """Return the age below which an OOM kill is quick; a VPA's own value needs PerVPAConfig."""
    policy = vpa.spec.update_policy
    if features.per_vpa_config and policy is not None and policy.evict_after_oom_seconds:
        return timedelta(seconds=policy.evict_after_oom_seconds)
    return default


def note_resizing(memory: PodMemory, status: ResizeStatus, *, now: datetime) -> PodMemory:
    """Return the memory of a pod with the first observation of its unfinished resize, if any."""
    if status is ResizeStatus.NONE:
        return memory if memory.resizing_seen_at is None else replace(memory, resizing_seen_at=None)
    return memory if memory.resizing_seen_at is not None else replace(memory, resizing_seen_at=now)


def is_out(pod: Pod, memory: PodMemory, *, now: datetime) -> bool:
    """Return whether the pod is out of service for the budget (D32).

    It is if an unfinished resize restarts containers, if a call without an answer may still be
    carried out (X8), or if its quantities can't be read.
    """
    if memory.unanswered_until is not None and now < memory.unanswered_until:
        return True
    if memory.sent is not None and memory.sent.restarts and not memory.shows(pod):
        return True
    status = resize_status(pod)
    if status is ResizeStatus.INFEASIBLE:
        return False  # the kubelet ignores it
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
) -> ResizePlan | Decision:
    """Return the resize that ends the ``expired`` boosts.

    The recommendation is fitted to the pod without these boosts, as in admission: under a
    LimitRange for pods a boost would reduce the other containers (A21). A container whose OOM kill
    isn't learnt yet keeps its memory (D36). Memory limits don't go down without a restart; a later
    pass decides on that by live usage (X139).
    """
    try:
        bare = before_boost(pod, expired)
        bounds = pod_level_bounds(pod, pod_level, limit_ranges, bare=bare)
        processed = None
        if mode is not UpdateMode.OFF:
            processed = process(bare, vpa, limit_ranges, bounds=bounds)
        recommended = wanted_resources(bare, vpa, processed, limit_ranges)
        recommended = with_earlier_cpu(bare, recommended, expired=expired)
        wanted = unboosted(pod, recommended, expired=expired)
        if wanted is None:
            return leave(Reason.UNREADABLE)
        if processed is not None:
            amounts = processed.containers
            requests = {name: actual_requests(pod, name) for name in amounts}
            known = amounts_at_kills(pod, killed_at)
            kills = unlearnt_ooms(amounts, requests=requests, killed_at=known, now=now)
            wanted = keep_memory(pod, wanted, of=lowered(kills))
        names = [container.name for container in scaled_specs(pod)]
        decreases = limit_decreases(pod, wanted, names)
        wanted = keep_memory(pod, wanted, of={each.container for each in decreases})
        return plan_resize(pod, wanted, names, containers={}, bounds=bounds)
    except QuantityError:
        return leave(Reason.UNREADABLE)
