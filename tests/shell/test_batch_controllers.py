"""Jobs, CronJobs and budgets that can't be kept, in virtual time."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import CRON_JOBS, JOBS, PODS
from sandbox.cluster import Cluster
from sandbox.controllers.view import BUDGETS
from virtual_cluster import in_cluster

Json = dict[str, Any]

SCENARIO = """
nodes: [{name: node, count: 2, cpu: 8, memory: 16Gi}]
namespaces: [shop]
"""


def job_spec(**spec: Any) -> Json:
    container = {"name": "app", "image": "shop:1"}
    template = {
        "metadata": {"labels": {"app": "work"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {"template": template, **spec}


async def make(client: KubeClient, endpoint: Any, name: str, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": spec}
    await client.create(endpoint.as_dicts(), body, namespace="shop")


async def read(client: KubeClient, endpoint: Any, name: str) -> Json:
    found: Json = await client.get(endpoint.as_dicts(), name, namespace="shop")
    return found


async def items(client: KubeClient, endpoint: Any) -> list[Json]:
    return list((await client.list(endpoint.as_dicts(), namespace="shop")).items)


@pytest.mark.parametrize(
    ("policy", "started", "left"),
    [("Allow", 3, 3), ("Forbid", 1, 1), ("Replace", 3, 1)],
)
def test_a_cron_job_starts_jobs_by_its_policy(policy: str, started: int, left: int) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await make(
            client,
            CRON_JOBS,
            "cron",
            schedule="* * * * *",
            concurrencyPolicy=policy,
            jobTemplate={"spec": job_spec()},
        )
        await asyncio.sleep(timedelta(minutes=3, seconds=5).total_seconds())
        made = cluster.audit(verb="create", resource="jobs", code="201")
        jobs = await items(client, JOBS)
        assert (len(made), len(jobs)) == (started, left)
        status = (await read(client, CRON_JOBS, "cron"))["status"]
        active = {one["name"] for one in status["active"]}
        assert active == {job["metadata"]["name"] for job in jobs}
        assert "lastScheduleTime" in status

    in_cluster(test, scenario=SCENARIO)


def test_a_suspended_cron_job_starts_nothing() -> None:
    async def test(_: Cluster, client: KubeClient) -> None:
        spec = {"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": job_spec()}}
        await make(client, CRON_JOBS, "cron", **spec)
        await asyncio.sleep(300)
        assert await items(client, JOBS) == []

    in_cluster(test, scenario=SCENARIO)


def test_old_failed_jobs_are_forgotten() -> None:
    async def test(_: Cluster, client: KubeClient) -> None:
        template = {"spec": job_spec(activeDeadlineSeconds=10)}
        await make(client, CRON_JOBS, "cron", schedule="* * * * *", jobTemplate=template)
        await asyncio.sleep(timedelta(minutes=4, seconds=30).total_seconds())
        [job] = await items(client, JOBS)
        assert job["status"]["conditions"][-1]["type"] == "Failed"

    in_cluster(test, scenario=SCENARIO)


def test_a_job_past_its_deadline_fails_and_goes_after_its_time() -> None:
    async def test(_: Cluster, client: KubeClient) -> None:
        spec = job_spec(activeDeadlineSeconds=30, ttlSecondsAfterFinished=60)
        await make(client, JOBS, "late", **spec)
        await asyncio.sleep(40)
        conditions = (await read(client, JOBS, "late"))["status"]["conditions"]
        assert [(one["type"], one["reason"]) for one in conditions] == [
            ("FailureTarget", "DeadlineExceeded"),
            ("Failed", "DeadlineExceeded"),
        ]
        await asyncio.sleep(70)
        assert await items(client, JOBS) == []

    in_cluster(test, scenario=SCENARIO)


def test_the_pods_of_a_job_are_those_that_its_selector_finds() -> None:
    async def test(_: Cluster, client: KubeClient) -> None:
        for name in ("one", "two"):
            await make(client, JOBS, name, **job_spec())
        await asyncio.sleep(5)
        for name in ("one", "two"):
            job = await read(client, JOBS, name)
            [(label, uid)] = job["spec"]["selector"]["matchLabels"].items()
            assert (label, uid) == ("batch.kubernetes.io/controller-uid", job["metadata"]["uid"])
            found = [
                pod
                for pod in await items(client, PODS)
                if pod["metadata"]["labels"].get(label) == uid
            ]
            assert [pod["metadata"]["labels"] for pod in found] == [
                {
                    "app": "work",
                    "controller-uid": uid,
                    "job-name": name,
                    label: uid,
                    "batch.kubernetes.io/job-name": name,
                }
            ]

    in_cluster(test, scenario=SCENARIO)


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async def test(_: Cluster, client: KubeClient) -> None:
        await make(client, JOBS, "later", **job_spec(suspend=True))
        await asyncio.sleep(5)
        assert await items(client, PODS) == []
        [condition] = (await read(client, JOBS, "later"))["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("True", "JobSuspended")
        patch = {"spec": {"suspend": False}}
        await client.patch(
            JOBS.as_dicts(), "later", patch, patch_type=PatchType.MERGE, namespace="shop"
        )
        await asyncio.sleep(5)
        assert len(await items(client, PODS)) == 1
        [condition] = (await read(client, JOBS, "later"))["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "JobResumed")

    in_cluster(test, scenario=SCENARIO)


def test_a_budget_over_what_has_no_scale_lets_nothing_go() -> None:
    async def test(_: Cluster, client: KubeClient) -> None:
        await make(client, JOBS, "work", **job_spec())
        selector = {"matchLabels": {"app": "work"}}
        await make(client, BUDGETS, "most", maxUnavailable=1, selector=selector)
        await make(client, BUDGETS, "least", minAvailable=1, selector=selector)
        await asyncio.sleep(30)
        failed = (await read(client, BUDGETS, "most"))["status"]
        [condition] = failed.pop("conditions")
        del condition["lastTransitionTime"]
        assert condition == {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "SyncFailed",
            "message": "jobs.batch does not implement the scale subresource",
        }
        assert failed["disruptionsAllowed"] == 0
        kept = (await read(client, BUDGETS, "least"))["status"]
        assert kept["conditions"][0]["reason"] == "InsufficientPods"
        assert (kept["currentHealthy"], kept["expectedPods"]) == (1, 1)

    in_cluster(test, scenario=SCENARIO)
