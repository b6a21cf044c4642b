"""Targets of every kind, and what becomes of those that can't be used."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from common.kube.endpoints import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VPAS,
    Endpoint,
)
from common.quantity import parse_milli, parse_value
from custom_kind import define_robots, robot, robots
from e2e.pods import LARGE, Object, requests, template
from e2e.world import Case
from workloads import DEFINITIONS

pytestmark = pytest.mark.concurrent

_NODES = 3
_BUSY = {"cpu": "600m", "memory": "400Mi"}
_NOT_TOPMOST = "but it should point to a topmost well-known or scalable controller"
_Pods = Endpoint[Any]


# What a target may be


def _replicated(pods: Object) -> Object:
    return {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pods}


def _by_map(pods: Object) -> Object:
    return {"replicas": 2, "selector": {"app": "web"}, "template": pods}


def _on_every_node(pods: Object) -> Object:
    return {"selector": {"matchLabels": {"app": "web"}}, "template": pods}


def _to_completion(pods: Object) -> Object:
    return {"parallelism": 2, "completions": 2, "template": _restarting(pods)}


def _once_a_year(pods: Object) -> Object:
    return {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": _to_completion(pods)}}


def _restarting(pods: Object) -> Object:
    return {**pods, "spec": {**pods["spec"], "restartPolicy": "Never"}}


@pytest.mark.parametrize(
    ("endpoint", "spec", "replicas"),
    [
        pytest.param(DEPLOYMENTS, _replicated, 2, id="Deployment"),
        pytest.param(STATEFUL_SETS, _replicated, 2, id="StatefulSet"),
        pytest.param(DAEMON_SETS, _on_every_node, _NODES, id="DaemonSet"),
        pytest.param(REPLICA_SETS, _replicated, 2, id="ReplicaSet"),
        pytest.param(REPLICATION_CONTROLLERS, _by_map, 2, id="ReplicationController"),
        pytest.param(JOBS, _to_completion, 2, id="Job"),
        pytest.param(CRON_JOBS, _once_a_year, 2, id="CronJob"),
    ],
)
async def test_a_target_gets_what_its_pods_use(
    case: Case, endpoint: _Pods, spec: Callable[[Object], Object], replicas: int
) -> None:
    pods = template("web", uses=_BUSY)
    made = await case.create(endpoint, {"metadata": {"name": "web"}, "spec": spec(pods)})
    if endpoint is CRON_JOBS:  # as `kubectl create job --from` does
        await case.create(JOBS, _owned("today", "batch/v1", "CronJob", made, _to_completion(pods)))
    await case.running("web", replicas=replicas)
    await _has_what_is_used(case, _target(endpoint, "web"))


async def test_a_custom_resource_with_a_scale_gets_what_its_pods_use(case: Case) -> None:
    async with _robots(case) as endpoint:
        made = await _robot(case, endpoint, selector="app=web")
        for name in ("left", "right"):
            await case.create(PODS, _pod(name, endpoint, made, uses=_BUSY))
        await case.running("web")
        await _has_what_is_used(case, _target(endpoint, "web"))


async def test_pods_of_a_custom_resource_with_a_scale_are_resized_and_patched(case: Case) -> None:
    async with _robots(case) as endpoint:
        made = await _robot(case, endpoint, selector="app=web")
        for name in ("left", "right"):
            await case.create(PODS, _pod(name, endpoint, made))
        await case.running("web")
        await case.autoscale("web", "InPlace", targetRef=_target(endpoint, "web"))
        await case.fits("web")
        assert not case.evictions()
        created = await case.create(PODS, _pod("late", endpoint, made))
        assert requests(created) == await case.target("web")


# What it may not be: the condition ConfigUnsupported says why, and which one it should be


async def test_a_replica_set_of_a_deployment_is_none_and_the_condition_names_the_deployment(
    case: Case,
) -> None:
    await case.deploy("web")
    (pod, *_) = await case.running("web")
    replica_set = pod["metadata"]["ownerReferences"][0]["name"]
    await case.autoscale("web", "Off", targetRef=_target(REPLICA_SETS, replica_set))
    told = await _unsupported(case)
    assert told == (
        f"The target apps/v1.ReplicaSet/{replica_set} has a parent controller {_NOT_TOPMOST}: "
        "apps/v1.Deployment/web"
    )
    await case.edit(VPAS, "web", targetRef=_target(DEPLOYMENTS, "web"))
    await case.tells("web", ConfigUnsupported=None, RecommendationProvided="True")


async def test_a_job_of_a_cron_job_is_none_and_the_condition_names_the_cron_job(
    case: Case,
) -> None:
    pods = template("web")
    spec = {**_once_a_year(pods), "suspend": True}
    made = await case.create(CRON_JOBS, {"metadata": {"name": "nightly"}, "spec": spec})
    await case.create(JOBS, _owned("today", "batch/v1", "CronJob", made, _to_completion(pods)))
    await case.autoscale("web", "Off", targetRef=_target(JOBS, "today"))
    told = await _unsupported(case)
    assert told == (
        f"The target batch/v1.Job/today has a parent controller {_NOT_TOPMOST}: "
        "batch/v1.CronJob/nightly"
    )


async def test_a_deployment_of_a_custom_resource_with_a_scale_is_none_and_the_condition_names_it(
    case: Case,
) -> None:
    async with _robots(case) as endpoint:
        made = await _robot(case, endpoint, selector="app=web")
        spec = _replicated(template("web"))
        await case.create(DEPLOYMENTS, _owned("web", endpoint.api_version, "Robot", made, spec))
        await case.autoscale("web", "Off")
        told = await _unsupported(case)
        assert told == (
            f"The target apps/v1.Deployment/web has a parent controller {_NOT_TOPMOST}: "
            f"{endpoint.api_version}.Robot/web"
        )


async def test_a_deployment_of_a_custom_resource_without_a_scale_is_one(case: Case) -> None:
    async with _robots(case, scale=False) as endpoint:
        made = await _robot(case, endpoint)
        spec = _replicated(template("web", uses=_BUSY))
        await case.create(DEPLOYMENTS, _owned("web", endpoint.api_version, "Robot", made, spec))
        await case.running("web")
        await _has_what_is_used(case, _target(DEPLOYMENTS, "web"))


async def test_a_custom_resource_without_a_scale_is_none(case: Case) -> None:
    async with _robots(case, scale=False) as endpoint:
        await _robot(case, endpoint)
        await case.autoscale("web", "Off", targetRef=_target(endpoint, "web"))
        told = await _unsupported(case)
    assert told == _unhandled(endpoint, "the server could not find the requested resource")


async def test_a_custom_resource_without_a_selector_is_none(case: Case) -> None:
    async with _robots(case) as endpoint:
        await _robot(case, endpoint)
        await case.autoscale("web", "Off", targetRef=_target(endpoint, "web"))
        told = await _unsupported(case)
    why = f"resource {case.namespace}/web has an empty selector for scale sub-resource"
    assert told == _unhandled(endpoint, why)


async def test_a_kind_that_nobody_knows_is_none(case: Case) -> None:
    endpoint = robots(f"{case.namespace}.example")
    await case.autoscale("web", "Off", targetRef=_target(endpoint, "web"))
    told = await _unsupported(case)
    assert told == _unhandled(endpoint, f'no matches for kind "Robot" in group "{endpoint.group}"')


async def test_a_deployment_that_is_not_there_is_none_until_it_comes(case: Case) -> None:
    await case.autoscale("web", "Off")
    told = await _unsupported(case)
    where = f"{case.namespace}/web"
    assert told == f"Cannot read targetRef. Reason: Deployment {where} does not exist"
    await case.deploy("web", uses=_BUSY)
    await case.tells("web", ConfigUnsupported=None, NoPodsMatched=None)


async def _has_what_is_used(case: Case, target: Object) -> None:
    await case.autoscale("web", "Off", targetRef=target)
    found = await case.recommended("web")
    assert 600 < parse_milli(found["cpu"]) < 800, "the end of a bucket, and 15 % on top"
    assert 400 < parse_value(found["memory"]) / 2**20 < 500
    conditions = await case.conditions("web")
    assert conditions.pop("LowConfidence", ("True",))[0] == "True"
    assert conditions == {"RecommendationProvided": ("True", "")}


async def _unsupported(case: Case) -> str:
    """Wait for the condition on the VPA ``web``; its message."""
    told = await case.tells(
        "web", ConfigUnsupported="True", NoPodsMatched="True", RecommendationProvided="False"
    )
    return told["ConfigUnsupported"][1]


def _unhandled(endpoint: Endpoint[Any], why: str) -> str:
    target = f"{endpoint.api_version} / {endpoint.kind} / web"
    return f"Cannot read targetRef. Reason: unhandled targetRef {target}, last error {why}"


def _target(endpoint: Endpoint[Any], name: str) -> Object:
    return {"apiVersion": endpoint.api_version, "kind": endpoint.kind, "name": name}


@asynccontextmanager
async def _robots(case: Case, *, scale: bool = True) -> AsyncIterator[Endpoint[Object]]:
    """A custom kind that is there for one case."""
    client, group = case.world.client, f"{case.namespace}.example"
    definition = await define_robots(client, group, scale=scale)
    try:
        yield robots(group)
    finally:
        await client.delete(DEFINITIONS, definition)


async def _robot(case: Case, endpoint: Endpoint[Object], **spec: Any) -> Object:
    """Wait until the new kind is served, and make the robot ``web``."""

    async def made() -> Object:
        return await case.create(endpoint, robot("web", endpoint.group, replicas=2, **spec))

    return await case.world.until(made, "the new kind is served")


def _owned(name: str, api_version: str, kind: str, owner: Object, spec: Object) -> Object:
    """A workload, or a pod, with an owner that controls it."""
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {"metadata": {"name": name, "ownerReferences": [reference]}, "spec": spec}


def _pod(name: str, endpoint: Endpoint[Object], owner: Object, **pods: Any) -> Object:
    made = template("web", **{"requests": LARGE, **pods})
    found = _owned(name, endpoint.api_version, "Robot", owner, made["spec"])
    found["metadata"] |= made["metadata"]
    return found
