"""The CronJob controller: Jobs at the times of a schedule.

Source: k8s.io/kubernetes pkg/controller/cronjob (cronjob_controllerv2.go, utils.go).
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from common.errors import ConflictError, NotFoundError
from common.kube.endpoints import CRON_JOBS, JOBS
from common.kube.events import NORMAL, WARNING
from sandbox.controllers.actor import Actor
from sandbox.controllers.jobs import ended
from sandbox.controllers.pods import owner_reference
from sandbox.schedules import Schedule, ScheduleError, parse_schedule
from sandbox.times import rfc3339

Json = dict[str, Any]

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobs:
    """Makes the Jobs of CronJobs, and removes old ones."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def reconcile(self, namespace: str, name: str) -> float | None:
        view = self._actor.view
        cron = view.get("CronJob", namespace, name)
        if cron is None:
            return None
        jobs = view.owned_by(cron["metadata"]["uid"], "Job", namespace)
        self._tell_completed(cron, jobs)
        for job in to_forget(cron["spec"], jobs):
            await self._delete(cron, job)
        status: Json = {**(cron.get("status") or {}), **status_of(jobs)}
        again = None
        if not cron["spec"].get("suspend"):
            again = await self._run_due(cron, jobs, status)
        await self._actor.write_status(CRON_JOBS, cron, status)
        return again

    async def _run_due(self, cron: Json, jobs: Sequence[Json], status: Json) -> float | None:
        """Start what is due; returns the seconds until something is due again."""
        spec, now = cron["spec"], self._actor.clock.now()
        try:
            schedule = parse_schedule(spec["schedule"])
            zone = ZoneInfo(spec.get("timeZone") or "UTC")
        except (ScheduleError, ZoneInfoNotFoundError, ValueError) as error:
            text = f'unparseable schedule: "{spec["schedule"]}": {error}'
            self._actor.tell(cron, WARNING, "UnparseableSchedule", text)
            return None
        due = due_at(cron, schedule, zone, now)
        following = schedule.after(now, zone)
        again = None if following is None else (following - now).total_seconds() + 0.1
        if due is None:
            return again
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and due + timedelta(seconds=deadline) < now:
            text = f"Missed scheduled time to start a job: {rfc3339(due)}"
            self._actor.tell(cron, WARNING, "MissSchedule", text)
            return again
        active = [job for job in jobs if not ended(job)]
        policy = spec.get("concurrencyPolicy", "Allow")
        if active and policy == "Forbid":
            text = (
                "Not starting job because prior execution is running and concurrency policy is "
                "Forbid"
            )
            self._actor.tell(cron, NORMAL, "JobAlreadyActive", text)
            return again
        if policy == "Replace":
            for job in active:
                await self._delete(cron, job)
            status["active"] = []
        await self._create(cron, due, zone, status)
        return again

    async def _create(self, cron: Json, due: datetime, zone: ZoneInfo, status: Json) -> None:
        body = job_of(cron, due, zone)
        endpoint, namespace = JOBS.as_dicts(), cron["metadata"]["namespace"]
        try:
            made = await self._actor.client.create(endpoint, body, namespace=namespace)
        except ConflictError:  # our own, of a turn whose status wasn't written
            status["lastScheduleTime"] = rfc3339(due)
            return
        self._actor.tell(
            cron, NORMAL, "SuccessfulCreate", f"Created job {made['metadata']['name']}"
        )
        status["lastScheduleTime"] = rfc3339(due)
        status["active"] = [*status.get("active", ()), _reference(made)]

    async def _delete(self, cron: Json, job: Json) -> None:
        meta = job["metadata"]
        try:
            await self._actor.client.delete(
                JOBS,
                meta["name"],
                namespace=meta["namespace"],
                uid=meta["uid"],
                propagation_policy="Background",
            )
        except NotFoundError:
            return
        self._actor.tell(cron, NORMAL, "SuccessfulDelete", f"Deleted job {meta['name']}")

    def _tell_completed(self, cron: Json, jobs: Sequence[Json]) -> None:
        known = {one["uid"] for one in (cron.get("status") or {}).get("active") or ()}
        for job in jobs:
            if job["metadata"]["uid"] in known and ended(job):
                text = f"Saw completed job: {job['metadata']['name']}, condition: {ended(job)}"
                self._actor.tell(cron, NORMAL, "SawCompletedJob", text)


def due_at(cron: Json, schedule: Schedule, zone: ZoneInfo, now: datetime) -> datetime | None:
    """The last moment that was due and hasn't been served; older ones are skipped."""
    last = (cron.get("status") or {}).get("lastScheduleTime")
    since = datetime.fromisoformat(last or cron["metadata"]["creationTimestamp"])
    deadline = cron["spec"].get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - timedelta(seconds=deadline))
    return schedule.latest(since, now, zone)


def job_of(cron: Json, due: datetime, zone: ZoneInfo) -> Json:
    """The Job for one moment; its name tells the minute, so that it is made once only."""
    template = cron["spec"]["jobTemplate"]
    meta = template.get("metadata") or {}
    minutes = int(due.timestamp() // 60)
    local = due.astimezone(zone)
    stamp = rfc3339(due) if local.utcoffset() == timedelta(0) else local.isoformat()
    return {
        "metadata": {
            "name": f"{cron['metadata']['name']}-{minutes}",
            "labels": meta.get("labels") or {},
            "annotations": {**(meta.get("annotations") or {}), SCHEDULED_AT: stamp},
            "ownerReferences": [owner_reference(cron, api_version="batch/v1", kind="CronJob")],
        },
        "spec": template["spec"],
    }


def status_of(jobs: Sequence[Json]) -> Json:
    """What the Jobs say: which run, and when the last one succeeded."""
    status: Json = {"active": [_reference(job) for job in jobs if not ended(job)]}
    times = [
        job["status"]["completionTime"]
        for job in jobs
        if ended(job) == "Complete" and "completionTime" in job["status"]
    ]
    if times:
        status["lastSuccessfulTime"] = max(times)
    return status


def to_forget(spec: Json, jobs: Sequence[Json]) -> list[Json]:
    """The oldest ended Jobs beyond the limits of history."""
    found: list[Json] = []
    for end, name, limit in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        ended_so = [job for job in jobs if ended(job) == end]
        ended_so.sort(key=_started)
        found += ended_so[: max(len(ended_so) - spec.get(name, limit), 0)]
    return found


def _started(job: Json) -> tuple[datetime, str]:
    start = (job.get("status") or {}).get("startTime") or job["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(start).astimezone(UTC), job["metadata"]["name"]


def _reference(job: Json) -> Json:
    meta = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "uid": meta["uid"],
        "resourceVersion": meta["resourceVersion"],
    }
