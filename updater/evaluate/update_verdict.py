"""The verdict on a running pod: an update, or the reason for none."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from updater.decision import Reason
from updater.evaluate.drift import Drift

WANTS_UPDATE = frozenset({Reason.OUTSIDE_RANGE, Reason.OOMED_QUICKLY, Reason.DRIFTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds by which a pod needs an update."""

    min_change: float = 0.1  # relative: 0.1 is ten percent of the request
    min_lifetime: timedelta = timedelta(hours=12)
    quick_oom: timedelta = timedelta(minutes=10)  # an OOM kill sooner after the start is quick


def judge(
    drift: Drift,
    *,
    started_at: datetime | None,
    oomed_quickly: bool,
    thresholds: Thresholds,
    now: datetime,
) -> Reason:
    """Return the reason that a running pod needs an update (``WANTS_UPDATE``), or needs none.

    A pod outside its recommended range, or that was OOM-killed soon after its start, is updated at
    once. Any other pod must be older than ``thresholds.min_lifetime`` and differ by at least
    ``thresholds.min_change``. ``started_at`` is the later of the pod's start and its last
    successful resize, because a resize is a disruption too (D18).

    Source: updater.md 7; ``UpdatePriorityCalculator.AddPod``,
    vertical-pod-autoscaler/pkg/updater/priority/update_priority_calculator.go.
    """
    if oomed_quickly and drift.resource_diff == 0:
        return Reason.NO_CHANGE
    if drift.outside_range:
        return Reason.OUTSIDE_RANGE
    if oomed_quickly:
        return Reason.OOMED_QUICKLY
    if started_at is None:
        return Reason.NOT_STARTED
    if now - started_at < thresholds.min_lifetime:
        return Reason.TOO_YOUNG
    if drift.resource_diff < thresholds.min_change:
        return Reason.TOO_SMALL
    return Reason.DRIFTED
