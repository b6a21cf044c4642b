"""What becomes of OOM kills."""

import enum
from dataclasses import dataclass

from recommender.model.pods import NOWHERE


class OomOutcome(enum.StrEnum):
    """What became of an OOM kill; all but the first are reasons why nothing was learnt."""

    RECORDED = "recorded"
    UNKNOWN_CONTAINER = "unknown_container"
    UNMATCHED = "unmatched"
    TOO_OLD = "too_old"
    LEARNT_BEFORE = "learnt_before"
    IN_THE_FUTURE = "in_the_future"
    UNDATED = "undated"
    INVALID = "invalid"
    OVERFLOW = "overflow"

    @property
    def meaning(self) -> str:
        """A sentence for the documentation."""
        return _MEANINGS[self]


_MEANINGS = {
    OomOutcome.RECORDED: "It raised the memory peak, or a higher peak covers it.",
    OomOutcome.UNKNOWN_CONTAINER: "An eviction of a pod that nobody knows, or of an init container "
    "or sidecar, which are not followed.",
    OomOutcome.UNMATCHED: "With `--memory-saver`: no VPA looks at the pod.",
    OomOutcome.TOO_OLD: "More than a memory window older than the container's last sample.",
    OomOutcome.LEARNT_BEFORE: "The checkpoint that was loaded knows it.",
    OomOutcome.IN_THE_FUTURE: "More than an hour ahead: some clock is wrong.",
    OomOutcome.UNDATED: "The kubelet gives no time.",
    OomOutcome.INVALID: "A negative amount of memory.",
    OomOutcome.OVERFLOW: "More than 50,000 waited, for example at a replica that does not lead.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OomLearnt:
    """What was learnt from an OOM kill."""

    outcome: OomOutcome
    aggregate: int = NOWHERE  # of the container, if it is known
    amount: int = 0  # bytes that would have been needed
