"""How the pods of one VPA end in a pass: in the ledger, and in Events once per change."""

from dataclasses import replace

from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.recommendation.changes import ResourceChange
from updater.attempts import Block, PodMemory
from updater.blocking import blocked_by
from updater.decision import Action, Decision, Reason
from updater.ledger import Ledger, Subject
from updater.resize import resize_status
from updater.sending import Outcome
from updater.snapshot import AutoscaledPods
from updater.work import Hands


class PodReports:
    """Writes down decisions about a VPA's pods, and reports what keeps them as they are."""

    def __init__(self, scaled: AutoscaledPods, ledger: Ledger, hands: Hands) -> None:
        self._scaled = scaled
        self._ledger = ledger
        self._hands = hands
        self._subjects: dict[str, Subject] = {}  # of pods that need a change, by UID

    def expect(self, pod: Pod, subject: Subject) -> None:
        """Note what decisions about the pod are about from now on."""
        self._subjects[pod.metadata.uid] = subject

    def changes(self, pod: Pod) -> tuple[ResourceChange, ...]:
        """Return what the pod needs; nothing for one that needs nothing."""
        subject = self._subjects.get(pod.metadata.uid)
        return () if subject is None else subject.changes

    # How it ended

    def settle(self, pod: Pod, decision: Decision) -> None:
        """Write down a decision after which nothing else is to be remembered."""
        self.settle_as(pod, (decision, self._ledger.memory(pod)))

    def settle_as(self, pod: Pod, ended: Outcome) -> None:
        """Write down what came of a call."""
        subject = self._subjects.get(pod.metadata.uid) or Subject(self._scaled.vpa)
        self._ledger.settle(pod, *ended, subject)

    def settle_unsent(self, pod: Pod, decision: Decision) -> None:
        """As ``settle``, with an Event where the pod that would follow is in the way."""
        self.emit_preflight(pod, decision)
        self.settle(pod, decision)

    # What is in the way

    def emit_preflight(self, pod: Pod, decision: Decision) -> None:
        """Emit an Event, once per change, where the preflight keeps the pod from eviction."""
        if decision.action is not Action.WAIT or not decision.is_preflight:
            return  # resizes that would be refused are blocked
        if self._ledger.memory(pod).decision != decision:
            self._hands.tell_refused(pod, self._scaled.vpa, decision, self.changes(pod))

    def remember_blocked(self, pod: Pod, decision: Decision, memory: PodMemory) -> None:
        """Report what blocks the pod's in-place update, and remember it with the rest."""
        self._ledger.remember(pod, self.note_blocked(pod, decision, memory))

    def note_blocked(self, pod: Pod, decision: Decision, memory: PodMemory) -> PodMemory:
        """Report a change of what blocks the pod's in-place update; what to remember then.

        That it is over is told of the change that was blocked if none is wanted any more.
        """
        block, vpa = memory.blocked, self._scaled.vpa
        before = None if block is None else block.reason
        reason, changes = blocked_by(decision, resize_status(pod), before), self.changes(pod)
        if reason is before:
            return memory
        if reason is None:
            wanted = changes or (() if block is None else block.changes)
            self._hands.tell_unblocked(pod, vpa, decision.reason, wanted)
            return replace(memory, blocked=None)
        self._hands.tell_blocked(
            pod,
            vpa,
            reason,
            changes,
            detail=decision.detail if reason in (decision.reason, Reason.RESIZE_REFUSED) else "",
            skipped=self._scaled.mode is UpdateMode.IN_PLACE and reason is Reason.RESIZE_INFEASIBLE,
        )
        return replace(memory, blocked=Block(reason, changes))
