"""The load mode as a process: updater and recommender work against it as against a cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from common.kube import config
from common.kube.client import KubeClient
from component import LOOPBACK, Process, free_port, start_process

VPAS = 200
PODS = 2 * VPAS
PATIENCE = 40  # seconds

pytestmark = pytest.mark.timeout(120)  # passes come every few seconds


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what only asking tells."""
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class World:
    """A load mode that answers, and who asks what it was asked."""

    client: KubeClient
    kubeconfig: Path

    async def report(self) -> Any:
        return msgspec.json.decode(await self.client.request("GET", "/load/report"))

    async def count(self, verb: str, resource: str) -> int:
        """How many calls were carried out."""
        return sum(
            each["count"]
            for each in (await self.report())["calls"]
            if (each["verb"], each["resource"]) == (verb, resource) and each["code"] < 300
        )

    async def counted(self, verb: str, resource: str, count: int) -> None:
        """Wait until so many calls have been carried out."""

        async def enough() -> bool:
            return await self.count(verb, resource) >= count

        await until(enough)

    @asynccontextmanager
    async def component(self, name: str, *flags: str) -> AsyncIterator[Process]:
        ops = free_port()
        own = (f"--kubeconfig={self.kubeconfig}", f"--address={LOOPBACK}:{ops}")
        limits = ("--kube-api-qps=10000", "--kube-api-burst=10000")
        process = Process(name, await start_process([name, *own, *limits, *flags]), ops)
        async with asyncio.TaskGroup() as group:
            group.create_task(process.read_log())
            try:
                await process.logged("listening")
                yield process
            finally:
                await process.kill()


@asynccontextmanager
async def world(folder: Path, *flags: str) -> AsyncIterator[World]:
    kubeconfig = folder / "kubeconfig"
    size = (f"--vpas={VPAS}", f"--pods-per-vpa={PODS // VPAS}", "--group-size=2")
    command = ["sandbox.load", f"--kubeconfig={kubeconfig}", *size, *flags]
    process = Process("load", await start_process(command), 0)
    async with asyncio.TaskGroup() as group:
        group.create_task(process.read_log())
        try:

            async def started() -> bool:
                return kubeconfig.exists()

            await until(started)
            connection = await config.load(str(kubeconfig))
            async with KubeClient(connection, user_agent="test", qps=1000, burst=1000) as client:
                yield World(client, kubeconfig)
        finally:
            await process.stop()
    assert not process.said("Traceback")


async def cycles(process: Process, count: int) -> None:
    async def enough() -> bool:
        return await process.cycles() >= count

    await until(enough)


def complaints(process: Process) -> list[str]:
    """Warnings, errors and tracebacks: all lines but klog's informative ones."""
    return [line for line in process.log if not line.startswith("I")]


UPDATER = ("--updater-interval=4s", "--use-admission-controller-status=false")


async def test_the_updater_evicts_one_of_each_group_in_a_pass_until_all_are_right(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it, it.component("updater", *UPDATER) as updater:
        await it.counted("create", "pods/eviction", PODS)
        await cycles(updater, await updater.cycles() + 2)
        told = await it.report()
        assert await it.count("create", "pods/eviction") == PODS, "and not one of them twice"
        assert told["concurrentWrites"]["peakOfOneGroup"] == 1
        assert not complaints(updater)


async def test_the_updater_resizes_and_marks_pods_until_all_are_right(tmp_path: Path) -> None:
    mode = "--update-mode=InPlaceOrRecreate"
    async with (
        world(tmp_path, mode, "--tls=false") as it,
        it.component("updater", *UPDATER) as updater,
    ):
        await it.counted("patch", "pods", PODS)
        await cycles(updater, await updater.cycles() + 2)
        assert await it.count("patch", "pods/resize") == PODS
        assert await it.count("patch", "pods") == PODS
        assert await it.count("create", "pods/eviction") == 0
        assert not complaints(updater)


async def test_the_updater_has_nothing_to_do_where_pods_are_right_sized(tmp_path: Path) -> None:
    async with world(tmp_path, "--right-sized") as it, it.component("updater", *UPDATER) as updater:
        await cycles(updater, 2)
        verbs = {each["verb"] for each in (await it.report())["calls"]}
        assert verbs <= {"get", "list", "watch"}
        assert not complaints(updater)


async def test_the_recommender_publishes_and_keeps_what_it_learnt(tmp_path: Path) -> None:
    async with (
        world(tmp_path, "--checkpoints=false") as it,
        it.component("recommender", "--recommender-interval=2s") as recommender,
    ):
        await cycles(recommender, 2)
        assert await it.count("create", "verticalpodautoscalercheckpoints") >= 2 * VPAS
        assert await it.count("patch", "verticalpodautoscalers/status") >= VPAS
        assert await it.count("list", "podmetrics") >= 2
        assert not complaints(recommender)


async def test_the_recommender_goes_on_from_checkpoints_and_lets_long_histories_wait(
    tmp_path: Path,
) -> None:
    """X81: seconds of usage move no percentile of many days, so hardly any is written again."""
    async with (
        world(tmp_path, "--checkpoints=true") as it,
        it.component("recommender", "--recommender-interval=2s") as recommender,
    ):
        await cycles(recommender, 2)
        assert await it.count("patch", "verticalpodautoscalers/status") >= VPAS
        assert await it.count("patch", "verticalpodautoscalercheckpoints") < VPAS
        assert await it.count("create", "verticalpodautoscalercheckpoints") == 0
        assert not complaints(recommender)


async def test_two_replicas_share_a_lease(tmp_path: Path) -> None:
    elect = ("--leader-elect", "--leader-elect-resource-name=load")
    async with (
        world(tmp_path, "--right-sized") as it,
        it.component("updater", *UPDATER, *elect) as first,
    ):
        await first.logged("became the leader")
        async with it.component("updater", *UPDATER, *elect) as second:
            await second.logged("another replica leads")
            await cycles(first, 1)
            assert await second.cycles() == 0
