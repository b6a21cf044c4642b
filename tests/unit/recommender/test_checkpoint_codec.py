"""Checkpoints: encoding, decoding, invalid ones, age and extent; recommender.md 1.4, 11."""

from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest

from common.api.autoscaling import CheckpointStatus, HistogramCheckpoint
from common.errors import DecodeError
from recommender.checkpoints.codec import (
    HistoryExtent,
    decode,
    encode,
    lag,
    new_object,
    object_name,
    since,
    weighs_less,
)
from recommender.model.aggregates import Aggregates, HalfLives, History
from recommender.model.histograms import SavedHistogram
from recommender.model.keys import VpaKey
from recommender.model.timestamps import NEVER, instant

START = datetime(2026, 1, 1, tzinfo=UTC)
WEB = VpaKey("prod", "web")


def steady_day() -> Aggregates:
    """Return the aggregates of example A: one sample a minute for a day, and one memory peak."""
    table = Aggregates(HalfLives())
    row = np.array([table.new()])
    for minute in range(1440):
        time = np.array([instant(START + timedelta(minutes=minute))])
        table.add_cpu(row, time, np.array([100]))
    end = np.array([instant(START + timedelta(days=1))])
    table.memory.add(row, np.array([200 << 20]), end, 1.0)
    return table


def test_example_a_as_json() -> None:
    (history,) = steady_day().save(np.array([0]))
    status = encode(history, START + timedelta(days=1, microseconds=7))
    written = msgspec.json.decode(msgspec.json.encode(new_object(WEB, "app", status)))
    assert written == {
        "metadata": {"name": "web-app", "namespace": "prod"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {
            "lastUpdateTime": "2026-01-02T00:00:00Z",
            "version": "v3",
            "cpuHistogram": {
                "referenceTimestamp": "2026-01-01T00:00:00Z",
                "bucketWeights": {"8": 10000},
                "totalWeight": pytest.approx(207.69808989927873, rel=1e-12),
            },
            "memoryHistogram": {
                "referenceTimestamp": "2026-01-02T00:00:00Z",
                "bucketWeights": {"14": 10000},
                "totalWeight": 1,
            },
            "firstSampleStart": "2026-01-01T00:00:00Z",
            "lastSampleStart": "2026-01-01T23:59:00Z",
            "totalSamplesCount": 1440,
        },
    }


def test_times_are_null_without_samples() -> None:
    """The reference writes these fields always (1.4)."""
    table = Aggregates(HalfLives())
    (history,) = table.save(np.array([table.new()]))
    written = msgspec.json.decode(msgspec.json.encode(encode(history, START)))
    times = {
        name: written.get(name, "left out") for name in ("firstSampleStart", "lastSampleStart")
    }
    assert times == {"firstSampleStart": None, "lastSampleStart": None}
    assert written["cpuHistogram"]["referenceTimestamp"] is None


def test_an_encoded_checkpoint_decodes_to_the_same_history() -> None:
    (history,) = steady_day().save(np.array([0]))
    assert decode(encode(history, START)) == history


NULL = HistogramCheckpoint(reference_timestamp=None)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(CheckpointStatus(version="v2"), id="another version"),
        pytest.param(CheckpointStatus(), id="no version"),
        pytest.param(
            CheckpointStatus(version="v3", total_samples_count=-1),
            id="a negative number of samples",
        ),
        pytest.param(
            CheckpointStatus(version="v3", total_samples_count=10**16), id="too many samples"
        ),
        pytest.param(
            CheckpointStatus(
                version="v3", cpu_histogram=msgspec.structs.replace(NULL, total_weight=1e101)
            ),
            id="too heavy",
        ),
        pytest.param(
            CheckpointStatus(
                version="v3", cpu_histogram=msgspec.structs.replace(NULL, total_weight=-1.0)
            ),
            id="negative total",
        ),
        pytest.param(
            CheckpointStatus(
                version="v3",
                memory_histogram=msgspec.structs.replace(NULL, bucket_weights={"176": 1}),
            ),
            id="no such bucket",
        ),
        pytest.param(
            CheckpointStatus(
                version="v3",
                memory_histogram=msgspec.structs.replace(NULL, bucket_weights={"many": 1}),
            ),
            id="a bucket that is no number",
        ),
    ],
)
def test_invalid_checkpoints(bad: CheckpointStatus) -> None:
    with pytest.raises(DecodeError):
        decode(bad)


def test_histograms_may_be_missing() -> None:
    assert decode(CheckpointStatus(version="v3")).samples == 0


