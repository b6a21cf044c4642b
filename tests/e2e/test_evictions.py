"""The updater's promises about pods that it replaces."""

import json

import pytest

from e2e.installation import ADMISSION, UPDATER
from e2e.pods import LARGE, is_ready, requests
from e2e.world import BUDGETS, BY_HAND, Case


@pytest.mark.abreast
async def test_pods_that_request_too_much_are_evicted_and_come_back_small(case: Case) -> None:
    await case.deploy("web", replicas=3, requests=LARGE)
    before = {pod["metadata"]["name"] for pod in await case.running("web", replicas=3)}
    await case.autoscale("web", "Recreate")
    pods = await case.fits("web", replicas=3)
    assert sorted(case.evictions()) == sorted(before), "each pod once"
    assert not case.resizes()
    assert all(requests(pod)["cpu"] != LARGE["cpu"] for pod in pods)
    events = await case.world.kubectl("get", "events", namespace=case.namespace)
    assert "EvictedByVPA" in events


@pytest.mark.abreast
async def test_an_eviction_respects_a_disruption_budget(case: Case) -> None:
    world = case.world
    await case.deploy("web", requests=LARGE)
    budget = {
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    await case.create(BUDGETS, budget)
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "Recreate")

    async def refused() -> list[str]:
        return case.evictions(code=429)

    await world.until(refused, "the budget refuses an eviction")
    await world.passes(UPDATER, 3)
    assert await case.uids("web") == before
    assert not case.evictions()
    await case.edit(BUDGETS, "web", minAvailable=1)
    await case.fits("web")
    assert not await case.uids("web") & before


async def test_nothing_is_evicted_while_the_webhook_is_not_alive(case: Case) -> None:
    """A pod that is evicted now would come back as large as it was."""
    world = case.world
    await case.deploy("web", requests=LARGE)
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}

    async def told() -> int:
        """How often the updater has said so, in all."""
        printed = await world.kubectl(
            "logs", f"deployment/{UPDATER}", "--tail=-1", namespace="kube-system"
        )
        return printed.count("no evictions, a replacement might not be patched")

    earlier = await told()
    async with world.installation.without(ADMISSION):

        async def held_back() -> bool:
            return await told() > earlier

        await world.until(held_back, "the updater says that the Lease is old")
        await case.autoscale("web", "Recreate")
        await case.recommended("web")
        await world.passes(UPDATER, 8)
        assert await case.uids("web") == before
    await case.fits("web")


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
async def test_an_oom_kill_costs_no_memory_and_one_update(case: Case, mode: str) -> None:
    """The recommendation is older than the kill at first. Not beside cases that count kills."""
    world, tight = case.world, {"cpu": "100m", "memory": "300Mi"}
    leak = {"from": "100Mi", "rate": "60Mi", "every": "1s", "after": "2s", "until": "400Mi"}
    memory = json.dumps({"runs": [{"leak": leak}, "100Mi"]})
    await case.autoscale(
        "web", updatePolicy={"updateMode": mode, "minReplicas": 1}, recommenders=BY_HAND
    )
    await case.deploy(
        "web", replicas=1, requests=tight, limits={"memory": "300Mi"}, uses={"memory": memory}
    )

    async def killed() -> set[str]:
        """Pods that run again."""
        return {
            pod["metadata"]["uid"]
            for pod in await case.pods("web")
            if is_ready(pod) and pod["status"]["containerStatuses"][0]["restartCount"]
        }

    before = await world.until(killed, "it was killed, and runs again")
    await case.advise("web", app={"cpu": "200m", "memory": "250Mi"})

    async def held() -> bool:
        reason = "oom_not_learnt_yet"
        return bool(await world.total(UPDATER, "vpa_updater_candidate_pods", reason=reason))

    await world.until(held, "the updater waits for the recommendation to rise")
    await world.passes(UPDATER, 4)
    (pod,) = await case.pods("web")
    assert pod["metadata"]["uid"] in before
    assert requests(pod) == tight | ({} if mode == "Recreate" else {"cpu": "200m"})
    assert not case.evictions()
    await case.advise("web", app={"cpu": "200m", "memory": "488Mi"})
    await case.fits("web", replicas=1)
    await world.passes(UPDATER, 4)
    assert len(case.evictions()) == (mode == "Recreate")
