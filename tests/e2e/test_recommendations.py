"""The recommender's promises."""

from e2e.installation import RECOMMENDER
from e2e.world import Case, Object


async def test_a_recommendation_appears_for_what_pods_use(case: Case) -> None:
    await case.deploy("web", uses={"cpu": "600m", "memory": "400Mi"})
    await case.autoscale("web", "Off")
    target = await case.recommended("web")
    assert set(target) == {"cpu", "memory"}
    printed = await case.world.kubectl("get", "vpa", "web", namespace=case.namespace)
    assert "True" in printed.splitlines()[1].split()  # PROVIDED


async def test_mode_off_leaves_the_pods_alone(case: Case) -> None:
    await case.deploy("web")
    await case.autoscale("web", "Off")
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.recommended("web")
    await case.world.passes("vpa-updater", 8)  # longer than a young pod is spared
    assert await case.uids("web") == before
    assert not case.evictions() + case.resizes()


async def test_a_checkpoint_is_written_and_read_back_by_the_next_recommender(case: Case) -> None:
    world = case.world
    await case.deploy("web")
    await case.autoscale("web", "Off")

    async def has_samples() -> Object:
        found = await case.checkpoint("web")
        return found if found.get("totalSamplesCount", 0) > 0 else {}

    await world.until(has_samples, "a checkpoint with samples", seconds=100)
    async with world.installation.without(RECOMMENDER):
        before = await case.checkpoint("web")
    # The first pass of the new one writes, because it can't know when the old one has.

    async def written_again() -> Object:
        found = await case.checkpoint("web")
        return found if found["lastUpdateTime"] > before["lastUpdateTime"] else {}

    after = await world.until(written_again, "the new recommender writes", seconds=100)
    assert after["firstSampleStart"] == before["firstSampleStart"]
    assert after["totalSamplesCount"] >= before["totalSamplesCount"]
