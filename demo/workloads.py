"""The five workloads of the demo, and the decisions whether each reached its expected state.

This module contains only values and pure functions: they take the observed state, and return a
verdict with its reason.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """CPU in millicores and memory in bytes; None if the amount is not set."""

    cpu: int | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """The state of one pod of a workload that is not being deleted."""

    name: str
    uid: str
    request: Amounts  # of its one container, from the spec
    actual: Amounts  # as the kubelet reports it; differs during a resize
    ready: bool = False
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadState:
    """The observed state of one workload at one time."""

    pods: tuple[PodState, ...] = ()
    target: Amounts = field(default_factory=Amounts)  # of the VPA's status
    evictions: int = 0  # successful
    resizes: int = 0  # accepted
    refused: int = 0  # resizes that the API server refused
    oom_kills: int = 0
    restarts: int = 0  # of all pods observed

    @property
    def request(self) -> Amounts:
        """Return the largest request of the pods."""
        return Amounts(
            cpu=max((pod.request.cpu or 0 for pod in self.pods), default=None),
            memory=max((pod.request.memory or 0 for pod in self.pods), default=None),
        )

    @property
    def settled(self) -> bool:
        """Return whether every pod is ready and runs with the requests of its spec."""
        return all(pod.ready and pod.request == pod.actual for pod in self.pods)


class Verdict(enum.Enum):
    """The progress of a workload."""

    WAITING = "waiting"
    REACHED = "reached"
    FAILED = "failed"  # it can no longer reach its expected state


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A verdict, and a short note for the table."""

    verdict: Verdict
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload, and the function that judges its state."""

    name: str
    mode: str
    replicas: int
    judge: Callable[[WorkloadState, WorkloadState], Progress]  # at the start, and now


def _waiting(note: str) -> Progress:
    return Progress(verdict=Verdict.WAITING, note=note)


def _reached(note: str) -> Progress:
    return Progress(verdict=Verdict.REACHED, note=note)


def _failed(note: str) -> Progress:
    return Progress(verdict=Verdict.FAILED, note=note)


def _common(start: WorkloadState, now: WorkloadState) -> Progress | None:
    """Return the progress while pods or a recommendation are missing; None after that."""
    if not start.pods:
        return _waiting("pods start")
    if now.target.cpu is None or now.target.memory is None:
        return _waiting("collecting usage")
    return None


def _same_pods(start: WorkloadState, now: WorkloadState) -> bool:
    return {pod.uid for pod in start.pods} == {pod.uid for pod in now.pods}


def judge_overprovisioned(start: WorkloadState, now: WorkloadState) -> Progress:
    """Expect that evictions replace every pod with one that requests less."""
    if (first := _common(start, now)) is not None:
        return first
    if now.resizes:
        return _failed("resized in place, although the mode is Recreate")
    old = {pod.uid for pod in start.pods}
    left = sum(pod.uid in old for pod in now.pods)
    if left or len(now.pods) < len(start.pods) or not now.settled:
        return _waiting(f"{now.evictions} of {len(start.pods)} evicted")
    for pod in now.pods:
        if not _smaller(pod.request, start.request):
            return _failed(f"{pod.name} requests as much as the pod before it")
    return _reached("evicted one by one; replacements request less")


def judge_underprovisioned(start: WorkloadState, now: WorkloadState) -> Progress:
    """Expect that the same pods request more than at the start, without eviction or restart."""
    if (first := _common(start, now)) is not None:
        return first
    if now.evictions or not _same_pods(start, now):
        return _failed("a pod was replaced, although a resize in place was possible")
    if now.restarts:
        return _failed("a container restarted during the resize")
    grown = sum(_smaller(start.request, pod.request) for pod in now.pods)
    if grown < len(now.pods) or not now.settled:
        return _waiting(f"{grown} of {len(now.pods)} resized")
    return _reached("resized in place without a restart")


def judge_too_big(start: WorkloadState, now: WorkloadState) -> Progress:
    """Expect an infeasible resize, then a resize when the recommendation fits; no eviction."""
    if (first := _common(start, now)) is not None:
        return first
    if now.evictions or not _same_pods(start, now):
        return _failed("a pod was replaced, although the mode is InPlace")
    if not now.refused:
        return _waiting("waiting for the infeasible resize")
    grown = sum((pod.request.cpu or 0) > (start.request.cpu or 0) for pod in now.pods)
    if grown < len(now.pods) or not now.settled:
        return _waiting(f"was infeasible on its node; {grown} of {len(now.pods)} resized")
    return _reached("infeasible; resized after maxAllowed was lowered")


def judge_leaker(start: WorkloadState, now: WorkloadState) -> Progress:
    """Expect one OOM kill, a higher memory target, and one eviction that applies it."""
    if (first := _common(start, now)) is not None:
        return first
    if now.oom_kills > 1:
        return _failed(f"OOM-killed {now.oom_kills} times")
    if now.evictions > 1:
        return _failed(f"evicted {now.evictions} times")
    if not now.oom_kills:
        return _waiting("memory grows")
    before = start.request.memory or 0
    if (now.target.memory or 0) <= before:
        return _waiting("OOM-killed; the target must rise")
    raised = all((pod.request.memory or 0) > before for pod in now.pods)
    if not now.pods or not raised or not now.settled or not now.evictions:
        return _waiting("OOM-killed; the target rose, the pod is replaced")
    return _reached("OOM-killed once, evicted once, then requests more")


def judge_advice(start: WorkloadState, now: WorkloadState) -> Progress:
    """Expect a recommendation in the status, and unchanged pods."""
    if (first := _common(start, now)) is not None:
        return first
    if now.evictions or now.resizes or not _same_pods(start, now):
        return _failed("a pod was changed, although the mode is Off")
    return _reached("recommendation only, pods unchanged")


def _smaller(left: Amounts, right: Amounts) -> bool:
    return (left.cpu or 0) < (right.cpu or 0) and (left.memory or 0) < (right.memory or 0)


WORKLOADS: tuple[Workload, ...] = (
    Workload(
        name="overprovisioned",
        mode="Recreate",
        replicas=3,
        judge=judge_overprovisioned,
    ),
    Workload(
        name="underprovisioned",
        mode="InPlaceOrRecreate",
        replicas=2,
        judge=judge_underprovisioned,
    ),
    Workload(
        name="toobig",
        mode="InPlace",
        replicas=2,
        judge=judge_too_big,
    ),
    Workload(
        name="leaker",
        mode="Recreate",
        replicas=1,
        judge=judge_leaker,
    ),
    Workload(
        name="advice",
        mode="Off",
        replicas=2,
        judge=judge_advice,
    ),
)


def given_back(
    start: Mapping[str, WorkloadState], now: Mapping[str, WorkloadState]
) -> tuple[Amounts, Amounts]:
    """Return the sum of decreases and the sum of increases of the pods' requests."""
    freed: dict[str, int] = dict.fromkeys(("cpu", "memory"), 0)
    added: dict[str, int] = dict.fromkeys(("cpu", "memory"), 0)
    for name, state in now.items():
        for resource in freed:
            change = _total(state, resource) - _total(start[name], resource)
            (added if change > 0 else freed)[resource] += abs(change)
    return Amounts(**freed), Amounts(**added)


def _total(state: WorkloadState, resource: str) -> int:
    return sum(getattr(pod.request, resource) or 0 for pod in state.pods)


def show_cpu(millicores: int | None) -> str:
    """Return millicores as a quantity."""
    return "-" if millicores is None else f"{millicores}m"


def show_memory(amount: int | None) -> str:
    """Return bytes as a quantity, rounded to MiB."""
    return "-" if amount is None else f"{round(amount / MIB)}Mi"


def show(amounts: Amounts) -> str:
    """Return CPU and memory in the units that manifests use."""
    return f"{show_cpu(amounts.cpu)} / {show_memory(amounts.memory)}"
