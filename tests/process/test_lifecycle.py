"""Three processes right-size pods; killed and restarted they repeat nothing; asked they go."""

from pathlib import Path

import pytest

from component import Process
from process_harness import AGENTS, World, repeated, world
from workloads import deploy

SMALL = {"cpu": "800m", "memory": "1Gi"}  # what `small` requests, and `LESS` is what it needs
LESS = {"cpu": "35m", "memory": "250Mi"}
LARGE = {"cpu": "100m", "memory": "128Mi"}
MORE = {"cpu": "716m", "memory": "511772986"}


@pytest.mark.timeout(120)
async def test_killed_in_the_middle_of_things_they_go_on_and_repeat_nothing(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it:
        admission = await it.start("admission")
        recommender = await it.start("recommender")
        await deploy(it.client, "small", replicas=3, requests=SMALL)
        await deploy(it.client, "large", replicas=2, requests=LARGE, mode="InPlaceOrRecreate")
        # The first window of metrics is not a whole one.
        await it.until(lambda: it.target("small") == LESS and it.target("large") == MORE)
        first = {pod.metadata.name for pod in it.pods_of("small")}
        updater = await it.start("updater")
        await it.until(lambda: bool(it.evicted("small")) and bool(it.resized("large")))
        assert len(it.evicted("small")) < 3, "too late: everything is done"
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

        await nothing_is_forgotten(it, recommender)
        await the_webhook_comes_back(it, admission)

        processes = [one for one in it.running if one.process.returncode is None]
        for process in processes:
            code, seconds = await process.stop()
            assert (process.name, code, seconds < 5) == (process.name, 0, True)
        for process in it.running:
            assert process.said("Traceback") == [], process.name
        for component in AGENTS:
            assert it.undeclared(component) == set()


async def the_webhook_comes_back(it: World, admission: Process) -> None:
    """On another port; the configuration that is there is changed, never deleted."""
    await admission.kill()
    await it.start("admission")
    await it.until(lambda: bool(it.calls("mutatingwebhookconfigurations", "patch")))
    await it.scale("small", 4)
    await it.until(lambda: it.fits("small", 4))
    assert len(it.evicted("small")) == 3


async def nothing_is_forgotten(it: World, recommender: Process) -> None:
    """Without pods there are no samples: what is recommended then was in the checkpoints."""
    before = it.target("large")
    await it.scale("large", 0)
    await it.until(lambda: not it.pods_of("large"))
    await it.passes(recommender)  # memory peaks are saved once they are final
    await recommender.kill()
    restarted = await it.start("recommender")
    await it.until(lambda: bool(restarted.said("history loaded")))
    await it.passes(restarted)
    assert it.target("large") == before
