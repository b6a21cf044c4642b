"""How each pod ended in a pass, and what the next pass has to know."""

import logging
from dataclasses import replace

from common.api.core import Pod
from updater.attempts import Attempts, PodMemory
from updater.decision import Decision, Reason
from updater.metrics import PassFigures

logger = logging.getLogger(__name__)


class Ledger:
    """Collects what one pass decided; reading what was remembered before never changes it."""

    def __init__(self, before: Attempts) -> None:
        self._before = before
        self._changed: dict[str, PodMemory] = {}
        self.figures = PassFigures()

    def memory(self, pod: Pod) -> PodMemory:
        uid = pod.metadata.uid
        return self._changed.get(uid) or self._before.of(uid)

    def remember(self, pod: Pod, memory: PodMemory) -> None:
        self._changed[pod.metadata.uid] = memory

    def settle(self, pod: Pod, decision: Decision, memory: PodMemory) -> None:
        """Write down how the pod ended in this pass; a change of that is worth a line.

        That a pod needs nothing, as before, is a line for those who ask for more of them: after
        a start it would be one for each pod of the cluster. So is that a pass has ended first.
        """
        self.figures.candidates[decision] += 1
        self.remember(pod, replace(memory, decision=decision))
        before = memory.decision
        if before != decision:
            quiet = decision.reason is Reason.NO_TURN or (
                decision.needs_nothing and (before is None or before.needs_nothing)
            )
            logger.log(
                logging.DEBUG if quiet else logging.INFO,
                "pod decided",
                extra={
                    "pod": f"{pod.metadata.namespace}/{pod.metadata.name}",
                    "decision": decision.action.value,
                    "reason": decision.reason.value,
                },
            )

    def attempts(self, living: frozenset[str]) -> Attempts:
        """What to remember of the pods that live."""
        return self._before.followed_by(self._changed, living=living)
