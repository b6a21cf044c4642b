"""What controllers say of the number of their pods."""

from dataclasses import dataclass

from common.api.workloads import ReplicationController, Workload
from common.kube.targets import ControllerCaches
from common.target.owners import Controller

_TELLING = frozenset({"DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet"})


@dataclass(frozen=True, slots=True)
class GroupSize:
    """How many pods a controller is to have, and how many it has, on a node or not.

    ``wanted`` is None where the controller is gone, or says nothing of that.
    """

    wanted: int | None = None
    existing: int = 0


UNKNOWN = GroupSize()


def replicas_of(controller: Controller, caches: ControllerCaches) -> int | None:
    """How many pods a controller asks for; None where it is not found, or a kind of its own.

    A DaemonSet tells the number of its ready pods, as the reference takes it.

    Source: updater.md 5.
    """
    if controller.kind not in _TELLING:
        return None
    found = caches.find(controller)
    if controller.kind == "DaemonSet" and isinstance(found, Workload):
        return found.status.number_ready
    return found.spec.replicas if isinstance(found, Workload | ReplicationController) else None


def group_size(controller: Controller, caches: ControllerCaches) -> GroupSize:
    """How many pods a controller is to have, and has; a Job or a kind of its own doesn't tell."""
    if controller.kind not in _TELLING:
        return UNKNOWN
    found = caches.find(controller)
    if not isinstance(found, Workload | ReplicationController):
        return UNKNOWN
    status = found.status
    if controller.kind == "DaemonSet":
        return GroupSize(status.desired_number_scheduled, status.current_number_scheduled)
    return GroupSize(found.spec.replicas, status.replicas)
