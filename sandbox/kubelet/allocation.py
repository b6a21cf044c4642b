"""Whether a node has room: admission of new pods and of resizes, and the order of retries.

Pure. Source: k8s.io/kubernetes pkg/kubelet/allocation and lifecycle/predicate.go, as written
down in kubernetes-resize.md 3.1, 3.3 and 4.
"""

import enum
from dataclasses import dataclass
from datetime import datetime

from sandbox.kubelet.pod_resources import Totals


class Answer(enum.StrEnum):
    """What becomes of a resize; the values are reasons of the condition PodResizePending."""

    ADMITTED = ""
    DEFERRED = "Deferred"  # tried again
    INFEASIBLE = "Infeasible"  # not tried again until the spec changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A node without the pod in question; CPU in millicores, memory in bytes."""

    allocatable: Totals
    capacity: Totals  # what the node has before the kubelet keeps something back
    used: Totals  # other pods at their allocated values
    pods: int  # how many pods fit
    used_pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why there is no room; ``reason`` is the pod's, e.g. ``OutOfcpu``."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeAnswer:
    """The answer to a resize, and why."""

    answer: Answer
    message: str = ""


ADMITTED = ResizeAnswer(answer=Answer.ADMITTED)


def admit(total: Totals, room: Room) -> Refusal | None:
    """Decide whether a pod that asks for ``total`` fits; None is yes.

    Exactly full is fine. A resource that the pod doesn't ask for is never missing, and limits
    don't count. The first resource that is missing is the one that is named.
    """
    for name, wanted, used, there in (
        ("pods", 1, room.used_pods, room.pods),
        ("cpu", total.cpu, room.used.cpu, room.allocatable.cpu),
        ("memory", total.memory, room.used.memory, room.allocatable.memory),
    ):
        if wanted > 0 and wanted + used > there:
            message = (
                f"Node didn't have enough resource: {name}, "
                f"requested: {wanted}, used: {used}, capacity: {there}"
            )
            return Refusal(reason=f"OutOf{name}", message=message)
    return None


def admit_resize(total: Totals, room: Room, *, minor: int) -> ResizeAnswer:
    """Decide on a resize to ``total``, of all containers and resources at once.

    A pod that is larger than its node is Infeasible up to Kubernetes 1.35; from 1.36 on the
    API server refuses such a resize, and the kubelet answers Deferred for it. Where both
    resources are too large, memory is named.
    """
    if minor <= 35:
        for resource, wanted, there in (
            ("memory", total.memory, room.capacity.memory),
            ("cpu", total.cpu, room.capacity.cpu),
        ):
            if wanted > there:
                message = (
                    f"Node didn't have enough capacity: {resource}, "
                    f"requested: {wanted}, capacity: {there}"
                )
                return ResizeAnswer(answer=Answer.INFEASIBLE, message=message)
    refusal = admit(total, room)
    if refusal is not None:
        return ResizeAnswer(answer=Answer.DEFERRED, message=refusal.message)
    return ADMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The values that decide the order of pending resizes."""

    wanted: Totals
    allocated: Totals
    priority: int
    guaranteed: bool
    since: datetime | None  # in PodResizePending; None is not yet


def retry_order(waiting: Waiting, latest: datetime) -> tuple[bool, int, bool, datetime]:
    """Sort key of the retry queue, first come lowest; ``latest`` stands for "not yet waiting".

    1. resizes that raise no total, 2. higher priority, 3. Guaranteed first, 4. longest wait.
    """
    rises = (
        waiting.wanted.cpu > waiting.allocated.cpu
        or waiting.wanted.memory > waiting.allocated.memory
    )
    return rises, -waiting.priority, not waiting.guaranteed, waiting.since or latest
