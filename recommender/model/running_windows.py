"""Running memory windows, passed from one process to the next.

The next process continues a window: its peak counts, and a higher sample replaces it. The window of
a pod that is gone ends, and its peak stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from recommender.model.aggregates import MEMORY_WEIGHT
from recommender.model.keys import VpaKey
from recommender.model.memory_peaks import MAX_AMOUNT, OpenPeaks
from recommender.model.pods import NOWHERE, pod_number
from recommender.model.timestamps import NEVER, span
from recommender.model.usage import ContainerGroup, Usage

MOST_BYTES = int(MAX_AMOUNT)

# Tolerance for the clock of the process that left a window. It is longer than for samples, because
# an ignored window loses the peak of up to a day, and a window that ends an hour late loses none.
_AHEAD = timedelta(hours=1)

_LATE = np.iinfo(np.int64).max // 2
_NO_KILL = 1  # last_oom of a continued window without OOM kills


class RunningWindow(NamedTuple):
    """The running window of a container in one pod."""

    pod: int  # see pod_number
    end: int  # instant
    peak: int  # bytes, from usage
    oom_peak: int  # bytes, from OOM kills
    last_oom: int  # instant of the latest processed OOM kill, 0 if there was none


def running_windows(
    usage: Usage, groups: Sequence[ContainerGroup], peaks: OpenPeaks
) -> list[list[RunningWindow]]:
    """Return the running windows of each group, whose peaks :meth:`Usage.without_peaks` leaves out.

    Windows of pods that the VPA matched before are included. Its target may come back, and a
    restart in between would lose their peaks.
    """
    rows, targets = usage.open_in([_with_former(usage, group) for group in groups], peaks)
    containers = usage.containers
    columns = (
        containers.pod[rows],
        containers.window_end[rows],
        containers.peak[rows],
        containers.oom_peak[rows],
        containers.last_oom[rows],
    )
    found: list[list[RunningWindow]] = [[] for _ in groups]
    values = zip(*(column.tolist() for column in columns), strict=True)
    for target, window in zip(targets.tolist(), map(RunningWindow._make, values), strict=True):
        found[target].append(window)
    return found


def _with_former(usage: Usage, group: ContainerGroup) -> ContainerGroup:
    former = (one.aggregates.get(group.container) for one in usage.autoscalers[group.vpa].former)
    rows = tuple(row for row in former if row is not None)
    return replace(group, rows=group.rows + rows) if rows else group


class SavedWindows(NamedTuple):
    """The windows of a VPA's container that another process left."""

    vpa: VpaKey
    container: str
    windows: Sequence[RunningWindow]


class WindowRestorer:
    """Restores windows that another process left.

    It indexes the pods once; create another one after adding pods.
    """

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._pods = {pod_number(pod.uid): pod for pod in usage.pods.values()}
        self.ignored = 0  # number of invalid windows: they end later than one that begins now

    def resume(self, left: Iterable[SavedWindows], now: int) -> None:
        """Restore these windows; ``now`` is an instant.

        If the container has begun a window already, both are merged: the higher peak counts, and
        the earlier end unless it has passed.
        """
        begun: dict[int, RunningWindow] = {}
        known: list[tuple[int, RunningWindow]] = []
        gone: list[tuple[int, RunningWindow]] = []
        for one in left:
            loaded = self._usage.autoscalers[one.vpa].loaded.get(one.container)
            for window in one.windows:
                row = self._row(one, window)
                if row is None:
                    if loaded is not None and window.end <= now + self._longest:
                        gone.append((loaded, window))
                elif window.end > now + self._longest_of(row):
                    self.ignored += 1
                elif row in begun or self._usage.containers.window_end[row] != NEVER:
                    known.append((row, window))
                else:
                    begun[row] = window
        self._begin(begun)
        for row, window in known:
            self._unite(row, window, now)
        self._add(gone)

    def _row(self, left: SavedWindows, window: RunningWindow) -> int | None:
        """Return the row of the container; None if the pod is gone."""
        pod = self._pods.get(window.pod)
        if pod is None or pod.key.namespace != left.vpa.namespace:
            return None
        if left.vpa not in pod.label_set.autoscalers:
            self._usage.autoscalers[left.vpa].former.add(pod.label_set)
        return pod.containers.get(left.container)

    @property
    def _longest(self) -> int:
        return span(self._usage.defaults.interval + _AHEAD)

    def _longest_of(self, row: int) -> int:
        """Return the maximum time from now to the end of a window of the container."""
        usage = self._usage
        aggregate = usage.containers.aggregate[row]
        if aggregate == NOWHERE:
            return -_LATE  # the next sample begins another window
        return int(usage.aggregates.interval[aggregate]) + span(_AHEAD)

    def _begin(self, begun: Mapping[int, RunningWindow]) -> None:
        if not begun:
            return
        containers, memory = self._usage.containers, self._usage.aggregates.memory
        rows = np.fromiter(begun, dtype=np.int64)
        _, ends, peaks, oom_peaks, last_ooms = np.array(list(begun.values()), dtype=np.int64).T
        containers.window_end[rows] = ends
        containers.peak[rows] = peaks
        containers.oom_peak[rows] = oom_peaks
        containers.last_oom[rows] = np.maximum(last_ooms, _NO_KILL)
        memory.add(containers.aggregate[rows], containers.highest(rows), ends, MEMORY_WEIGHT)

    def _unite(self, row: int, window: RunningWindow, now: int) -> None:
        """Merge a window into the running one of the same container."""
        containers, memory = self._usage.containers, self._usage.aggregates.memory
        rows = np.array([row])
        before, end_before = containers.highest(rows), containers.window_end[rows]
        containers.peak[rows] = np.maximum(containers.peak[rows], window.peak)
        containers.oom_peak[rows] = np.maximum(containers.oom_peak[rows], window.oom_peak)
        containers.last_oom[rows] = np.maximum(containers.last_oom[rows], window.last_oom)
        if window.end > now:
            containers.window_end[rows] = np.minimum(end_before, window.end)
        after, end = containers.highest(rows), containers.window_end[rows]
        if after > before or end < end_before:
            aggregates = containers.aggregate[rows]
            memory.subtract(aggregates, before, end_before, MEMORY_WEIGHT)
            memory.add(aggregates, after, end, MEMORY_WEIGHT)

    def _add(self, gone: Sequence[tuple[int, RunningWindow]]) -> None:
        """Add the peaks of pods that are gone to the loaded history."""
        if not gone:
            return
        rows = np.array([row for row, _ in gone], dtype=np.int64)
        _, ends, peaks, oom_peaks, _ = np.array([one for _, one in gone], dtype=np.int64).T
        memory = self._usage.aggregates.memory
        memory.add(rows, np.maximum(peaks, oom_peaks), ends, MEMORY_WEIGHT)
