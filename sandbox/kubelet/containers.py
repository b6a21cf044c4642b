"""One container: its runs, their ends, and restarts."""

import enum
import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from sandbox.kubelet.timing import Timing
from sandbox.kubelet.usage import Load
from sandbox.kubelet.wire import ContainerSpec
from sandbox.times import rfc3339

CONFIG_ERROR = "CreateContainerConfigError"
IMAGE_ERROR = "ImagePullBackOff"

Waiting: TypeAlias = tuple[str, str]  # reason, message


class Kind(enum.Enum):
    """The time at which a container runs."""

    INIT = enum.auto()  # before the others, to its end
    SIDECAR = enum.auto()  # before the others, and beside them
    MAIN = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a run of a container."""

    exit_code: int
    reason: str
    started: datetime
    finished: datetime
    container_id: str

    @property
    def json(self) -> dict[str, Any]:
        return {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": rfc3339(self.started),
            "finishedAt": rfc3339(self.finished),
            "containerID": self.container_id,
        }


@dataclass(slots=True, kw_only=True)
class Container:
    """A container of a pod on this node. Its state is exactly one of waiting, running, ended."""

    spec: ContainerSpec
    kind: Kind
    load: Load
    waiting: Waiting | None = ("ContainerCreating", "")
    started: datetime | None = None  # of the present run
    ended: Ended | None = None
    last: Ended | None = None  # the run before the present one
    container_id: str = ""
    restarts: int = 0
    failures: int = 0  # since the last long run; determine the back-off
    ready_at: datetime | None = None  # None: never
    restart_at: datetime | None = None
    exit_at: datetime | None = None  # of an init container
    local: bool = False  # a process of this machine, whose state is observed
    started_up: bool = True  # of a process: its startup probe has succeeded
    answers: bool = True  # of a process: its readiness probe succeeds
    stopping: bool = False  # of a process: it must end, and may run again
    problem: Waiting | None = None  # of a process: what it lacks, which delays it

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def running(self) -> bool:
        return self.started is not None

    @property
    def held_back(self) -> bool:
        """True if it waits for its image or for a source of its variables."""
        return self.waiting is not None and self.waiting[0] in (CONFIG_ERROR, IMAGE_ERROR)

    def is_ready(self, now: datetime) -> bool:
        """Return True for a running container past its delay, or a completed init container."""
        if self.kind is Kind.INIT:
            return self.ended is not None and self.ended.exit_code == 0
        if self.local:
            return self.running and self.started_up and self.answers
        return self.running and self.ready_at is not None and now >= self.ready_at

    @property
    def state(self) -> dict[str, Any]:
        """``state`` of the container's status."""
        if self.started is not None:
            return {"running": {"startedAt": rfc3339(self.started)}}
        if self.ended is not None:
            return {"terminated": self.ended.json}
        reason, message = self.waiting or ("ContainerCreating", "")
        return {"waiting": {"reason": reason, **({"message": message} if message else {})}}

    def run(self, now: datetime, *, pod_uid: str, ready_after: float) -> None:
        """Start a run; ``ready_after`` may be infinite."""
        seed = f"{pod_uid}/{self.name}/{self.restarts}"
        self.container_id = "containerd://" + hashlib.sha256(seed.encode()).hexdigest()
        self.started = now
        self.waiting = self.ended = self.restart_at = None
        never = ready_after == float("inf")
        self.ready_at = None if never else now + timedelta(seconds=ready_after)
        self.stopping = False
        self.started_up = self.spec.startup_probe is None
        self.answers = self.spec.readiness_probe is None

    def end(self, now: datetime, *, exit_code: int, reason: str = "") -> None:
        """End the present run. Without a reason the exit code determines it."""
        self.ended = Ended(
            exit_code=exit_code,
            reason=reason or ("Error" if exit_code else "Completed"),
            started=self.started or now,
            finished=now,
            container_id=self.container_id,
        )
        self.started = self.waiting = self.exit_at = None

    def restart_later(self, timing: Timing, *, pod: str, at_once: bool) -> bool:
        """Plan the next run after an end. Return True if it has to wait for the back-off.

        The first restart has a short delay, the second waits for ``timing.backoff``, and each
        further one for twice as long. A run of ``timing.backoff_reset`` resets this. ``at_once`` is
        a restart that the kubelet itself requests. ``pod`` is ``name_namespace(uid)``.
        """
        ended = self.ended
        if ended is None:
            raise RuntimeError(f"container {self.name} has not ended")
        if (ended.finished - ended.started) / timedelta(seconds=1) > timing.backoff_reset:
            self.failures = 0
        waits = not at_once and self.failures > 0
        delay = timing.restart_delay
        if waits:
            delay = min(timing.longest_backoff, timing.backoff * 2 ** (self.failures - 1))
            self.last, self.ended = ended, None
            message = f"back-off {delay:g}s restarting failed container={self.name} pod={pod}"
            self.waiting = ("CrashLoopBackOff", message)
        if not at_once:
            self.failures += 1
        self.restart_at = ended.finished + timedelta(seconds=delay)
        return waits

    def hold_back(self) -> bool:
        """Wait because of ``problem``. Return False if it already waits for the same."""
        if self.waiting == self.problem:
            return False
        self.last = self.ended or self.last
        self.waiting, self.ended, self.restart_at = self.problem, None, None
        return True

    def start_again(self) -> None:
        """Count a restart; the run that ended becomes the last one."""
        self.last = self.ended or self.last
        self.restarts += 1
