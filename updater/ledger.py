"""How each pod ended in a pass, and what the next pass has to know."""

import functools
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.recommendation.changes import ResourceChange, summary
from common.recommendation.pod_level import PodLevelMode
from updater.attempts import NOTHING, Attempts, PodMemory, Rest
from updater.candidate import Candidate
from updater.decision import Decision, Reason
from updater.fitting import Drifts, Fits
from updater.metrics import PassFigures
from updater.snapshot import AutoscaledPods, key_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a decision about a pod is about: its VPA, and the change that it needs, if any."""

    vpa: VerticalPodAutoscaler
    candidate: Candidate | None = None
    resize: tuple[ResourceChange, ...] = ()  # of a pod that is resized without being a candidate

    @property
    def changes(self) -> tuple[ResourceChange, ...]:
        return self.resize if self.candidate is None else self.candidate.changes


class Tell(Protocol):
    """Called with how a pod ended, the decision before that one, and what both are about."""

    def __call__(
        self, pod: Pod, decision: Decision, before: Decision | None, subject: Subject | None, /
    ) -> None: ...


def log_change(
    pod: Pod, decision: Decision, before: Decision | None, subject: Subject | None = None
) -> None:
    """Write a line where a pod's decision is another one than before.

    That a pod needs nothing, as before, is a line for those who ask for more of them: after a
    start it would be one for each pod of the cluster. So is that a pass has ended first.
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


def _about(subject: Subject) -> dict[str, str]:
    meta, changes = subject.vpa.metadata, summary(subject.changes)
    named = {"vpa": f"{meta.namespace}/{meta.name}"}
    return {**named, "changes": changes} if changes else named


def whole_seconds(moment: datetime) -> str:
    """``2026-01-02T15:04:05Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _deciding(memory: PodMemory, decision: Decision) -> PodMemory:
    """The memory with the decision; most pods have nothing else, and share it."""
    if memory is NOTHING and decision.until is None and not decision.detail:
        return _nothing_but(decision)
    return replace(memory, decision=decision)


@functools.lru_cache(maxsize=1024)
def _nothing_but(decision: Decision) -> PodMemory:
    return PodMemory(decision=decision)


class Ledger:
    """Collects what one pass decided; reading what was remembered before never changes it.

    ``tell`` is told of each pod's end.
    """

    def __init__(self, before: Attempts, *, tell: Tell = log_change) -> None:
        self._before = before
        self._remembered = before.pods
        self._tell = tell
        self._changed: dict[str, PodMemory] = {}
        self._drifts: dict[tuple[str, str], Drifts] = {}
        self._rests: dict[tuple[str, str], Rest] = {}
        self.figures = PassFigures()

    def memory(self, pod: Pod) -> PodMemory:
        uid = pod.metadata.uid
        return self._changed.get(uid) or self._remembered.get(uid, NOTHING)

    def remember(self, pod: Pod, memory: PodMemory) -> None:
        self._changed[pod.metadata.uid] = memory

    def fits(self, scaled: AutoscaledPods, *, pod_level: PodLevelMode = PodLevelMode.KEEP) -> Fits:
        """The VPA's recommendation, with what the last pass found out about it."""
        key = key_of(scaled.vpa)
        made = Fits(
            scaled.vpa,
            scaled.limit_ranges,
            before=self._before.drifts.get(key),
            pod_level=pod_level,
        )
        self._drifts[key] = made.drifts
        return made

    def rest(self, scaled: AutoscaledPods, found: Rest) -> None:
        """Write down that a VPA needs nothing for some time."""
        self._rests[key_of(scaled.vpa)] = found

    def rests(self, scaled: AutoscaledPods, *, now: datetime) -> bool:
        """Whether all pods of a VPA need nothing, as before; if so, that is written down again."""
        key = key_of(scaled.vpa)
        found = self._before.rests.get(key)
        if found is None or not found.goes_on(scaled, now=now):
            return False
        self._rests[key] = found
        self._drifts[key] = self._before.drifts[key]
        for decision, count in found.decisions:
            self.figures.candidates[decision] += count
        return True

    def settle(
        self, pod: Pod, decision: Decision, memory: PodMemory, subject: Subject | None = None
    ) -> None:
        """Write down how the pod ended in this pass, and tell it.

        That there was no turn for it says nothing about the pod: what was decided before stands.
        """
        self.figures.candidates[decision] += 1
        before = memory.decision
        stands = before is not None and (
            decision.reason is Reason.NO_TURN
            or (before == decision and before.until == decision.until)
        )
        after = memory if stands else _deciding(memory, decision)
        if after is not self.memory(pod):
            self.remember(pod, after)
        self._tell(pod, decision, before, subject)

    def attempts(self, living: frozenset[str]) -> Attempts:
        """What to remember of the pods that live."""
        after = self._before.followed_by(self._changed, living=living)
        return replace(after, drifts=self._drifts, rests=self._rests)
