"""Log lines for failed writes: one when they begin, and one when they are over."""

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

# The client logs that the API server is unreachable, and the process that it lost its Lease. After
# a conflict with another client's edit the next cycle decides again.
_NOT_LOGGED = (UnreachableError, NotLeadingError, ConflictError)


class WriteFailures:
    """The failed writes of a cycle by reason; logs a lasting reason once.

    A missing permission fails every write of every cycle; the metric counts all of them.
    """

    def __init__(self, what: str, metrics: RecommenderMetrics) -> None:
        """Initialize; ``what`` is ``status`` or ``checkpoint``, also the metric's label."""
        self._what = what
        self._metrics = metrics
        self._logged: set[str] = set()
        self._now: Tally[str] = Tally()
        self._first: dict[str, tuple[int, dict[str, str]]] = {}  # level and details of the log

    def add(self, error: KubeError | DecodeError, **place: str) -> None:
        """Count a failed write; ``place`` identifies the object in the log."""
        reason = getattr(error, "reason", type(error).__name__)
        self._metrics.failed_writes.labels(self._what, reason).inc()
        if isinstance(error, _NOT_LOGGED):
            return
        self._now[reason] += 1
        no_write_can_succeed = isinstance(error, NoSubresourceError)
        level = logging.ERROR if no_write_can_succeed else logging.WARNING
        self._first.setdefault(reason, (level, {**place, "error": str(error)}))

    def report(self) -> None:
        """Log new reasons, after all writes of a cycle."""
        for reason in self._now.keys() - self._logged:
            level, details = self._first[reason]
            extra = {"reason": reason, "count": self._now[reason], **details}
            logger.log(level, "%s not written", self._what, extra=extra)
        if self._logged and not self._now:
            logger.info("every %s is written again", self._what)
        self._logged = set(self._now)
        self._now.clear()
        self._first.clear()
