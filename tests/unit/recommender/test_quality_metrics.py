"""Quality metrics: samples compared with recommendations, in batches."""

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from recommender.model.aggregates import Aggregates, AggregationRules, HalfLives
from recommender.model.timestamps import instant
from recommender.quality_metrics import QualityMetrics


def aggregates(*, mode: str | None, cpu: int = 0) -> Aggregates:
    table = Aggregates(HalfLives())
    row = table.create(instant(None), AggregationRules())
    table.recommended_cpu[row] = cpu
    table.set_mode(row, mode)
    return table


def observed(table: Aggregates, *amounts: int) -> CollectorRegistry:
    registry = CollectorRegistry()
    rows = np.zeros(len(amounts), dtype=np.int64)
    QualityMetrics(registry).samples("cpu", table, rows, np.array(amounts))
    return registry


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"vpa_quality_{name}", labels)


USUAL = {"update_mode": "Recreate", "resource": "cpu", "is_oom": "false"}


def test_usage_above_and_below_the_recommendation() -> None:
    registry = observed(aggregates(mode="Recreate", cpu=100), 50, 100, 150)
    relative = "usage_recommendation_relative_diffs_bucket"
    assert value(registry, relative, **USUAL, le="-0.5") == 1
    assert value(registry, relative, **USUAL, le="0.0") == 2
    assert value(registry, relative, **USUAL, le="+Inf") == 3
    labels = {"update_mode": "Recreate", "recommendation_missing": "false"}
    assert value(registry, "cpu_recommendation_over_usage_diffs_cores_count", **labels) == 1
    under = "cpu_recommendation_lower_equal_usage_diffs_cores"
    assert value(registry, f"{under}_count", **labels) == 2
    assert value(registry, f"{under}_sum", **labels) == pytest.approx(0.05)


def test_a_missing_recommendation_counts_as_zero() -> None:
    registry = observed(aggregates(mode="Recreate"), 50)
    missing = "usage_sample_missing_recommendation_count"
    assert value(registry, missing, **USUAL) == 1
    labels = {"update_mode": "Recreate", "recommendation_missing": "true"}
    under = "cpu_recommendation_lower_equal_usage_diffs_cores_count"
    assert value(registry, under, **labels) == 1


@pytest.mark.parametrize(
    ("mode", "counts"),
    [
        pytest.param(None, False, id="nothing to recommend"),
        pytest.param("Off", True, id="mode Off: recommended, not applied"),
        pytest.param("", True, id="mode not set"),
        pytest.param("Initial", True, id="any other mode"),
    ],
)
def test_which_samples_count(*, mode: str | None, counts: bool) -> None:
    registry = observed(aggregates(mode=mode, cpu=100), 50)
    found = value(registry, "cpu_recommendations_cores_count", update_mode=mode or "")
    assert (found is not None) is counts


@pytest.mark.parametrize(
    ("pods", "size"), [(0, "0"), (1, "0"), (2, "1"), (7, "2"), (8, "3"), (2**30, "20")]
)
def test_changes_are_counted_by_size(pods: int, size: str) -> None:
    registry = CollectorRegistry()
    before, after = np.array([100, 0]), np.array([150, 150])
    QualityMetrics(registry).change(
        "cpu", "Recreate", bits=pods.bit_length(), before=before, after=after
    )
    labels = {"update_mode": "Recreate", "resource": "cpu", "vpa_size_log2": size}
    assert value(registry, "relative_recommendation_changes_count", **labels) == 1
    assert value(registry, "relative_recommendation_changes_sum", **labels) == 0.5
