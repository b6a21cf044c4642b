"""Pods and containers whose usage we follow."""

import enum
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from recommender.model.column_table import ColumnTable, Ints
from recommender.model.keys import AggregateKey, PodKey
from recommender.model.matching import LabelSet
from recommender.model.memory_peaks import MemoryWindows
from recommender.model.timestamps import NEVER

_LONG_AGO = 1  # an instant: there was a sample, and no other is older
_DIGITS = 15  # of a UID: enough to distinguish pods, and fit for a column of integers

NOWHERE = -1  # no aggregate: it was collected, and the next sample makes a new one


class RequestSource(enum.StrEnum):
    """Where the requests of a container are read from; the label of the counter."""

    STATUS = "Pod.Status.ContainerStatuses"
    INIT_STATUS = "Pod.Status.InitContainerStatuses"
    SPEC = "Pod.Spec.Containers"
    INIT_SPEC = "Pod.Spec.InitContainers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What a pod object says that matters here."""

    key: PodKey
    uid: str
    labels: Mapping[str, str]
    active: bool  # neither succeeded nor failed
    containers: tuple[str, ...]  # those that are followed
    sidecars: tuple[str, ...] = ()  # native ones, whether or not they are followed


@dataclass(slots=True, kw_only=True, eq=False)
class TrackedPod:
    """A pod, and the rows of its containers."""

    key: PodKey
    uid: str
    label_set: LabelSet
    active: bool
    sidecars: tuple[str, ...] = ()
    containers: dict[str, int] = field(default_factory=dict)  # name -> row of Containers

    @classmethod
    def of(cls, pod: PodFacts, label_set: LabelSet) -> Self:
        """Track a pod; its containers come later."""
        return cls(
            key=pod.key,
            uid=pod.uid,
            label_set=label_set,
            active=pod.active,
            sidecars=pod.sidecars,
        )

    def is_regular(self, container: str) -> bool:
        """Return whether a followed container is none of the native sidecars."""
        return container not in self.sidecars

    @property
    def regular(self) -> Iterable[str]:
        """Return the regular containers."""
        return filter(self.is_regular, self.containers)


def pod_number(uid: str) -> int:
    """Return a pod's UID as a number: its first 60 bits, or as many of its hash."""
    try:
        return int(uid.replace("-", "")[:_DIGITS], 16)
    except ValueError:
        return int(hashlib.sha256(uid.encode()).hexdigest()[:_DIGITS], 16)


class Containers(ColumnTable):
    """The state of containers until their next sample (recommender.md section 4)."""

    def __init__(self, capacity: int = 16) -> None:
        super().__init__(capacity)
        self.aggregate: Ints = self._column(np.int64)  # row of Aggregates, or NOWHERE
        self.first_sample: Ints = self._column(np.int64)  # of either resource; OOM kills aside
        self.last_cpu: Ints = self._column(np.int64)
        self.last_memory: Ints = self._column(np.int64)
        self.window_end: Ints = self._column(np.int64)
        self.peak: Ints = self._column(np.int64)
        self.oom_peak: Ints = self._column(np.int64)
        self.pod: Ints = self._column(np.int64)  # see pod_number
        self.last_oom: Ints = self._column(np.int64)  # time of the latest kill that was looked at
        self.keys: dict[int, AggregateKey] = {}

    def track(self, key: AggregateKey, aggregate: int, uid: str) -> int:
        row = self.new()
        self.keys[row] = key
        self.pod[row] = pod_number(uid)
        self.aggregate[row] = aggregate
        return row

    def move(self, row: int, key: AggregateKey, aggregate: int) -> None:
        """Let the container count for another aggregate, from a new window on.

        The old window's peak stays where it was added.
        """
        self.keys[row] = key
        self.aggregate[row] = aggregate
        self.window_end[row] = NEVER
        self.peak[row] = 0
        self.oom_peak[row] = 0

    def forget(self, row: int) -> None:
        del self.keys[row]
        self.free(row)
        self.aggregate[row] = NOWHERE

    def forget_times_after(self, latest: int, rows: Ints) -> None:
        """Accept samples of these containers again whose last sample is from after ``latest``.

        The clock by which that one was accepted has been put back since.
        """
        for column in (self.last_cpu, self.last_memory):
            column[rows[column[rows] > latest]] = _LONG_AGO

    def note_first(self, rows: Ints, times: Ints) -> None:
        """Keep the time of each container's first sample; these come in their order."""
        fresh = self.first_sample[rows] == NEVER
        # Of several samples of a container the last assignment counts.
        self.first_sample[rows[fresh][::-1]] = times[fresh][::-1]

    def windows(self, rows: Ints) -> MemoryWindows:
        return MemoryWindows(
            last=self.last_memory[rows],
            end=self.window_end[rows],
            peak=self.peak[rows],
            oom_peak=self.oom_peak[rows],
        )

    def highest(self, rows: Ints) -> Ints:
        """Return the peaks of the running windows, wherever they are from; bytes."""
        return np.maximum(self.peak[rows], self.oom_peak[rows])

    def set_windows(self, rows: Ints, windows: MemoryWindows) -> None:
        self.last_memory[rows] = windows.last
        self.window_end[rows] = windows.end
        self.peak[rows] = windows.peak
        self.oom_peak[rows] = windows.oom_peak
