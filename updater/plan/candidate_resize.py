"""The resizes that would bring a candidate where it should be: all that is wanted, or a part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec
from common.quantity import QuantityError
from common.recommendation.container_resources import WantedResources, wanted_resources
from common.recommendation.processing import ContainerAmounts
from common.resources import ResourceQuantities
from updater.decision import Decision, Reason, leave, wait
from updater.evaluate.unlearnt_ooms import keep_memory, lowered, without_memory
from updater.plan.candidate import Candidate
from updater.resize.partial_resize import PartialResize, plan_part
from updater.resize.pending_resize import is_pending, pending_of, plan_following
from updater.resize.resize_plan import ResizePlan, containers_to_patch, plan_resize
from updater.resize.resize_state import spec_requests
from updater.snapshot.live_node import NodeCapacity


def plan_candidate(
    candidate: Candidate, vpa: VerticalPodAutoscaler, limit_ranges: Sequence[LimitRangeSpec]
) -> ResizePlan | Decision:
    """Return the resize that would bring the candidate where it should be.

    A container whose spec asks for the target already is left out, its limits too: it is the
    kubelet's turn. Its report may be half new and half old for a while, a new memory request
    beside the old limit, and a limit in proportion to that would be the wrong one. In a pod with
    resources of its own all containers are resized together, because they share those (A25).

    A container whose OOM kill isn't learnt yet keeps its memory (D36); the rest goes on.
    """
    pod, keeps = candidate.pod, lowered(candidate.unlearnt)
    containers, bounds = _to_change(candidate), candidate.processed.pod_level
    try:
        asked = spec_requests(pod)
        open_ = {
            name: amounts
            for name, amounts in containers.items()
            if not _asks(asked[name], amounts.target)
        }
        chosen = _to_patch(candidate, open_)
        wanted = _wanted(candidate, vpa, limit_ranges)
        if is_pending(pod):
            chosen |= pending_of(pod, open_)
            return plan_following(pod, wanted, chosen, containers=containers, bounds=bounds)
        plan = plan_resize(pod, wanted, chosen, containers=containers, bounds=bounds)
    except QuantityError:  # in the spec, or in an init container: the status was readable
        return leave(Reason.UNREADABLE)
    if keeps and not plan.changes:
        return wait(Reason.OOM_NOT_LEARNT_YET, until=min(keeps.values()))
    return plan


def _to_change(candidate: Candidate) -> Mapping[str, ContainerAmounts]:
    """Return what is recommended, without the memory that stays as it is (D36)."""
    containers, keeps = candidate.processed.containers, lowered(candidate.unlearnt)
    if not keeps:
        return containers
    return {
        name: without_memory(amounts) if name in keeps else amounts
        for name, amounts in containers.items()
    }


def _wanted(
    candidate: Candidate, vpa: VerticalPodAutoscaler, limit_ranges: Sequence[LimitRangeSpec]
) -> tuple[WantedResources, ...]:
    wanted = wanted_resources(candidate.pod, vpa, candidate.processed, limit_ranges)
    return keep_memory(candidate.pod, wanted, of=lowered(candidate.unlearnt))


def _to_patch(candidate: Candidate, containers: Mapping[str, ContainerAmounts]) -> frozenset[str]:
    if candidate.left is not None:
        return frozenset()
    if candidate.processed.pod_level is not None:
        return frozenset(containers)
    return containers_to_patch(
        candidate.verdict, containers, requests=candidate.requests, ooms=candidate.ooms
    )


def plan_candidate_part(
    candidate: Candidate,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    capacity: NodeCapacity | None,
) -> PartialResize | None:
    """Return the part of the candidate's resize that the node can hold (X102)."""
    pod, containers = candidate.pod, _to_change(candidate)
    try:
        chosen = _to_patch(candidate, containers)
        wanted = _wanted(candidate, vpa, limit_ranges)
        return plan_part(pod, wanted, chosen, containers=containers, capacity=capacity)
    except QuantityError:
        return None


@dataclass(slots=True)
class Planner:
    """Plans the resizes of a VPA's candidates; once for those in a row that are alike."""

    vpa: VerticalPodAutoscaler
    limit_ranges: Sequence[LimitRangeSpec]
    last: tuple[Candidate, ResizePlan | Decision] | None = None

    def plan(self, candidate: Candidate) -> ResizePlan | Decision:
        """As :func:`plan_candidate`."""
        last = self.last
        if last is None or not _alike(last[0], candidate):
            last = candidate, plan_candidate(candidate, self.vpa, self.limit_ranges)
            self.last = last
        return last[1]


def _alike(one: Candidate, other: Candidate) -> bool:
    """Return whether all is the same, for one VPA, that ``plan_candidate`` looks at."""
    mine, its = one.pod, other.pod
    return (
        mine.spec is its.spec
        and mine.status.container_statuses is its.status.container_statuses
        and mine.status.init_container_statuses is its.status.init_container_statuses
        and mine.status.qos_class == its.status.qos_class
        and one.processed is other.processed
        and one.requests is other.requests
        and one.verdict is other.verdict
        and (one.left is None) is (other.left is None)
        and is_pending(mine) is is_pending(its)
        and one.ooms == other.ooms
        and one.unlearnt == other.unlearnt
    )


def _asks(requests: ResourceQuantities, target: ResourceQuantities) -> bool:
    return all(
        resource in requests and requests[resource].milli == amount.milli
        for resource, amount in target.items()
    )
