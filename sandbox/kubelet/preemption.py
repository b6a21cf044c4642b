"""What a kubelet does for a critical pod that doesn't fit: other pods go, as few as possible.

It happens at a pod's arrival and at its resize, and needs no scheduler. Source:
``CriticalPodAdmissionHandler``, k8s.io/kubernetes pkg/kubelet/preemption/preemption.go, and
``Preemptable``, pkg/kubelet/types/pod_update.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sandbox.kubelet.allocation import Shortfall
from sandbox.kubelet.pod_lifecycle import Phase, PodRun
from sandbox.kubelet.pod_resources import is_critical
from sandbox.kubelet.wire import RunnablePodSpec

REASON = "Preempting"
MESSAGE = "Preempted in order to admit critical pod"

_CLASSES = ("Guaranteed", "Burstable", "BestEffort")  # the last one goes first
_SIGTERM_EXIT = 143

Needs = Mapping[str, int]
"""Amounts that are missing, by resource: ``pods``, ``cpu`` in millicores, ``memory`` in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Who has to go; or, where that isn't enough, nobody, and what would still be missing."""

    victims: tuple[PodRun, ...] = ()
    problem: str = ""


def plan(
    spec: RunnablePodSpec, others: Iterable[PodRun], lacking: Sequence[Shortfall]
) -> Preemption:
    """Choose the pods that make room for a critical pod, where ``lacking`` is missing.

    Any pod that isn't critical may go, and a critical one of lower priority. Guaranteed pods
    go only if all others aren't enough, BestEffort ones only if they help (they do where the
    number of pods is the limit). Within a class the pod goes that covers most of the need, of
    equals the one that requests less.
    """
    needs = {one.resource: one.missing for one in lacking}
    classes = {
        qos: [pod for pod in others if pod.qos == qos and _may_go(spec, pod)]
        for qos in reversed(_CLASSES)
    }
    unmet = _less(needs, (pod for pods in classes.values() for pod in pods))
    if unmet:
        told = "".join(f"(res: {name}, q: {amount}), " for name, amount in unmet.items())
        return Preemption(
            problem="Unexpected error while attempting to recover from admission failure: "
            "preemption: error finding a set of pods to preempt: "
            f"no set of running pods found to reclaim resources: [{told}]"
        )
    chosen: list[PodRun] = []
    for place, qos in enumerate(_CLASSES):
        cheaper = [pod for name in _CLASSES[place + 1 :] for pod in classes[name]]
        chosen += _fewest(classes[qos], _less(needs, [*chosen, *cheaper]))
    return Preemption(victims=tuple(chosen))


def preempt(pod: PodRun, now: datetime) -> None:
    """End a pod for the sake of another: it fails at once, and stays until somebody deletes it.

    Simulated containers don't use their grace period; processes do.
    """
    pod.notice(REASON, MESSAGE, warning=True)
    for container in pod.containers.values():
        if container.running:
            pod.notice("Killing", f"Stopping container {container.name}", container=container.name)
            if not container.local:
                container.end(now, exit_code=_SIGTERM_EXIT)
    pod.preempted = True
    pod.finish(Phase.FAILED)


def _may_go(spec: RunnablePodSpec, pod: PodRun) -> bool:
    if not is_critical(pod.object.spec):
        return True
    return (spec.priority or 0) > (pod.object.spec.priority or 0)


def _fewest(pods: Sequence[PodRun], needs: Needs) -> list[PodRun]:
    left, chosen = list(pods), []
    while needs:
        best = min(left, key=lambda pod: (_distance(needs, pod), *_size(pod)))
        left.remove(best)
        chosen.append(best)
        needs = _less(needs, [best])
    return chosen


def _less(needs: Needs, pods: Iterable[PodRun]) -> dict[str, int]:
    """What would still be missing without these pods."""
    gone = [_amounts(pod) for pod in pods]
    left = {name: need - sum(one[name] for one in gone) for name, need in needs.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _distance(needs: Needs, pod: PodRun) -> float:
    """How far a pod alone is from the need; each resource weighs the same."""
    amounts = _amounts(pod)
    return sum((max(0, need - amounts[name]) / need) ** 2 for name, need in needs.items())


def _size(pod: PodRun) -> tuple[int, int]:
    return pod.occupied.memory, pod.occupied.cpu


def _amounts(pod: PodRun) -> Mapping[str, int]:
    return {"pods": 1, "cpu": pod.occupied.cpu, "memory": pod.occupied.memory}
