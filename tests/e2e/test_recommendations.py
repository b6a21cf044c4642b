"""The recommender's promises."""

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, VPAS
from common.quantity import parse_milli, parse_value
from e2e.installation import RECOMMENDER
from e2e.pods import Object
from e2e.world import Case


@pytest.mark.abreast
async def test_a_recommendation_appears_for_what_pods_use(case: Case) -> None:
    await case.deploy("web", uses={"cpu": "600m", "memory": "400Mi"})
    await case.running("web")
    await case.autoscale("web", "Off")
    target = await case.recommended("web")
    assert 600 < parse_milli(target["cpu"]) < 800, "the end of a bucket, and 15 % on top"
    assert 400 < parse_value(target["memory"]) / 2**20 < 500
    printed = await case.world.kubectl("get", "vpa", "web", namespace=case.namespace)
    assert "True" in printed.splitlines()[1].split()  # PROVIDED


@pytest.mark.abreast
async def test_mode_off_leaves_the_pods_alone(case: Case) -> None:
    await case.deploy("web")
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "Off")
    await case.recommended("web")
    await case.world.passes("vpa-updater", 8)  # longer than a young pod is spared
    assert await case.uids("web") == before
    assert not case.evictions() + case.resizes()


async def test_a_checkpoint_is_written_and_read_back_by_the_next_recommender(case: Case) -> None:
    world = case.world
    await case.deploy("web")
    await case.running("web")
    await case.autoscale("web", "Off")

    async def has_samples() -> Object:
        found = await case.checkpoint("web")
        return found if found.get("totalSamplesCount", 0) > 0 else {}

    await world.until(has_samples, "a checkpoint with samples", seconds=100)
    async with world.installation.without(RECOMMENDER):
        before = await case.checkpoint("web")
        # Nothing but the checkpoint is left to know from.
        await case.edit(DEPLOYMENTS, "web", replicas=0)
        await case.running("web", replicas=0)
        await world.client.patch(
            VPAS.as_dicts(),
            "web",
            {"status": {"recommendation": None}},
            patch_type=PatchType.MERGE,
            namespace=case.namespace,
            subresource="status",
        )
        assert not await case.target("web")
    await case.recommended("web")
    await case.edit(DEPLOYMENTS, "web", replicas=2)  # there is something new to write

    async def written_again() -> Object:
        found = await case.checkpoint("web")
        return found if found["lastUpdateTime"] > before["lastUpdateTime"] else {}

    after = await world.until(written_again, "the new recommender writes", seconds=100)
    assert after["firstSampleStart"] == before["firstSampleStart"]
    assert after["totalSamplesCount"] > before["totalSamplesCount"]


@pytest.mark.abreast
async def test_a_checkpoint_goes_with_its_vpa(case: Case) -> None:
    await case.deploy("web")
    await case.running("web")
    await case.autoscale("web", "Off")
    await case.recommended("web")

    async def written() -> Object:
        return await case.checkpoint("web")

    async def collected() -> bool:
        return not await case.checkpoint("web")

    await case.world.until(written, "a checkpoint", seconds=100)
    await case.world.client.delete(VPAS, "web", namespace=case.namespace)
    await case.world.until(collected, "the checkpoint is collected")
