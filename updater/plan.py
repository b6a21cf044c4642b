"""What the next pass would decide: the same pass, with hands that do nothing."""

import asyncio
import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from prometheus_client import CollectorRegistry

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.kube.lease import AdmissionStatus
from common.patches import Operation
from common.recommendation.changes import ResourceChange
from common.recommendation.pod_level import PodLevelMode
from common.runtime.clock import Clock
from updater.attempts import Attempts
from updater.breaker import Transition
from updater.cycle import Pass
from updater.decision import Decision, Reason
from updater.ledger import Subject
from updater.metrics import UpdaterMetrics
from updater.sending import Turns
from updater.snapshot import ClusterSnapshot, key_of
from updater.work import Rules


@dataclass(frozen=True, slots=True)
class Scope:
    """The VPAs that a plan is about; an empty text stands for all.

    Pods of a namespace are matched to the VPAs of that namespace, and no budget is shared beyond
    a VPA: so what is left out changes nothing about the rest. Only a ResourceQuota is shared; what
    other VPAs would take of it in the same pass is not in the plan.
    """

    namespace: str = ""
    vpa: str = ""

    def covers(self, vpa: VerticalPodAutoscaler) -> bool:
        """Whether the plan is about this VPA."""
        meta = vpa.metadata
        return self.namespace in ("", meta.namespace) and self.vpa in ("", meta.name)

    def reach(self, vpas: Iterable[VerticalPodAutoscaler]) -> tuple[VerticalPodAutoscaler, ...]:
        """The VPAs that are to be looked at: one may be the older one of the same target."""
        known = tuple(vpas)
        if self == EVERYTHING:
            return known
        namespaces = {vpa.metadata.namespace for vpa in known if self.covers(vpa)}
        return tuple(vpa for vpa in known if vpa.metadata.namespace in namespaces)

    def namespaces(self, vpas: Iterable[VerticalPodAutoscaler]) -> frozenset[str] | None:
        """Those whose pods are to be looked at, of the VPAs in ``reach``; None: all."""
        if self == EVERYTHING:
            return None  # a pass remembers pods as long as they live, with a VPA or without one
        return frozenset(vpa.metadata.namespace for vpa in vpas)


EVERYTHING = Scope()


class NotNow(enum.StrEnum):
    """Why there is no plan, in a sentence."""

    NOT_LEADING = "another replica holds the Lease and decides; ask that one"
    NOT_SYNCED = "the cluster has not been listed yet, so nothing is decided"
    NOT_FRESH = "the caches don't follow the API server, so passes are skipped"
    PLANNING = "another plan is being made; one at a time"
    UNDER_WAY = "a pass has been going on for too long to wait for its end"
    TOO_SLOW = "making the plan took too long; ask for one namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One decision for each pod that a pass would look at now."""

    taken_at: datetime  # of the picture, and of the decisions
    admission: AdmissionStatus
    vpas: Sequence[VerticalPodAutoscaler]  # that were asked for, by namespace and name
    snapshot: ClusterSnapshot
    skipped: Mapping[tuple[str, str], str]  # why, by namespace and name of the VPA
    decisions: Mapping[str, Decision]  # by pod UID
    pod_level: PodLevelMode = PodLevelMode.KEEP


Call: TypeAlias = tuple[object, ...]
"""What hands were asked to do: the name of the method, the pod's UID, and the rest."""


@dataclass(slots=True)
class IdleHands:
    """Does nothing, says that it worked, and remembers what it was asked to do."""

    calls: list[Call] = field(default_factory=list)

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Note an eviction."""
        self.calls.append(("evict", pod.metadata.uid, key_of(vpa), reason, changes))

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
    ) -> Pod:
        """Note a resize; the pod stays as it is."""
        self.calls.append(("resize", pod.metadata.uid, key_of(vpa), operations, reason))
        return pod

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        """Note a change of annotations."""
        self.calls.append(("annotate", pod.metadata.uid, operations))

    def tell_blocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
        *,
        detail: str,
        skipped: bool,
    ) -> None:
        """Note what would be reported, and report nothing."""
        told = ("tell_blocked", pod.metadata.uid, key_of(vpa), reason, changes, detail, skipped)
        self.calls.append(told)

    def tell_unblocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Note what would be reported, and report nothing."""
        self.calls.append(("tell_unblocked", pod.metadata.uid, key_of(vpa), reason, changes))

    def tell_refused(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        decision: Decision,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Note what would be reported, and report nothing."""
        told = ("tell_refused", pod.metadata.uid, key_of(vpa), decision.detail, changes)
        self.calls.append(told)

    def tell_turn(self, vpa: VerticalPodAutoscaler, turn: Transition, cause: str) -> None:
        """Note what would be reported, and report nothing."""
        self.calls.append(("tell_turn", key_of(vpa), turn, cause))


class StillLife:
    """The cluster of a snapshot: nothing happens while it is looked at."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._living = snapshot.living
        self._vpas = {key_of(scaled.vpa) for scaled in snapshot.autoscaled}

    async def check(self) -> bool:
        """It is as fresh as it was."""
        return True

    def has_pod(self, pod: Pod) -> bool:
        """Whether the snapshot has the pod."""
        return pod.metadata.uid in self._living

    def has_vpa(self, vpa: VerticalPodAutoscaler) -> bool:
        """Whether the snapshot has the VPA."""
        return key_of(vpa) in self._vpas


async def rehearse(
    snapshot: ClusterSnapshot,
    attempts: Attempts,
    *,
    rules: Rules,
    admission_ready: bool,
    clock: Clock,
    hands: IdleHands | None = None,
) -> dict[str, Decision]:
    """How each pod would end in a pass in which every call works, by pod UID.

    It is that very pass. Nothing is sent, counted, told or remembered, and no rate limit ends it.
    """
    decisions: dict[str, Decision] = {}

    def note(pod: Pod, decision: Decision, _: Decision | None, __: Subject | None) -> None:
        decisions[pod.metadata.uid] = decision

    rehearsed = Pass(
        snapshot,
        attempts.awake,  # each pod has to be told
        rules=rules,
        present=StillLife(snapshot),
        hands=hands or IdleHands(),
        metrics=UpdaterMetrics(CollectorRegistry()),
        turns=Turns(),
        clock=clock,
        admission_ready=admission_ready,
        deadline=math.inf,
        stop=asyncio.Event(),
        tell=note,
    )
    await rehearsed.run()
    return decisions
