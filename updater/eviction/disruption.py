"""How many pods of a replica group may be taken down, and whether this one may."""

import enum
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.target.owners import Controller
from updater.decision import Decision, Reason, evict, wait

# Their ``spec.replicas`` says how many pods there should be.
_WITH_REPLICAS = frozenset({"ReplicationController", "ReplicaSet", "StatefulSet"})
_DAEMON_SET = "DaemonSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """What is left of a replica group's tolerance in this cycle.

    A value: ``spend`` returns a new budget, so a plan can be rehearsed, and a test needs
    no set-up beyond four numbers.
    """

    configured: int  # replicas that the controller asks for
    running: int  # replicas that are past Pending, less those that are out of service already
    tolerance: int  # replicas that may be missing
    spent: int = 0  # evictions and resizes that this cycle started

    @classmethod
    def of_group(cls, *, configured: int, running: int, tolerance_fraction: float) -> Self:
        """Round the tolerance down: half of three replicas is one."""
        tolerance = math.trunc(configured * tolerance_fraction)
        return cls(configured=configured, running=running, tolerance=tolerance)

    @property
    def allows_one(self) -> bool:
        """Return whether one more pod may go.

        With no tolerance at all, a complete and untouched group may still lose one pod;
        otherwise small groups would never be updated.

        Source: updater.md 5; ``singleGroupStats.isPodDisruptable``,
        vertical-pod-autoscaler/pkg/updater/restriction/pods_restriction_factory.go.
        """
        alive = self.running - self.spent
        untouched = self.configured == self.running and self.spent == 0
        return alive > self.configured - self.tolerance or (self.tolerance == 0 and untouched)

    def allows(self, *, already_out: bool) -> bool:
        """Return ``allows_one``; a pod that is unavailable already makes no other one so."""
        if already_out:
            return replace(self, running=self.running + 1).allows_one
        return self.allows_one

    def spend(self, *, already_out: bool = False) -> Self:
        """Return the budget after one more eviction or resize."""
        return self if already_out else replace(self, spent=self.spent + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFloor:
    """The available pods of a workload that is rolled out, and how many of them have to stay.

    A value that all groups of the workload share: ``spend`` returns the next one.
    """

    must_stay: int
    available: frozenset[str]  # UIDs
    out: frozenset[str] = frozenset()  # of those that an earlier action may take down yet
    spent: frozenset[str] = frozenset()  # of those that this cycle took down
    recreates: bool = False  # the strategy ends all old pods first

    def allows(self, pod: Pod) -> bool:
        """Return whether enough pods stay available without this one.

        A pod that is out or spent counts as available for its own sake: the action that was to take
        it down may not have been carried out.
        """
        uid = pod.metadata.uid
        left = self.available - self.out - self.spent
        return uid not in self.available or len(left | {uid}) > self.must_stay

    def spend(self, pod: Pod) -> Self:
        """Return the floor once the pod is to be taken down."""
        return replace(self, spent=self.spent | {pod.metadata.uid})


class GroupStanding(enum.Enum):
    """What may be done to the pods of a group at all."""

    OPEN = enum.auto()
    IN_PLACE_ONLY = enum.auto()  # fewer than the minimum live: resizes yes, evictions no
    BELOW_MIN_REPLICAS = enum.auto()
    CONTROLLER_UNKNOWN = enum.auto()  # not found, or it asks for no replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """The pods of one VPA that have the same direct controller."""

    controller: Controller
    standing: GroupStanding
    pending: int
    budget: DisruptionBudget
    out: frozenset[str] = frozenset()  # UIDs that an unfinished resize takes down (D32)
    floor: RolloutFloor | None = None  # None: no rollout is in progress

    def allows(self, pod: Pod) -> bool:
        return self.budget.allows(already_out=pod.metadata.uid in self.out)

    def rollout_allows_restart(self, pod: Pod) -> bool:
        """Return whether the pod's containers may be restarted as far as a rollout goes."""
        return self.floor is None or self.floor.allows(pod)

    def rollout_allows_eviction(self, pod: Pod) -> bool:
        """Return whether the pod may be evicted as far as a rollout goes (X105)."""
        return self.floor is None or (not self.floor.recreates and self.floor.allows(pod))

    def spend(self, pod: Pod) -> Self:
        """Return the group once ``pod`` is to be evicted or resized."""
        floor = None if self.floor is None else self.floor.spend(pod)
        budget = self.budget.spend(already_out=pod.metadata.uid in self.out)
        return replace(self, budget=budget, floor=floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionPolicy:
    """What the operator and the VPA tolerate."""

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
    """Count a group and say what may be done to it.

    ``pods`` are the live ones, Pending included. ``replicas`` is what the controller reports
    (``spec.replicas``; of a DaemonSet see ``daemons``), None if it is not known;
    other kinds are taken to want the pods that they have: ``existing`` counts those without a
    node as well (X106). ``out`` are the UIDs of pods whose
    unfinished resize restarts containers: they are disrupted already. ``boosted`` says that
    some pod carries a start-up boost, which may always be taken back.

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
    """Return how many pods the controller wants; None if that can't be known.

    Jobs, and kinds that we don't know, want the pods that they have. The reference counts 0
    for unknown kinds, which lets it take all their pods at once.
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


def decide_eviction(
    why: Reason,
    pod: Pod,
    *,
    group: ReplicaGroup | None,
    unfinished: Decision | None,
    requirements_met: bool,
    admission_ready: bool,
) -> Decision:
    """Return whether a pod that is worth it may be evicted now.

    ``group`` is None for a pod that nobody would replace. ``unfinished`` is the wait for a
    resize of the pod, None if there is none or if its time is up: an eviction gives it that
    time. A Pending pod serves nobody, so it costs no budget and goes even below the minimum of
    replicas. While a rollout is in progress no eviction takes its workload below what its own
    strategy keeps available, and with the strategy Recreate none is sent.

    Source: updater.md 6.1; ``PodsEvictionRestrictionImpl.CanEvict``.
    """
    if not requirements_met:
        return wait(Reason.REQUIREMENTS_NOT_MET)
    if not admission_ready:
        return wait(Reason.ADMISSION_NOT_READY)
    if group is None:
        return wait(Reason.NO_CONTROLLER)
    if group.standing is GroupStanding.CONTROLLER_UNKNOWN:
        return wait(Reason.CONTROLLER_UNKNOWN)
    if group.standing is GroupStanding.BELOW_MIN_REPLICAS:
        return wait(Reason.BELOW_MIN_REPLICAS)
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


def groups_of(
    pods: Iterable[Pod], controllers: Mapping[str, Controller]
) -> dict[Controller, list[Pod]]:
    """Group pods by direct controller; ``controllers`` is keyed by pod UID."""
    groups: dict[Controller, list[Pod]] = {}
    for pod in pods:
        controller = controllers.get(pod.metadata.uid)
        if controller is not None:
            groups.setdefault(controller, []).append(pod)
    return groups
