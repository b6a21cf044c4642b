"""A resize in place of one pod: desired → allocated → actuated.

The node decides on the allocation (``sandbox.kubelet.allocation``). This module applies the
decision, and actuates it. Source: kubernetes-resize.md 3 and 4; k8s.io/kubernetes
pkg/kubelet/allocation and pkg/kubelet/kuberuntime.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from common.api.core import ResourceRequirements
from sandbox.kubelet import conditions
from sandbox.kubelet.allocation import Answer, ResizeAnswer
from sandbox.kubelet.containers import Container, Kind
from sandbox.kubelet.faults import ResizeFault
from sandbox.kubelet.pod_lifecycle import PodRun
from sandbox.kubelet.pod_resources import WHOLE_POD, amounts, changed, memory_limit, same
from sandbox.kubelet.wire import NO_RESOURCES, resources_json

_KILLED = 137
_RUNTIME_FAILED = "failed to update container resources: the runtime refused"


def is_wanted(pod: PodRun) -> bool:
    """Return True if the spec requests other resources than the node has granted."""
    if not pod.allocated or pod.deleting or pod.phase.is_terminal:
        return False
    if pod.faults.resize is ResizeFault.SILENT:
        return False
    return any(
        not same(wanted, pod.allocated.get(name, NO_RESOURCES))
        for name, wanted in pod.desired.items()
    )


def forced_answer(pod: PodRun) -> tuple[ResizeAnswer, str] | None:
    """Return the decision of a fault and its reason; None if the node decides."""
    forced = {
        ResizeFault.DEFERRED: (Answer.DEFERRED, "Deferred"),
        ResizeFault.INFEASIBLE: (Answer.INFEASIBLE, "Infeasible"),
        ResizeFault.UNKNOWN_REASON: (Answer.DEFERRED, "Puzzled"),
    }.get(pod.faults.resize or ResizeFault.SILENT)
    if forced is None:
        return None
    answer, reason = forced
    return ResizeAnswer(answer=answer, message="the resize fails on purpose"), reason


def answered(pod: PodRun, answer: ResizeAnswer, now: datetime, *, reason: str = "") -> None:
    """Apply the node's decision.

    Admitted: the new values are allocated, an older Error is removed, and the actuation is planned.
    Refused: the pending condition gives the reason; an Event is recorded for a new reason or
    generation, not for every retry. ``reason`` replaces the decision's in the condition.
    """
    if answer.answer is Answer.ADMITTED:
        pod.allocate({**pod.allocated, **pod.desired})
        pod.pending = None
        pod.in_progress = conditions.in_progress(None, generation=pod.generation, now=now)
        delay = pod.faults.resize_delay
        if delay is None:
            delay = pod.simulation.timing.resize_delay
        pod.actuate_at = now + timedelta(seconds=delay)
        _note_event(pod, "ResizeStarted", "Pod resize started", generation=pod.generation)
        return
    old = pod.pending
    shown = reason or answer.answer.value
    pod.pending = conditions.pending(
        old, reason=shown, message=answer.message, generation=pod.generation, now=now
    )
    if old is None or (old.reason, old.generation) != (shown, pod.generation):
        name = "Infeasible" if answer.answer is Answer.INFEASIBLE else "Deferred"
        _note_event(
            pod,
            f"Resize{name}",
            f"Pod resize {name}",
            generation=pod.generation,
            error=answer.message,
        )


def actuate(pod: PodRun, now: datetime) -> None:
    """Apply allocated resources to running containers, if this is due.

    A memory limit is not lowered below usage: then nothing of the pod changes, the condition
    reports Error, and this is retried until usage falls or the spec changes back. Containers that
    must restart get their new values with their next run.
    """
    if pod.actuate_at is None or pod.actuate_at > now or pod.phase.is_terminal or pod.deleting:
        return
    pod.actuate_at = None
    outstanding = _outstanding(pod)
    if not outstanding and not _block_differs(pod):
        _complete(pod)
        return
    if pod.faults.resize is ResizeFault.STUCK:
        pod.actuate_at = now + timedelta(seconds=pod.simulation.timing.retry_failed)
        return
    restarted = [one for one in outstanding if _asks_for_restart(pod, one)]
    updated = [one for one in outstanding if one not in restarted]
    message = _failure(pod, updated, now)
    if message:
        _fail(pod, message, now)
        return
    for name in (WHOLE_POD, *(one.name for one in updated)):
        if name in pod.allocated:
            pod.actuated[name] = pod.allocated[name]
    for container in restarted:
        text = f"Container {container.name} resize requires restart"
        pod.notice("Killing", text, container=container.name)
        pod.end(container, now, exit_code=_KILLED, at_once=True)
    if restarted:  # complete after they run again
        pod.actuate_at = now + timedelta(seconds=pod.simulation.timing.restart_delay)
        return
    _complete(pod)


def _complete(pod: PodRun) -> None:
    restarts = [
        one.restart_at for one in pod.containers.values() if one.restart_at and not one.waiting
    ]
    if restarts:  # a container in its back-off doesn't run, so it doesn't delay this
        pod.actuate_at = max(restarts)
        return
    pod.update_occupied()
    if pod.in_progress is not None:
        generation = pod.in_progress.generation
        pod.in_progress = None
        pod.released = True
        _note_event(pod, "ResizeCompleted", "Pod resize completed", generation=generation)


def _outstanding(pod: PodRun) -> list[Container]:
    return [
        one
        for name, one in pod.containers.items()
        if one.running
        and (
            not same(pod.allocated.get(name, NO_RESOURCES), pod.actuated.get(name, NO_RESOURCES))
            or _inherits_restart(pod, one)
        )
    ]


def _block_differs(pod: PodRun) -> bool:
    """Return True if the pod-level block must be actuated."""
    granted = pod.allocated.get(WHOLE_POD)
    return granted is not None and not same(granted, pod.actuated.get(WHOLE_POD, NO_RESOURCES))


def _inherits_restart(pod: PodRun, container: Container) -> bool:
    """Return True if the pod-level limit changes that a container without its own limit inherits.

    Only then, and if its policy requires it, a pod-level change restarts it (KEP-5419).
    """
    if WHOLE_POD not in pod.allocated:
        return False
    sides = (pod.actuated.get(WHOLE_POD, NO_RESOURCES), pod.allocated[WHOLE_POD])
    old, new = (amounts(one.limits) for one in sides)
    own = amounts(pod.allocated.get(container.name, NO_RESOURCES).limits)
    policies = _policies(container)
    return any(
        policies.get(name) == "RestartContainer" and old.get(name) != new.get(name)
        for name in {*old, *new} - own.keys()
    )


def _policies(container: Container) -> dict[str, str]:
    return {one.resource_name: one.restart_policy for one in container.spec.resize_policy or ()}


def _asks_for_restart(pod: PodRun, container: Container) -> bool:
    """Return True if a changed resource requires a restart (kubernetes-resize.md 3.5)."""
    if _inherits_restart(pod, container):
        return True
    policies = _policies(container)
    differing = changed(
        pod.actuated.get(container.name, NO_RESOURCES),
        pod.allocated.get(container.name, NO_RESOURCES),
    )
    return any(policies.get(name) == "RestartContainer" for name in differing)


def _failure(pod: PodRun, updated: list[Container], now: datetime) -> str:
    """Return why the runtime can't apply the new values; empty if it can."""
    if pod.faults.resize is ResizeFault.ERROR:
        return _RUNTIME_FAILED
    running = [one for one in pod.containers.values() if one.running and one.kind is not Kind.INIT]
    used = {one.name: pod.memory_demand(one, now) for one in running}
    failures = []
    for container in updated:
        new = memory_limit(pod.allocated[container.name])
        old = memory_limit(pod.actuated.get(container.name, NO_RESOURCES))
        shrinks = new is not None and (old is None or new < old)
        if new is not None and shrinks and used.get(container.name, 0) >= new:
            # The kubelet also prints the pod's usage here (kubernetes-resize.md 3.1).
            failures.append(
                f'attempting to set container "{container.name}" memory limit ({new}) '
                f"below current usage ({sum(used.values())})"
            )
    pod_failure = _pod_failure(pod, sum(used.values()))
    if pod_failure and (failures or WHOLE_POD in pod.allocated):
        failures.insert(0, pod_failure)
    if not failures:
        return ""
    text = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
    return f"cannot decrease memory limits: {text}"


