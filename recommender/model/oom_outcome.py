"""The outcomes of OOM kills."""

from dataclasses import dataclass

from common.codes import Code
from recommender.model.pods import NOWHERE


class OomOutcome(Code):
    """The outcome of an OOM kill; all but the first are reasons to discard it."""

    RECORDED = "recorded", "It raised the memory peak, or a higher peak covers it."
    UNKNOWN_CONTAINER = (
        "unknown_container",
        "An eviction of an unknown pod, or of an init container that isn't followed.",
    )
    UNMATCHED = "unmatched", "With `--memory-saver`: no VPA looks at the pod."
    TOO_OLD = "too_old", "More than a memory window older than the container's last sample."
    LEARNT_BEFORE = "learnt_before", "The checkpoint that was loaded knows it."
    IN_THE_FUTURE = (
        "in_the_future",
        "More than two minutes ahead of the clock, and 10,000 kills wait that are less far ahead.",
    )
    UNDATED = "undated", "The kubelet gives no time."
    INVALID = "invalid", "A negative amount of memory."
    OVERFLOW = (
        "overflow",
        "More than 50,000 waited, for example at a replica that does not lead.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OomResult:
    """The outcome of an OOM kill, and the amount that it recorded."""

    outcome: OomOutcome
    aggregate: int = NOWHERE  # of the container, if that is tracked
    amount: int = 0  # bytes; see memory_peaks.needed
