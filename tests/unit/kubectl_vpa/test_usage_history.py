"""What ``kubectl vpa history NAME`` says about usage, from checkpoints."""

from datetime import UTC, datetime, timedelta

import numpy as np
from msgspec.structs import replace

import builders
from common.api.autoscaling import (
    CheckpointSpec,
    CheckpointStatus,
    HistogramCheckpoint,
    VerticalPodAutoscalerCheckpoint,
)
from common.api.meta import ObjectMeta
from common.quantity import Quantity
from kubectl_vpa.judge.usage_history import percentiles, usage_history
from kubectl_vpa.results.history import ContainerHistory
from recommender.model import buckets
from recommender.model.histograms import Histograms, SavedHistogram
from recommender.model.timestamps import instant
from scripted_components import TIME, known_vpa

NOW = datetime(2026, 1, 2, tzinfo=UTC)
VPA = builders.vpa(recommendations=(builders.recommendation(target={"cpu": "49m"}),))
HISTOGRAM = HistogramCheckpoint(
    reference_timestamp=TIME, bucket_weights={"0": 1, "9": 3}, total_weight=12.0
)


def checkpoint(
    container: str = "app", *, vpa: str = "web", version: str = "v3"
) -> VerticalPodAutoscalerCheckpoint:
    return VerticalPodAutoscalerCheckpoint(
        metadata=ObjectMeta(name=f"{vpa}-{container}", namespace="default"),
        spec=CheckpointSpec(vpa_object_name=vpa, container_name=container),
        status=CheckpointStatus(
            version=version,
            last_update_time=NOW,
            cpu_histogram=HISTOGRAM,
            first_sample_start=TIME,
            last_sample_start=TIME + timedelta(hours=1),
            total_samples_count=60,
        ),
    )


def found(*checkpoints: VerticalPodAutoscalerCheckpoint) -> list[ContainerHistory]:
    return list(usage_history(VPA, checkpoints, None))


def test_a_checkpoint_has_the_extent_and_the_percentiles_of_usage() -> None:
    (app,) = found(checkpoint())
    assert (app.container, app.samples, app.saved_at) == ("app", 60, NOW)
    assert (app.first_sample, app.last_sample) == (TIME, TIME + timedelta(hours=1))
    assert (app.cpu.weight, app.cpu.target, app.cpu.confidence) == (12.0, "49m", None)
    assert app.cpu.p50 == app.cpu.p100
    assert app.memory.p50 is None
    assert (app.memory.weight, app.memory.target) == (0.0, None)


def test_checkpoints_of_others_and_of_other_versions_are_left_out() -> None:
    assert found(checkpoint(vpa="other"), checkpoint(version="v2")) == []
    assert [each.container for each in found(checkpoint("side"), checkpoint())] == ["side", "app"]


def test_a_container_without_recommendation_has_usage_alone() -> None:
    (side,) = found(checkpoint("side"))
    assert (side.cpu.p50 is None, side.cpu.target) == (False, None)


def test_the_confidence_is_the_recommenders() -> None:
    (app,) = usage_history(VPA, [checkpoint()], replace(known_vpa("web"), namespace="default"))
    assert (app.cpu.confidence, app.memory.confidence) == (0.5, 0.5)


def test_percentiles_are_those_of_the_recommender() -> None:
    """The recommender estimates from the same histogram after a restart."""
    usage = np.array([10, 30, 200, 900])
    kept = Histograms(buckets.CPU, timedelta(days=1))
    row = kept.new_rows(1)
    times = np.full(len(usage), instant(TIME))
    kept.add(np.repeat(row, len(usage)), usage, times, 1.0)
    (saved,) = kept.save(row)
    amounts = kept.percentiles(row, (0.5, 0.9, 0.95, 1.0))[0]
    shown = percentiles("cpu", saved)
    assert [None if each is None else Quantity.parse(each).milli for each in shown] == list(amounts)
    assert shown[0] != shown[3]


def test_no_weight_has_no_percentiles() -> None:
    empty = SavedHistogram(weights={}, total=0.0, reference=instant(TIME))
    assert percentiles("memory", empty) == [None] * 4
