"""What ``kubectl vpa history`` prints."""

from datetime import datetime

from kubectl_vpa.results.lists import Result, ResultList


class HistoryResult(Result, frozen=True, kw_only=True):
    """Something that the updater did with a pod or a VPA, or did not do."""

    time: datetime | None
    namespace: str
    vpa: str | None  # null if it isn't known, as the next one
    pod: str | None
    action: str  # evict, resize, blocked, unblocked, skipped, suspended or resumed
    reason: str | None  # a reason of the updater
    changes: str  # such as ``app cpu 100m -> 250m``; may be empty
    outcome: str | None  # of evict and resize; null if only an Event is known
    message: str  # the reason, or the text of the Event


class ResourceHistory(Result, frozen=True, kw_only=True):
    """The usage of one resource in a checkpoint, and the recommendation that follows from it.

    The percentiles are those of the weighted samples, without margin, bounds and policy; null
    without samples.
    """

    weight: float  # of all samples at the time of the checkpoint's reference
    p50: str | None
    p90: str | None
    p95: str | None
    p100: str | None
    target: str | None
    lower_bound: str | None
    upper_bound: str | None
    confidence: float | None  # null if the recommender can't be asked


class ContainerHistory(Result, frozen=True, kw_only=True):
    """What the checkpoint of a container says about its usage."""

    container: str
    samples: int  # of CPU
    first_sample: datetime | None
    last_sample: datetime | None
    saved_at: datetime | None
    cpu: ResourceHistory
    memory: ResourceHistory


class HistoryResultList(ResultList, frozen=True, kw_only=True):
    """What was done, the newest first; with a VPA also its usage."""

    usage: tuple[ContainerHistory, ...] = ()
