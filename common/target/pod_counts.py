"""The number of pods that a workload has, and has at most during a rollout."""

from dataclasses import dataclass

from common.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicationController,
    RollingUpdate,
    StatefulSet,
    Workload,
    has_ended,
)

ROLLING_DEFAULTS = RollingUpdate()
_RECREATE = "Recreate"
_ON_DELETE = "OnDelete"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCounts:
    """The numbers of pods of a workload, as its controller states them."""

    wanted: int
    surge: int = 0  # more than wanted, during a rollout
    existing: int = 0  # pending pods included
    counts_deleted: bool = False  # ``existing`` includes pods that are being deleted

    @property
    def most(self) -> int:
        """Return the number of pods during a rollout; 0 if none is wanted."""
        return self.wanted + self.surge if self.wanted > 0 else 0


def pod_counts(workload: object) -> PodCounts | None:
    """Return the counts of a workload; None: its kind states none.

    A CronJob may have more than it wants: that is the number of pods of one Job.

    Source: k8s.io/kubernetes pkg/controller/deployment/util, ``MaxSurge``;
    pkg/controller/daemon/util, ``SurgeCount``; pkg/controller/statefulset,
    ``computeReplicaStatus``; pkg/controller/daemon, ``updateDaemonSetStatus``.
    """
    match workload:
        case CronJob():
            parallelism = workload.spec.job_template.spec.parallelism
            return PodCounts(wanted=1 if parallelism is None else parallelism)
        case DaemonSet():
            return _of_daemon_set(workload)
        case Job():
            return _of_job(workload)
        case Deployment():
            wanted = _replicas(workload)
            surge = _deployment_surge(workload, wanted)
            return PodCounts(wanted=wanted, surge=surge, existing=workload.status.replicas)
        case StatefulSet():
            wanted, existing = _replicas(workload), workload.status.replicas
            return PodCounts(wanted=wanted, existing=existing, counts_deleted=True)
        case Workload() | ReplicationController():
            return PodCounts(wanted=_replicas(workload), existing=workload.status.replicas)
    return None


def resolved_amount(
    amount: int | str | None, total: int, *, default: int | str, up: bool = False
) -> int:
    """Return a number of pods; a percentage of ``total`` is rounded down, or ``up``.

    Any other text is zero.
    """
    amount = default if amount is None else amount
    if isinstance(amount, int):
        return amount
    percent = amount.removesuffix("%")
    if percent == amount or not percent.isdecimal():
        return 0
    exact = int(percent) * total
    return -(-exact // 100) if up else exact // 100


def _deployment_surge(found: Deployment, wanted: int) -> int:
    strategy = found.spec.strategy
    if strategy.type == _RECREATE:
        return 0
    rolling = strategy.rolling_update or ROLLING_DEFAULTS
    return max(0, resolved_amount(rolling.max_surge, wanted, default="25%", up=True))


def _of_daemon_set(found: DaemonSet) -> PodCounts:
    status, strategy = found.status, found.spec.update_strategy
    wanted, surge = status.desired_number_scheduled, 0
    if strategy.type != _ON_DELETE:
        rolling = strategy.rolling_update or ROLLING_DEFAULTS
        surge = max(0, resolved_amount(rolling.max_surge, wanted, default=0, up=True))
    existing = status.current_number_scheduled
    return PodCounts(wanted=wanted, surge=surge, existing=existing, counts_deleted=True)


def _of_job(found: Job) -> PodCounts:
    """Return the pods that run at a time, of those that are left to run."""
    spec, status = found.spec, found.status
    wanted = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        wanted = min(wanted, spec.completions - status.succeeded)
    is_over = spec.suspend or has_ended(status)
    return PodCounts(wanted=0 if is_over else max(0, wanted), existing=status.active)


def _replicas(found: Workload | ReplicationController) -> int:
    return 1 if found.spec.replicas is None else found.spec.replicas
