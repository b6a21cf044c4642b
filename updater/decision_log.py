"""Log lines about decisions on pods and refused calls."""

import logging
from datetime import UTC, datetime

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.recommendation.resource_changes import summary
from updater.decision import Decision, Reason
from updater.plan.assessment import DecreaseOom
from updater.plan.pod_outcome import Subject
from updater.state import CallRefused

logger = logging.getLogger(__name__)


def log_change(
    pod: Pod, decision: Decision, before: Decision | None, subject: Subject | None = None
) -> None:
    """Log the decision on a pod if it has changed.

    The level is debug if the pod needs nothing and needed nothing before, so that a start doesn't
    log each pod, and if the pass ended before it reached the pod.
    """
    if before == decision:
        return
    quiet = decision.reason is Reason.NO_TURN or (
        decision.needs_nothing and (before is None or before.needs_nothing)
    )
    level = logging.DEBUG if quiet else logging.INFO
    if not logger.isEnabledFor(level):
        return
    extra = {
        "pod": f"{pod.metadata.namespace}/{pod.metadata.name}",
        "decision": decision.action.value,
        "reason": decision.reason.value,
    }
    if subject is not None:
        extra |= _about(subject)
    if decision.until is not None:
        extra["until"] = whole_seconds(decision.until)
    if decision.detail:
        extra["detail"] = decision.detail
    logger.log(level, "pod decided", extra=extra)


def log_refusal(pod: Pod, vpa: VerticalPodAutoscaler, refused: CallRefused) -> None:
    """Log that the API server refused a call about a pod."""
    meta, of = pod.metadata, vpa.metadata
    logger.info(
        refused.message,
        extra={
            "pod": f"{meta.namespace}/{meta.name}",
            "vpa": f"{of.namespace}/{of.name}",
            "changes": summary(refused.changes),
            "status": refused.status,
            "reason": refused.reason,
            "error": refused.error,
        },
    )


def log_decrease_oom(vpa: VerticalPodAutoscaler, kill: DecreaseOom) -> None:
    """Log an OOM kill after a decrease of a memory limit in place."""
    meta, of = kill.pod.metadata, vpa.metadata
    logger.warning(
        "OOM kill after a memory limit was lowered in place",
        extra={
            "pod": f"{meta.namespace}/{meta.name}",
            "container": kill.container,
            "vpa": f"{of.namespace}/{of.name}",
            "floor": str(kill.floor.amount),
            "until": whole_seconds(kill.floor.until),
        },
    )


def whole_seconds(moment: datetime) -> str:
    """Return the time like ``2026-01-02T15:04:05Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _about(subject: Subject) -> dict[str, str]:
    meta, changes = subject.vpa.metadata, summary(subject.changes)
    named = {"vpa": f"{meta.namespace}/{meta.name}"}
    return {**named, "changes": changes} if changes else named
