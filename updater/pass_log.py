"""Log lines about passes as a whole, once per change."""

import logging
from collections.abc import Iterable, Mapping

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.kube.lease import AdmissionStatus
from updater.snapshot.cluster_snapshot import update_mode

logger = logging.getLogger(__name__)


class PassLog:
    """Logs changes of the conditions and skipped VPAs of passes."""

    def __init__(self) -> None:
        self._fresh = True
        self._admission = AdmissionStatus.ALIVE
        self._skipped: Mapping[tuple[str, str], str] = {}
        self._deprecated = 0

    def log_freshness(self, *, fresh: bool) -> None:
        """Log whether the caches follow the API server."""
        if fresh == self._fresh:
            return
        self._fresh = fresh
        if fresh:
            logger.info("caches follow the API server again, passes go on")
        else:
            logger.warning("passes are skipped until the caches follow the API server again")

    def log_admission(self, status: AdmissionStatus) -> None:
        """Log whether admission would patch replacements."""
        if status is self._admission:
            return
        self._admission = status
        if status.allows_eviction:
            logger.info("admission controller is alive, evictions go on")
        else:
            logger.warning(
                "no evictions, a replacement might not be patched",
                extra={"admission": status.value},
            )

    def log_skipped(self, skipped: Mapping[tuple[str, str], str]) -> None:
        """Log each skipped VPA with the cause."""
        for key, why in skipped.items():
            if self._skipped.get(key) != why:
                logger.warning("vpa skipped", extra={"vpa": "/".join(key), "cause": why})
        self._skipped = skipped

    def log_deprecated(self, vpas: Iterable[VerticalPodAutoscaler]) -> None:
        """Log the number of VPAs of mode Auto."""
        count = sum(update_mode(vpa) is UpdateMode.AUTO for vpa in vpas)
        if count not in (0, self._deprecated):
            logger.warning("mode Auto is deprecated, and acts like Recreate", extra={"vpas": count})
        self._deprecated = count
