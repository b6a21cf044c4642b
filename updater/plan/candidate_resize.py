"""Plans of a candidate's resize: to the whole recommendation, or to the part that fits."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec
from common.identity_cache import IdentityCache
from common.quantity import QuantityError
from common.recommendation.container_resources import WantedResources, wanted_resources
from common.recommendation.policy import container_policy
from common.recommendation.processing import ContainerAmounts
from common.resources import MEMORY, ResourceQuantities, parse_quantities
from updater.decision import Decision, Reason, leave, wait
from updater.evaluate.unlearnt_ooms import keep_memory, lowered, without_memory
from updater.plan.candidate import Candidate
from updater.resize.infeasible_resize import spec_requests
from updater.resize.memory_decrease import (
    first_hold,
    limit_decreases,
    targets_of_steps,
    with_steps,
)
from updater.resize.partial_resize import PartialResize, StepRules, plan_part
from updater.resize.pending_resize import is_pending, pending_of, plan_following
from updater.resize.resize_plan import ResizePlan, containers_to_patch, plan_resize
from updater.snapshot.live_node import NodeCapacity

_CACHED_PLANS = 16


def plan_candidate(
    candidate: Candidate, vpa: VerticalPodAutoscaler, limit_ranges: Sequence[LimitRangeSpec]
) -> ResizePlan | Decision:
    """Return the resize of the candidate to its recommendation.

    A container whose spec requests the target is left out with its limits. The kubelet may report
    a new request beside the old limit for a while, and a proportional limit would be wrong then.
    Containers of a pod with pod-level resources are resized together (A25).

    A container whose OOM kill isn't learnt yet keeps its memory (D36). The candidate's
    ``memory_steps`` replace the decreases of memory limits; without them the result's
    ``memory_decreases`` are still to be judged (X139).
    """
    pod, keeps = candidate.pod, lowered(candidate.unlearnt)
    containers, bounds = _to_change(candidate), candidate.processed.pod_level
    try:
        requested = spec_requests(pod)
        differing = {
            name: amounts
            for name, amounts in containers.items()
            if not _has_targets(requested[name], amounts.target)
        }
        chosen = _to_patch(candidate, differing)
        wanted = _wanted(candidate, vpa, limit_ranges)
        if is_pending(pod):
            chosen |= pending_of(pod, differing)
            plan = plan_following(pod, wanted, chosen, containers=containers, bounds=bounds)
            decreases = limit_decreases(pod, wanted, chosen | pending_of(pod, containers))
        else:
            plan = plan_resize(pod, wanted, chosen, containers=containers, bounds=bounds)
            decreases = limit_decreases(pod, wanted, chosen)
    except QuantityError:
        return leave(Reason.UNREADABLE)
    if decreases:
        plan = replace(plan, memory_decreases=decreases)
    if is_pending(pod):
        return replace(plan, keeps_memory=_keeps_memory(candidate, plan))
    held = first_hold(candidate.memory_steps)
    if held is not None and not plan.changes:
        return held
    if keeps and not plan.changes:
        return wait(Reason.OOM_NOT_LEARNT_YET, until=min(keeps.values()))
    return plan


def _keeps_memory(candidate: Candidate, plan: ResizePlan) -> bool:
    held = ((each.container, MEMORY) for each in candidate.memory_steps if each.held is not None)
    return not plan.changes.isdisjoint(held)


def _to_change(candidate: Candidate) -> Mapping[str, ContainerAmounts]:
    """Return the recommended amounts, without memory targets that are not learnt yet (D36)."""
    keeps = lowered(candidate.unlearnt)
    containers = targets_of_steps(
        candidate.pod, candidate.processed.containers, candidate.memory_steps
    )
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
    wanted = keep_memory(candidate.pod, wanted, of=lowered(candidate.unlearnt))
    return with_steps(candidate.pod, wanted, candidate.memory_steps)


def _to_patch(candidate: Candidate, containers: Mapping[str, ContainerAmounts]) -> frozenset[str]:
    if candidate.left is not None:
        return frozenset()
    if candidate.processed.pod_level is not None:
        return frozenset(containers)
    if candidate.only is not None:
        return candidate.only.intersection(containers)
    return containers_to_patch(
        candidate.why, containers, requests=candidate.requests, ooms=candidate.ooms
    )


def plan_candidate_part(
    candidate: Candidate,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    capacity: NodeCapacity | None,
    *,
    min_change: float,
) -> PartialResize | None:
    """Return the largest step of the candidate's resize that the node can hold (X102, X138)."""
    pod, containers = candidate.pod, _to_change(candidate)
    try:
        chosen = _to_patch(candidate, containers)
        wanted = _wanted(candidate, vpa, limit_ranges)
        judged = {each.container for each in candidate.memory_steps}
        decreases = limit_decreases(pod, wanted, chosen)
        unjudged = {each.container for each in decreases} - judged
        wanted = keep_memory(pod, wanted, of=unjudged)
        rules = StepRules(min_change=min_change, min_allowed=_min_allowed(vpa, chosen))
        return plan_part(pod, wanted, chosen, containers=containers, capacity=capacity, rules=rules)
    except QuantityError:
        return None


def _min_allowed(
    vpa: VerticalPodAutoscaler, containers: Collection[str]
) -> dict[str, ResourceQuantities]:
    policies = {name: container_policy(vpa, name) for name in containers}
    return {
        name: parse_quantities(policy.min_allowed)
        for name, policy in policies.items()
        if policy is not None
    }


class Planner:
    """Plans the resizes of a VPA's candidates, once for all candidates that are alike."""

    def __init__(self, vpa: VerticalPodAutoscaler, limit_ranges: Sequence[LimitRangeSpec]) -> None:
        self._vpa = vpa
        self._limit_ranges = limit_ranges
        self._plans = IdentityCache[ResizePlan | Decision](_CACHED_PLANS)

    def plan(self, candidate: Candidate) -> ResizePlan | Decision:
        """Return ``plan_candidate`` of the candidate, cached by the identity of its inputs."""
        pod = candidate.pod
        inputs = (
            *(pod.spec, pod.status.container_statuses, pod.status.init_container_statuses),
            *(pod.status.qos_class, is_pending(pod), candidate.processed, candidate.requests),
            *(candidate.why, candidate.left is None, candidate.ooms, candidate.unlearnt),
            candidate.only,
        )
        return self._plans.get(
            inputs, lambda: plan_candidate(candidate, self._vpa, self._limit_ranges)
        )


def _has_targets(requests: ResourceQuantities, target: ResourceQuantities) -> bool:
    return all(
        resource in requests and requests[resource].milli == amount.milli
        for resource, amount in target.items()
    )
