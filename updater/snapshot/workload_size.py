"""What controllers say of the number of their pods."""

from dataclasses import dataclass

from common.api.workloads import DaemonSet, Job, ReplicationController, Workload
from common.kube.targets import ControllerCaches
from common.target.owners import Controller, controller_of

_TELLING = frozenset({"DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet"})
_DEPLOYMENT = "Deployment"
_JOB = "Job"
_ENDS = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


@dataclass(frozen=True, slots=True)
class GroupSize:
    """How many pods a workload is to have, and how many it has, on a node or not.

    ``wanted`` is None where the controller is gone, or says nothing of that.
    """

    wanted: int | None = None
    existing: int = 0


UNKNOWN = GroupSize()


def replicas_of(controller: Controller, caches: ControllerCaches) -> int | None:
    """Return how many pods a controller asks for; None where it is not found, or a kind of its own.

    A DaemonSet tells the number of its ready pods, as the reference takes it. One that is being
    deleted creates none any more (X89).

    Source: updater.md 5.
    """
    if controller.kind not in _TELLING:
        return None
    found = caches.find(controller)
    if found is not None and found.metadata.deletion_timestamp is not None:
        return 0
    if isinstance(found, DaemonSet):
        return found.status.number_ready
    return found.spec.replicas if isinstance(found, Workload | ReplicationController) else None


def group_size(controller: Controller, caches: ControllerCaches) -> GroupSize:
    """Return how many pods a workload is to have, and has; UNKNOWN for custom kinds.

    Of a Deployment both are those of all its ReplicaSets.
    """
    if not tells(controller):
        return UNKNOWN
    found = caches.find(controller)
    if found is not None and found.metadata.deletion_timestamp is not None:
        return GroupSize(wanted=0)
    if isinstance(found, Job):
        return GroupSize(wanted_by_job(found), found.status.active)
    if not isinstance(found, Workload | ReplicationController):
        return UNKNOWN
    status = found.status
    if isinstance(found, DaemonSet):
        return GroupSize(status.desired_number_scheduled, status.current_number_scheduled)
    return GroupSize(found.spec.replicas, status.replicas)


def workload_of(controller: Controller, caches: ControllerCaches) -> Controller:
    """Return the Deployment of a ReplicaSet; any other direct controller is the workload itself.

    What owns a Deployment is not asked: its wanted count is unknown.
    """
    if controller.kind != "ReplicaSet":
        return controller
    found = caches.find(controller)
    if not isinstance(found, Workload):
        return controller
    owner = controller_of(found.metadata)
    if owner is None or owner.kind != _DEPLOYMENT or caches.find(owner) is None:
        return controller
    return owner


def wanted_by_job(job: Job) -> int:
    """Return how many pods a Job wants at a time; none once it has ended or is suspended.

    Source: kubernetes.io/docs/concepts/workloads/controllers/job, "Parallel execution".
    """
    spec, status = job.spec, job.status
    ending = any(each.type in _ENDS and each.status == "True" for each in status.conditions or ())
    if ending or spec.suspend:
        return 0
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return 0 if status.succeeded else parallelism
    return max(min(parallelism, spec.completions - status.succeeded), 0)


def tells(controller: Controller) -> bool:
    """Return whether the controller, if it is there, says how many pods it wants."""
    return controller.kind in _TELLING or controller.kind in (_DEPLOYMENT, _JOB)
