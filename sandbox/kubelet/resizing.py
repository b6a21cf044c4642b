"""A resize in place, on one pod: desired → allocated → actuated.

The node decides on the first arrow (``sandbox.kubelet.allocation``); here its answer takes
effect, and the second arrow is drawn. Source: kubernetes-resize.md 3 and 4;
k8s.io/kubernetes pkg/kubelet/allocation and pkg/kubelet/kuberuntime.
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
_LOOKS_AT_CONTAINERS = 34  # before, only the pod's usage stood against a lower memory limit
_RUNTIME_FAILED = "failed to update container resources: the runtime refused"


def is_wanted(pod: PodRun) -> bool:
    """Whether the spec asks for something else than the node has granted."""
    if not pod.allocated or pod.deleting or pod.phase.is_terminal:
        return False
    if pod.faults.resize is ResizeFault.SILENT:
        return False
    return any(
        not same(wanted, pod.allocated.get(name, NO_RESOURCES))
        for name, wanted in pod.desired.items()
    )


def forced_answer(pod: PodRun) -> tuple[ResizeAnswer, str] | None:
    """The answer that a fault gives in the node's stead, and its reason; None: ask the node."""
    forced = {
        ResizeFault.DEFERRED: (Answer.DEFERRED, "Deferred"),
        ResizeFault.INFEASIBLE: (Answer.INFEASIBLE, "Infeasible"),
        ResizeFault.UNKNOWN_REASON: (Answer.DEFERRED, "Puzzled"),
    }.get(pod.faults.resize or ResizeFault.SILENT)
    if forced is None:
        return None
    answer, reason = forced
    message = pod.faults.resize_message or "the resize fails on purpose"
    return ResizeAnswer(answer=answer, message=message), reason


def answered(pod: PodRun, answer: ResizeAnswer, now: datetime, *, reason: str = "") -> None:
    """Let the node's answer take effect.

    Granted: the new values are allocated, an older Error is forgotten, and the actuation is
    planned. Refused: the pending condition says why; its Event comes when reason or generation
    are new, not with every retry. ``reason`` stands in the condition instead of the answer's.
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
    """Give running containers what was allocated to them, if it is time.

    A memory limit is not lowered below usage: then nothing of the pod changes, the condition
    says Error, and it is tried again until usage falls or the spec changes back. Containers
    that ask for a restart get their new values with their next run.
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
        code = _KILLED if pod.faults.exit_code is None else pod.faults.exit_code
        pod.end(container, now, exit_code=code, at_once=True)
    if restarted:  # done once they run again
        pod.actuate_at = now + timedelta(seconds=pod.simulation.timing.restart_delay)
        return
    _complete(pod)


def _complete(pod: PodRun) -> None:
    restarts = [
        one.restart_at for one in pod.containers.values() if one.restart_at and not one.waiting
    ]
    if restarts:  # but a container in its back-off doesn't run, so it isn't waited for
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
    """Whether the pod-level block is still to be actuated."""
    granted = pod.allocated.get(WHOLE_POD)
    return granted is not None and not same(granted, pod.actuated.get(WHOLE_POD, NO_RESOURCES))


def _inherits_restart(pod: PodRun, container: Container) -> bool:
    """Whether a pod-level limit changes that the container has, for want of one of its own.

    Only then, and if it asks for a restart, a pod-level change restarts it (KEP-5419).
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
    """Only the policies of resources that change matter (kubernetes-resize.md 3.5)."""
    if pod.faults.restart_on_resize or _inherits_restart(pod, container):
        return True
    policies = _policies(container)
    differing = changed(
        pod.actuated.get(container.name, NO_RESOURCES),
        pod.allocated.get(container.name, NO_RESOURCES),
    )
    return any(policies.get(name) == "RestartContainer" for name in differing)


def _failure(pod: PodRun, updated: list[Container], now: datetime) -> str:
    """Why the runtime can't take the new values; empty where it can."""
    if pod.faults.resize is ResizeFault.ERROR:
        return pod.faults.resize_message or _RUNTIME_FAILED
    running = [one for one in pod.containers.values() if one.running and one.kind is not Kind.INIT]
    used = {one.name: pod.memory_demand(one, now) for one in running}
    failures = []
    for container in updated:
        new = memory_limit(pod.allocated[container.name])
        old = memory_limit(pod.actuated.get(container.name, NO_RESOURCES))
        shrinks = new is not None and (old is None or new < old)
        if new is not None and shrinks and used.get(container.name, 0) >= new:
            # The kubelet prints the pod's usage here, too (kubernetes-resize.md 3.1).
            failures.append(
                f'attempting to set container "{container.name}" memory limit ({new}) '
                f"below current usage ({sum(used.values())})"
            )
    pod_failure = _pod_failure(pod, sum(used.values()))
    if pod.simulation.minor < _LOOKS_AT_CONTAINERS:
        failures = [pod_failure] if pod_failure else []
    elif pod_failure and (failures or WHOLE_POD in pod.allocated):
        failures.insert(0, pod_failure)
    if not failures:
        return ""
    told = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
    return f"cannot decrease memory limits: {told}"


def _pod_failure(pod: PodRun, used: int) -> str:
    """The pod's own limit counts: that of its block, or all containers' where each has one."""
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
    """Say so and plan the next try; the Event comes when the message is new."""
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
    """Events of resizes exist from Kubernetes 1.35 on (kubernetes-resize.md 3.4)."""
    if pod.simulation.minor < 35:
        return
    spec = pod.object.spec
    told: dict[str, Any] = {}
    if spec.init_containers:
        told["initContainers"] = [
            {"name": one.name, "resources": resources_json(one.wanted)}
            for one in spec.init_containers
        ]
    told["containers"] = [
        {"name": one.name, "resources": resources_json(one.wanted)} for one in spec.containers
    ]
    told["generation"] = generation
    if error:
        told["error"] = error
    text = msgspec.json.encode(told).decode()
    pod.notice(reason, f"{sentence}: {text}", warning=bool(error))
