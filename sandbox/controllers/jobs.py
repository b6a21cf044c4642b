"""The Job controller.

A Job has a parallelism. Simulated containers don't end by themselves, so it never completes. Failed
pods are replaced without limit. Source: k8s.io/kubernetes pkg/controller/job/job_controller.go.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from common.api.core import Pod
from common.kube.endpoints import JOBS
from sandbox.controllers.actor import MOST_AT_ONCE, Actor
from sandbox.controllers.pods import (
    is_active,
    is_ready,
    owner_reference,
    pod_from_template,
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
        active = sum(is_active(pod) for pod in view.owned.of(uid))
        missing = job["spec"]["parallelism"] - active
        if missing > 0:
            reference = owner_reference(job, api_version="batch/v1", kind="Job")
            body = pod_from_template(job["spec"]["template"], reference)
            failure = await self._actor.create_pods(job, [body] * min(missing, MOST_AT_ONCE))
        status = job_status(job, view.owned.of(uid), self._actor.clock.now())
        await self._actor.write_status(JOBS, job, status)
        if failure is not None:
            raise failure


def job_status(job: Json, pods: Sequence[Pod], now: datetime) -> Json:
    """Return the counts."""
    active = [pod for pod in pods if is_active(pod)]
    return {
        "startTime": (job.get("status") or {}).get("startTime") or rfc3339(now),
        "active": len(active),
        "ready": sum(is_ready(pod) for pod in active),
        "failed": sum(pod.status.phase == "Failed" for pod in pods),
    }
