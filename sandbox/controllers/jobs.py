"""The Job controller: pods that run to their end, as often as asked for.

Indexed completion, pod failure policies and suspension of running Jobs are not there.

Source: k8s.io/kubernetes pkg/controller/job/job_controller.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from common.api.core import Pod
from common.kube.endpoints import JOBS
from sandbox.controllers.actor import Actor
from sandbox.controllers.conditions import with_condition
from sandbox.controllers.pods import (
    is_active,
    owner_reference,
    pod_from_template,
    ready_since,
)
from sandbox.times import rfc3339

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """Where a Job stands; ``missing`` pods are to be made, ``over`` says why it has ended."""

    active: int
    ready: int
    succeeded: int
    failed: int
    missing: int = 0
    over: str = ""  # empty, Complete or Failed


class Jobs:
    """Runs the pods of Jobs."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> float | None:
        view = self._actor.view
        job = view.get("Job", namespace, name)
        if job is None or _is_over(job) or job["spec"].get("suspend"):
            return None
        uid = job["metadata"]["uid"]
        state = job_state(job, view.owned.of(uid))
        failure = None
        if state.missing:
            reference = owner_reference(job, api_version="batch/v1", kind="Job")
            labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
            body = pod_from_template(job["spec"]["template"], reference, labels=labels)
            failure = await self._actor.create_pods(job, [body] * state.missing)
        elif state.over == "Failed":
            await self._actor.delete_pods(job, [p for p in view.owned.of(uid) if is_active(p)])
        state = job_state(job, view.owned.of(uid))
        await self._actor.write_status(JOBS, job, job_status(job, state, self._actor.clock.now()))
        if failure is not None:
            raise failure
        return None


def job_state(job: Json, pods: Sequence[Pod]) -> JobState:
    """Count the pods, and decide what is missing.

    A Job without ``completions`` is done when one pod has succeeded and none is active.
    """
    spec = job["spec"]
    active = [pod for pod in pods if is_active(pod)]
    succeeded = sum(pod.status.phase == "Succeeded" for pod in pods)
    failed = sum(pod.status.phase == "Failed" for pod in pods)
    state = JobState(
        active=len(active),
        ready=sum(ready_since(pod) is not None for pod in active),
        succeeded=succeeded,
        failed=failed,
    )
    completions = spec.get("completions")
    if failed > spec.get("backoffLimit", 6):
        return replace(state, over="Failed")
    if succeeded >= (completions or 1) and (completions is not None or not active):
        return replace(state, over="Complete")
    wanted = spec.get("parallelism", 1)
    if completions is not None:
        wanted = min(wanted, completions - succeeded)
    elif succeeded:
        wanted = len(active)
    return replace(state, missing=max(wanted - len(active), 0))


def job_status(job: Json, state: JobState, now: datetime) -> Json:
    """``status`` with its conditions and times."""
    old = job.get("status") or {}
    status: Json = {
        "startTime": old.get("startTime") or rfc3339(now),
        "active": state.active,
        "ready": state.ready,
        "succeeded": state.succeeded,
        "failed": state.failed,
    }
    if not state.over:
        return status
    done = state.over == "Complete"
    status["conditions"] = with_condition(
        old.get("conditions") or (),
        state.over,
        True,
        "CompletionsReached" if done else "BackoffLimitExceeded",
        "Reached expected number of succeeded pods"
        if done
        else "Job has reached the specified backoff limit",
        now=now,
    )
    if done:
        status["completionTime"] = rfc3339(now)
    return status


def _is_over(job: Json) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions
    )
