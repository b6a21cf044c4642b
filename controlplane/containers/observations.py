"""Observations of a container that is a process: its exit, and the results of its probes.

Each function changes the state of a pod. An observation of an earlier run changes nothing.
"""

import enum
from datetime import datetime

from sandbox.kubelet.containers import Container, Kind, Waiting
from sandbox.kubelet.pod_lifecycle import Phase, PodRun


class ProbeKind(enum.StrEnum):
    """The kinds of probes; the value is the name in Events."""

    STARTUP = "Startup"
    READINESS = "Readiness"
    LIVENESS = "Liveness"


def prepared(pod: PodRun, _now: datetime) -> None:
    """Start containers after the volumes were written."""
    if not any(one.running for one in pod.containers.values()):
        pod.held = False


def unprepared(pod: PodRun, _now: datetime, *, problem: str) -> None:
    """Record that the volumes can't be written. The pod waits, as for a missing Secret."""
    pod.notice("FailedMount", problem, warning=True)


def configured(pod: PodRun, now: datetime, *, name: str, problem: Waiting | None) -> None:
    """Update whether a container can be created, or what it lacks: its image, a Secret, a key."""
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
    """Record the exit of a process. Its container runs again by the restart policy."""
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
    """Record that a probe has crossed its success or failure threshold.

    A failed startup or liveness probe stops the process; its exit is a separate observation.
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
        container.stopping = True
        text = f"Container {name} failed {kind.lower()} probe, will be restarted"
        pod.notice("Killing", text, container=name)


def _present(pod: PodRun, name: str, container_id: str) -> Container | None:
    container = pod.containers.get(name)
    if container is None or not container.running or container.container_id != container_id:
        return None
    return container
