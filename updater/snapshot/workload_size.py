"""The wanted and existing numbers of pods of controllers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from common.api.workloads import DaemonSet, Job, ReplicationController, Workload, has_ended
from common.target.owners import Controller, controller_of

_WITH_COUNT = frozenset({"DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet"})
_DEPLOYMENT = "Deployment"
_JOB = "Job"

Find: TypeAlias = Callable[[Controller], object | None]
"""Returns a controller's object; None: there is none, or its kind isn't well-known."""


@dataclass(frozen=True, slots=True)
class GroupSize:
    """The wanted and the existing number of pods of a workload, on a node or not.

    ``wanted`` is None if the controller is gone or has no such number.
    """

    wanted: int | None = None
    existing: int = 0


UNKNOWN = GroupSize()


def replicas_of(controller: Controller, find: Find) -> int | None:
    """Return how many pods a controller wants; None: it is not found, or of another kind.

    For a DaemonSet it is the number of ready pods, as in the reference. A controller that is being
    deleted wants none (X89).

    Source: updater.md 5.
    """
    if controller.kind not in _WITH_COUNT:
        return None
    found = find(controller)
    if not isinstance(found, Workload | ReplicationController):
        return None
    if found.metadata.deletion_timestamp is not None:
        return 0
    return found.status.number_ready if isinstance(found, DaemonSet) else found.spec.replicas


def group_size(controller: Controller, find: Find) -> GroupSize:
    """Return the size of a workload; UNKNOWN for custom kinds.

    The size of a Deployment includes all its ReplicaSets.
    """
    if not has_wanted_count(controller):
        return UNKNOWN
    found = find(controller)
    if not isinstance(found, Workload | ReplicationController):
        return UNKNOWN
    if found.metadata.deletion_timestamp is not None:
        return GroupSize(wanted=0)
    if isinstance(found, Job):
        return GroupSize(wanted_by_job(found), found.status.active)
    status = found.status
    if isinstance(found, DaemonSet):
        return GroupSize(status.desired_number_scheduled, status.current_number_scheduled)
    return GroupSize(found.spec.replicas, status.replicas)


def workload_of(controller: Controller, find: Find) -> Controller:
    """Return the Deployment of a ReplicaSet; any other direct controller is the workload itself."""
    if controller.kind != "ReplicaSet":
        return controller
    found = find(controller)
    if not isinstance(found, Workload):
        return controller
    owner = controller_of(found.metadata)
    if owner is None or owner.kind != _DEPLOYMENT or find(owner) is None:
        return controller
    return owner


def wanted_by_job(job: Job) -> int:
    """Return how many pods a Job wants at a time; zero if it has ended or is suspended.

    Source: kubernetes.io/docs/concepts/workloads/controllers/job, "Parallel execution".
    """
    spec, status = job.spec, job.status
    if has_ended(status) or spec.suspend:
        return 0
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return 0 if status.succeeded else parallelism
    return max(min(parallelism, spec.completions - status.succeeded), 0)


def has_wanted_count(controller: Controller) -> bool:
    """Return whether controllers of this kind have a wanted number of pods."""
    return controller.kind in _WITH_COUNT or controller.kind in (_DEPLOYMENT, _JOB)
