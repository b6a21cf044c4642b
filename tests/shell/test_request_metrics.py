"""The recommender's metrics of requests, of OOM kills after a downsize, and of its last cycle."""

from datetime import timedelta
from typing import Any

import pytest

from common.quantity import Quantity
from fake_api import FakeApi, until
from oom_deliveries import OomDeliveries, delivered, ended
from recommender_harness import (
    START,
    Running,
    deployment,
    pod,
    prepare,
    published,
    running,
    target,
    vpa,
)

MIB = 2**20
LAST_SUCCESS = "vpa_recommender_last_successful_cycle_timestamp_seconds"
OOMS = "vpa_recommender_oom_after_downsize_total"
OF_WEB = {"vpa_name": "web", "vpa_namespace": "shop"}


def with_template(**requests: str) -> Any:
    """Return the Deployment with these requests in its pod template."""
    found = deployment()
    container = {"name": "app", "resources": {"requests": requests}}
    found["spec"]["template"] = {"spec": {"containers": [container]}}
    return found


def balance(process: Running, part: str, resource: str) -> float | None:
    name = f"vpa_recommender_requests_{part}"
    return process.sample(name, vpa_namespace="shop", resource=resource)


async def test_requests_are_compared_with_the_target_and_the_pod_template() -> None:
    """The pod requests 50 MiB, and no CPU."""
    async with FakeApi() as api:
        prepare(api, deployments=[with_template(memory="80Mi", cpu="500m")])
        async with running(api) as process:
            await process.cycle()
            memory = Quantity.parse(target(api)["memory"]).value
            assert balance(process, "given_back", "memory") == 30 * MIB
            assert balance(process, "given_back", "cpu") == 0.5
            assert balance(process, "added", "memory") == 0
            assert balance(process, "above_target", "memory") == 0
            assert balance(process, "below_target", "memory") == memory - 50 * MIB


@pytest.mark.parametrize("on", [True, False])
async def test_the_figures_of_each_container_need_their_flag(*, on: bool) -> None:
    known = published(vpa(), cpu="250m", memory="64Mi")
    async with FakeApi() as api:
        pods = [pod("web-1"), pod("web-2")]
        pods[1]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "70Mi"
        prepare(api, verticalpodautoscalers=[known], pods=pods)
        async with running(api, container_metrics=on) as process:
            await process.cycle()

            def figure(name: str, resource: str) -> float | None:
                labels = {**OF_WEB, "container_name": "app", "resource": resource}
                return process.sample(f"vpa_recommender_container_{name}", **labels)

            assert figure("request", "memory") == (60 * MIB if on else None)  # the average
            for name in ("target", "lower_bound", "upper_bound", "uncapped_target"):
                assert figure(name, "cpu") == (0.25 if on else None)
                assert figure(name, "memory") == (64 * MIB if on else None)


@pytest.mark.parametrize(
    ("template", "count"),
    [
        pytest.param("60Mi", 1, id="killed with less than in the template"),
        pytest.param("50Mi", None, id="killed with as much"),
        pytest.param("40Mi", None, id="killed with more"),
    ],
)
async def test_oom_kills_after_a_downsize_are_counted(template: str, count: float | None) -> None:
    async with FakeApi() as api:
        prepare(api, deployments=[with_template(memory=template)])
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle()
            killed = delivered("web-1", state=ended("2026-01-02T12:00:30Z"))
            simulation.pod("MODIFIED", killed)
            await simulation.cycle()
            assert process.sample("vpa_recommender_oom_recorded_total") == 1
            assert process.sample(OOMS, **OF_WEB) == count
            simulation.vpa("DELETED", vpa())
            await simulation.cycle()
            assert process.sample(OOMS, **OF_WEB) is None


async def test_only_a_cycle_that_publishes_counts_as_successful() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            assert process.sample(LAST_SUCCESS) == 0
            await process.cycle()
            assert process.sample(LAST_SUCCESS) == START.timestamp()
            process.clock.forward(timedelta(minutes=1))
            await api.stop()
            await until(lambda: not process.informers.fresh)
            await process.cycle()
            assert process.sample(LAST_SUCCESS) == START.timestamp()
