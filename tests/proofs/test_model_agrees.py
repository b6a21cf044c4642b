"""The model and a plain re-statement of the specification agree, whatever is fed to them.

Random streams of pods, samples, OOM kills, evictions, changes of labels and of VPAs, garbage
collection and restarts go through the process' own parts and, one by one, through
``reference_model``. ``MODEL_STREAMS=500 make proofs`` runs more of them; ``PROOF_SEED`` others.
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
INNER = (0.5, 0.9, 0.95)  # the ends depend on what is dust at the reference time


class Comparison:
    """Compares what is known, and tells where it differs."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.clean = True  # whether what would be saved hangs on no last bit

    def check(self) -> None:
        stream = self.stream
        assert stream.process.kills() == {k: v for k, v in stream.outcomes.items() if v}
        for key in stream.specs:
            usage, plain = stream.process.usage, stream.plain
            assert usage.pod_count(key) == plain.pod_count(key), key
            self._merged(key)
            self._checkpoints(key)

    def _merged(self, key: VpaKey) -> None:
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
                self._histogram((*where, resource), histograms, row, histogram)

    def _dust(self, where: tuple[str, ...], *, shifted: bool) -> float:
        """What the order of things decides (Q21): some of them drop what weighs less than epsilon.

        A shift does, where a histogram has to be merged, or compared, with another. So does a
        subtraction, which may come before or after a measurement of another pod in one answer.
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
        light = sum(_light(weight for one in plain for weight in one.weights.values()))
        light += sum(_light(table.weights[rows].flat))
        unlike = shifted or len({one.ref for one in plain}) > 1
        return light + (EPSILON * len(parts) if unlike else 0.0)

    def _histogram(
        self, where: tuple[str, ...], table: Histograms, row: int, plain: Histogram
    ) -> None:
        mine, other = self._factors(where, _time(int(table.reference[row])), plain)
        close = TOLERANCE * max(plain.total * other, EPSILON) + self._dust(
            where, shifted=mine != other
        )
        assert abs(table.total[row] * mine - plain.total * other) <= close, where
        rows = np.array([row])
        weights = table.inner(rows)[0] * mine
        wanted = {b: w * other for b, w in plain.weights.items() if plain.min <= b <= plain.max}
        for bucket in range(len(weights)):
            assert abs(weights[bucket] - wanted.get(bucket, 0.0)) <= close, where
        if plain.total * other <= close or plain.empty:
            return  # dust
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
        """What our weights, and those of the plain model, are worth at the younger reference.

        The first sample of a histogram sets it. Of those that come in one answer ours may take
        another for the first, where a pod is in it twice (with times within two hours). After a
        restart the first is one of the windows that go on, whichever.
        """
        apart, stream = abs(reference - plain.ref), self.stream
        is_any = stream.retires or stream.done["window goes on"]
        assert apart <= NEARBY + plain.half_life or is_any, where
        younger = max(reference, plain.ref)
        mine, other = (
            math.pow(2.0, (one - younger) / plain.half_life) for one in (reference, plain.ref)
        )
        return mine, other

    def _checkpoints(self, key: VpaKey) -> None:
        stream = self.stream
        ours = stream.process.checkpoints(key)
        whole, theirs = stream.plain.merged(key), stream.plain.checkpoints(key, stream.now)
        assert ours.keys() == theirs.keys()
        for name, status in ours.items():
            plain = theirs[name]
            self._status((*key, name), status, plain)
            for resource, saved, histogram, before in (
                ("cpu", status.cpu_histogram, plain.cpu, whole[name].cpu),
                ("memory", status.memory_histogram, plain.memory, whole[name].memory),
            ):
                assert saved is not None
                self._saved((*key, name, resource), saved, histogram, before)

    def _status(self, where: tuple[str, ...], status: CheckpointStatus, plain: Aggregate) -> None:
        assert status.total_samples_count == plain.samples, where
        assert (status.first_sample_start or ZERO) == _whole(plain.first_sample), where
        assert (status.last_sample_start or ZERO) == _whole(plain.last_sample), where

    def _saved(
        self,
        where: tuple[str, ...],
        saved: HistogramCheckpoint,
        plain: Histogram,
        before: Histogram,
    ) -> None:
        mine, other = self._factors(where, saved.reference_timestamp or ZERO, plain)
        dust = self._dust(where, shifted=mine != other)
        left = plain.total * other
        close = TOLERANCE * max(before.total * other, EPSILON) + dust
        assert abs(saved.total_weight * mine - left) <= close, where
        if left <= max(1e-6 * before.total * other, dust):
            # All was taken back; what is left, if anything, is the error of the subtraction.
            self.clean &= plain.total == saved.total_weight == 0
            return
        wanted = plain.save()
        weights = {int(bucket): n for bucket, n in saved.bucket_weights.items()}
        relative = plain.relative()
        heaviest = max(plain.weights.values(), default=0.0) * other
        if not heaviest:  # each of the weights was dust, and their sum is not
            assert weights == wanted, where
            return
        unsure = 10_000 * dust / heaviest + 1e-6
        for bucket in weights.keys() | wanted.keys():
            off = abs(weights.get(bucket, 0) - relative.get(bucket, 0.0))
            assert off <= 0.5 + unsure, (*where, str(bucket))
        self.clean &= weights == wanted and mine == other


def _time(value: int) -> datetime:
    return moment(value) or ZERO


def _light(weights: Iterable[float]) -> list[float]:
    return [one for one in weights if 0.0 < one < EPSILON]


def _whole(time: datetime) -> datetime:
    return time.replace(microsecond=0)


@pytest.mark.timeout(120 + STREAMS)
@pytest.mark.parametrize("part", range(PARTS))
async def test_the_model_is_what_the_specification_says(part: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(SEED * 100_000 + part, SEED * 100_000 + STREAMS, PARTS):
        print(f"stream {seed}")  # noqa: T201 - to run it again
        stream = Stream(seed)
        for number in range(CYCLES):
            comparison = Comparison(stream)
            await stream.cycle()
            comparison.check()
            if comparison.clean and number % 20 == 13:
                await stream.restart()
        happened.update(stream.done)
    assert happened.keys() >= KINDS or STREAMS < 24
