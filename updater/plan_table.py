"""The decisions of the last pass, as rows of the read API."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate

import msgspec

from common.api.autoscaling import VerticalPodAutoscaler
from common.read_model.updater import PlannedPod, PlannedVpaHead
from common.recommendation.pod_level import PodLevelMode
from common.target.controlling import mode_of
from common.target.owners import Controller
from updater.decision import Action, Decision
from updater.evaluate.recommendation_fit import RecommendationFit
from updater.plan_rows import (
    container_numbers,
    pod_level_numbers,
    reference,
    why_no_decisions,
)
from updater.remedies import REMEDIES
from updater.snapshot.cluster_snapshot import AutoscaledPods, key_of
from updater.snapshot.live_pod import LivePod
from updater.state import PodMemory, UpdaterState

Key = tuple[str, str]


class PlanTable:
    """The VPAs of one pass with the decisions on their pods.

    A pass only stores references. Order and counts are computed once, when a client asks, and the
    numbers of a pod when it is sent.
    """

    def __init__(
        self,
        number: int = 0,
        *,
        vpas: Sequence[VerticalPodAutoscaler] = (),
        autoscaled: Sequence[AutoscaledPods] = (),
        skipped: Mapping[Key, str] | None = None,
        state: UpdaterState | None = None,
        pod_level: PodLevelMode = PodLevelMode.KEEP,
    ) -> None:
        """Create the table of a pass; ``state`` is the one after it, ``skipped`` is by VPA."""
        self.number = number
        self._vpas = vpas
        self._autoscaled = autoscaled
        self._skipped = skipped or {}
        self._state = state or UpdaterState()
        self._pod_level = pod_level

    @cached_property
    def _by_key(self) -> Mapping[Key, VerticalPodAutoscaler]:
        return {key_of(vpa): vpa for vpa in self._vpas}

    @cached_property
    def _pods(self) -> Mapping[Key, AutoscaledPods]:
        return {key_of(scaled.vpa): scaled for scaled in self._autoscaled}

    @cached_property
    def keys(self) -> Sequence[Key]:
        """Return the VPAs, sorted."""
        return sorted(self._by_key)

    @cached_property
    def ends(self) -> Sequence[int]:
        """Return the number of pods up to each VPA; a VPA without pods counts as one."""
        found = map(self._pods.get, self.keys)
        return list(accumulate(len(each.pods) or 1 if each else 1 for each in found))

    def rows(self, key: Key) -> "PlanRows":
        """Return the pods of a VPA on which the pass decided."""
        vpa, scaled = self._by_key[key], self._pods.get(key)
        pods: list[tuple[LivePod, PodMemory]] = []
        if scaled is not None:
            known = ((pod, self._state.of(pod.metadata.uid)) for pod in scaled.pods)
            pods = [(pod, memory) for pod, memory in known if memory.decision is not None]
            pods.sort(key=lambda each: each[0].metadata.name)
        why = self._skipped.get(key) or (None if pods else why_no_decisions(vpa, scaled))
        return PlanRows(vpa, scaled, pods, why, self._pod_level)


class PlanRows:
    """The pods of one VPA, sorted by name."""

    def __init__(
        self,
        vpa: VerticalPodAutoscaler,
        scaled: AutoscaledPods | None,
        pods: Sequence[tuple[LivePod, PodMemory]],
        why: str | None,
        pod_level: PodLevelMode,
    ) -> None:
        ranges = () if scaled is None else scaled.limit_ranges
        self._vpa = vpa
        self._scaled = scaled
        self._pods = pods
        self._why = why
        self._fit = RecommendationFit(vpa, ranges, pod_level=pod_level)
        self.names: Sequence[str] = [pod.metadata.name for pod, _ in pods]

    def body(self, index: int) -> bytes:
        """Return a ``PlannedPod`` as JSON."""
        pod, memory = self._pods[index]
        owner = None if self._scaled is None else self._scaled.workload_of(pod)
        return msgspec.json.encode(planned_pod(pod, memory, owner, self._fit))

    def item(self, bodies: Sequence[bytes]) -> bytes:
        """Return a ``PlannedVpa`` with these pods as JSON."""
        namespace, name = key_of(self._vpa)
        head = PlannedVpaHead(
            namespace=namespace, name=name, mode=mode_of(self._vpa), why=self._why
        )
        opened = msgspec.json.encode(head).removesuffix(b"}")
        return b'%b,"pods":[%b]}' % (opened, b",".join(bodies))


def planned_pod(
    pod: LivePod, memory: PodMemory, owner: Controller | None, fit: RecommendationFit
) -> PlannedPod:
    """Return the decision on a pod with its numbers; ``memory`` must have a decision."""
    decision = memory.decision
    assert decision is not None  # noqa: S101 - for the type checker
    measured = fit.measured(pod)
    known = None if isinstance(measured, Decision) else measured
    return PlannedPod(
        name=pod.metadata.name,
        node=pod.node_name,
        owner=None if owner is None else reference(owner),
        decision=decision.action.value,
        reason=decision.reason.value,
        meaning=decision.reason.meaning,
        detail=decision.detail or None,
        since=memory.decided_at,
        until=decision.until,
        unblock=_unblock(decision),
        resource_diff=None if known is None else known.drift.resource_diff,
        outside_range=None if known is None else known.drift.outside_range,
        containers=() if known is None else container_numbers(pod, known),
        pod_level=None if known is None else pod_level_numbers(pod, known.processed, fit),
    )


def _unblock(decision: Decision) -> str | None:
    """Return what would end the wait; None: the pod needs nothing, or is being updated."""
    if decision.action in (Action.EVICT, Action.RESIZE):
        return None
    return REMEDIES.get(decision.reason)
