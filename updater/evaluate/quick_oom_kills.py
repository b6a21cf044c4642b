"""OOM kills soon after the start of a container, which bring an update forward."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import ContainerStateTerminated, Pod
from common.recommendation.policy import container_policy, is_off
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_statuses
from common.resources import MEMORY, ResourceQuantities
from updater.evaluate.drift import observed_containers


@dataclass(frozen=True, slots=True)
class ContainerOomKill:
    """One OOM kill of one container; the pair is its identity."""

    container: str
    finished_at: datetime | None


def quick_ooms(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    *,
    threshold: timedelta,
    updated_at: datetime | None,
    spent: Collection[ContainerOomKill] = (),
) -> tuple[ContainerOomKill, ...]:
    """Return OOM kills within ``threshold`` of the container's start that no update answered.

    Ignored are kills in ``spent``, kills before ``updated_at`` (the kubelet keeps ``lastState``
    through a resize), and kills of containers that the VPA webhook didn't observe or whose policy
    mode is Off.

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
    """Return whether the container was OOM-killed."""
    return ended.reason == "OOMKilled"


def _is_quick(ended: ContainerStateTerminated, threshold: timedelta) -> bool:
    if not is_oom_kill(ended):
        return False
    if ended.started_at is None or ended.finished_at is None:
        # The reference subtracts zero times: the run is long only if just its start is missing.
        return ended.started_at is not None or ended.finished_at is None
    return ended.finished_at - ended.started_at < threshold


def needs_memory(
    kill: ContainerOomKill,
    containers: Mapping[str, ContainerAmounts],
    *,
    requests: Mapping[str, ResourceQuantities],
) -> bool:
    """Return whether the killed container's memory target is above its request, or adds one.

    Only then does a quick OOM kill advance an update. Limits don't count, because an update may
    leave them unchanged.

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
