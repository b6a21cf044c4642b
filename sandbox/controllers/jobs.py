"""The Job controller: pods that run to their end, as often as asked for.

A Job has completions and a parallelism, and replaces failed pods without end. Source:
k8s.io/kubernetes pkg/controller/job/job_controller.go.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from common.api.core import Pod
from common.kube.endpoints import JOBS
from sandbox.controllers.actor import MOST_AT_ONCE, Actor
from sandbox.controllers.conditions import with_condition
from sandbox.controllers.pods import (
    is_active,
    owner_reference,
    pod_from_template,
    ready_since,
)
from sandbox.times import rfc3339

Json = dict[str, Any]


class Jobs:
    """Runs the pods of Jobs."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> None:
        view = self._actor.view
        job = view.get("Job", namespace, name)
        if job is None:
            return
        uid, failure = job["metadata"]["uid"], None
        missing = missing_pods(job["spec"], view.owned.of(uid))
        if missing:
            reference = owner_reference(job, api_version="batch/v1", kind="Job")
            body = pod_from_template(job["spec"]["template"], reference)
            failure = await self._actor.create_pods(job, [body] * min(missing, MOST_AT_ONCE))
        status = job_status(job, view.owned.of(uid), self._actor.clock.now())
        await self._actor.write_status(JOBS, job, status)
        if failure is not None:
            raise failure


def missing_pods(spec: Json, pods: Sequence[Pod]) -> int:
    """Return how many pods are to be made."""
    active = sum(is_active(pod) for pod in pods)
    left: int = spec.get("completions", 1) - _succeeded(pods)
    wanted: int = min(spec.get("parallelism", 1), left)
    return max(wanted - active, 0)


def job_status(job: Json, pods: Sequence[Pod], now: datetime) -> Json:
    """Return the counts, and the condition Complete once all pods have succeeded."""
    old, done = job.get("status") or {}, _succeeded(pods)
    active = [pod for pod in pods if is_active(pod)]
    status: Json = {
        "startTime": old.get("startTime") or rfc3339(now),
        "active": len(active),
        "ready": sum(ready_since(pod) is not None for pod in active),
        "succeeded": done,
        "failed": sum(pod.status.phase == "Failed" for pod in pods),
    }
    if done >= job["spec"].get("completions", 1):
        text = "Reached expected number of succeeded pods"
        before = old.get("conditions") or ()
        status["conditions"] = with_condition(
            before, "Complete", True, "CompletionsReached", text, now=now
        )
    return status


def _succeeded(pods: Sequence[Pod]) -> int:
    return sum(pod.status.phase == "Succeeded" for pod in pods)
