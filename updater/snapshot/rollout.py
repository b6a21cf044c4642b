"""How many pods have to stay available while a controller rolls out a new version (X105)."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.api.core import Pod
from common.api.workloads import DaemonSet, Deployment, StatefulSet, UpdateStrategy

_COMPLETE = "NewReplicaSetAvailable"
_PAUSED = "DeploymentPaused"
_RECREATE = "Recreate"
_ON_DELETE = "OnDelete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A rollout in progress, and what the workload's own strategy promises meanwhile."""

    replicas: int
    max_unavailable: int
    min_ready: timedelta = timedelta()  # that a pod has to be Ready before it is available
    recreates: bool = False  # all old pods end first: no other pod is to be evicted

    def must_stay(self, tolerance_fraction: float) -> int:
        """Return how many pods have to stay available, within the eviction tolerance as well."""
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
    """Return the rollout of a workload that is in progress, if there is one."""
    if isinstance(workload, Deployment):
        return _of_deployment(workload)
    if isinstance(workload, StatefulSet):
        return _of_stateful_set(workload)
    return _of_daemon_set(workload) if isinstance(workload, DaemonSet) else None


def _of_deployment(found: Deployment) -> Rollout | None:
    """Source: k8s.io/kubernetes pkg/controller/deployment/util, ``MaxUnavailable``."""
    replicas = _replicas(found)
    if _is_complete(found, replicas):
        return None
    strategy = found.spec.strategy
    recreates = strategy.type == _RECREATE
    unavailable = _resolved(_max_unavailable(strategy, "25%"), replicas)
    if not unavailable and not _resolved(_max_surge(strategy, "25%"), replicas, up=True):
        unavailable = 1
    return Rollout(
        replicas=replicas,
        max_unavailable=0 if recreates else min(unavailable, replicas),
        min_ready=timedelta(seconds=found.spec.min_ready_seconds),
        recreates=recreates,
    )


def _is_complete(found: Deployment, replicas: int) -> bool:
    """Return whether all pods are of the newest ReplicaSet, and were available once.

    A pod that is lost later is no new rollout: the condition Progressing keeps its reason. A
    Deployment without a progress deadline has no such condition, and that of a paused one says
    nothing. Then it can't be told whether a pod was available once, and the rollout is over when
    all that are wanted were created and no old one is left: a pod that crashes would otherwise
    hold back the others for as long as it does.

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
    """Source: k8s.io/kubernetes pkg/controller/statefulset, ``getStatefulSetMaxUnavailable``."""
    strategy, status, replicas = found.spec.update_strategy, found.status, _replicas(found)
    rolling = strategy.rolling_update
    partition = 0 if rolling is None else rolling.partition
    observed = status.observed_generation >= found.metadata.generation
    same = status.current_revision == status.update_revision
    reached = bool(partition) and status.updated_replicas >= replicas - partition
    if strategy.type == _ON_DELETE or (observed and (same or reached)):
        return None
    unavailable = max(_resolved(_max_unavailable(strategy, 1), replicas), 1)
    return Rollout(
        replicas=replicas,
        max_unavailable=min(unavailable, replicas),
        min_ready=timedelta(seconds=found.spec.min_ready_seconds),
    )


def _of_daemon_set(found: DaemonSet) -> Rollout | None:
    """Source: k8s.io/kubernetes pkg/controller/daemon/util, ``UnavailableCount``."""
    strategy, status = found.spec.update_strategy, found.status
    observed = status.observed_generation >= found.metadata.generation
    updated = status.updated_number_scheduled >= status.current_number_scheduled
    if strategy.type == _ON_DELETE or (observed and updated):
        return None
    desired = status.desired_number_scheduled
    unavailable = _resolved(_max_unavailable(strategy, 1), desired, up=True)
    return Rollout(
        replicas=desired,
        max_unavailable=min(unavailable, desired),
        min_ready=timedelta(seconds=found.spec.min_ready_seconds),
    )


def _replicas(found: Deployment | StatefulSet) -> int:
    return 1 if found.spec.replicas is None else found.spec.replicas


def _max_unavailable(strategy: UpdateStrategy, default: int | str) -> int | str:
    rolling = strategy.rolling_update
    found = None if rolling is None else rolling.max_unavailable
    return default if found is None else found


def _max_surge(strategy: UpdateStrategy, default: int | str) -> int | str:
    rolling = strategy.rolling_update
    found = None if rolling is None else rolling.max_surge
    return default if found is None else found


def _resolved(amount: int | str, total: int, *, up: bool = False) -> int:
    """Return a number of pods; a percentage of ``total`` is rounded down, or ``up``.

    Anything else that is no number, which no API server stores, is none.
    """
    if isinstance(amount, int):
        return amount
    percent = amount.removesuffix("%")
    if percent == amount or not percent.isdecimal():
        return 0
    exact = int(percent) * total
    return -(-exact // 100) if up else exact // 100
