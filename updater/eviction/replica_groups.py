"""The replica groups of one VPA in one pass, and the use of their disruption budgets."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from common.annotations import is_boosted
from common.api.core import Pod
from common.target.owners import Controller
from updater.eviction.daemonset_desired_count import ObservedDaemons, desired_daemons
from updater.eviction.disruption_budget import (
    DisruptionPolicy,
    ReplicaGroup,
    RolloutFloor,
    groups_of,
    replica_group,
)
from updater.snapshot.cluster_snapshot import AutoscaledPods
from updater.snapshot.live_pod import LivePod
from updater.snapshot.workload_size import UNKNOWN


class Budgets:
    """The remaining budgets while actions are planned or their results are folded.

    The groups of one workload share its rollout floor.
    """

    def __init__(self, scaled: AutoscaledPods, groups: Mapping[Controller, ReplicaGroup]) -> None:
        self._scaled = scaled
        self._groups = dict(groups)
        self.spent = 0  # actions

    @property
    def groups(self) -> Mapping[Controller, ReplicaGroup]:
        """Return the groups with their remaining budgets."""
        return self._groups

    def controller(self, pod: Pod) -> Controller | None:
        """Return the pod's direct controller."""
        return self._scaled.controllers.get(pod.metadata.uid)

    def group(self, pod: Pod) -> ReplicaGroup | None:
        """Return the pod's group; None if no controller would replace it."""
        controller = self.controller(pod)
        return None if controller is None else self._groups.get(controller)

    def allows(self, pod: Pod) -> bool:
        """Return whether the budget and the rollout floor allow an update of the pod."""
        group = self.group(pod)
        return group is None or (group.allows(pod) and group.rollout_allows_restart(pod))

    def spend(self, pod: Pod) -> None:
        """Use the budget of the pod's group for the pod; a Pending pod uses none."""
        group = self.group(pod)
        if group is None or pod.status.phase == "Pending":
            return
        self.spent += 1
        spent, workload = group.spend(pod), self._scaled.workload
        self._groups[group.controller] = spent
        if spent.floor is None:
            return
        for controller, other in self._groups.items():
            if workload(controller) == workload(group.controller):
                self._groups[controller] = replace(other, floor=spent.floor)


def count_groups(
    scaled: AutoscaledPods,
    live: Sequence[LivePod],
    *,
    out: Collection[str],
    observed_daemons: Mapping[Controller, ObservedDaemons],
    policy: DisruptionPolicy,
    now: datetime,
) -> tuple[dict[Controller, ReplicaGroup], dict[Controller, ObservedDaemons]]:
    """Return the groups of a VPA's live pods, and the observed counts of its DaemonSets.

    ``out`` are the UIDs of pods that are out of service, ``observed_daemons`` the counts of
    earlier passes.

    Source: updater.md 5.
    """
    update_policy = scaled.vpa.spec.update_policy
    own = None if update_policy is None else update_policy.min_replicas
    if own is not None:
        policy = replace(policy, min_replicas=own)
    floors = _floors(scaled, live, out=out, policy=policy, now=now)
    groups: dict[Controller, ReplicaGroup] = {}
    seen: dict[Controller, ObservedDaemons] = {}
    for controller, pods in groups_of(live, scaled.controllers).items():
        size = scaled.sizes.get(controller, UNKNOWN)
        replicas = scaled.replicas.get(controller)
        if controller.kind == "DaemonSet":
            known = observed_daemons.get(controller) or ObservedDaemons(now)
            seen[controller] = observed = ObservedDaemons(known.since, max(known.most, len(pods)))
            replicas = desired_daemons(
                replicas, desired=size.wanted, live=len(pods), observed=observed, now=now
            )
        group = replica_group(
            controller,
            pods,
            replicas=replicas,
            existing=size.existing,
            out=out,
            boosted=any(is_boosted(pod.metadata.annotations) for pod in pods),
            mode=scaled.mode,
            policy=policy,
        )
        floor = floors.get(scaled.workload(controller))
        groups[controller] = group if floor is None else replace(group, floor=floor)
    return groups, seen


def _floors(
    scaled: AutoscaledPods,
    live: Iterable[LivePod],
    *,
    out: Collection[str],
    policy: DisruptionPolicy,
    now: datetime,
) -> dict[Controller, RolloutFloor]:
    """Return the floor of each workload with a rollout in progress, over all its groups."""
    available: dict[Controller, set[str]] = {workload: set() for workload in scaled.rollouts}
    for pod in live if available else ():
        workload = scaled.workload_of(pod)
        rollout = None if workload is None else scaled.rollouts.get(workload)
        if workload is not None and rollout is not None and rollout.is_available(pod, now=now):
            available[workload].add(pod.metadata.uid)
    return {
        workload: RolloutFloor(
            must_stay=rollout.must_stay(policy.tolerance_fraction)
            + _surplus(scaled, available[workload].difference(out)),
            available=frozenset(available[workload]),
            out=frozenset(available[workload].intersection(out)),
            recreates=rollout.recreates,
        )
        for workload, rollout in scaled.rollouts.items()
    }


def _surplus(scaled: AutoscaledPods, available: Iterable[str]) -> int:
    """Return the number of available pods above what their ReplicaSets want."""
    owners = Counter(scaled.controllers[uid] for uid in available)
    return sum(
        max(count - (scaled.replicas.get(owner) or 0), 0)
        for owner, count in owners.items()
        if owner.kind == "ReplicaSet"
    )
