"""Usage from before the start of the recommender, and its merge into the live model.

History arrives while live samples already count. So it is collected in a separate model by the same
rules, and merged into the live one when it is complete: histograms add up, and the memory window
that was running at the first live sample continues.

Source: recommender.md 12.5 and sections 4-5.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from common.resources import CPU
from recommender.model.aggregates import MEMORY_WEIGHT
from recommender.model.column_table import Ints
from recommender.model.keys import Place, PodKey
from recommender.model.pods import PodFacts
from recommender.model.timestamps import NEVER, instant
from recommender.model.usage import Usage

_LATE = np.iinfo(np.int64).max
_SLICE = 1000  # aggregates, or containers, merged before other tasks run

KnownUntil = Mapping[Place, datetime]
"""The time until which the checkpoint of a VPA's container covers all usage."""

LabelsOf = Callable[[PodKey], Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSeries:
    """Samples of one container and resource, oldest first; millicores or bytes."""

    pod: PodKey
    container: str
    times: Sequence[int]  # instants
    amounts: Sequence[int]


class Backfill:
    """The usage of one namespace before the live samples; added in order of time, then joined.

    No sample counts twice. Samples that a checkpoint of the container covers are left out; of
    several VPAs that match it, the latest checkpoint decides. So are all samples from the
    container's first live sample on.

    A pod that exists has its present labels, so that its history joins its live samples. The
    labels of a deleted pod come from ``labels``.
    """

    def __init__(
        self,
        present: Usage,
        namespace: str,
        *,
        known_until: KnownUntil,
        matched_only: bool,
        now: int,
    ) -> None:
        """Initialize; ``matched_only`` leaves out pods that no VPA matches."""
        self._present = present
        self._namespace = namespace
        self._known_until = known_until
        self._matched_only = matched_only
        self._now = now
        self._usage = Usage(defaults=present.defaults, half_lives=present.aggregates.half_lives)
        for key, vpa in present.autoscalers.items():
            if key.namespace == namespace:
                self._usage.put_autoscaler(key, vpa.selector, vpa.rules)

    def add(
        self,
        resource: str,
        recorded: Sequence[RecordedSeries],
        labels: LabelsOf,
    ) -> int:
        """Add samples that are newer than those before; return the number that counted.

        ``labels`` returns the labels of a deleted pod.
        """
        kept: list[RecordedSeries] = []
        places: list[tuple[int, int, int]] = []  # row, and the borders of the samples that count
        for one in recorded:
            row = self._row(one.pod, one.container, labels)
            if row is not None:
                kept.append(one)
                places.append((row, *self._borders(one.pod, one.container)))
        if not kept:
            return 0
        times = np.concatenate([np.array(one.times, dtype=np.int64) for one in kept])
        amounts = np.concatenate([np.array(one.amounts, dtype=np.int64) for one in kept])
        rows, after, before = np.repeat(places, [len(one.times) for one in kept], axis=0).T
        counts = (times > after) & (times < before)
        feed = self._usage.add_cpu if resource == CPU else self._usage.add_memory
        return int(feed(rows[counts], times[counts], amounts[counts], self._now).sum())

    def join(self, now: int) -> Iterator[None]:
        """Merge everything into the live model, slice by slice.

        The caller must exhaust the iterator, and must not change the live model meanwhile.
        """
        yield from self._join_aggregates(now)
        windows: list[tuple[int, int]] = []
        for key, tracked in self._usage.pods.items():
            present = self._present.pods.get(key)
            if present is None or present.label_set.text != tracked.label_set.text:
                continue  # it is gone, or began a new window with new labels
            windows.extend(
                (tracked.containers[container], present.containers[container])
                for container in tracked.containers.keys() & present.containers.keys()
            )
            if len(windows) >= _SLICE:
                self._join_windows(*np.array(windows, dtype=np.int64).T)
                windows = []
                yield
        if windows:
            self._join_windows(*np.array(windows, dtype=np.int64).T)

    def _join_aggregates(self, now: int) -> Iterator[None]:
        ours = self._usage.aggregates
        pairs: list[tuple[int, int]] = []
        for label_set in self._usage.matching:
            for container, row in label_set.aggregates.items():
                if ours.samples[row] or ours.memory.total[row]:
                    theirs = self._present.aggregate(
                        self._namespace, label_set.labels, container, now
                    )
                    pairs.append((theirs, row))
            if len(pairs) >= _SLICE:
                self._merge(pairs)
                pairs = []
                yield
        self._merge(pairs)

    def _merge(self, pairs: Sequence[tuple[int, int]]) -> None:
        if pairs:
            theirs, ours = np.array(pairs, dtype=np.int64).T
            self._present.aggregates.merge(theirs, self._usage.aggregates, ours)

    def _join_windows(self, ours: Ints, theirs: Ints) -> None:
        """Continue the memory windows that history left open with the live samples.

        Live samples began another window. If all of them are from before the end of the open
        window, they belong to it, and their peak counts there. Otherwise the open window ended
        while history was fetched, and both windows count.
        """
        past, live = self._usage.containers, self._present.containers
        live.last_cpu[theirs] = np.maximum(live.last_cpu[theirs], past.last_cpu[ours])
        ends = past.window_end[ours]
        idle = (ends != NEVER) & (live.window_end[theirs] == NEVER)
        goes_on = (ends != NEVER) & ~idle & (live.last_memory[theirs] < ends)
        goes_on &= live.aggregate[theirs] >= 0
        live.set_windows(theirs[idle], past.windows(ours[idle]))

        ours, theirs, ends = ours[goes_on], theirs[goes_on], ends[goes_on]
        rows, memory = live.aggregate[theirs], self._present.aggregates.memory
        seen = np.maximum(live.peak[theirs], live.oom_peak[theirs])
        before = past.peak[ours]
        memory.subtract(rows, seen, live.window_end[theirs], MEMORY_WEIGHT)
        more = seen > before
        memory.subtract(rows[more], before[more], ends[more], MEMORY_WEIGHT)
        memory.add(rows[more], seen[more], ends[more], MEMORY_WEIGHT)
        live.window_end[theirs] = ends
        live.peak[theirs] = np.maximum(live.peak[theirs], before)

    def _row(self, pod: PodKey, container: str, labels: LabelsOf) -> int | None:
        """Return the row of a container, or None if it is left out."""
        tracked = self._usage.pods.get(pod)
        if tracked is not None and container in tracked.containers:
            return tracked.containers[container]
        if pod.namespace != self._namespace:
            return None
        known = self._labels_of(pod, labels)
        if self._matched_only and not self._usage.matching.is_matched(pod.namespace, known):
            return None
        before = () if tracked is None else tuple(tracked.containers)
        facts = PodFacts(
            key=pod, uid="", labels=known, active=True, containers=(*before, container)
        )
        self._usage.put_pod(facts, self._now)
        return self._usage.pods[pod].containers[container]

    def _labels_of(self, pod: PodKey, labels: LabelsOf) -> Mapping[str, str]:
        for usage in (self._usage, self._present):
            tracked = usage.pods.get(pod)
            if tracked is not None:
                return tracked.label_set.labels
        return labels(pod)

    def _borders(self, pod: PodKey, container: str) -> tuple[int, int]:
        """Return two instants; samples strictly between them count."""
        autoscalers = self._usage.pods[pod].label_set.autoscalers
        known = (self._known_until.get((key, container)) for key in autoscalers)
        after = max((instant(until) for until in known if until is not None), default=NEVER)
        present = self._present.pods.get(pod)
        row = None if present is None else present.containers.get(container)
        live = NEVER if row is None else int(self._present.containers.first_sample[row])
        return after, _LATE if live == NEVER else live
