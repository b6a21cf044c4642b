"""The log line of a changed target."""

import logging

from common.api.autoscaling import VerticalPodAutoscaler, VpaStatus
from common.recommendation.resource_changes import request_changes, summary
from recommender.publish.status import recommended_amounts

logger = logging.getLogger(__name__)


def log_target(vpa: VerticalPodAutoscaler, written: VpaStatus) -> None:
    """Log the targets that differ between the last status of a VPA and the one that was written."""
    if not logger.isEnabledFor(logging.INFO):
        return
    before, after = recommended_amounts(vpa.status), recommended_amounts(written)
    changes = request_changes(
        {name: one.target for name, one in before.items()},
        {name: one.target for name, one in after.items()},
    )
    if changes:
        name = f"{vpa.metadata.namespace}/{vpa.metadata.name}"
        logger.info("target changed", extra={"vpa": name, "changes": summary(changes)})
