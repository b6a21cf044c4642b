"""The start of a recommender, before its first cycle."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from common.kube import endpoints
from fake_api import TIMEOUT, FakeApi, Reply
from fixed_clock import FixedClock
from recommender.__main__ import assemble
from recommender.metrics import RecommenderMetrics
from recommender.run import Recommender
from recommender.settings import RecommenderSettings
from recommender.sources.informers import Informers
from recommender_harness import CHECKPOINTS, START, prepare

NEVER_ENDS = Reply(chunks=[b'{"metadata":'], hold=True)


@contextlib.asynccontextmanager
async def starting_recommender(api: FakeApi) -> AsyncIterator[tuple[Recommender, Informers]]:
    """Run a recommender whose caches are still being filled."""
    async with api.client() as client, asyncio.TaskGroup() as group:
        metrics = RecommenderMetrics()
        informers = Informers(client, namespace="", errors=metrics.object_errors)
        tasks = [group.create_task(_run(task)) for task in informers.background]
        yield assemble(RecommenderSettings(), informers, metrics, FixedClock(START)), informers
        for task in tasks:
            task.cancel()


async def _run(task: object) -> None:
    assert callable(task)
    await task()


async def test_history_is_read_while_pods_are_still_being_listed() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(f"GET {endpoints.PODS.collection()}", NEVER_ENDS)
        async with starting_recommender(api) as (recommender, informers), asyncio.timeout(TIMEOUT):
            await recommender.start()
            assert CHECKPOINTS in api.routes
            assert not informers.synced


async def test_history_is_not_read_before_its_vpas_have_been_listed() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(f"GET {endpoints.VPAS.collection()}", NEVER_ENDS)
        async with starting_recommender(api) as (recommender, informers), asyncio.timeout(TIMEOUT):
            starting = asyncio.ensure_future(recommender.start())
            await informers.pods.wait_synced()
            assert CHECKPOINTS not in api.routes
            starting.cancel()
