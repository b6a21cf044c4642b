"""Targets of every kind, and the conditions of unsupported ones."""

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
from e2e.cluster import Case
from e2e.pods import LARGE, Object, requests, template
from workloads import DEFINITIONS

pytestmark = pytest.mark.concurrent

_NODES = 3
_BUSY = {"cpu": "600m", "memory": "400Mi"}
_NOT_TOPMOST = "but it should point to a topmost well-known or scalable controller"
_Pods = Endpoint[Any]


# Supported targets


def _replicated_spec(pods: Object) -> Object:
    return {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pods}


def _map_selector_spec(pods: Object) -> Object:
    return {"replicas": 2, "selector": {"app": "web"}, "template": pods}


def _daemon_set_spec(pods: Object) -> Object:
    return {"selector": {"matchLabels": {"app": "web"}}, "template": pods}


def _job_spec(pods: Object) -> Object:
    return {"parallelism": 2, "completions": 2, "template": _never_restarting(pods)}


def _cron_job_spec(pods: Object) -> Object:
    return {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": _job_spec(pods)}}


def _never_restarting(pods: Object) -> Object:
    return {**pods, "spec": {**pods["spec"], "restartPolicy": "Never"}}


@pytest.mark.parametrize(
    ("endpoint", "spec", "replicas"),
    [
        pytest.param(DEPLOYMENTS, _replicated_spec, 2, id="Deployment"),
        pytest.param(STATEFUL_SETS, _replicated_spec, 2, id="StatefulSet"),
        pytest.param(DAEMON_SETS, _daemon_set_spec, _NODES, id="DaemonSet"),
        pytest.param(REPLICA_SETS, _replicated_spec, 2, id="ReplicaSet"),
        pytest.param(REPLICATION_CONTROLLERS, _map_selector_spec, 2, id="ReplicationController"),
        pytest.param(JOBS, _job_spec, 2, id="Job"),
        pytest.param(CRON_JOBS, _cron_job_spec, 2, id="CronJob"),
    ],
)
async def test_a_target_gets_a_recommendation_from_its_pods_usage(
    case: Case, endpoint: _Pods, spec: Callable[[Object], Object], replicas: int
) -> None:
    pods = template("web", usage=_BUSY)
    made = await case.create(endpoint, {"metadata": {"name": "web"}, "spec": spec(pods)})
    if endpoint is CRON_JOBS:  # as `kubectl create job --from` does
        await case.create(JOBS, _owned("today", "batch/v1", "CronJob", made, _job_spec(pods)))
    await case.wait_until_measured("web", replicas=replicas)
    await _assert_recommended(case, _target(endpoint, "web"))


async def test_a_custom_resource_with_a_scale_gets_a_recommendation(case: Case) -> None:
    async with _robots(case) as endpoint:
        made = await _robot(case, endpoint, selector="app=web")
        for name in ("left", "right"):
            await case.create(PODS, _pod(name, endpoint, made, usage=_BUSY))
        await case.wait_until_measured("web")
        await _assert_recommended(case, _target(endpoint, "web"))


async def test_pods_of_a_custom_resource_with_a_scale_are_resized_and_patched(case: Case) -> None:
    async with _robots(case) as endpoint:
        made = await _robot(case, endpoint, selector="app=web")
        for name in ("left", "right"):
            await case.create(PODS, _pod(name, endpoint, made))
        await case.wait_until_measured("web")
        await case.create_vpa("web", "InPlace", targetRef=_target(endpoint, "web"))
        await case.wait_until_applied("web")
        assert not case.evictions()
        created = await case.create(PODS, _pod("late", endpoint, made))
        assert requests(created) == await case.target("web")


# Unsupported targets: the condition ConfigUnsupported has the reason and the right target


async def test_a_replica_set_of_a_deployment_is_unsupported_and_the_condition_names_the_deployment(
    case: Case,
) -> None:
    await case.deploy("web")
    (pod, *_) = await case.wait_until_measured("web")
    replica_set = pod["metadata"]["ownerReferences"][0]["name"]
    await case.create_vpa("web", "Off", targetRef=_target(REPLICA_SETS, replica_set))
    message = await _unsupported_message(case)
    assert message == (
        f"The target apps/v1.ReplicaSet/{replica_set} has a parent controller {_NOT_TOPMOST}: "
        "apps/v1.Deployment/web"
    )
    await case.edit(VPAS, "web", targetRef=_target(DEPLOYMENTS, "web"))
    await case.wait_for_conditions("web", ConfigUnsupported=None, RecommendationProvided="True")


async def test_a_job_of_a_cron_job_is_unsupported_and_the_condition_names_the_cron_job(
    case: Case,
) -> None:
    pods = template("web")
    spec = {**_cron_job_spec(pods), "suspend": True}
    made = await case.create(CRON_JOBS, {"metadata": {"name": "nightly"}, "spec": spec})
    await case.create(JOBS, _owned("today", "batch/v1", "CronJob", made, _job_spec(pods)))
    await case.create_vpa("web", "Off", targetRef=_target(JOBS, "today"))
    message = await _unsupported_message(case)
    assert message == (
        f"The target batch/v1.Job/today has a parent controller {_NOT_TOPMOST}: "
        "batch/v1.CronJob/nightly"
    )


async def test_a_deployment_of_a_custom_resource_with_a_scale_is_unsupported(
    case: Case,
) -> None:
    async with _robots(case) as endpoint:
        made = await _robot(case, endpoint, selector="app=web")
        spec = _replicated_spec(template("web"))
        await case.create(DEPLOYMENTS, _owned("web", endpoint.api_version, "Robot", made, spec))
        await case.create_vpa("web", "Off")
        message = await _unsupported_message(case)
        assert message == (
            f"The target apps/v1.Deployment/web has a parent controller {_NOT_TOPMOST}: "
            f"{endpoint.api_version}.Robot/web"
        )


async def test_a_deployment_of_a_custom_resource_without_a_scale_is_supported(case: Case) -> None:
    async with _robots(case, scale=False) as endpoint:
        made = await _robot(case, endpoint)
        spec = _replicated_spec(template("web", usage=_BUSY))
        await case.create(DEPLOYMENTS, _owned("web", endpoint.api_version, "Robot", made, spec))
        await case.wait_until_measured("web")
        await _assert_recommended(case, _target(DEPLOYMENTS, "web"))


async def test_a_custom_resource_without_a_scale_is_unsupported(case: Case) -> None:
    async with _robots(case, scale=False) as endpoint:
        await _robot(case, endpoint)
        await case.create_vpa("web", "Off", targetRef=_target(endpoint, "web"))
        message = await _unsupported_message(case)
    assert message == _unhandled_message(
        endpoint, "the server could not find the requested resource"
    )


async def test_a_custom_resource_without_a_selector_is_unsupported(case: Case) -> None:
    async with _robots(case) as endpoint:
        await _robot(case, endpoint)
        await case.create_vpa("web", "Off", targetRef=_target(endpoint, "web"))
        message = await _unsupported_message(case)
    why = f"resource {case.namespace}/web has an empty selector for scale sub-resource"
    assert message == _unhandled_message(endpoint, why)


async def test_an_unknown_kind_is_unsupported(case: Case) -> None:
    endpoint = robots(f"{case.namespace}.example")
    await case.create_vpa("web", "Off", targetRef=_target(endpoint, "web"))
    message = await _unsupported_message(case)
    assert message == _unhandled_message(
        endpoint, f'no matches for kind "Robot" in group "{endpoint.group}"'
    )


async def test_a_missing_deployment_is_unsupported_until_it_is_created(case: Case) -> None:
    await case.create_vpa("web", "Off")
    message = await _unsupported_message(case)
    where = f"{case.namespace}/web"
    assert message == f"Cannot read targetRef. Reason: Deployment {where} does not exist"
    await case.deploy("web", usage=_BUSY)
    await case.wait_for_conditions("web", ConfigUnsupported=None, NoPodsMatched=None)


async def _assert_recommended(case: Case, target: Object) -> None:
    await case.create_vpa("web", "Off", targetRef=target)
    found = await case.wait_for_recommendation("web")
    assert 600 < parse_milli(found["cpu"]) < 800, "the end of a bucket, and 15 % on top"
    assert 400 < parse_value(found["memory"]) / 2**20 < 500
    conditions = await case.conditions("web")
    assert conditions.pop("LowConfidence", ("True",))[0] == "True"
    assert conditions == {"RecommendationProvided": ("True", "")}
    printed = await case.cluster.kubectl("get", "vpa", "web", namespace=case.namespace)
    assert "True" in printed.splitlines()[1].split()  # PROVIDED


async def _unsupported_message(case: Case) -> str:
    """Wait for the condition ConfigUnsupported of the VPA ``web``; return its message."""
    conditions = await case.wait_for_conditions(
        "web", ConfigUnsupported="True", NoPodsMatched="True", RecommendationProvided="False"
    )
    return conditions["ConfigUnsupported"][1]


def _unhandled_message(endpoint: Endpoint[Any], why: str) -> str:
    target = f"{endpoint.api_version} / {endpoint.kind} / web"
    return f"Cannot read targetRef. Reason: unhandled targetRef {target}, last error {why}"


def _target(endpoint: Endpoint[Any], name: str) -> Object:
    return {"apiVersion": endpoint.api_version, "kind": endpoint.kind, "name": name}


@asynccontextmanager
async def _robots(case: Case, *, scale: bool = True) -> AsyncIterator[Endpoint[Object]]:
    """Define a custom kind for one case."""
    client, group = case.cluster.client, f"{case.namespace}.example"
    definition = await define_robots(client, group, scale=scale)
    try:
        yield robots(group)
    finally:
        await client.delete(DEFINITIONS, definition)


async def _robot(case: Case, endpoint: Endpoint[Object], **spec: Any) -> Object:
    """Wait until the new kind is served, and create the robot ``web``."""

    async def made() -> Object:
        return await case.create(endpoint, robot("web", endpoint.group, replicas=2, **spec))

    return await case.cluster.wait_for(made, "the new kind is served")


def _owned(name: str, api_version: str, kind: str, owner: Object, spec: Object) -> Object:
    """Return a workload, or a pod, with a controlling owner."""
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
