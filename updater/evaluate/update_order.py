"""Which pods are worth an update, and which of them first."""

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.annotations import OBSERVED_CONTAINERS, parse_observed_containers
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import ContainerStateTerminated, Pod
from common.quantity import Quantity
from common.recommendation.policy import container_policy, is_off
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_specs, scaled_statuses
from common.resources import CPU, MEMORY, ResourceQuantities

_NO_REQUESTS: ResourceQuantities = {}


class Verdict(enum.StrEnum):
    """Why a pod is, or isn't, worth an update; also the metric label and the log key."""

    OUTSIDE_RANGE = "outside_range"
    OOMED_QUICKLY = "oomed_quickly"
    DRIFTED = "drifted"
    NO_CHANGE = "no_change"
    NOT_STARTED = "not_started"
    TOO_YOUNG = "too_young"
    TOO_SMALL = "too_small"

    @property
    def wants_update(self) -> bool:
        return self in (Verdict.OUTSIDE_RANGE, Verdict.OOMED_QUICKLY, Verdict.DRIFTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From when on a pod is worth an update."""

    min_change: float = 0.1  # relative: 0.1 is ten percent of the request
    min_lifetime: timedelta = timedelta(hours=12)
    quick_oom: timedelta = timedelta(minutes=10)  # an OOM kill sooner after the start is quick


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far a pod's requests are from the processed recommendation."""

    resource_diff: float  # relative, summed over resources: 0.5 is half the request
    outside_range: bool  # some request is below the lower or above the upper bound
    scale_up: bool  # some target is above its request


@dataclass(frozen=True, slots=True)
class ContainerOomKill:
    """One OOM kill of one container; the pair is its identity."""

    container: str
    finished_at: datetime | None


def looked_at(pod: Pod, containers: Mapping[str, ContainerAmounts]) -> dict[str, ContainerAmounts]:
    """Return the containers that count: scaled, recommended, and seen by our webhook.

    A container that another webhook injected later isn't in ``vpaObservedContainers``; it
    could never get its target by eviction. Without the annotation, or with one that can't be
    read, every scaled container counts. Native sidecars are scaled with the gate NativeSidecar;
    other init containers never are.

    Source: updater.md 7; ``defaultPriorityProcessor.GetUpdatePriority``.
    """
    observed = observed_containers(pod)
    return {
        container.name: containers[container.name]
        for container in scaled_specs(pod)
        if container.name in containers and (observed is None or container.name in observed)
    }


def observed_containers(pod: Pod) -> Collection[str] | None:
    """Return the names in ``vpaObservedContainers``; None means every container."""
    annotation = (pod.metadata.annotations or {}).get(OBSERVED_CONTAINERS)
    return None if annotation is None else parse_observed_containers(annotation)


def measure(
    requests: Mapping[str, ResourceQuantities], containers: Mapping[str, ContainerAmounts]
) -> Drift:
    """Compare requests with processed amounts, container by container.

    Sums are in milli-units, memory too, as the reference takes them: a missing memory
    request therefore counts as one thousandth of a byte and makes an enormous difference.

    Source: updater.md 7; ``defaultPriorityProcessor.GetUpdatePriority``,
    vertical-pod-autoscaler/pkg/updater/priority/priority_processor.go.
    """
    requested: dict[str, int] = {}
    recommended: dict[str, int] = {}
    outside = scale_up = False
    for name, amounts in containers.items():
        present = requests.get(name, _NO_REQUESTS)
        outside = outside or is_outside(present, amounts)
        for resource, target in amounts.target.items():
            recommended[resource] = recommended.get(resource, 0) + target.milli
            request = present.get(resource)
            if request is None:
                scale_up = True
                continue
            requested[resource] = requested.get(resource, 0) + request.milli
            scale_up = scale_up or target.milli > request.milli
    diff = 0.0
    for resource, wanted in recommended.items():
        if requested.get(resource) == wanted:
            continue  # zero of both, too: equal is a difference of none (D31)
        base = max(float(requested.get(resource, 0)), 1.0)
        diff += abs(base - float(wanted)) / base
    return Drift(resource_diff=diff, outside_range=outside, scale_up=scale_up)


def is_outside(requests: ResourceQuantities, amounts: ContainerAmounts) -> bool:
    """Return whether some targeted resource is requested outside its bounds, or not at all."""
    for resource in amounts.target:
        request = requests.get(resource)
        if request is None:
            return True
        lower, upper = amounts.lower_bound.get(resource), amounts.upper_bound.get(resource)
        if (lower is not None and request < lower) or (upper is not None and request > upper):
            return True
    return False


def forgive_rounding(
    requests: Mapping[str, ResourceQuantities],
    containers: Mapping[str, ContainerAmounts],
    *,
    slack: int,
) -> dict[str, ResourceQuantities]:
    """Take a request that is as good as its target for the target itself.

    Fitting a recommendation to a pod rounds down. Fitting it again to the pod that came out
    can move it by a unit per container, and such a pod would be replaced for ever. So a
    difference of up to ``slack`` millicores (cpu) or bytes (memory) is none; ``slack`` is
    the number of containers in the pod.

    Source: updater.md 13, D31.
    """
    return {
        name: {
            resource: _forgiven(resource, request, amounts.target.get(resource), slack)
            for resource, request in requests.get(name, _NO_REQUESTS).items()
        }
        for name, amounts in containers.items()
    }


def _forgiven(resource: str, request: Quantity, target: Quantity | None, slack: int) -> Quantity:
    if target is None:
        return request
    if resource == CPU and abs(request.milli - target.milli) <= slack:
        return target
    if resource == MEMORY and abs(request.value - target.value) <= slack:
        return target
    return request


def quick_ooms(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    *,
    threshold: timedelta,
    updated_at: datetime | None,
    spent: Collection[ContainerOomKill] = (),
) -> tuple[ContainerOomKill, ...]:
    """OOM kills within ``threshold`` of the container's start that no update answered yet.

    A kill counts once: not when it is among ``spent``, and not when it lies before the last
    update of the pod that we know of (the kubelet keeps ``lastState`` through a resize).
    Containers that our webhook did not see, or whose policy mode is Off, don't count.

    Source: updater.md 7 and D28; ``UpdatePriorityCalculator.AddPod``.
    """
    found = []
    for status in scaled_statuses(pod):
        ended = None if status.last_state is None else status.last_state.terminated
        if ended is None or not _is_quick(ended, threshold):
            continue
        observed = observed_containers(pod)
        kill = ContainerOomKill(status.name, ended.finished_at)
        if observed is not None and status.name not in observed:
            continue
        if is_off(container_policy(vpa, status.name)):
            continue
        if kill in spent or _answered(kill, updated_at):
            continue
        found.append(kill)
    return tuple(found)


def is_oom_kill(ended: ContainerStateTerminated) -> bool:
    """Return whether the container was killed because its memory ran out."""
    return ended.reason == "OOMKilled"


def _is_quick(ended: ContainerStateTerminated, threshold: timedelta) -> bool:
    if not is_oom_kill(ended):
        return False
    if ended.started_at is None or ended.finished_at is None:
        # The reference subtracts zero times: without a start the run was endless, otherwise
        # it was none.
        return ended.started_at is not None or ended.finished_at is None
    return ended.finished_at - ended.started_at < threshold


def needs_memory(
    kill: ContainerOomKill,
    containers: Mapping[str, ContainerAmounts],
    *,
    requests: Mapping[str, ResourceQuantities],
) -> bool:
    """Return whether the killed container's memory target is above its request, or adds one.

    Only then does a quick OOM kill bring an update forward. The limit doesn't count: it is the
    request that an update is sure to change.

    Source: updater.md 13, D35.
    """
    amounts = containers.get(kill.container)
    target = None if amounts is None else amounts.target.get(MEMORY)
    if target is None:
        return False
    request = requests[kill.container].get(MEMORY)
    return request is None or target > request


def _answered(kill: ContainerOomKill, updated_at: datetime | None) -> bool:
    if updated_at is None:
        return False
    return kill.finished_at is None or kill.finished_at <= updated_at


def judge(
    drift: Drift,
    *,
    started_at: datetime | None,
    oomed_quickly: bool,
    thresholds: Thresholds,
    now: datetime,
) -> Verdict:
    """Decide whether a running pod is worth an update.

    A pod that lives outside its recommended range, or that was OOM-killed soon after
    its start, is updated at once. Any other pod must have lived for
    ``thresholds.min_lifetime`` and must have drifted by ``thresholds.min_change``.
    ``started_at`` is the later of the pod's start and its last successful resize, because
    a resize is a disruption too (D18).

    Total: every input has a verdict, and nothing is raised. A pod without a start
    time is NOT_STARTED, unless it is updated at once anyway.

    Source: updater.md 7; ``UpdatePriorityCalculator.AddPod``,
    vertical-pod-autoscaler/pkg/updater/priority/update_priority_calculator.go.
    """
    if oomed_quickly and drift.resource_diff == 0:
        return Verdict.NO_CHANGE
    if drift.outside_range:
        return Verdict.OUTSIDE_RANGE
    if oomed_quickly:
        return Verdict.OOMED_QUICKLY
    if started_at is None:
        return Verdict.NOT_STARTED
    if now - started_at < thresholds.min_lifetime:
        return Verdict.TOO_YOUNG
    if drift.resource_diff < thresholds.min_change:
        return Verdict.TOO_SMALL
    return Verdict.DRIFTED


def rank(drift: Drift, pod: Pod) -> tuple[bool, float, str, str]:
    """Sort key, best first: those that need more before those that need less.

    Inside each class the larger difference goes first, and the pod's key breaks ties.

    Source: updater.md 7; ``byPriorityDesc.Less`` in the reference.
    """
    meta = pod.metadata
    return (not drift.scale_up, -drift.resource_diff, meta.namespace, meta.name)
