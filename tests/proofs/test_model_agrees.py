"""The recommender's model agrees with ``reference_model``, the specification in plain Python.

Both receive random streams of pods, samples, OOM kills, evictions, changes of labels and of VPAs,
garbage collections and restarts. ``MODEL_STREAMS`` and ``PROOF_SEED`` set their number and seed.
"""

import math
import os
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

import numpy as np
import pytest

from common.api.autoscaling import CheckpointStatus, HistogramCheckpoint
from model_stream import Stream
from recommender.model.histograms import Histograms
from recommender.model.keys import VpaKey
from recommender.model.timestamps import moment
from reference_histogram import EPSILON, ZERO, Histogram
from reference_model import Aggregate

STREAMS = int(os.environ.get("MODEL_STREAMS", "8"))
PARTS = 4
SEED = int(os.environ.get("PROOF_SEED", "1"))
CYCLES = 60
KINDS = frozenset(
    {
        *("samples", "kill", "recorded", "too_old", "evicted", "replaced", "relabelled"),
        *("collected", "restart", "window goes on", "long pause", "VPA changed"),
    }
)
TOLERANCE = 1e-9  # relative, as in the golden data
FRACTIONS = (0.0, 0.5, 0.9, 0.95, 1.0)
NEARBY = timedelta(hours=2)
INNER = (0.5, 0.9, 0.95)  # the extremes depend on weights below epsilon at the reference time


