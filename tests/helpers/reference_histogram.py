"""An independent implementation of sections 2 and 3 of recommender.md: histograms.

It is slow and obvious, and written from the specification. It shares no code with the product:
buckets are dictionaries, times are datetimes, logarithms are those of the formula. Departures from
the reference have the quirk's number beside the rule.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

ZERO = datetime(1, 1, 1, tzinfo=UTC)
N = 176  # buckets
RATIO = 1.05
EPSILON = 0.0001
MAX = 1e14


def trunc_amount(x: float) -> int:
    """Section 2: convert a float to an amount."""
    return int(MAX) if x > MAX else 0 if x < 0 else math.trunc(x)


@dataclass(frozen=True)
class Scale:
    """3.1: the bucket parameters of CPU or memory."""

    first: float  # F, the size of the first bucket
    unit: float  # amounts per unit of a value: 1000 millicores are a core

    def start(self, bucket: int) -> float:
        return self.first * (_power(bucket) - 1) / (RATIO - 1)

    def bucket(self, amount: int) -> int:
        value = amount / self.unit
        if value < self.first:
            return 0
        found = math.log(value * (RATIO - 1) / self.first + 1) / math.log(RATIO)
        return min(math.trunc(found), N - 1)

    def end(self, bucket: int) -> int:
        """3.4: return the percentile that ends in this bucket, as an amount."""
        return trunc_amount(self.start(min(bucket + 1, N - 1)) * self.unit)


def _power(exponent: int) -> float:
    """3.2: return Go's 1.05 to an integer power, whose last bits differ from the C library's."""
    fraction, shift = math.frexp(RATIO)
    found, shifts = 1.0, 0
    while exponent:
        if exponent & 1:
            found *= fraction
            shifts += shift
        fraction *= fraction
        shift *= 2
        if fraction < 0.5:
            fraction += fraction
            shift -= 1
        exponent >>= 1
    return math.ldexp(found, shifts)


CPU = Scale(first=0.01, unit=1000.0)
MEMORY = Scale(first=1e7, unit=1.0)


@dataclass
class Histogram:
    """3.4, 3.5: weights by bucket, which halve every half-life."""

    scale: Scale
    half_life: timedelta
    weights: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    total: float = 0.0
    min: int = N - 1
    max: int = 0
    ref: datetime = ZERO

    def add(self, amount: int, weight: float, ts: datetime) -> None:
        effective = weight * self._factor(ts)
        bucket = self.scale.bucket(amount)
        self.weights[bucket] += effective
        self.total += effective
        if self.weights[bucket] >= EPSILON:
            self.min = min(self.min, bucket)
            self.max = max(self.max, bucket)

    def subtract(self, amount: int, weight: float, ts: datetime) -> None:
        effective = weight * self._factor(ts)
        bucket = self.scale.bucket(amount)
        self.total = _unless_dust(self.total - effective)
        self.weights[bucket] = _unless_dust(self.weights[bucket] - effective)
        self._tighten()

    @property
    def empty(self) -> bool:
        return self.weights[self.min] < EPSILON

    def _factor(self, ts: datetime) -> float:
        if ts > self.ref + 100 * self.half_life:
            self.shift(ts)
        return math.pow(2.0, (ts - self.ref) / self.half_life)

    def shift(self, ts: datetime) -> None:
        count, rest = divmod(ts - ZERO, self.half_life)
        if 2 * rest >= self.half_life:
            count += 1
        ref = ZERO + count * self.half_life
        halvings = math.floor((self.ref - ref) / self.half_life + 0.5)
        self._multiply(math.ldexp(1.0, max(halvings, -5000)))
        self.ref = ref

    def _multiply(self, factor: float) -> None:
        for bucket in range(self.min, self.max + 1):
            self.weights[bucket] *= factor
        self.total *= factor
        self._tighten()

    def _tighten(self) -> None:
        while self.weights[self.min] < EPSILON and self.min < N - 1:
            self.min += 1
        while self.weights[self.max] < EPSILON and self.max > 0:
            self.max -= 1

    def merge(self, other: "Histogram") -> None:
        """Merge another histogram. The older one is shifted first; ``other`` is unchanged (Q21)."""
        other = other.copy()
        if self.ref < other.ref:
            self.shift(other.ref)
        elif other.ref < self.ref:
            other.shift(self.ref)
        for bucket in range(other.min, other.max + 1):
            self.weights[bucket] += other.weights[bucket]
        self.total += other.total
        self.min = min(self.min, other.min)
        self.max = max(self.max, other.max)

    def copy(self) -> "Histogram":
        weights = defaultdict(float, self.weights)
        return Histogram(
            self.scale, self.half_life, weights, self.total, self.min, self.max, self.ref
        )

    def percentile(self, p: float) -> int:
        return 0 if self.empty else self.scale.end(self.stop(p))

    def stop(self, p: float) -> int:
        """Return the bucket where the sum of weights reaches its share."""
        partial = 0.0
        for bucket in range(self.min, self.max):
            partial += self.weights[bucket]
            if partial >= p * self.total:
                return bucket
        return self.max

    def sums(self) -> list[float]:
        """Return the partial sums that a percentile is searched in."""
        found, partial = [], 0.0
        for bucket in range(self.min, self.max + 1):
            partial += self.weights[bucket]
            found.append(partial)
        return found

    def relative(self) -> dict[int, float]:
        """3.6, before rounding: return weights relative to the heaviest bucket, which is 10000."""
        if self.empty:
            return {}
        inner = {bucket: self.weights[bucket] for bucket in range(self.min, self.max + 1)}
        q = 10000 / max(inner.values())
        return {bucket: weight * q for bucket, weight in inner.items()}

    def save(self) -> dict[int, int]:
        """3.6: return the rounded weights."""
        rounded = {bucket: math.floor(n + 0.5) for bucket, n in self.relative().items()}
        return {bucket: n for bucket, n in rounded.items() if n > 0}

    def load(self, saved: Mapping[int, int], total: float, ref: datetime) -> None:
        """3.7: load into an empty histogram."""
        self.ref = ref
        whole = sum(saved.values())
        if whole == 0:
            return
        q = total / whole
        for bucket, n in saved.items():
            self.min = min(self.min, bucket)
            self.max = max(self.max, bucket)
            self.weights[bucket] += n * q
        self.total += total
        self._tighten()


def _unless_dust(weight: float) -> float:
    return 0.0 if weight < EPSILON else weight
