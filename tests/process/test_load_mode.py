"""The sandbox's load mode as a process, with an updater or a recommender."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from common.kube import config
from common.kube.client import KubeClient
from component import LOOPBACK, Process, start_process
from demo.processes import free_port
from fake_api import TIMEOUT

VPAS = 200
PODS = 2 * VPAS


async def wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(TIMEOUT):
        while not await holds():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class LoadMode:
    """A running load mode, and a client for its report."""

    client: KubeClient
    kubeconfig: Path

    async def report(self) -> Any:
        return msgspec.json.decode(await self.client.request("GET", "/load/report"))

    async def count(self, verb: str, resource: str) -> int:
        """Return the number of successful calls."""
        return sum(
            each["count"]
            for each in (await self.report())["calls"]
            if (each["verb"], each["resource"]) == (verb, resource) and each["code"] < 300
        )

    async def wait_for_calls(self, verb: str, resource: str, count: int) -> None:
        """Wait until there are this many successful calls."""

        async def reached() -> bool:
            return await self.count(verb, resource) >= count

        await wait_until(reached)

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
async def load_mode(folder: Path, *flags: str) -> AsyncIterator[LoadMode]:
    kubeconfig = folder / "kubeconfig"
    size = (f"--vpas={VPAS}", f"--pods-per-vpa={PODS // VPAS}", "--group-size=2")
    command = ["sandbox.load", f"--kubeconfig={kubeconfig}", *size, *flags]
    process = Process("load", await start_process(command), 0)
    async with asyncio.TaskGroup() as group:
        group.create_task(process.read_log())
        try:

            async def started() -> bool:
                return kubeconfig.exists()

            await wait_until(started)
            connection = await config.load(str(kubeconfig))
            async with KubeClient(connection, user_agent="test", qps=1000, burst=1000) as client:
                yield LoadMode(client, kubeconfig)
        finally:
            await process.stop()
    assert not process.said("Traceback")


async def wait_for_cycles(process: Process, count: int) -> None:
    async def reached() -> bool:
        return await process.cycles() >= count

    await wait_until(reached)


def warnings(process: Process) -> list[str]:
    """Return warnings, errors and tracebacks: all lines except klog's informational ones.

    On a busy machine a pass takes longer than its interval, and the next one continues.
    """
    return [line for line in process.log if line[0] != "I" and "pass ended early" not in line]


UPDATER = ("--updater-interval=4s", "--use-admission-controller-status=false")


async def test_the_updater_evicts_one_pod_per_group_and_pass_until_all_are_updated(
    tmp_path: Path,
) -> None:
    async with load_mode(tmp_path) as it, it.component("updater", *UPDATER) as updater:
        await it.wait_for_calls("create", "pods/eviction", PODS)
        await wait_for_cycles(updater, await updater.cycles() + 2)
        report = await it.report()
        assert await it.count("create", "pods/eviction") == PODS, "each pod once"
        assert report["concurrentWrites"]["peakOfOneGroup"] == 1
        assert not warnings(updater)


async def test_the_updater_resizes_and_annotates_pods_until_all_are_updated(tmp_path: Path) -> None:
    mode = "--update-mode=InPlaceOrRecreate"
    async with (
        load_mode(tmp_path, mode, "--tls=false") as it,
        it.component("updater", *UPDATER) as updater,
    ):
        await it.wait_for_calls("patch", "pods", PODS)
        await wait_for_cycles(updater, await updater.cycles() + 2)
        assert await it.count("patch", "pods/resize") == PODS
        assert await it.count("patch", "pods") == PODS
        assert await it.count("create", "pods/eviction") == 0
        assert not warnings(updater)


async def test_the_updater_does_not_change_right_sized_pods(tmp_path: Path) -> None:
    async with (
        load_mode(tmp_path, "--right-sized") as it,
        it.component("updater", *UPDATER) as updater,
    ):
        await wait_for_cycles(updater, 2)
        verbs = {each["verb"] for each in (await it.report())["calls"]}
        assert verbs <= {"get", "list", "watch"}
        assert not warnings(updater)


async def test_the_recommender_publishes_recommendations_and_stores_checkpoints(
    tmp_path: Path,
) -> None:
    async with (
        load_mode(tmp_path, "--checkpoints=false") as it,
        it.component("recommender", "--recommender-interval=2s") as recommender,
    ):
        await wait_for_cycles(recommender, 2)
        assert await it.count("create", "verticalpodautoscalercheckpoints") >= 2 * VPAS
        assert await it.count("patch", "verticalpodautoscalers/status") >= VPAS
        assert await it.count("list", "podmetrics") >= 2
        assert not warnings(recommender)


async def test_the_recommender_loads_checkpoints_and_delays_those_of_long_histories(
    tmp_path: Path,
) -> None:
    """X81: seconds of usage change no percentile of many days, so few are written again."""
    async with (
        load_mode(tmp_path, "--checkpoints=true") as it,
        it.component("recommender", "--recommender-interval=2s") as recommender,
    ):
        await wait_for_cycles(recommender, 2)
        assert await it.count("patch", "verticalpodautoscalers/status") >= VPAS
        assert await it.count("patch", "verticalpodautoscalercheckpoints") < VPAS
        assert await it.count("create", "verticalpodautoscalercheckpoints") == 0
        assert not warnings(recommender)


async def test_two_replicas_share_a_lease(tmp_path: Path) -> None:
    elect = ("--leader-elect", "--leader-elect-resource-name=load")
    async with (
        load_mode(tmp_path, "--right-sized") as it,
        it.component("updater", *UPDATER, *elect) as first,
    ):
        await first.logged("became the leader")
        async with it.component("updater", *UPDATER, *elect) as second:
            await second.logged("another replica leads")
            await wait_for_cycles(first, 1)
            assert await second.cycles() == 0
