"""How targets change from cycle to cycle, for the metrics of quality.

Source: recommender.md 15.2.
"""

from collections import Counter as Tally
from collections.abc import Mapping, Sequence

import numpy as np

from common.api.autoscaling import VerticalPodAutoscaler
from common.quantity import ZERO
from common.recommendation.processing import ContainerAmounts
from common.resources import CPU, RESOURCES
from recommender.model.usage import Usage
from recommender.quality import Quality
from recommender.sources.conversion import vpa_key, written_mode

_Label = tuple[str, str, int]
"""Resource, update mode as written, and the bits of the number of pods."""


class TargetChanges:
    """Keeps uncapped targets beside the aggregates, where samples are compared with them."""

    def __init__(self, usage: Usage, quality: Quality) -> None:
        self._usage = usage
        self._quality = quality
        self._unchanged: Tally[_Label] = Tally()
        self._changes: dict[_Label, tuple[list[int], list[int]]] = {}  # before, after

    def unchanged(self, vpa: VerticalPodAutoscaler, compared: Mapping[str, int], pods: int) -> None:
        """Note so many aggregates of each resource whose target is the same as before."""
        for resource, count in compared.items():
            self._unchanged[resource, written_mode(vpa), pods.bit_length()] += count

    def changed(
        self, vpa: VerticalPodAutoscaler, recommendation: Sequence[ContainerAmounts], pods: int
    ) -> dict[str, int]:
        """Note the targets of a VPA; returns how many aggregates have one now, by resource."""
        aggregates = self._usage.aggregates
        compared: Tally[str] = Tally()
        for one in recommendation:
            rows = self._usage.rows_of(vpa_key(vpa), one.name)
            for resource in RESOURCES:
                quantity = one.uncapped_target.get(resource, ZERO)
                after = quantity.milli if resource == CPU else quantity.value
                before = aggregates.recommended(resource)
                if after:
                    label = (resource, written_mode(vpa), pods.bit_length())
                    olds, news = self._changes.setdefault(label, ([], []))
                    olds += before[rows].tolist()
                    news += [after] * rows.size
                    compared[resource] += rows.size
                before[rows] = after
        return compared

    def count(self) -> None:
        """Count what was noted in this cycle."""
        for (resource, mode, bits), count in self._unchanged.items():
            self._quality.unchanged(resource, mode, bits=bits, count=count)
        self._unchanged.clear()
        for (resource, mode, bits), (before, after) in self._changes.items():
            old, new = np.array(before, dtype=np.int64), np.array(after, dtype=np.int64)
            self._quality.change(resource, mode, bits=bits, before=old, after=new)
        self._changes.clear()
