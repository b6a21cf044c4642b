"""The outcome of a pass for one pod, and the reports about it."""

from dataclasses import dataclass, replace
from typing import Self, TypeAlias

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import Pod
from common.recommendation.resource_changes import ResourceChange
from updater.decision import Action, Decision, Reason
from updater.plan.candidate import Candidate
from updater.resize.blocked_update import blocked_by
from updater.resize.resize_status import resize_status
from updater.snapshot.cluster_snapshot import update_mode
from updater.state import CallRefused, PodMemory, ResizeBlocked


@dataclass(frozen=True, slots=True)
class Subject:
    """The VPA of a pod, and the changes that the pod needs, if any."""

    vpa: VerticalPodAutoscaler
    candidate: Candidate | None = None
    resize: tuple[ResourceChange, ...] = ()  # of a pod whose boost ends

    @property
    def changes(self) -> tuple[ResourceChange, ...]:
        """Return the changes that the pod needs."""
        return self.resize if self.candidate is None else self.candidate.changes


@dataclass(frozen=True, slots=True)
class ResizeUnblocked:
    """The in-place update of a pod is no longer blocked; ``reason`` is that of the decision."""

    reason: Reason
    changes: tuple[ResourceChange, ...]


@dataclass(frozen=True, slots=True)
class EvictionSkipped:
    """A pod is not evicted: its replacement would be refused or wrong, or has no room."""

    decision: Decision
    changes: tuple[ResourceChange, ...]


PodEvent: TypeAlias = ResizeBlocked | ResizeUnblocked | EvictionSkipped
"""A change of a pod's state that is reported by an Event."""

PodReport: TypeAlias = PodEvent | CallRefused
"""A change of a pod's state that is reported by an Event or in the log."""


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The decision on a pod, its next memory, and the reports to send."""

    pod: Pod
    decision: Decision
    memory: PodMemory
    subject: Subject
    reports: tuple[PodReport, ...] = ()

    def noting_block(self) -> Self:
        """Return the outcome with the report after a change of the block of in-place updates.

        The decision is about the pod's resize. The end of a block is reported with the changes
        that were blocked if none are wanted now.
        """
        decision, block = self.decision, self.memory.blocked
        before = None if block is None else block.reason
        reason = blocked_by(decision, resize_status(self.pod), before)
        if reason is before:
            return self
        changes = self.subject.changes
        report: PodReport
        after: ResizeBlocked | None = None
        if reason is None:
            wanted = changes or (() if block is None else block.changes)
            report = ResizeUnblocked(decision.reason, wanted)
        else:
            detail = decision.detail if reason in (decision.reason, Reason.RESIZE_REFUSED) else ""
            in_place = update_mode(self.subject.vpa) is UpdateMode.IN_PLACE
            skipped = in_place and reason is Reason.RESIZE_INFEASIBLE
            report = after = ResizeBlocked(reason, changes, detail, skipped)
        memory = replace(self.memory, blocked=after)
        return replace(self, memory=memory, reports=(*self.reports, report))


def note_skipped(decision: Decision, memory: PodMemory, subject: Subject) -> tuple[PodReport, ...]:
    """Return the report that the preflight or a lack of room prevents the eviction.

    It is sent once, until another decision is made.

    A resize that would be refused is reported as blocked instead.
    """
    if decision.action is not Action.WAIT:
        return ()
    if not (decision.is_preflight or decision.is_about_room):
        return ()
    if memory.decision == decision:
        return ()
    return (EvictionSkipped(decision, subject.changes),)
