"""What happened to a container that is a process: how it ended, and what its probes say.

Each function changes the state of a pod. An observation of an earlier run than the present one
changes nothing.
"""

import enum
from datetime import datetime

from sandbox.kubelet.containers import Container, Kind
from sandbox.kubelet.pod_lifecycle import Phase, PodRun


class ProbeKind(enum.StrEnum):
    """What a probe decides on; the value is its name in Events."""

    STARTUP = "Startup"
    READINESS = "Readiness"
    LIVENESS = "Liveness"


def prepared(pod: PodRun, _now: datetime) -> None:
    """The volumes are there: containers may start."""
    if not any(one.running for one in pod.containers.values()):
        pod.held = False


def unprepared(pod: PodRun, _now: datetime, *, problem: str) -> None:
    """The volumes can't be made; the pod waits, as it would for a Secret that is missing."""
    pod.notice("FailedMount", problem, warning=True)


def configured(pod: PodRun, now: datetime, *, name: str, problem: str) -> None:
    """Whether a container can be made, or what its variables lack: a Secret, a key."""
    container = pod.containers[name]
    container.problem = problem
    if not container.held_back:
        return
    if problem:
        pod.hold_back(container)
    elif container.container_id:  # it has run before
        container.restart_at = now
    else:
        pod.held = False


def exited(
    pod: PodRun, now: datetime, *, name: str, container_id: str, exit_code: int, reason: str = ""
) -> None:
    """A process is gone; its container runs again as the restart policy says."""
    container = _present(pod, name, container_id)
    if container is None:
        return
    if pod.deleting or pod.phase.is_terminal:
        container.end(now, exit_code=exit_code, reason=reason)
        return
    if container.kind is Kind.INIT and exit_code == 0:
        container.end(now, exit_code=0)
        pod.held = False
        return
    pod.end(container, now, exit_code=exit_code, reason=reason)
    if container.kind is Kind.INIT and container.restart_at is None:
        pod.finish(Phase.FAILED)


def probed(
    pod: PodRun,
    _now: datetime,
    *,
    name: str,
    container_id: str,
    kind: ProbeKind,
    success: bool,
    message: str = "",
) -> None:
    """A probe has crossed its success or failure threshold.

    A failed startup or liveness probe dooms the process: it is to be ended, and its exit comes
    as a fact of its own.
    """
    container = _present(pod, name, container_id)
    if container is None or pod.deleting:
        return
    if not success:
        pod.notice(
            "Unhealthy", f"{kind} probe failed: {message}", warning=True, container=container.name
        )
    if kind is ProbeKind.READINESS:
        container.answers = success
    elif success:
        container.started_up = True
    else:
        container.doomed = True
        text = f"Container {name} failed {kind.lower()} probe, will be restarted"
        pod.notice("Killing", text, container=name)


def _present(pod: PodRun, name: str, container_id: str) -> Container | None:
    container = pod.containers.get(name)
    if container is None or not container.running or container.container_id != container_id:
        return None
    return container
