"""The pods and containers in the model."""

import enum
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from common.resources import CPU
from recommender.model.column_table import ColumnTable, Ints, Mask
from recommender.model.keys import PodKey, Requests
from recommender.model.matching import LabelSet
from recommender.model.memory_peaks import MemoryWindows
from recommender.model.timestamps import NEVER

_LONG_AGO = 1  # the earliest instant after NEVER
_DIGITS = 15  # of a UID, in hexadecimal: enough to distinguish pods, and fit into 64 bits

NOWHERE = -1  # no aggregate: it was collected, and the next sample creates a new one


class RequestSource(enum.StrEnum):
    """The field from which the requests of a container are read; also the label of the counter."""

    STATUS = "Pod.Status.ContainerStatuses"
    INIT_STATUS = "Pod.Status.InitContainerStatuses"
    SPEC = "Pod.Spec.Containers"
    INIT_SPEC = "Pod.Spec.InitContainers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """The fields of a pod object that the model needs."""

    key: PodKey
    uid: str
    labels: Mapping[str, str]
    active: bool  # neither succeeded nor failed
    containers: tuple[str, ...]  # tracked ones
    sidecars: tuple[str, ...] = ()  # all native sidecars, tracked or not
    requests: tuple[Requests, ...] = ()  # of ``containers``; empty: unknown


@dataclass(slots=True, kw_only=True, eq=False)
class TrackedPod:
    """A pod, and the rows of its containers."""

    key: PodKey
    uid: str
    label_set: LabelSet
    active: bool
    sidecars: tuple[str, ...] = ()
    containers: dict[str, int] = field(default_factory=dict)  # name -> row of Containers

    def is_regular(self, container: str) -> bool:
        """Return True if a tracked container is not a native sidecar."""
        return container not in self.sidecars

    @property
    def regular(self) -> Iterable[str]:
        """Return the names of the tracked regular containers."""
        return filter(self.is_regular, self.containers)


def pod_number(uid: str) -> int:
    """Return the first 60 bits of a pod's UID as a number; of its hash if it isn't hexadecimal."""
    try:
        return int(uid.replace("-", "")[:_DIGITS], 16)
    except ValueError:
        return int(hashlib.sha256(uid.encode()).hexdigest()[:_DIGITS], 16)


class Containers(ColumnTable):
    """The state of containers until their next sample (recommender.md section 4)."""

    def __init__(self, capacity: int = 16) -> None:
        super().__init__(capacity)
        self.aggregate: Ints = self._column(np.int64)  # row of Aggregates, or NOWHERE
        self.first_sample: Ints = self._column(np.int64)  # of either resource, without OOM kills
        self.last_cpu: Ints = self._column(np.int64)
        self.last_memory: Ints = self._column(np.int64)
        self.window_end: Ints = self._column(np.int64)
        self.peak: Ints = self._column(np.int64)
        self.oom_peak: Ints = self._column(np.int64)
        self.pod: Ints = self._column(np.int64)  # see pod_number
        self.last_oom: Ints = self._column(np.int64)  # time of the latest processed OOM kill
        self.is_active: Mask = self._column(np.bool_)  # its pod neither succeeded nor failed
        self.request_cpu: Ints = self._column(np.int64)  # millicores; 0: none
        self.request_memory: Ints = self._column(np.int64)  # bytes; 0: none
        self.keys: dict[int, tuple[LabelSet, str]] = {}  # the pod's labels, the container's name

    def track(self, label_set: LabelSet, name: str, aggregate: int, uid: str) -> int:
        row = self.new()
        self.keys[row] = label_set, name
        self.pod[row] = pod_number(uid)
        self.aggregate[row] = aggregate
        return row

    def move(self, row: int, label_set: LabelSet, aggregate: int) -> None:
        """Move the container to another aggregate and begin a new window.

        The old window's peak stays in the old aggregate.
        """
        self.keys[row] = label_set, self.keys[row][1]
        self.aggregate[row] = aggregate
        self.window_end[row] = NEVER
        self.peak[row] = 0
        self.oom_peak[row] = 0

    def set_requests(self, row: int, requests: Requests, *, is_active: bool) -> None:
        self.is_active[row] = is_active
        self.request_cpu[row], self.request_memory[row] = requests

    def requests(self, resource: str) -> Ints:
        """Return the column with the requests of a resource."""
        return self.request_cpu if resource == CPU else self.request_memory

    def forget(self, row: int) -> None:
        del self.keys[row]
        self.free(row)
        self.aggregate[row] = NOWHERE

    def forget_times_after(self, latest: int, rows: Ints) -> None:
        """Reset the time of the last sample of these containers if it is after ``latest``.

        That sample was accepted before the clock moved backwards; without the reset it would block
        all samples up to its time.
        """
        for column in (self.last_cpu, self.last_memory):
            column[rows[column[rows] > latest]] = _LONG_AGO

    def note_first(self, rows: Ints, times: Ints) -> None:
        """Record the time of each container's first sample; ``times`` are in order."""
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
        """Return the peaks of the running windows, from usage or OOM kills, in bytes."""
        return np.maximum(self.peak[rows], self.oom_peak[rows])

    def set_windows(self, rows: Ints, windows: MemoryWindows) -> None:
        self.last_memory[rows] = windows.last
        self.window_end[rows] = windows.end
        self.peak[rows] = windows.peak
        self.oom_peak[rows] = windows.oom_peak
