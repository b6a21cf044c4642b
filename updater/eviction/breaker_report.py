"""The sentence that reports a transition of a VPA's circuit breaker."""

from updater.eviction.breaker import (
    MOST_MISSES,
    BreakerObservation,
    BreakerTransition,
    ReplacementNote,
)
from updater.eviction.replacement_result import ReplacementResult

_UNPATCHED = (
    "was not patched: see whether the API server reaches the webhook, and whether the webhook "
    "excludes this namespace"
)
_OUTSIDE_RANGE = (
    "was seen by the webhook, and its requests are not those recommended: see whether something "
    "else changes them"
)
_NOT_CREATED = (
    "the last one was not created within two minutes: see the events of the pods' controller for "
    "a quota, a LimitRange or a webhook that refuses pods"
)
_BEFORE = (
    "it was there when the updater started: see whether the API server reaches the webhook, and "
    "whether the webhook excludes this namespace"
)


def sentence(found: BreakerObservation) -> str:
    """Return the cause of a suspension or resumption, with advice; empty without a transition."""
    if found.transition is BreakerTransition.RESUMED:
        return "Evictions go on: a new pod came up with the recommendation."
    if found.transition is BreakerTransition.NONE:
        return ""
    last = next((note for note in reversed(found.notes) if note.result.is_miss), None)
    which = "the youngest pod" if last is None else f"{MOST_MISSES} pods in a row"
    return (
        f"Evictions are suspended, except for one per hour: {which} did not come up with the "
        f"recommendation, {_cause(last)}."
    )


def _cause(last: ReplacementNote | None) -> str:
    if last is None:
        return _BEFORE
    if last.result is ReplacementResult.NOT_CREATED:
        return _NOT_CREATED
    cause = _UNPATCHED if last.result is ReplacementResult.UNPATCHED else _OUTSIDE_RANGE
    return f"the last one, {last.pod}, {cause}"
