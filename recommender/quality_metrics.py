"""Metrics of how well recommendations fit usage, updated in batches; recommender.md 15.2.

Source: vertical-pod-autoscaler/pkg/utils/metrics/quality/quality.go.
"""

from collections.abc import Sequence

import numpy as np
from prometheus_client import CollectorRegistry

from common.resources import CPU, MEMORY
from recommender.metric_types import BatchHistogram, PlainCounter
from recommender.model.aggregates import Aggregates
from recommender.model.column_table import Floats, Ints

_CORES = tuple(0.01 * 2**power for power in range(17))
_BYTES = tuple(1e6 * 2**power for power in range(17))
_UPWARDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1)
_RELATIVE = (*(-bound for bound in reversed(_UPWARDS)), 0, *_UPWARDS, 2.5, 5, 10, 25, 50, 100)
_LARGEST = 20  # of vpa_size_log2


class QualityMetrics:
    """Histograms that compare samples with the recommendation at their time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        mode, missing, is_oom = "update_mode", "recommendation_missing", "is_oom"
        usual = (mode, "resource", is_oom)

        def histogram(
            name: str, text: str, labels: tuple[str, ...], bounds: Sequence[float]
        ) -> BatchHistogram:
            return BatchHistogram(f"vpa_quality_{name}", text, labels, bounds, registry)

        self._relative = histogram(
            "usage_recommendation_relative_diffs",
            "Usage less recommendation, relative to the recommendation.",
            usual,
            _RELATIVE,
        )
        self._missing = PlainCounter(
            "vpa_quality_usage_sample_missing_recommendation_count",
            "Samples without a recommendation to compare with.",
            usual,
            registry,
        )
        self._over: dict[str, BatchHistogram] = {}
        self._under: dict[str, BatchHistogram] = {}
        self._recommended: dict[str, BatchHistogram] = {}
        for resource, prefix, unit, more, bounds in (
            (CPU, "cpu", "cores", (), _CORES),
            (MEMORY, "mem", "bytes", (is_oom,), _BYTES),
        ):
            self._over[resource] = histogram(
                f"{prefix}_recommendation_over_usage_diffs_{unit}",
                "How far recommendations are above usage.",
                (mode, missing, *more),
                bounds,
            )
            self._under[resource] = histogram(
                f"{prefix}_recommendation_lower_equal_usage_diffs_{unit}",
                "How far usage is above recommendations.",
                (mode, missing, *more),
                bounds,
            )
            self._recommended[resource] = histogram(
                f"{prefix}_recommendations_{unit}",
                "Recommendations at the time of a sample.",
                (mode, *more),
                bounds,
            )
        self._changes = histogram(
            "relative_recommendation_changes",
            "New recommendation relative to the old one, less one.",
            (mode, "resource", "vpa_size_log2"),
            _RELATIVE,
        )

    def samples(
        self,
        resource: str,
        aggregates: Aggregates,
        rows: Ints,
        amounts: Ints,
        *,
        is_oom: bool = False,
    ) -> None:
        """Observe accepted samples, in millicores or bytes, of these aggregates.

        Samples of containers for which no VPA recommends anything don't count.
        """
        unit = 1000.0 if resource == CPU else 1.0
        recommended = aggregates.recommended(resource)[rows] / unit
        used = amounts / unit
        modes = aggregates.mode[rows]
        for number in np.unique(modes).tolist():
            mode = aggregates.modes[number]
            if mode is None:
                continue
            mine = modes == number
            self._compare(
                resource, mode, recommended[mine], used[mine], is_oom="true" if is_oom else "false"
            )

    def change(self, resource: str, mode: str, *, bits: int, before: Ints, after: Ints) -> None:
        """Observe new recommendations; ``before`` holds the old ones, 0 if there was none.

        ``bits`` is the bit length of the number of pods.
        """
        there = before > 0
        self._changes.observe(after[there] / before[there] - 1.0, mode, resource, _size(bits))

    def unchanged(self, resource: str, mode: str, *, bits: int, count: int) -> None:
        """Observe unchanged recommendations; ``bits`` is the bit length of the number of pods."""
        self._changes.observe(np.zeros(count), mode, resource, _size(bits))

    def _compare(
        self, resource: str, mode: str, recommended: Floats, used: Floats, *, is_oom: str
    ) -> None:
        oom = (is_oom,) if resource == MEMORY else ()
        there = recommended > 0
        relative = (used[there] - recommended[there]) / recommended[there]
        self._relative.observe(relative, mode, resource, is_oom)
        absent = int(np.count_nonzero(~there))
        if absent:
            self._missing.inc(mode, resource, is_oom, by=absent)
        for part, missing in ((there, "false"), (~there, "true")):
            difference = recommended[part] - used[part]
            over = difference > 0
            self._over[resource].observe(difference[over], mode, missing, *oom)
            self._under[resource].observe(-difference[~over], mode, missing, *oom)
        self._recommended[resource].observe(recommended, mode, *oom)


def _size(bits: int) -> str:
    """Return the label of a number of pods with this bit length: its logarithm, rounded down."""
    return str(min(max(bits - 1, 0), _LARGEST))
