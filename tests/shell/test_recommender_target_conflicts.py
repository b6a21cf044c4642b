"""Two writers of the same checkpoints, and restarts: whole cycles of a recommender."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from common.api.workloads import Deployment
from common.kube.watch import WatchProtocol
from fake_api import FakeApi, Reply, listing, named, status, watch_line
from recommender.checkpoints.codec import LONGEST_LAG
from recommender.checkpoints.window_annotation import ANNOTATION
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    NEW_CHECKPOINT,
    START,
    checkpoint,
    checkpoint_of,
    checkpoint_writes,
    deployment,
    pod,
    prepare,
    running,
    target,
    usage,
    written,
)

AGAIN = CHECKPOINTS.replace("verticalpod", "namespaces/shop/verticalpod", 1)
WEB = checkpoint_of("web-app")
MINUTE = timedelta(minutes=1)


def version(found: Any, number: int) -> Any:
    found["metadata"]["resourceVersion"] = str(number)
    return found


async def test_a_write_of_another_recommender_is_merged_and_the_sum_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="recommender.checkpoints.writing")
    async with FakeApi() as api:
        prepare(api)
        api.on(NEW_CHECKPOINT, status(409, "AlreadyExists"))
        api.on(AGAIN, listing(version(checkpoint(), 7)))
        async with running(api) as process:
            await process.cycle()
            assert written(api, WEB)["totalSamplesCount"] == 1441, "in the same cycle"
            assert api.requests[-1].json()[2]["value"] == "7"
            api.on(METRICS, listing(usage(at=process.clock.forward(LONGEST_LAG))))
            await process.cycle()
            assert target(api) == {"cpu": "813m", "memory": "813749082"}
            for _ in range(3):  # the other writer writes again
                api.on(WEB, status(409, "Conflict"), Reply(body=version(named("web-app"), 9)))
                api.on(METRICS, listing(usage(at=process.clock.forward(LONGEST_LAG))))
                await process.cycle()
            counts = [one["totalSamplesCount"] for one in checkpoint_writes(api)]
            assert counts[-1] == max(counts)
            assert caplog.text.count("another recommender writes checkpoints, too") == 1
            name = "vpa_recommender_checkpoint_conflicts_total"
            assert (process.sample(name, reason="foreign") or 0) >= 2
            for _ in range(4):
                api.on(METRICS, listing(usage(at=process.clock.forward(LONGEST_LAG))))
                await process.cycle()
            assert caplog.text.count("no other recommender writes checkpoints any more") == 1


async def test_a_checkpoint_that_cannot_be_read_again_waits_for_the_next_cycle() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(NEW_CHECKPOINT, status(409, "AlreadyExists"))
        api.on(AGAIN, status(503, "ServiceUnavailable"))
        async with running(api) as process:
            await process.cycle()
            assert WEB not in api.routes
            api.on(AGAIN, listing(version(checkpoint(), 7)))
            await process.cycle()
            assert written(api, WEB)["totalSamplesCount"] == 1441


async def test_a_slow_response_delays_no_other_container() -> None:
    """Containers of one VPA are written concurrently."""
    both: list[Any] = [{"name": name, "resources": {}} for name in ("a", "b")]
    slow = {**pod(), "spec": {"containers": both}}
    async with FakeApi() as api:
        prepare(api, pods=[slow])
        api.on(METRICS, listing())
        api.on(CHECKPOINTS, listing(checkpoint("web", "a"), checkpoint("web", "b")))
        one = usage(at=START + MINUTE)
        one["containers"] = [{**one["containers"][0], "name": name} for name in ("a", "b")]
        api.on(METRICS, listing(one))
        api.on(checkpoint_of("web-a"), Reply(chunks=[b"{"], hold=True))
        api.on(checkpoint_of("web-b"), Reply(body=named("web-b")))
        async with running(api) as process, asyncio.TaskGroup() as group:
            process.clock.forward(LONGEST_LAG)
            cycle = group.create_task(process.cycle())
            await api.asked(checkpoint_of("web-a"))
            await api.asked(checkpoint_of("web-b"))
            assert not cycle.done()
            cycle.cancel()


async def first_checkpoint(memory: str) -> tuple[Any, dict[str, str]]:
    """Return the first checkpoint of a container with this usage, and its target."""
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing(usage(cpu="100m", memory=memory)))
        async with running(api) as process:
            await process.cycle()
        created = (await api.asked(NEW_CHECKPOINT)).json()
        stored = named("web-app", spec=created["spec"], status=created["status"])
        stored["metadata"]["annotations"] = created["metadata"]["annotations"]
        return stored, target(api)


@pytest.mark.parametrize("carried", [True, False])
async def test_a_peak_of_today_is_kept_across_a_restart_q4(*, carried: bool) -> None:
    stored, high = await first_checkpoint("900Mi")
    assert "bucketWeights" not in stored["status"]["memoryHistogram"]
    if not carried:  # as the reference writes it
        del stored["metadata"]["annotations"][ANNOTATION]
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(stored))
        api.on(METRICS, listing(usage(at=START + MINUTE, cpu="100m", memory="100Mi")))
        async with running(api) as process:
            process.clock.forward(MINUTE)
            await process.cycle()
        assert target(api)["memory"] == (high["memory"] if carried else "250Mi")


async def test_windows_wait_for_the_target_without_a_write() -> None:
    """Its pods may be unknown, so their windows must not be dropped."""
    stored, high = await first_checkpoint("900Mi")
    async with FakeApi() as api:
        prepare(api, deployments=[])
        api.on(CHECKPOINTS, listing(stored))
        api.on(METRICS, listing())
        async with running(api) as process:
            process.clock.forward(LONGEST_LAG)
            await process.cycle()
            await process.cycle()
            assert not checkpoint_writes(api)
            line = watch_line("ADDED", version(deployment(), 11))
            process.informers._controllers.deployments._apply(next(protocol().feed(line)))
            await process.cycle()
        assert target(api)["memory"] == high["memory"]


def protocol() -> WatchProtocol[Deployment]:
    return WatchProtocol(Deployment, resource_version="10")
