"""Memory windows: the peak of each window is one sample of the container.

Arrays have one element per container; amounts are bytes, times are instants, intervals are in
microseconds. Windows are consecutive, beginning with the container's first sample.

Source: recommender.md 4.3, 4.4; ``addMemorySample`` and ``RecordOOM``,
vertical-pod-autoscaler/pkg/recommender/model/container.go.
"""

from dataclasses import dataclass

import numpy as np

from recommender.model.column_table import Floats, Ints, Mask
from recommender.model.timestamps import NEVER

MAX_AMOUNT = 1e14  # bytes; see common.resources


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryWindows:
    """The state of each container."""

    last: Ints  # time of the last sample
    end: Ints  # end of the running window, NEVER before the first sample
    peak: Ints  # from usage, in the running window
    oom_peak: Ints  # from OOM kills, in the running window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowUpdate:
    """The effect of one sample of each container."""

    accepted: Mask
    after: MemoryWindows
    replaces: Mask  # subtract the old peak of the window, ``replaced`` at ``after.end``
    replaced: Ints
    counts: Mask  # the sample is the window's new peak: add it at ``after.end``


def observe(
    before: MemoryWindows, times: Ints, amounts: Ints, *, interval: Ints, is_oom: bool = False
) -> WindowUpdate:
    """Compute the effect of one sample of each container.

    Negative amounts are refused, and so is usage from before the last sample (an equal time is
    accepted). Within a window only a higher sample counts, and replaces the peak. That includes a
    window whose peak is 0, in which the reference ignores later samples (recommender.md Q7).
    """
    accepted = amounts >= 0
    if not is_oom:
        accepted &= times >= before.last
    end = np.where(before.end == NEVER, times, before.end)
    old = np.maximum(before.peak, before.oom_peak)
    fresh = times >= end
    replaces = accepted & ~fresh & (amounts > old)
    counts = accepted & (fresh | replaces)
    started = accepted & fresh
    windows = (times - end) // interval
    kept_peak = np.where(started, 0, before.peak)
    kept_oom = np.where(started, 0, before.oom_peak)
    after = MemoryWindows(
        last=np.where(accepted, times, before.last),
        end=np.where(started, end + windows * interval + interval, before.end),
        peak=kept_peak if is_oom else np.where(counts, amounts, kept_peak),
        oom_peak=np.where(counts, amounts, kept_oom) if is_oom else kept_oom,
    )
    return WindowUpdate(
        accepted=accepted, after=after, replaces=replaces, replaced=old, counts=counts
    )


def is_too_old(before: MemoryWindows, times: Ints, *, interval: Ints) -> Mask:
    """Return True for OOM kills that are more than an interval older than the last sample."""
    too_old: Mask = (before.last != NEVER) & (times < before.last - interval)
    return too_old


def needed(before: MemoryWindows, requests: Ints, *, ratio: Floats, min_bump: Floats) -> Ints:
    """Return the amount of memory to record for an OOM kill.

    It is the request or the peak of usage, whichever is higher, multiplied by ``ratio``, and raised
    by at least ``min_bump`` bytes. Peaks of earlier kills don't count, so that repeated kills
    don't multiply.
    """
    used = np.maximum(requests, before.peak)
    by_ratio = np.clip(used * ratio, 0.0, MAX_AMOUNT).astype(np.int64)
    by_bytes = used + np.clip(min_bump, 0.0, MAX_AMOUNT).astype(np.int64)
    return np.where(by_ratio > by_bytes, by_ratio, by_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenPeaks:
    """Containers in a running memory window, sorted by their aggregates."""

    containers: Ints
    aggregates: Ints
