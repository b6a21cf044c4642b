"""The two conditions of a resize: PodResizePending and PodResizeInProgress.

They have status True, or are absent (kubernetes-resize.md 3.1). Source:
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
    generation: int  # 0: unknown

    def json(self, *, with_generation: bool) -> dict[str, Any]:
        """Return the condition for a patch. Null removes the value of an earlier status."""
        condition: dict[str, Any] = {
            "type": self.type,
            "status": "True",
            "reason": self.reason or None,
            "message": self.message or None,
            "lastProbeTime": rfc3339(self.probed),
            "lastTransitionTime": rfc3339(self.since),
        }
        if with_generation and self.generation:
            condition["observedGeneration"] = self.generation
        return condition


def pending(
    old: ResizeCondition | None, *, reason: str, message: str, generation: int, now: datetime
) -> ResizeCondition:
    """Return the condition of a resize that isn't admitted. ``since`` changes with the reason."""
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
    """Return the condition of an admitted resize. It keeps the generation of the admission."""
    since = old.since if old is not None and old.reason == reason else now
    return ResizeCondition(
        type=IN_PROGRESS,
        reason=reason,
        message=message,
        probed=now,
        since=since,
        generation=generation if old is None else old.generation,
    )
