"""Encoding and decoding of a container's history as the status of a checkpoint.

Source: recommender.md sections 1.4, 3.6, 3.7 and 11;
vertical-pod-autoscaler/pkg/recommender/checkpoint/checkpoint_writer.go.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from common.api.autoscaling import (
    CheckpointSpec,
    CheckpointStatus,
    HistogramCheckpoint,
    VerticalPodAutoscalerCheckpoint,
)
from common.api.meta import ObjectMeta
from common.errors import DecodeError
from recommender.model.aggregates import HalfLives, History
from recommender.model.buckets import EPSILON
from recommender.model.histograms import SavedHistogram
from recommender.model.keys import VpaKey
from recommender.model.timestamps import NEVER, instant, moment, span

VERSION = "v3"
LONGEST_LAG = timedelta(minutes=5)

_IMPRECISION = 1e-9  # relative error of a sum of weights
_MOST_HALVINGS = 5000  # more make any weight 0

_MOST_SAMPLES = 10**15  # of a container: one per second for thirty million years
_MOST_WEIGHT = 1e100  # a total is at most 1e30 times the number of samples


def object_name(vpa: VpaKey, container: str) -> str:
    """Return the name of a checkpoint object.

    Two pairs may share a name (``a`` + ``b-c``, ``a-b`` + ``c``), so a reader uses the spec, and
    a writer tests it in the patch (Q6).
    """
    return f"{vpa.name}-{container}"


def encode(history: History, now: datetime | None) -> CheckpointStatus:
    """Encode a history; times lose their fractions of a second."""
    return CheckpointStatus(
        last_update_time=_whole(now),
        version=VERSION,
        cpu_histogram=_encode(history.cpu),
        memory_histogram=_encode(history.memory),
        first_sample_start=_whole(moment(history.first_sample)),
        last_sample_start=_whole(moment(history.last_sample)),
        total_samples_count=history.samples,
    )


def new_object(
    vpa: VpaKey,
    container: str,
    status: CheckpointStatus,
    annotations: Mapping[str, str] | None = None,
) -> VerticalPodAutoscalerCheckpoint:
    """Return a new checkpoint object."""
    return VerticalPodAutoscalerCheckpoint(
        metadata=ObjectMeta(
            name=object_name(vpa, container),
            namespace=vpa.namespace,
            annotations=annotations or None,
        ),
        spec=CheckpointSpec(vpa_object_name=vpa.name, container_name=container),
        status=status,
    )


def decode(status: CheckpointStatus) -> History:
    """Decode a history.

    Raises:
        DecodeError: the version is unsupported, or a value is out of range.
    """
    if status.version != VERSION:
        raise DecodeError(f"version is {status.version!r}, only {VERSION!r} can be read")
    if not 0 <= status.total_samples_count <= _MOST_SAMPLES:
        raise DecodeError(f"there can't be {status.total_samples_count} samples")
    return History(
        cpu=_decode(status.cpu_histogram),
        memory=_decode(status.memory_histogram),
        first_sample=instant(status.first_sample_start),
        last_sample=instant(status.last_sample_start),
        samples=status.total_samples_count,
    )


def lag(history: History) -> timedelta:
    """Return the maximum time until the next write of this history (X81).

    It is a hundredth of the time that the history covers, and at most five minutes. The loss of
    this much in a crash changes no percentile. A new history is written in each cycle.
    """
    covered = timedelta(microseconds=history.last_sample - history.first_sample)
    return min(max(covered, timedelta()) / 100, LONGEST_LAG)


class HistoryExtent(NamedTuple):
    """The amount of history in a checkpoint; the next write must not have less."""

    cpu: float  # total weight …
    cpu_reference: int  # … at this instant
    memory: float
    memory_reference: int
    first_sample: int  # instant

    @classmethod
    def of(cls, history: History) -> "HistoryExtent":
        cpu, memory = history.cpu, history.memory
        return cls(cpu.total, cpu.reference, memory.total, memory.reference, history.first_sample)


def weighs_less(history: History, stored: HistoryExtent, half_lives: HalfLives) -> bool:
    """Return True if a histogram has less total weight than the stored one, at a common time."""
    new = HistoryExtent.of(history)
    return _is_less(
        (new.cpu, new.cpu_reference), (stored.cpu, stored.cpu_reference), half_lives.cpu
    ) or _is_less(
        (new.memory, new.memory_reference),
        (stored.memory, stored.memory_reference),
        half_lives.memory,
    )


def since(history: History, stored: HistoryExtent) -> History:
    """Return the history with a first sample that is not later than the stored one."""
    first, before = history.first_sample, stored.first_sample
    if before == NEVER or (first != NEVER and first <= before):
        return history
    return replace(history, first_sample=before, last_sample=max(history.last_sample, before))


def _is_less(new: tuple[float, int], stored: tuple[float, int], half_life: timedelta) -> bool:
    common = max(new[1], stored[1])
    mine, theirs = (_at(common, *each, half_life) for each in (new, stored))
    return mine < theirs * (1 - _IMPRECISION) - EPSILON


def _at(common: int, total: float, reference: int, half_life: timedelta) -> float:
    """Convert a total weight to a later reference time, in whole half-lives."""
    halvings = math.floor((common - reference) / span(half_life) + 0.5)
    return math.ldexp(total, -min(halvings, _MOST_HALVINGS))


def _encode(saved: SavedHistogram) -> HistogramCheckpoint:
    return HistogramCheckpoint(
        reference_timestamp=_whole(moment(saved.reference)),
        bucket_weights={str(bucket): weight for bucket, weight in saved.weights.items()},
        total_weight=saved.total,
    )


def _decode(histogram: HistogramCheckpoint | None) -> SavedHistogram:
    if histogram is None:
        return SavedHistogram(weights={}, total=0.0, reference=NEVER)
    if histogram.total_weight > _MOST_WEIGHT:
        raise DecodeError(f"total weight {histogram.total_weight} is not a weight")
    try:
        return SavedHistogram(
            weights={int(bucket): weight for bucket, weight in histogram.bucket_weights.items()},
            total=histogram.total_weight,
            reference=instant(histogram.reference_timestamp),
        )
    except ValueError as error:
        raise DecodeError(str(error)) from error


def _whole(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(microsecond=0)