def _pod_failure(pod: PodRun, used: int) -> str:
    """Check the pod's memory limit: that of its block, or the sum if all containers have one."""
    names = [one.name for one in pod.containers.values() if one.kind is not Kind.INIT]
    new = _limit_sum(pod.allocated, names)
    old = _limit_sum(pod.actuated, names)
    if new is None or old is None or new >= old or used < new:
        return ""
    return f"attempting to set pod memory limit ({new}) below current usage ({used})"


def _limit_sum(resources: Mapping[str, ResourceRequirements], names: list[str]) -> int | None:
    block = memory_limit(resources.get(WHOLE_POD, NO_RESOURCES))
    if block is not None:
        return block
    limits = [memory_limit(resources.get(name, NO_RESOURCES)) for name in names]
    known = [limit for limit in limits if limit is not None]
    return sum(known) if len(known) == len(limits) else None


def _fail(pod: PodRun, message: str, now: datetime) -> None:
    """Set the condition Error and plan a retry. An Event is recorded for a new message."""
    old = pod.in_progress
    pod.in_progress = conditions.in_progress(
        old, reason=conditions.ERROR, message=message, generation=pod.generation, now=now
    )
    if old is None or old.message != message:
        _note_event(
            pod,
            "ResizeError",
            "Pod resize error",
            generation=pod.in_progress.generation,
            error=message,
        )
    pod.actuate_at = now + timedelta(seconds=pod.simulation.timing.retry_failed)


def _note_event(
    pod: PodRun, reason: str, sentence: str, *, generation: int, error: str = ""
) -> None:
    """Record an Event of a resize, from Kubernetes 1.35 on (kubernetes-resize.md 3.4)."""
    if pod.simulation.minor < 35:
        return
    spec = pod.object.spec
    details: dict[str, Any] = {}
    if spec.init_containers:
        details["initContainers"] = [
            {"name": one.name, "resources": resources_json(one.wanted)}
            for one in spec.init_containers
        ]
    details["containers"] = [
        {"name": one.name, "resources": resources_json(one.wanted)} for one in spec.containers
    ]
    details["generation"] = generation
    if error:
        details["error"] = error
    text = msgspec.json.encode(details).decode()
    pod.notice(reason, f"{sentence}: {text}", warning=bool(error))
