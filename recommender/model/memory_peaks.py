"""Memory counts by its peak per window: one sample of a container in each window.

Arrays have one element per container; amounts are bytes, times are instants, intervals are in
microseconds. Windows follow each other from the container's first sample on.

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
    """Where each container stands."""

    last: Ints  # time of the last sample
    end: Ints  # end of the running window, NEVER before the first sample
    peak: Ints  # from usage, in the running window
    oom_peak: Ints  # from OOM kills, in the running window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowUpdate:
    """What a sample of each container means."""

    accepted: Mask
    after: MemoryWindows
    replaces: Mask  # the old peak of the window has to be taken back …
    replaced: Ints  # … which was this amount, at ``after.end``
    counts: Mask  # the sample is the window's new peak, at ``after.end``


def observe(
    before: MemoryWindows, times: Ints, amounts: Ints, *, interval: Ints, is_oom: bool = False
) -> WindowUpdate:
    """Let each container take one sample.

    A negative amount is refused, and so is usage from before the last sample (the same
    time is fine). Within a window only a higher sample counts, and then it replaces the
    peak. A window that began with 0 takes any later sample: the reference ignores those
    until the window ends (recommender.md Q7).
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
    """Return whether an OOM kill is more than an interval older than the last sample."""
    too_old: Mask = (before.last != NEVER) & (times < before.last - interval)
    return too_old


def needed(before: MemoryWindows, requests: Ints, *, ratio: Floats, min_bump: Floats) -> Ints:
    """Return how much memory would have saved a killed container.

    Its request or its peak, whichever is more, raised by ``ratio`` and at least by
    ``min_bump`` bytes. Earlier kills are left out, so that repeated ones don't run away.
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