def test_the_spec_names_the_container_not_the_name_q6() -> None:
    first, second = VpaKey("prod", "a"), VpaKey("prod", "a-b")
    assert object_name(first, "b-c") == object_name(second, "c")
    specs = [
        new_object(vpa, container, CheckpointStatus()).spec
        for vpa, container in ((first, "b-c"), (second, "c"))
    ]
    assert [(spec.vpa_object_name, spec.container_name) for spec in specs] == [
        ("a", "b-c"),
        ("a-b", "c"),
    ]


NOTHING = SavedHistogram(weights={}, total=0.0, reference=NEVER)


@pytest.mark.parametrize(
    ("covered", "want"),
    [
        pytest.param(timedelta(), timedelta(), id="one sample"),
        pytest.param(timedelta(minutes=100), timedelta(minutes=1), id="a hundred minutes"),
        pytest.param(timedelta(minutes=499), timedelta(minutes=4.99), id="just below the maximum"),
        pytest.param(timedelta(minutes=500), timedelta(minutes=5), id="the maximum"),
        pytest.param(timedelta(days=8), timedelta(minutes=5), id="a long history"),
        pytest.param(timedelta(days=-8), timedelta(), id="a negative duration"),
    ],
)
def test_the_permitted_lag_of_a_checkpoint(covered: timedelta, want: timedelta) -> None:
    history = History(
        cpu=NOTHING,
        memory=NOTHING,
        first_sample=instant(START),
        last_sample=instant(START + covered),
        samples=1,
    )
    assert lag(history) == want


def at(days: float) -> int:
    return instant(START + timedelta(days=days))


def history_of(
    cpu: float,
    memory: float = 1.0,
    *,
    days: float = 0,
    first: float | None = 0,
    cpu_days: float = 0,
) -> History:
    """Return a history with these total weights; ``days`` is the memory's reference time."""
    begin = NEVER if first is None else at(first)
    return History(
        cpu=SavedHistogram(weights={1: 1}, total=cpu, reference=at(cpu_days)),
        memory=SavedHistogram(weights={1: 1}, total=memory, reference=at(days)),
        first_sample=begin,
        last_sample=begin,
        samples=1,
    )


@pytest.mark.parametrize(
    ("new", "stored", "want"),
    [
        pytest.param(history_of(5), history_of(5), False, id="equal"),
        pytest.param(history_of(6), history_of(5), False, id="more"),
        pytest.param(history_of(4), history_of(5), True, id="less CPU"),
        pytest.param(history_of(5, 0.5), history_of(5, 1.0), True, id="less memory"),
        pytest.param(
            history_of(6, 0.5), history_of(5, 1.0), True, id="more of one, less of the other"
        ),
        pytest.param(history_of(2.5, cpu_days=1), history_of(5), False, id="equal, a day later"),
        pytest.param(history_of(2.4, cpu_days=1), history_of(5), True, id="less, a day later"),
        pytest.param(history_of(10), history_of(5, cpu_days=1), False, id="equal, a day before"),
        pytest.param(history_of(9), history_of(5, cpu_days=1), True, id="less, a day before"),
        pytest.param(history_of(5 * (1 - 1e-12)), history_of(5), False, id="a rounding error"),
        pytest.param(history_of(0.0), history_of(0.00005), False, id="a negligible weight"),
        pytest.param(
            history_of(0.0), history_of(1e100, cpu_days=-9999), False, id="too old to count"
        ),
        pytest.param(
            history_of(1e30), history_of(1e30, cpu_days=0.2), False, id="a fraction of a half-life"
        ),
    ],
)
def test_weights_are_compared_at_a_common_time(
    new: History, stored: History, *, want: bool
) -> None:
    assert weighs_less(new, HistoryExtent.of(stored), HalfLives()) is want


@pytest.mark.parametrize(
    ("new", "stored", "want"),
    [
        pytest.param(2, 1, 1, id="later"),
        pytest.param(1, 2, 1, id="earlier"),
        pytest.param(1, None, 1, id="a stored history without CPU samples"),
        pytest.param(None, 1, 1, id="a new history without CPU samples"),
        pytest.param(None, None, None, id="both without CPU samples"),
    ],
)
def test_a_checkpoint_never_starts_later_than_the_stored_one(
    new: float | None, stored: float | None, want: float | None
) -> None:
    found = since(history_of(1, first=new), HistoryExtent.of(history_of(1, first=stored)))
    assert found.first_sample == (NEVER if want is None else at(want))
    assert found.last_sample >= found.first_sample
