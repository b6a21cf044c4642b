"""The last evictions and resizes, and what became of them."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeAlias

from common.read_api.history import MOST_ENTRIES, History
from common.read_model.updater import ActionOutcome, PastAction
from common.recommendation.resource_changes import patch_changes, summary
from updater.call_results import Accepted, Refused
from updater.decision import Action
from updater.eviction.breaker import ReplacementNote
from updater.eviction.replacement_result import ReplacementResult
from updater.plan.actions import ResizePod
from updater.plan.pod_outcome import PodOutcome
from updater.plan.pod_readiness import has_finished_resize
from updater.plan_rows import reference
from updater.snapshot.cluster_snapshot import AutoscaledPods
from updater.snapshot.live_pod import LivePod
from updater.state import UpdaterState

FindPod: TypeAlias = Callable[[str, str], LivePod | None]
"""Returns the pod with a namespace and name in the cache."""

_LONGEST_ERROR = 1000  # characters; a policy chooses the text
_OUTCOMES: Mapping[ReplacementResult, ActionOutcome] = {
    ReplacementResult.RIGHT: ActionOutcome.REPLACED_RIGHT,
    ReplacementResult.UNPATCHED: ActionOutcome.REPLACED_WRONG,
    ReplacementResult.OUTSIDE_RANGE: ActionOutcome.REPLACED_WRONG,
    ReplacementResult.NOT_CREATED: ActionOutcome.NOT_REPLACED,
    ReplacementResult.UNKNOWN: ActionOutcome.UNKNOWN,
}


class ActionHistory:
    """Records actions when the API server has answered, and their outcomes in later passes."""

    def __init__(self) -> None:
        self.entries: History[PastAction] = History(MOST_ENTRIES)
        self._evicted: dict[str, int] = {}  # number of the unsettled eviction, by pod UID
        self._resized: dict[str, int] = {}  # of the unsettled resize

    @property
    def unsettled(self) -> int:
        """Return the number of actions whose result isn't known yet."""
        return len(self._evicted) + len(self._resized)

    def add_eviction(
        self, scaled: AutoscaledPods, outcome: PodOutcome, result: Accepted | Refused
    ) -> None:
        """Record an eviction."""
        changes = summary(outcome.subject.changes)
        number = self._add(Action.EVICT, scaled, outcome, result, changes)
        if isinstance(result, Accepted):
            self._evicted[outcome.pod.metadata.uid] = number
            self._drop_forgotten(self._evicted)

    def add_resize(
        self,
        scaled: AutoscaledPods,
        outcome: PodOutcome,
        action: ResizePod,
        result: Accepted | Refused,
    ) -> None:
        """Record a resize; an earlier one of the same pod has no result of its own any more."""
        pod = outcome.pod
        changes = summary(patch_changes(pod, action.plan.operations))
        number = self._add(Action.RESIZE, scaled, outcome, result, changes)
        if isinstance(result, Accepted):
            self._settle(self._resized, pod.metadata.uid, ActionOutcome.UNKNOWN, result.at)
            self._resized[pod.metadata.uid] = number
            self._drop_forgotten(self._resized)

    def note_replacement(self, note: ReplacementNote, *, now: datetime) -> None:
        """Record the result of an eviction."""
        outcome = _OUTCOMES[note.result]
        self._settle(self._evicted, note.evicted, outcome, now, replacement=note.pod or None)

    def note_resizes(self, find: FindPod, state: UpdaterState, *, now: datetime) -> None:
        """Record the resizes that the kubelet has finished, and those of pods that are gone."""
        for entry in self.entries.newest_first():
            if self._resized.get(entry.uid) != entry.number:
                continue
            pod = find(entry.namespace, entry.pod)
            if pod is None or pod.metadata.uid != entry.uid:
                self._settle(self._resized, entry.uid, ActionOutcome.UNKNOWN, now)
            elif state.of(entry.uid).shows(pod) and has_finished_resize(pod):
                self._settle(self._resized, entry.uid, ActionOutcome.RESIZED, now)

    def _add(
        self,
        action: Action,
        scaled: AutoscaledPods,
        outcome: PodOutcome,
        result: Accepted | Refused,
        changes: str,
    ) -> int:
        pod, reason = outcome.pod, outcome.decision.reason
        owner = scaled.workload_of(pod)
        error = result.error if isinstance(result, Refused) else None
        number = self.entries.next_number()
        entry = PastAction(
            number=number,
            at=result.at,
            namespace=pod.metadata.namespace,
            vpa=scaled.vpa.metadata.name,
            action=action.value,
            pod=pod.metadata.name,
            uid=pod.metadata.uid,
            node=pod.node_name if isinstance(pod, LivePod) else "",
            owner=None if owner is None else reference(owner),
            reason=reason.value,
            meaning=reason.meaning,
            changes=changes,
            outcome=ActionOutcome.ACCEPTED if error is None else ActionOutcome.REFUSED,
            settled_at=None if error is None else result.at,
            status=None if error is None else error.status,
            error_reason=None if error is None else error.reason,
            error=None if error is None else str(error)[:_LONGEST_ERROR],
            replacement=None,
        )
        self.entries.add(entry)
        return number

    def _settle(
        self,
        unsettled: dict[str, int],
        uid: str,
        outcome: ActionOutcome,
        now: datetime,
        *,
        replacement: str | None = None,
    ) -> None:
        number = unsettled.pop(uid, None)
        if number is not None:
            self.entries.update(number, outcome=outcome, settled_at=now, replacement=replacement)

    def _drop_forgotten(self, unsettled: dict[str, int]) -> None:
        """Drop the actions that are no longer in the history, so that memory stays bounded."""
        if len(unsettled) > MOST_ENTRIES:
            for uid in [uid for uid, number in unsettled.items() if number not in self.entries]:
                del unsettled[uid]
