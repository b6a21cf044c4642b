"""An outage of the API server: no process ends, and none acts on outdated objects."""

import asyncio
from pathlib import Path

from common.kube.endpoints import VPAS
from component import Process
from process_harness import world
from workloads import NAMESPACE, deploy

OUTAGE_SECONDS = 30.0
RECOVERY_SECONDS = 75.0  # the longest backoff, and the time for resulting updates
OFF = {"updatePolicy": {"updateMode": "Off"}}
ON = {"updatePolicy": {"updateMode": "Recreate"}}


async def test_after_an_outage_of_half_a_minute_they_act_on_the_current_state(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it:
        processes = await it.start_all()
        recommender, updater, _ = processes
        # None is evicted before the outage: two need more replicas, the other is Off.
        for name, mode in (("stays", "Recreate"), ("moves", "Off"), ("goes", "Recreate")):
            await deploy(it.client, name, replicas=1, mode=mode)
        await it.until(lambda: all(it.target(name) for name in ("stays", "moves", "goes")))
        await it.passes(recommender, updater)
        assert it.evicted() == []

        await it.shut()
        await it.until(lambda: all(one.said("API server unreachable") for one in processes))
        since = asyncio.get_running_loop().time()
        # By its outdated caches the updater would evict pods of `stays` now.
        await it.edit("stays", **OFF)
        await it.scale("stays", 2)
        await it.edit("moves", **ON)
        await it.scale("moves", 2)
        await it.scale("goes", 2)
        await it.client.delete(VPAS, "goes", namespace=NAMESPACE)
        await it.until(lambda: all(len(it.pods_of(name)) == 2 for name in ("stays", "moves")))
        for one in processes:
            assert one.process.returncode is None
            assert await one.get("/health-check") == (200, "OK"), one.name
        await asyncio.sleep(since + OUTAGE_SECONDS - asyncio.get_running_loop().time())
        seen = len(it.cluster.audit())
        await it.open()

        await it.until(lambda: it.fits("moves", 2), seconds=RECOVERY_SECONDS)
        assert len(it.evicted("moves")) == 2
        assert it.evicted("stays") + it.evicted("goes") == []
        late = [call for call in it.cluster.audit()[seen:] if call.name.startswith("goes")]
        assert [call for call in late if call.user_agent.startswith("vpa-")] == []
        for one in processes:
            assert api_server_messages(one) == [
                "API server unreachable, trying again until it is back",
                "API server reachable again",
            ]
            assert one.said("Traceback") == []
            assert await one.get("/readyz") == (200, "OK"), one.name


def api_server_messages(process: Process) -> list[str]:
    """Return the messages of a process about the API server."""
    messages = [line.split("] ", 1)[1] for line in process.said("API server")]
    return [line.split(" server=", 1)[0] for line in messages if line.startswith("API server")]
