"""The Job controller: pods that run to their end, as often as asked for.

Indexed completion, pod failure and success policies are not there, nor a back-off between the
pods of a Job that fails.

Source: k8s.io/kubernetes pkg/controller/job/job_controller.go.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from common.api.core import Pod
from common.errors import NotFoundError
from common.kube.endpoints import JOBS
from common.kube.events import NORMAL, WARNING
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

_FAILURES = {
    "BackoffLimitExceeded": "Job has reached the specified backoff limit",
    "DeadlineExceeded": "Job was active longer than specified deadline",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """Where a Job stands; ``missing`` pods are to be made, ``over`` says why it has ended."""

    active: int
    ready: int
    succeeded: int
    failed: int
    missing: int = 0
    over: str = ""  # why it has ended, empty while it hasn't


class Jobs:
    """Runs the pods of Jobs."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> float | None:
        view = self._actor.view
        job = view.get("Job", namespace, name)
        if job is None:
            return None
        if ended(job):
            return await self._forget(job)
        now, uid = self._actor.clock.now(), job["metadata"]["uid"]
        state = job_state(job, view.owned.of(uid), now)
        failure = None
        if state.missing:
            reference = owner_reference(job, api_version="batch/v1", kind="Job")
            body = pod_from_template(job["spec"]["template"], reference)
            count = min(state.missing, MOST_AT_ONCE)
            failure = await self._actor.create_pods(job, [body] * count)
        elif state.over in _FAILURES or job["spec"].get("suspend"):
            await self._actor.delete_pods(job, [p for p in view.owned.of(uid) if is_active(p)])
        state = job_state(job, view.owned.of(uid), now)
        status = job_status(job, state, now)
        self._tell(job, state)
        await self._actor.write_status(JOBS, job, status)
        if failure is not None:
            raise failure
        return _seconds_left(job["spec"].get("activeDeadlineSeconds"), status.get("startTime"), now)

    async def _forget(self, job: Json) -> float | None:
        """Delete a Job whose time after its end has passed; the seconds until then, if any."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        left = _seconds_left(ttl, _ended_at(job), self._actor.clock.now())
        if left is None or left > 0:
            return left
        meta = job["metadata"]
        with contextlib.suppress(NotFoundError):
            await self._actor.client.delete(
                JOBS,
                meta["name"],
                namespace=meta["namespace"],
                uid=meta["uid"],
                propagation_policy="Foreground",
            )
        return None

    def _tell(self, job: Json, state: JobState) -> None:
        if state.over in _FAILURES:
            self._actor.tell(job, WARNING, state.over, _FAILURES[state.over])
        elif state.over:
            self._actor.tell(job, NORMAL, "Completed", "Job completed")


def job_state(job: Json, pods: Sequence[Pod], now: datetime) -> JobState:
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
        return replace(state, over="BackoffLimitExceeded")
    if succeeded >= (completions or 1) and (completions is not None or not active):
        return replace(state, over="CompletionsReached")
    if spec.get("suspend"):
        return state
    start = (job.get("status") or {}).get("startTime")
    left = _seconds_left(spec.get("activeDeadlineSeconds"), start, now)
    if left is not None and left <= 0:
        return replace(state, over="DeadlineExceeded")
    wanted = spec.get("parallelism", 1)
    if completions is not None:
        wanted = min(wanted, completions - succeeded)
    elif succeeded:
        wanted = len(active)
    return replace(state, missing=max(wanted - len(active), 0))


def job_status(job: Json, state: JobState, now: datetime) -> Json:
    """``status`` with its conditions and times."""
    old = job.get("status") or {}
    suspended = bool(job["spec"].get("suspend"))
    status: Json = {
        "startTime": None if suspended else old.get("startTime") or rfc3339(now),
        "active": state.active,
        "ready": state.ready,
        "succeeded": state.succeeded,
        "failed": state.failed,
    }
    conditions = [dict(one) for one in old.get("conditions") or ()]
    was_suspended = any(one["type"] == "Suspended" for one in conditions)
    if suspended or was_suspended:
        reason, text = (
            ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
        )
        conditions = with_condition(conditions, "Suspended", suspended, reason, text, now=now)
    if state.over:
        done = state.over not in _FAILURES
        text = "Reached expected number of succeeded pods" if done else _FAILURES[state.over]
        for name in ("SuccessCriteriaMet", "Complete") if done else ("FailureTarget", "Failed"):
            conditions = with_condition(conditions, name, True, state.over, text, now=now)
        if done:
            status["completionTime"] = rfc3339(now)
    if conditions:
        status["conditions"] = [
            {**one, "lastProbeTime": one["lastTransitionTime"]} for one in conditions
        ]
    return status


def ended(job: Json) -> str:
    """``Complete`` or ``Failed``; empty while the Job has work to do."""
    for one in (job.get("status") or {}).get("conditions") or ():
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return str(one["type"])
    return ""


def _ended_at(job: Json) -> str | None:
    for one in (job.get("status") or {}).get("conditions") or ():
        if one["type"] in ("Complete", "Failed") and one["status"] == "True":
            return str(one["lastTransitionTime"])
    return None


def _seconds_left(seconds: int | None, since: str | None, now: datetime) -> float | None:
    """How much is left of a period; None when there is none, or it hasn't begun."""
    if seconds is None or since is None:
        return None
    return (datetime.fromisoformat(since) + timedelta(seconds=seconds) - now).total_seconds()
