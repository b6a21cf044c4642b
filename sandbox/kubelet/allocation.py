"""Admission of new pods and of resizes by a node, and the order of retries.

Without I/O. Source: k8s.io/kubernetes pkg/kubelet/allocation and lifecycle/predicate.go, as written
down in kubernetes-resize.md 3.1, 3.3 and 4.
"""

import enum
from dataclasses import dataclass
from datetime import datetime

from sandbox.kubelet.pod_resources import Totals


class Answer(enum.StrEnum):
    """The decision on a resize; the values are reasons of the condition PodResizePending."""

    ADMITTED = ""
    DEFERRED = "Deferred"  # tried again
    INFEASIBLE = "Infeasible"  # not tried again until the spec changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A node without the pod to admit; CPU in millicores, memory in bytes."""

    allocatable: Totals
    capacity: Totals  # including reserved resources
    used: Totals  # other pods at their allocated values
    pods: int  # the maximum number of pods
    used_pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why there is no room; ``reason`` is the pod's, for example ``OutOfcpu``."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeAnswer:
    """The decision on a resize, with its message."""

    answer: Answer
    message: str = ""


ADMITTED = ResizeAnswer(answer=Answer.ADMITTED)


def admit(total: Totals, room: Room) -> Refusal | None:
    """Admit a pod that requests ``total``: return None, or a refusal.

    A pod may fill the node completely. Only requested resources count, and limits don't. The
    refusal names the first insufficient resource.
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

    A pod that is larger than its node is Infeasible up to Kubernetes 1.35. From 1.36 on the API
    server refuses this resize, and the kubelet answers Deferred for it. If both resources are too
    large, memory is named.
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
    """The values that determine the order of pending resizes."""

    wanted: Totals
    allocated: Totals
    priority: int
    guaranteed: bool
    since: datetime | None  # in PodResizePending; None if not pending yet


def retry_order(waiting: Waiting, latest: datetime) -> tuple[bool, int, bool, datetime]:
    """Return the sort key of the retry queue; ``latest`` replaces a missing ``since``.

    The order is: 1. resizes that raise no total, 2. higher priority, 3. Guaranteed first, 4.
    longest wait.
    """
    rises = (
        waiting.wanted.cpu > waiting.allocated.cpu
        or waiting.wanted.memory > waiting.allocated.memory
    )
    return rises, -waiting.priority, not waiting.guaranteed, waiting.since or latest
