"""The decision on a pod that needs an eviction: evict or wait."""

from common.api.core import Pod
from updater.decision import Decision, Reason, evict, wait
from updater.eviction.disruption_budget import GroupStanding, ReplicaGroup, group_closed


def decide_eviction(
    why: Reason,
    pod: Pod,
    *,
    group: ReplicaGroup | None,
    unfinished: Decision | None,
    requirements_met: bool,
    admission_ready: bool,
) -> Decision:
    """Decide whether a pod that needs an update is evicted now.

    ``group`` is None for a pod without a controller. ``unfinished`` is the wait for a resize of
    the pod; None: there is none, or its time-out has passed. A Pending pod needs no budget. During
    a rollout no eviction takes the workload below what its strategy keeps available, and with the
    strategy Recreate no pod is evicted.

    Source: updater.md 6.1; ``PodsEvictionRestrictionImpl.CanEvict``.
    """
    if not requirements_met:
        return wait(Reason.REQUIREMENTS_NOT_MET)
    if not admission_ready:
        return wait(Reason.ADMISSION_NOT_READY)
    closed = group_closed(group)
    if closed is not None or group is None:
        return wait(closed or Reason.NO_CONTROLLER)
    held = not group.rollout_allows_eviction(pod)
    if pod.status.phase == "Pending":
        return wait(Reason.ROLLOUT_IN_PROGRESS) if held else evict(why)
    if group.standing is GroupStanding.IN_PLACE_ONLY:
        return wait(Reason.BELOW_MIN_REPLICAS)
    if unfinished is not None:
        return unfinished
    if held:
        return wait(Reason.ROLLOUT_IN_PROGRESS)
    if not group.allows(pod):
        return wait(Reason.BUDGET_EXHAUSTED)
    return evict(why)
