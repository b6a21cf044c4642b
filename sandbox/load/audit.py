"""Counts, rates and latencies of calls, and the number of concurrent writes."""

import statistics
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_MEASURED = 100_000  # calls of one kind whose latency is kept


class Call(NamedTuple):
    """A kind of call."""

    verb: str
    resource: str  # with its subresource: pods/eviction
    code: int


@dataclass(slots=True)
class _Kind:
    count: int = 0
    first: float = 0.0  # seconds since the last reset
    last: float = 0.0
    latencies: list[float] = field(default_factory=list)
    per_second: Counter[int] = field(default_factory=Counter)


class Audit:
    """Counts calls; ``now`` is in seconds of any clock."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._kinds: dict[Call, _Kind] = {}
        self._bytes = 0
        self._writes = 0
        self._peak_writes = 0
        self._by_group: Counter[int] = Counter()
        self._peak_of_group = 0

    def reset(self, now: float) -> None:
        """Reset everything but the writes in progress, which are the first peak."""
        self._since = now
        self._kinds = {}
        self._bytes = 0
        self._peak_writes = self._writes
        self._peak_of_group = max(self._by_group.values(), default=0)

    def note(self, call: Call, *, began: float, now: float, size: int = 0) -> None:
        """Count an answered call with the size of its response before compression."""
        kind = self._kinds.get(call)
        if kind is None:
            kind = self._kinds[call] = _Kind(first=began - self._since)
        kind.count += 1
        kind.last = now - self._since
        kind.per_second[int(kind.last)] += 1
        if len(kind.latencies) < _MEASURED:
            kind.latencies.append(now - began)
        self._bytes += size

    @contextmanager
    def writing(self, group: int | None) -> Iterator[None]:
        """Count a write in progress; ``group`` is the replica group that it disrupts, if any."""
        self._writes += 1
        self._peak_writes = max(self._peak_writes, self._writes)
        if group is not None:
            self._by_group[group] += 1
            self._peak_of_group = max(self._peak_of_group, self._by_group[group])
        try:
            yield
        finally:
            self._writes -= 1
            if group is not None:
                self._by_group[group] -= 1
                if not self._by_group[group]:
                    del self._by_group[group]

    def report(self, now: float) -> dict[str, Any]:
        """Return everything since the last reset in seconds; latencies in milliseconds."""
        return {
            "seconds": round(now - self._since, 3),
            "answeredBytes": self._bytes,
            "concurrentWrites": {"peak": self._peak_writes, "peakOfOneGroup": self._peak_of_group},
            "calls": [_shown(call, kind) for call, kind in sorted(self._kinds.items())],
        }


def _shown(call: Call, kind: _Kind) -> dict[str, Any]:
    took = sorted(kind.latencies)
    span = kind.last - kind.first
    return {
        **call._asdict(),
        "count": kind.count,
        "first": round(kind.first, 3),
        "last": round(kind.last, 3),
        "perSecond": {
            "mean": round(kind.count / span, 1) if span > 0 else float(kind.count),
            "peak": max(kind.per_second.values()),
        },
        "milliseconds": {
            "mean": round(statistics.fmean(took) * 1e3, 3),
            "p50": round(took[len(took) // 2] * 1e3, 3),
            "p99": round(took[len(took) * 99 // 100] * 1e3, 3),
            "max": round(took[-1] * 1e3, 3),
        },
    }