class Comparison:
    """A comparison of the process with the reference model."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.exact = True  # saved values don't depend on rounding errors

    def check(self) -> None:
        stream = self.stream
        assert stream.process.kills() == {k: v for k, v in stream.outcomes.items() if v}
        for key in stream.specs:
            usage, plain = stream.process.usage, stream.plain
            assert usage.pod_count(key) == plain.pod_count(key), key
            self._check_merged(key)
            self._check_checkpoints(key)

    def _check_merged(self, key: VpaKey) -> None:
        ours, theirs = self.stream.process.merged(key), self.stream.plain.merged(key)
        assert ours.keys() == theirs.keys(), key
        for name, (table, row) in ours.items():
            where, plain = (*key, name), theirs[name]
            assert table.samples[row] == plain.samples, where
            assert _time(int(table.first_sample[row])) == plain.first_sample, where
            assert _time(int(table.last_sample[row])) == plain.last_sample, where
            for resource, histograms, histogram in (
                ("cpu", table.cpu, plain.cpu),
                ("memory", table.memory, plain.memory),
            ):
                self._check_histogram((*where, resource), histograms, row, histogram)

    def _order_tolerance(self, where: tuple[str, ...], *, shifted: bool) -> float:
        """Return the weight that depends on the order of operations (Q21).

        Some operations drop weights below epsilon: the shift of a histogram before it is merged
        or compared with another one, and a subtraction, which may be before or after a sample of
        another pod in the same response.
        """
        namespace, vpa, container, resource = where
        key = VpaKey(namespace, vpa)
        parts = [
            aggregate
            for place, aggregate in self.stream.plain.linked(key).items()
            if place[1] == container
        ]
        loaded = self.stream.plain.vpas[key].loaded.get(container)
        parts += [] if loaded is None else [loaded]
        plain = [one.cpu if resource == "cpu" else one.memory for one in parts]
        usage = self.stream.process.usage
        table = usage.aggregates.cpu if resource == "cpu" else usage.aggregates.memory
        rows = [row for one in usage.groups(key) if one.container == container for row in one.rows]
        light = sum(_light_weights(weight for one in plain for weight in one.weights.values()))
        light += sum(_light_weights(table.weights[rows].flat))
        unlike = shifted or len({one.ref for one in plain}) > 1
        return light + (EPSILON * len(parts) if unlike else 0.0)

    def _check_histogram(
        self, where: tuple[str, ...], table: Histograms, row: int, plain: Histogram
    ) -> None:
        mine, other = self._factors(where, _time(int(table.reference[row])), plain)
        close = TOLERANCE * max(plain.total * other, EPSILON) + self._order_tolerance(
            where, shifted=mine != other
        )
        assert abs(table.total[row] * mine - plain.total * other) <= close, where
        rows = np.array([row])
        weights = table.inner(rows)[0] * mine
        wanted = {b: w * other for b, w in plain.weights.items() if plain.min <= b <= plain.max}
        for bucket in range(len(weights)):
            assert abs(weights[bucket] - wanted.get(bucket, 0.0)) <= close, where
        if plain.total * other <= close or plain.empty:
            return  # all weights may depend on the order
        fractions = FRACTIONS if mine == other else INNER
        found = table.percentiles(rows, fractions)[0].tolist()
        sums = [one * other for one in plain.sums()]
        for fraction, amount in zip(fractions, found, strict=True):
            threshold = fraction * plain.total * other
            if all(abs(one - threshold) > close * len(sums) for one in sums):  # else it is a tie
                assert amount == plain.percentile(fraction), (*where, str(fraction))

    def _factors(
        self, where: tuple[str, ...], reference: datetime, plain: Histogram
    ) -> tuple[float, float]:
        """Return the factors that scale our weights, and the plain model's, to the later reference.

        The first sample of a histogram sets its reference. If a pod is in one response twice, with
        times within two hours, the two may take another sample as the first one. After a restart
        the first is any of the continued windows.
        """
        apart, stream = abs(reference - plain.ref), self.stream
        is_any = stream.retires or stream.done["window goes on"]
        assert apart <= NEARBY + plain.half_life or is_any, where
        younger = max(reference, plain.ref)
        mine, other = (
            math.pow(2.0, (one - younger) / plain.half_life) for one in (reference, plain.ref)
        )
        return mine, other

    def _check_checkpoints(self, key: VpaKey) -> None:
        stream = self.stream
        ours = stream.process.checkpoints(key)
        whole, theirs = stream.plain.merged(key), stream.plain.checkpoints(key, stream.now)
        assert ours.keys() == theirs.keys()
        for name, status in ours.items():
            plain = theirs[name]
            self._check_status((*key, name), status, plain)
            for resource, saved, histogram, before in (
                ("cpu", status.cpu_histogram, plain.cpu, whole[name].cpu),
                ("memory", status.memory_histogram, plain.memory, whole[name].memory),
            ):
                assert saved is not None
                self._check_saved((*key, name, resource), saved, histogram, before)

    def _check_status(
        self, where: tuple[str, ...], status: CheckpointStatus, plain: Aggregate
    ) -> None:
        assert status.total_samples_count == plain.samples, where
        assert (status.first_sample_start or ZERO) == _whole(plain.first_sample), where
        assert (status.last_sample_start or ZERO) == _whole(plain.last_sample), where

    def _check_saved(
        self,
        where: tuple[str, ...],
        saved: HistogramCheckpoint,
        plain: Histogram,
        before: Histogram,
    ) -> None:
        mine, other = self._factors(where, saved.reference_timestamp or ZERO, plain)
        tolerance_of_order = self._order_tolerance(where, shifted=mine != other)
        left = plain.total * other
        close = TOLERANCE * max(before.total * other, EPSILON) + tolerance_of_order
        assert abs(saved.total_weight * mine - left) <= close, where
        if left <= max(1e-6 * before.total * other, tolerance_of_order):
            # All was subtracted; the rest is its rounding error.
            self.exact &= plain.total == saved.total_weight == 0
            return
        wanted = plain.save()
        weights = {int(bucket): n for bucket, n in saved.bucket_weights.items()}
        relative = plain.relative()
        heaviest = max(plain.weights.values(), default=0.0) * other
        if not heaviest:  # only the sum of the weights was above epsilon
            assert weights == wanted, where
            return
        unsure = 10_000 * tolerance_of_order / heaviest + 1e-6
        for bucket in weights.keys() | wanted.keys():
            off = abs(weights.get(bucket, 0) - relative.get(bucket, 0.0))
            assert off <= 0.5 + unsure, (*where, str(bucket))
        self.exact &= weights == wanted and mine == other


def _time(value: int) -> datetime:
    return moment(value) or ZERO


def _light_weights(weights: Iterable[float]) -> list[float]:
    return [one for one in weights if 0.0 < one < EPSILON]


def _whole(time: datetime) -> datetime:
    return time.replace(microsecond=0)


@pytest.mark.timeout(120 + STREAMS)
@pytest.mark.parametrize("part", range(PARTS))
async def test_the_model_agrees_with_the_specification(part: int) -> None:
    events: Counter[str] = Counter()
    for seed in range(SEED * 100_000 + part, SEED * 100_000 + STREAMS, PARTS):
        print(f"stream {seed}")  # noqa: T201 - to reproduce a failure
        stream = Stream(seed)
        for number in range(CYCLES):
            comparison = Comparison(stream)
            await stream.cycle()
            comparison.check()
            if comparison.exact and number % 20 == 13:
                await stream.restart()
        events.update(stream.done)
    assert events.keys() >= KINDS or STREAMS < 24
