"""Metrics and logs about the recommendations of a cycle.

Source: recommender.md 15.
"""

import logging
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np

from common.api.autoscaling import VpaStatus
from common.quantity import ZERO, Quantity
from common.recommendation.amounts import ContainerAmounts
from common.resources import CPU, RESOURCES
from recommender.metrics import RecommenderMetrics
from recommender.model.keys import VpaKey
from recommender.model.usage import Usage
from recommender.publish.status import is_provided
from recommender.publish.status_decision import StatusDecision, StatusLabels
from recommender.sources.conversion import written_mode

logger = logging.getLogger(__name__)

_ChangeLabels = tuple[str, str, int]
"""Resource, update mode as written, and the bit length of the number of pods."""


class RecommendationQuality:
    """Counts VPAs, changes of targets and first recommendations.

    It stores targets in the table of aggregates: uncapped ones for comparison with later samples,
    and the others for comparison with requests.
    """

    def __init__(self, usage: Usage, metrics: RecommenderMetrics) -> None:
        self._usage = usage
        self._metrics = metrics
        self._vpas: Tally[StatusLabels] = Tally()  # of this cycle
        self._unchanged: Tally[_ChangeLabels] = Tally()
        self._changes: dict[_ChangeLabels, tuple[list[int], list[int]]] = {}  # before, after

    def count(self, labels: StatusLabels) -> None:
        """Count a VPA by its stored status; :meth:`written` corrects that after a write."""
        self._vpas[labels] += 1

    def decided(self, decision: StatusDecision, key: VpaKey) -> Mapping[str, int]:
        """Count a decision; return the number of aggregates with a recommendation, by resource."""
        self.count(decision.labels)
        processed = decision.post_processed
        if processed is None:
            compared, labels = decision.record.compared, self._labels(decision, key)
            for resource, count in compared.items():
                self._unchanged[resource, *labels] += count
            return compared
        if decision.is_absence_due:
            name = f"{key.namespace}/{key.name}"
            logger.info(
                "VPA has had no recommendation for long",
                extra={"vpa": name, "why": _why(decision.wanted)},
            )
        return self._changed(decision, key, processed.amounts)

    def written(self, decision: StatusDecision, now: datetime) -> None:
        """Count a status that was written."""
        if decision.wanted is None:
            return
        mode, _, matches, is_unsupported = decision.labels
        self._vpas[decision.labels] -= 1
        self._vpas[mode, is_provided(decision.wanted), matches, is_unsupported] += 1
        created = decision.vpa.metadata.creation_timestamp
        if decision.is_first and created is not None:
            self._metrics.first_recommendation.observe((now - created).total_seconds())

    def report(self) -> None:
        """Update the metrics with the counts of this cycle."""
        self._metrics.count_vpas(self._vpas)
        self._vpas.clear()
        quality = self._metrics.quality
        for (resource, mode, bits), count in self._unchanged.items():
            quality.unchanged(resource, mode, bits=bits, count=count)
        self._unchanged.clear()
        for (resource, mode, bits), (before, after) in self._changes.items():
            old, new = np.array(before, dtype=np.int64), np.array(after, dtype=np.int64)
            quality.change(resource, mode, bits=bits, before=old, after=new)
        self._changes.clear()

    def _changed(
        self, decision: StatusDecision, key: VpaKey, recommendation: Sequence[ContainerAmounts]
    ) -> dict[str, int]:
        aggregates, labels = self._usage.aggregates, self._labels(decision, key)
        compared: Tally[str] = Tally()
        for one in recommendation:
            rows = self._usage.rows_of(key, one.name)
            for resource in RESOURCES:
                after = _amount(resource, one.uncapped_target.get(resource, ZERO))
                before = aggregates.recommended(resource)
                if after:
                    olds, news = self._changes.setdefault((resource, *labels), ([], []))
                    olds += before[rows].tolist()
                    news += [after] * rows.size
                    compared[resource] += rows.size
                before[rows] = after
                target = one.target.get(resource, ZERO)
                aggregates.targets(resource)[rows] = _amount(resource, target)
        return compared

    def _labels(self, decision: StatusDecision, key: VpaKey) -> tuple[str, int]:
        return written_mode(decision.vpa), self._usage.pod_count(key).bit_length()


def _amount(resource: str, quantity: Quantity) -> int:
    """Return a quantity in millicores or bytes."""
    return quantity.milli if resource == CPU else quantity.value


def _why(status: VpaStatus | None) -> str:
    """Return the messages of the conditions that explain the absence, each once."""
    conditions = () if status is None else status.conditions or ()
    return " ".join(dict.fromkeys(one.message for one in conditions if one.message))
