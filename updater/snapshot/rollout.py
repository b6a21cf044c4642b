"""Rollouts in progress, and the pods that have to stay available during them (X105)."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.api.core import Pod
from common.api.workloads import DaemonSet, Deployment, StatefulSet
from common.target.pod_counts import ROLLING_DEFAULTS, resolved_amount

_COMPLETE = "NewReplicaSetAvailable"
_PAUSED = "DeploymentPaused"
_RECREATE = "Recreate"
_ON_DELETE = "OnDelete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A rollout in progress, with the limits of the workload's own strategy."""

    replicas: int
    max_unavailable: int
    min_ready: timedelta = timedelta()  # a pod is available after it has been Ready for this time
    recreates: bool = False  # strategy Recreate: no pod is evicted

    def must_stay(self, tolerance_fraction: float) -> int:
        """Return how many pods must stay available, by the strategy and the eviction tolerance."""
        tolerance = math.trunc(self.replicas * tolerance_fraction)
        return self.replicas - min(self.max_unavailable, tolerance)

    def is_available(self, pod: Pod, *, now: datetime) -> bool:
        """Return whether the workload's controller counts the pod as available.

        Source: k8s.io/kubernetes pkg/api/v1/pod, ``IsPodAvailable``.
        """
        for condition in pod.status.conditions or ():
            if condition.type == "Ready":
                since = condition.last_transition_time
                return condition.status == "True" and (
                    not self.min_ready or (since is not None and since + self.min_ready <= now)
                )
        return False


def rollout_of(workload: object) -> Rollout | None:
    """Return the rollout of a workload; None: none is in progress."""
    if isinstance(workload, Deployment):
        return _of_deployment(workload)
    if isinstance(workload, StatefulSet):
        return _of_stateful_set(workload)
    return _of_daemon_set(workload) if isinstance(workload, DaemonSet) else None


def _of_deployment(found: Deployment) -> Rollout | None:
    """Return the rollout of a Deployment.

    Source: k8s.io/kubernetes pkg/controller/deployment/util, ``MaxUnavailable``.
    """
    replicas = _replicas(found)
    if _is_complete(found, replicas):
        return None
    strategy = found.spec.strategy
    recreates = strategy.type == _RECREATE
    rolling = strategy.rolling_update or ROLLING_DEFAULTS
    unavailable = resolved_amount(rolling.max_unavailable, replicas, default="25%")
    if not unavailable and not resolved_amount(rolling.max_surge, replicas, default="25%", up=True):
        unavailable = 1
    return Rollout(
        replicas=replicas,
        max_unavailable=0 if recreates else min(unavailable, replicas),
        min_ready=timedelta(seconds=found.spec.min_ready_seconds),
        recreates=recreates,
    )


def _is_complete(found: Deployment, replicas: int) -> bool:
    """Return whether all pods are of the newest ReplicaSet, and were available once.

    A pod that is lost later starts no rollout: the condition Progressing keeps its reason.
    Without this condition (no progress deadline), or while the Deployment is paused, the rollout is
    complete when all wanted pods were created and no old one is left. Otherwise a crashing pod
    would block updates of the others.

    Source: k8s.io/kubernetes pkg/controller/deployment, ``syncRolloutStatus``.
    """
    status = found.status
    if status.observed_generation < found.metadata.generation:
        return False
    if status.updated_replicas != status.replicas:
        return False
    reasons = {each.reason for each in status.conditions or () if each.type == "Progressing"}
    if _COMPLETE in reasons:
        return True
    if reasons <= {_PAUSED}:
        return status.replicas == replicas
    return status.replicas == status.available_replicas == replicas


def _of_stateful_set(found: StatefulSet) -> Rollout | None:
    """Return the rollout of a StatefulSet.

    Source: k8s.io/kubernetes pkg/controller/statefulset, ``getStatefulSetMaxUnavailable``.
    """
    strategy, status, replicas = found.spec.update_strategy, found.status, _replicas(found)
    rolling = strategy.rolling_update or ROLLING_DEFAULTS
    observed = status.observed_generation >= found.metadata.generation
    same = status.current_revision == status.update_revision
    kept = rolling.partition
    reached = bool(kept) and status.updated_replicas >= replicas - kept
    if strategy.type == _ON_DELETE or (observed and (same or reached)):
        return None
    unavailable = max(resolved_amount(rolling.max_unavailable, replicas, default=1), 1)
    return Rollout(
        replicas=replicas,
        max_unavailable=min(unavailable, replicas),
        min_ready=timedelta(seconds=found.spec.min_ready_seconds),
    )


def _of_daemon_set(found: DaemonSet) -> Rollout | None:
    """Return the rollout of a DaemonSet.

    Source: k8s.io/kubernetes pkg/controller/daemon/util, ``UnavailableCount``.
    """
    strategy, status = found.spec.update_strategy, found.status
    observed = status.observed_generation >= found.metadata.generation
    updated = status.updated_number_scheduled >= status.current_number_scheduled
    if strategy.type == _ON_DELETE or (observed and updated):
        return None
    desired = status.desired_number_scheduled
    rolling = strategy.rolling_update or ROLLING_DEFAULTS
    unavailable = resolved_amount(rolling.max_unavailable, desired, default=1, up=True)
    return Rollout(
        replicas=desired,
        max_unavailable=min(unavailable, desired),
        min_ready=timedelta(seconds=found.spec.min_ready_seconds),
    )


def _replicas(found: Deployment | StatefulSet) -> int:
    return 1 if found.spec.replicas is None else found.spec.replicas
