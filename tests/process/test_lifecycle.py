"""The three processes: they right-size pods, repeat nothing after a kill, and end on SIGTERM."""

from pathlib import Path

from component import Process
from process_harness import AGENTS, World, repeated, world
from workloads import deploy

SMALL = {"cpu": "800m", "memory": "1Gi"}  # requests of the workload `small`
SMALL_TARGET = {"cpu": "35m", "memory": "250Mi"}
LARGE = {"cpu": "100m", "memory": "128Mi"}
LARGE_TARGET = {"cpu": "716m", "memory": "511772986"}


async def test_killed_components_continue_without_repeated_calls(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it:
        admission = await it.start("admission")
        recommender = await it.start("recommender")
        await deploy(it.client, "small", replicas=3, requests=SMALL)
        await deploy(it.client, "large", replicas=2, requests=LARGE, mode="InPlaceOrRecreate")
        # The first window of metrics is shorter than the others.
        await it.until(
            lambda: it.target("small") == SMALL_TARGET and it.target("large") == LARGE_TARGET
        )
        first = {pod.metadata.name for pod in it.pods_of("small")}
        updater = await it.start("updater")
        await it.until(lambda: bool(it.evicted("small")) and bool(it.resized("large")))
        assert len(it.evicted("small")) < 3, "all pods were evicted before the kill"
        await recommender.kill()
        await updater.kill()

        recommender, updater = await it.start("recommender"), await it.start("updater")
        await it.until(lambda: it.fits("small", 3) and it.fits("large", 2))
        assert set(it.evicted("small")) == first
        await it.passes(recommender, updater)
        assert repeated(it.evicted()) == []
        assert repeated(it.resized()) == []
        assert it.evicted("large") == []
        for process in (recommender, updater):
            assert await process.get("/readyz") == (200, "OK"), process.name

        await check_history(it, recommender)
        await check_webhook_restart(it, admission)

        processes = [one for one in it.running if one.process.returncode is None]
        for process in processes:
            code, seconds = await process.stop()
            assert (process.name, code, seconds < 5) == (process.name, 0, True)
        for process in it.running:
            assert process.said("Traceback") == [], process.name
        for component in AGENTS:
            assert it.undeclared(component) == set()


async def check_webhook_restart(it: World, admission: Process) -> None:
    """Check that a webhook on another port patches the existing configuration."""
    await admission.kill()
    await it.start("admission")
    await it.until(lambda: bool(it.calls("mutatingwebhookconfigurations", "patch")))
    await it.scale("small", 4)
    await it.until(lambda: it.fits("small", 4))
    assert len(it.evicted("small")) == 3


async def check_history(it: World, recommender: Process) -> None:
    """Check that a restarted recommender has its history: without pods, from checkpoints only."""
    before = it.target("large")
    await it.scale("large", 0)
    await it.until(lambda: not it.pods_of("large"))
    await it.passes(recommender)  # memory peaks are stored when they are final
    await recommender.kill()
    restarted = await it.start("recommender")
    await it.until(lambda: bool(restarted.said("history loaded")))
    await it.passes(restarted)
    assert it.target("large") == before
