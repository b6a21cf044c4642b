"""Failed writes in the log: one line when they begin, one when they are over."""

import logging
from collections import Counter as Tally

from common.errors import (
    ConflictError,
    DecodeError,
    KubeError,
    NoSubresourceError,
    NotLeadingError,
    UnreachableError,
)
from recommender.metrics import RecommenderMetrics

logger = logging.getLogger(__name__)

# The client reports that the API server is away, and the end of a process that its Lease ran out.
# An edit of a VPA by a user is nothing to report: the next cycle decides again.
_NOT_LOGGED = (UnreachableError, NotLeadingError, ConflictError)


class WriteFailures:
    """Counts what was refused in a cycle, by reason; a lasting reason is logged once.

    A missing permission refuses every write of every cycle; the metric counts those.
    """

    def __init__(self, what: str, metrics: RecommenderMetrics) -> None:
        """``what`` was not written: ``status`` or ``checkpoint``, also the metric's label."""
        self._what = what
        self._metrics = metrics
        self._logged: set[str] = set()
        self._now: Tally[str] = Tally()
        self._first: dict[str, dict[str, str]] = {}
        self._levels: dict[str, int] = {}  # of the log, by reason

    def add(self, error: KubeError | DecodeError, **place: str) -> None:
        """Count a write that failed; ``place`` says which, for the log."""
        reason = getattr(error, "reason", type(error).__name__)
        self._metrics.failed_writes.labels(self._what, reason).inc()
        if isinstance(error, _NOT_LOGGED):
            return
        self._now[reason] += 1
        self._first.setdefault(reason, {**place, "error": str(error)})
        no_write_can_succeed = isinstance(error, NoSubresourceError)
        self._levels[reason] = logging.ERROR if no_write_can_succeed else logging.WARNING

    def report(self) -> None:
        """Log what is new, once all writes of the cycle are done."""
        for reason in self._now.keys() - self._logged:
            extra = {"reason": reason, "count": self._now[reason], **self._first[reason]}
            logger.log(self._levels[reason], "%s not written", self._what, extra=extra)
        if self._logged and not self._now:
            logger.info("every %s is written again", self._what)
        self._logged = set(self._now)
        self._now.clear()
        self._first.clear()
