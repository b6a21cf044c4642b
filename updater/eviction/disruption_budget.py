"""The disruption budget of a replica group: how many of its pods may be unavailable."""

import enum
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.target.owners import Controller
from updater.decision import Reason

# Kinds with the wanted number of pods in ``spec.replicas``.
_WITH_REPLICAS = frozenset({"ReplicationController", "ReplicaSet", "StatefulSet"})
_DAEMON_SET = "DaemonSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """The remaining disruption budget of a replica group in this pass; a value."""

    configured: int  # replicas that the controller wants
    running: int  # replicas that are neither Pending nor out of service
    tolerance: int  # replicas that may be missing
    spent: int = 0  # evictions and resizes of this pass

    @classmethod
    def of_group(cls, *, configured: int, running: int, tolerance_fraction: float) -> Self:
        """Return the budget, with the tolerance rounded down: half of three replicas is one."""
        tolerance = math.trunc(configured * tolerance_fraction)
        return cls(configured=configured, running=running, tolerance=tolerance)

    @property
    def allows_one(self) -> bool:
        """Return whether one more pod may be updated.

        With a tolerance of zero, one pod of a complete group may be updated if none was before;
        otherwise small groups would never be updated.

        Source: updater.md 5; ``singleGroupStats.isPodDisruptable``,
        vertical-pod-autoscaler/pkg/updater/restriction/pods_restriction_factory.go.
        """
        alive = self.running - self.spent
        untouched = self.configured == self.running and self.spent == 0
        return alive > self.configured - self.tolerance or (self.tolerance == 0 and untouched)

    def allows(self, *, already_out: bool) -> bool:
        """Return ``allows_one``; a pod that is out of service already doesn't count."""
        if already_out:
            return replace(self, running=self.running + 1).allows_one
        return self.allows_one

    def spend(self, *, already_out: bool = False) -> Self:
        """Return the budget after one more eviction or resize."""
        return self if already_out else replace(self, spent=self.spent + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFloor:
    """The available pods of a workload in a rollout, and how many of them must stay available.

    A value that all groups of the workload share.
    """

    must_stay: int
    available: frozenset[str]  # UIDs
    out: frozenset[str] = frozenset()  # of available pods that an earlier action may disrupt
    spent: frozenset[str] = frozenset()  # of available pods that this pass updates
    recreates: bool = False  # the strategy ends all old pods first

    def allows(self, pod: Pod) -> bool:
        """Return whether enough pods stay available without this one.

        A pod in ``out`` or ``spent`` counts as available for its own update, because the earlier
        action may not have been carried out.
        """
        uid = pod.metadata.uid
        left = self.available - self.out - self.spent
        return uid not in self.available or len(left | {uid}) > self.must_stay

    def spend(self, pod: Pod) -> Self:
        """Return the floor after an update of the pod."""
        return replace(self, spent=self.spent | {pod.metadata.uid})


class GroupStanding(enum.Enum):
    """The updates that are possible for the pods of a group."""

    OPEN = enum.auto()
    IN_PLACE_ONLY = enum.auto()  # below the minimum of replicas: resizes, but no evictions
    BELOW_MIN_REPLICAS = enum.auto()
    CONTROLLER_UNKNOWN = enum.auto()  # not found, or it wants no replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """The pods of one VPA that have the same direct controller."""

    controller: Controller
    standing: GroupStanding
    pending: int
    budget: DisruptionBudget
    out: frozenset[str] = frozenset()  # UIDs of pods that are out of service (D32)
    floor: RolloutFloor | None = None  # None: no rollout is in progress

    def allows(self, pod: Pod) -> bool:
        return self.budget.allows(already_out=pod.metadata.uid in self.out)

    def rollout_allows_restart(self, pod: Pod) -> bool:
        """Return whether a rollout in progress allows a restart of the pod's containers."""
        return self.floor is None or self.floor.allows(pod)

    def rollout_allows_eviction(self, pod: Pod) -> bool:
        """Return whether a rollout in progress allows an eviction of the pod (X105)."""
        return self.floor is None or (not self.floor.recreates and self.floor.allows(pod))

    def spend(self, pod: Pod) -> Self:
        """Return the group after an eviction or resize of ``pod``."""
        floor = None if self.floor is None else self.floor.spend(pod)
        budget = self.budget.spend(already_out=pod.metadata.uid in self.out)
        return replace(self, budget=budget, floor=floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionPolicy:
    """The limits of disruption by the flags and the VPA."""

    min_replicas: int = 2
    tolerance_fraction: float = 0.5  # of the configured replicas
    in_place_skips_budget: bool = False


def replica_group(
    controller: Controller,
    pods: Collection[Pod],
    *,
    replicas: int | None,
    existing: int = 0,
    out: Collection[str] = (),
    boosted: bool,
    mode: UpdateMode,
    policy: DisruptionPolicy,
) -> ReplicaGroup:
    """Return the group of a controller.

    ``pods`` are the live pods, Pending ones included. ``replicas`` is the wanted number of the
    controller (for a DaemonSet see ``daemonset_desired_count``), None if unknown. Other kinds are
    assumed to want the pods that they have; ``existing`` also counts pods without a node (X106).
    ``out`` are the UIDs of pods that are out of service. ``boosted``: some pod has a start-up
    boost, which may be removed even below the minimum of replicas.

    Source: updater.md 5 and D32; ``PodsRestrictionFactoryImpl.GetCreatorMaps``.
    """
    there = max(len(pods), existing)
    configured = configured_replicas(controller.kind, replicas=replicas, live=there)
    pending = sum(pod.status.phase == "Pending" for pod in pods)
    disrupted = frozenset(
        pod.metadata.uid
        for pod in pods
        if pod.metadata.uid in out and pod.status.phase != "Pending"
    )
    return ReplicaGroup(
        controller=controller,
        standing=_standing(configured, len(pods), boosted=boosted, mode=mode, policy=policy),
        pending=pending,
        budget=DisruptionBudget.of_group(
            configured=configured or 0,
            running=len(pods) - pending - len(disrupted),
            tolerance_fraction=policy.tolerance_fraction,
        ),
        out=disrupted,
    )


def configured_replicas(kind: str, *, replicas: int | None, live: int) -> int | None:
    """Return the number of pods that the controller wants; None: unknown, or zero.

    Jobs and unknown kinds are assumed to want the pods that they have. The reference counts 0 for
    unknown kinds, so it can take down all their pods at once.
    """
    if kind in _WITH_REPLICAS or kind == _DAEMON_SET:
        return replicas or None
    return live


def _standing(
    configured: int | None,
    live: int,
    *,
    boosted: bool,
    mode: UpdateMode,
    policy: DisruptionPolicy,
) -> GroupStanding:
    if configured is None:
        return GroupStanding.CONTROLLER_UNKNOWN
    if live >= policy.min_replicas or boosted:
        return GroupStanding.OPEN
    in_place = mode in (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)
    if in_place and policy.in_place_skips_budget:
        return GroupStanding.IN_PLACE_ONLY
    return GroupStanding.BELOW_MIN_REPLICAS


def group_closed(group: ReplicaGroup | None) -> Reason | None:
    """Return the reason that no pod of the group may be updated; None: some may."""
    if group is None:
        return Reason.NO_CONTROLLER
    if group.standing is GroupStanding.CONTROLLER_UNKNOWN:
        return Reason.CONTROLLER_UNKNOWN
    below = group.standing is GroupStanding.BELOW_MIN_REPLICAS
    return Reason.BELOW_MIN_REPLICAS if below else None


def groups_of(
    pods: Iterable[Pod], controllers: Mapping[str, Controller]
) -> dict[Controller, list[Pod]]:
    """Return pods by direct controller; ``controllers`` is keyed by pod UID."""
    groups: dict[Controller, list[Pod]] = {}
    for pod in pods:
        controller = controllers.get(pod.metadata.uid)
        if controller is not None:
            groups.setdefault(controller, []).append(pod)
    return groups
