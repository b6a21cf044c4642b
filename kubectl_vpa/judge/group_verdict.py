"""What holds for pods that are alike: near their target, waiting for an update, or blocked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec
from common.target.controlling import mode_of
from kubectl_vpa.judge.competitors import PodDisruptionBudget, exhausted_budgets
from kubectl_vpa.judge.pod_groups import PodGroup
from kubectl_vpa.results.status import StatusReason
from updater.decision import Decision, Reason, ending
from updater.evaluate.quick_oom_kills import needs_memory, quick_ooms
from updater.evaluate.recommendation_fit import Measured, measure_pod
from updater.evaluate.update_verdict import WANTS_UPDATE, Thresholds, judge
from updater.eviction.eviction_requirements import requirements_met
from updater.resize.resize_status import ResizeStatus

THRESHOLDS = Thresholds()
"""The updater's defaults; its flags are not visible to a client."""

DEFAULT_MIN_REPLICAS = 2
"""The default of the updater's ``--min-replicas``."""

_RANKS = {reason: rank for rank, reason in enumerate(StatusReason)}
_EVICTING = (UpdateMode.RECREATE, UpdateMode.AUTO)
_IN_PLACE = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """The verdict on a group of pods.

    ``text`` follows the number of pods, or stands alone without ``{pods}``. ``measured`` is None
    if the recommendation can't be compared with the pods.
    """

    group: PodGroup
    reason: StatusReason
    text: str
    measured: Measured | None = None
    update: Reason | None = None  # the verdict of the updater's rules; None if not measured
    until: datetime | None = None

    @property
    def rank(self) -> int:
        """Return the position of the reason, the worst first."""
        return _RANKS[self.reason]

    @property
    def distance(self) -> float:
        """Return how far the pods are from the target."""
        return 0.0 if self.measured is None else self.measured.drift.resource_diff

    @property
    def is_due(self) -> bool:
        """Return whether the pods need an update, now or later."""
        return self.reason not in _NOT_DUE

    def words(self, pods: str) -> str:
        """Return the sentence; ``pods`` names their number."""
        return self.text.format(pods=pods)


_NOT_DUE = frozenset(
    {
        StatusReason.UNREADABLE,
        StatusReason.NOTHING_SCALED,
        StatusReason.CLOSE_TO_TARGET,
        StatusReason.AT_TARGET,
    }
)


def judge_group(
    group: PodGroup,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    live: int,
    budgets: Sequence[PodDisruptionBudget],
    now: datetime,
) -> GroupVerdict:
    """Return the verdict by the updater's own rules, with the defaults of its flags.

    ``live`` is the number of running pods of the group's controller.
    """
    measured = measure_pod(group.pod, vpa, limit_ranges)
    if isinstance(measured, Decision):
        return _unmeasured(group, measured)
    if not measured.processed.containers:
        return GroupVerdict(
            group=group,
            reason=StatusReason.NOTHING_SCALED,
            text="no container of the pods is scaled",
            measured=measured,
        )

    update = judge(
        measured.drift,
        started_at=group.oldest_start,
        oomed_quickly=_oomed(group, vpa, measured),
        thresholds=THRESHOLDS,
        now=now,
    )

    def verdict(reason: StatusReason, text: str, *, until: datetime | None = None) -> GroupVerdict:
        return GroupVerdict(
            group=group, reason=reason, text=text, measured=measured, update=update, until=until
        )

    if measured.drift.resource_diff == 0 and not measured.drift.outside_range:
        return verdict(StatusReason.AT_TARGET, "all pods have the target")
    if update is Reason.TOO_SMALL:
        return verdict(StatusReason.CLOSE_TO_TARGET, "close to the target")
    mode = mode_of(vpa)
    if mode == UpdateMode.INITIAL:
        return verdict(StatusReason.NEXT_POD, "applies to pods that are created")
    if update is Reason.TOO_YOUNG:
        due = ending(group.oldest_start, THRESHOLDS.min_lifetime)
        return verdict(
            StatusReason.TOO_YOUNG,
            "{pods} within the range, changed 12h after the start",
            until=due,
        )
    if found := _resizing(group, mode):
        return verdict(*found)
    if update not in WANTS_UPDATE:
        return verdict(StatusReason.TOO_YOUNG, "{pods} not started yet")
    if found := _blocked(group, vpa, measured, live=live, budgets=budgets):
        return verdict(*found)
    return verdict(StatusReason.UPDATE_DUE, f"{{pods}} {_why(update)}")


