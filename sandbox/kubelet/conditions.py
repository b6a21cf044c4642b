"""The two conditions of a resize: PodResizePending and PodResizeInProgress.

They are there with status True, or not at all (kubernetes-resize.md 3.1). Source:
``updatedPodResizeCondition``, k8s.io/kubernetes pkg/kubelet/status/status_manager.go.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox.times import rfc3339

PENDING = "PodResizePending"
IN_PROGRESS = "PodResizeInProgress"
ERROR = "Error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeCondition:
    """One of the two; ``reason`` and ``message`` may be empty."""

    type: str
    reason: str = ""
    message: str = ""
    probed: datetime
    since: datetime
    generation: int  # 0: not known

    def json(self, *, with_generation: bool) -> dict[str, Any]:
        """As it stands in a patch; null removes what an earlier status said."""
        told: dict[str, Any] = {
            "type": self.type,
            "status": "True",
            "reason": self.reason or None,
            "message": self.message or None,
            "lastProbeTime": rfc3339(self.probed),
            "lastTransitionTime": rfc3339(self.since),
        }
        if with_generation and self.generation:
            told["observedGeneration"] = self.generation
        return told


def pending(
    old: ResizeCondition | None, *, reason: str, message: str, generation: int, now: datetime
) -> ResizeCondition:
    """Not admitted; since when counts from the last change of the reason."""
    since = old.since if old is not None and old.reason == reason else now
    return ResizeCondition(
        type=PENDING,
        reason=reason,
        message=message,
        probed=now,
        since=since,
        generation=generation,
    )


def in_progress(
    old: ResizeCondition | None,
    *,
    reason: str = "",
    message: str = "",
    generation: int,
    now: datetime,
) -> ResizeCondition:
    """Admitted, not actuated; the generation stays that of the admission."""
    since = old.since if old is not None and old.reason == reason else now
    return ResizeCondition(
        type=IN_PROGRESS,
        reason=reason,
        message=message,
        probed=now,
        since=since,
        generation=generation if old is None else old.generation,
    )
