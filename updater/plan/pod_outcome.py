"""How a pod ends in a pass, and what is reported about it."""

from dataclasses import dataclass, replace
from typing import Self, TypeAlias

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.recommendation.changes import ResourceChange
from updater.decision import Action, Decision, Reason, wait
from updater.plan.candidate import Candidate
from updater.resize.blocking import blocked_by
from updater.resize.resize_state import resize_status
from updater.state import Block, PodMemory


@dataclass(frozen=True, slots=True)
class Subject:
    """What a decision about a pod is about: its VPA, and the change that it needs, if any."""

    vpa: VerticalPodAutoscaler
    candidate: Candidate | None = None
    resize: tuple[ResourceChange, ...] = ()  # of a pod that is resized without being a candidate

    @property
    def changes(self) -> tuple[ResourceChange, ...]:
        """Return what the pod needs; nothing for one that needs nothing."""
        return self.resize if self.candidate is None else self.candidate.changes


@dataclass(frozen=True, slots=True)
class ResizeBlocked:
    """The in-place update of a pod is blocked, for another reason than before."""

    reason: Reason
    changes: tuple[ResourceChange, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ResizeUnblocked:
    """What blocked the in-place update of a pod is over; ``reason`` is that of the decision."""

    reason: Reason
    changes: tuple[ResourceChange, ...]


@dataclass(frozen=True, slots=True)
class EvictionSkipped:
    """A pod is not evicted because of the pod that would follow."""

    decision: Decision
    changes: tuple[ResourceChange, ...]


@dataclass(frozen=True, slots=True)
class CallRefused:
    """The API server refused a call about a pod, for another reason than the last time (X114)."""

    message: str
    status: int
    reason: str
    error: str
    changes: tuple[ResourceChange, ...]


PodReport: TypeAlias = ResizeBlocked | ResizeUnblocked | EvictionSkipped | CallRefused
"""Something about a pod that is news: for an Event, or for the log."""


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The decision on a pod, what is to be remembered beside it, and what is news."""

    pod: Pod
    decision: Decision
    memory: PodMemory
    subject: Subject
    reports: tuple[PodReport, ...] = ()

    def adding(self, reports: tuple[PodReport, ...]) -> Self:
        """Return the outcome with more reports."""
        return replace(self, reports=(*self.reports, *reports)) if reports else self

    def reported(self) -> Self:
        """Return the outcome without its reports, which were sent."""
        return replace(self, reports=()) if self.reports else self

    def not_tried(self) -> Self:
        """Return the outcome of a pod whose pass has ended first."""
        return replace(self, decision=wait(Reason.NO_TURN))


def note_blocked(
    pod: Pod, decision: Decision, memory: PodMemory, subject: Subject
) -> tuple[PodMemory, tuple[PodReport, ...]]:
    """Return the memory and the report of a change of what blocks the pod's in-place update.

    ``decision`` is one about its resize. The end of a block is reported with the change that was
    blocked if none is wanted any more.
    """
    block = memory.blocked
    before = None if block is None else block.reason
    reason, changes = blocked_by(decision, resize_status(pod), before), subject.changes
    if reason is before:
        return memory, ()
    if reason is None:
        wanted = changes or (() if block is None else block.changes)
        return memory.with_block(None), (ResizeUnblocked(decision.reason, wanted),)
    detail = decision.detail if reason in (decision.reason, Reason.RESIZE_REFUSED) else ""
    return memory.with_block(Block(reason, changes)), (ResizeBlocked(reason, changes, detail),)


def note_skipped(decision: Decision, memory: PodMemory, subject: Subject) -> tuple[PodReport, ...]:
    """Return the report that the preflight keeps the pod from eviction, once per change.

    Where a resize would be refused, the pod is reported as blocked instead.
    """
    if decision.action is not Action.WAIT or not decision.is_preflight:
        return ()
    if memory.decision == decision:
        return ()
    return (EvictionSkipped(decision, subject.changes),)