def _blocked(
    group: PodGroup,
    vpa: VerticalPodAutoscaler,
    measured: Measured,
    *,
    live: int,
    budgets: Sequence[PodDisruptionBudget],
) -> tuple[StatusReason, str] | None:
    """Return what prevents an update that is due."""
    policy = vpa.spec.update_policy
    minimum = DEFAULT_MIN_REPLICAS
    if policy is not None and policy.min_replicas is not None:
        minimum = policy.min_replicas
    if mode_of(vpa) not in _EVICTING:
        return None  # the manifests set --in-place-skip-disruption-budget
    if live < minimum:
        return (StatusReason.BELOW_MIN_REPLICAS, f"{live} running, minReplicas is {minimum}")
    if not requirements_met(
        None if policy is None else policy.eviction_requirements,
        requests=measured.requests,
        containers=measured.processed.containers,
        policy=vpa.spec.resource_policy,
    ):
        return (StatusReason.REQUIREMENTS_NOT_MET, "evictionRequirements don't hold")
    for name in exhausted_budgets(budgets, group.pod.metadata.labels):
        return (StatusReason.DISRUPTION_BUDGET, f"PodDisruptionBudget {name} allows no eviction")
    return None


def _unmeasured(group: PodGroup, decision: Decision) -> GroupVerdict:
    """Return the verdict on pods that can't be compared with the recommendation."""
    if decision.reason is Reason.POD_LEVEL_RESOURCES_EXHAUSTED:
        text = "spec.resources of the pods leave no room"
        return GroupVerdict(group=group, reason=StatusReason.NO_ROOM_IN_POD, text=text)
    text = "a quantity of the pods or the VPA can't be read"
    return GroupVerdict(group=group, reason=StatusReason.UNREADABLE, text=text)


def _resizing(group: PodGroup, mode: str) -> tuple[StatusReason, str] | None:
    """Return the state of a resize that isn't finished."""
    if mode not in _IN_PLACE:
        return None
    match group.resize:
        case ResizeStatus.NONE:
            return None
        case ResizeStatus.INFEASIBLE if mode == UpdateMode.IN_PLACE:
            return (StatusReason.RESIZE_INFEASIBLE, "{pods} too large for the node")
        case ResizeStatus.ERROR:
            return (StatusReason.RESIZE_ERROR, "the kubelet can't resize {pods}")
        case ResizeStatus.DEFERRED:
            return (StatusReason.RESIZE_DEFERRED, "{pods} waiting for room on the node")
        case ResizeStatus.INFEASIBLE:
            return (StatusReason.UPDATE_DUE, "{pods} too large for the node, to be evicted")
        case _:
            return (StatusReason.RESIZE_IN_PROGRESS, "{pods} being resized")


def _why(update: Reason) -> str:
    match update:
        case Reason.OUTSIDE_RANGE:
            return "outside of the recommended range"
        case Reason.OOMED_QUICKLY:
            return "OOM-killed soon after the start"
        case _:
            return "far from the target"


def _oomed(group: PodGroup, vpa: VerticalPodAutoscaler, measured: Measured) -> bool:
    """Return whether a quick OOM kill of the group's pod advances an update."""
    kills = quick_ooms(group.pod, vpa, threshold=THRESHOLDS.quick_oom, updated_at=None)
    containers = measured.processed.containers
    return any(
        needs_memory(kill, containers, requests=measured.requests)
        for kill in kills
        if kill.container in containers
    )
