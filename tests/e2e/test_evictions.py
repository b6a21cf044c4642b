"""The updater's promises about pods that it replaces."""

import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from common.errors import KubeError
from common.kube.endpoints import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS
from e2e.installation import ADMISSION, UPDATER
from e2e.pods import LARGE, is_ready, requests, template
from e2e.world import BUDGETS, BY_HAND, Case
from workloads import refusing_webhook

_SMALL = {"cpu": "50m", "memory": "64Mi"}
_LARGER = {"app": {"cpu": "100m", "memory": "64Mi"}}


@pytest.mark.concurrent
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


@pytest.mark.concurrent
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


@contextlib.asynccontextmanager
async def no_new_pods(case: Case) -> AsyncIterator[None]:
    """A third party's webhook without a server refuses all new pods."""
    client, name = case.world.client, f"refuses-{case.namespace}"
    body = refusing_webhook(name, namespace=case.namespace)
    await client.create(MUTATING_WEBHOOKS.as_dicts(), body)
    pod = {"metadata": {"name": "tried"}, "spec": template("tried", requests=_SMALL)["spec"]}

    async def refused() -> bool:
        try:
            await client.create(PODS.as_dicts(), pod, namespace=case.namespace)
        except KubeError:
            return True
        await client.delete(PODS, "tried", namespace=case.namespace)
        return False

    try:
        await case.world.until(refused, "new pods are refused")
        yield
    finally:
        await client.delete(MUTATING_WEBHOOKS, name)


@pytest.mark.concurrent
@pytest.mark.timeout(400)
async def test_an_eviction_wave_with_a_rollout_restart_in_between_loses_three_pods(
    case: Case,
) -> None:
    """The ReplicaSet of the lost pods shrinks, and the next one can create none either."""
    world = case.world
    await case.deploy("web", replicas=8, requests=_SMALL)
    before = await case.ready("web", 8)
    async with no_new_pods(case):
        await case.autoscale("web", recommenders=BY_HAND)
        await case.advise("web", **_LARGER)

        async def three() -> bool:
            return len(case.evictions()) == 3

        await world.until(three, "three evictions")
        await world.kubectl("rollout", "restart", "deployment/web", namespace=case.namespace)

        async def decided() -> bool:
            return bool(await case.events("EvictionsSuspended")) or len(case.evictions()) > 3

        await world.until(decided, "evictions are suspended", seconds=200)
        await world.passes(UPDATER, 5)
        assert len(case.evictions()) == 3
        assert len(await case.uids("web") & before) == 5
        (event,) = await case.events("EvictionsSuspended")
        assert "was not created within two minutes" in event["message"]
    pods = await case.fits("web", 8, seconds=100)
    assert all(requests(pod)["cpu"] == "100m" for pod in pods)


@pytest.mark.concurrent
@pytest.mark.timeout(300)
async def test_a_rollout_stuck_at_six_old_and_four_new_pods_of_eight_loses_none(
    case: Case,
) -> None:
    world = case.world
    await case.deploy("web", replicas=8, requests=_SMALL)
    await case.ready("web", 8)
    never = template("web", requests=_SMALL, annotations={"kubelet.sandbox/ready-delay": "never"})
    await case.edit(DEPLOYMENTS, "web", template=never)

    async def stuck() -> set[str]:
        pods = await case.pods("web")
        old = {pod["metadata"]["uid"] for pod in pods if is_ready(pod)}
        return old if (len(old), len(pods)) == (6, 10) else set()

    old = await world.until(stuck, "six old pods, and four new ones that are not ready")
    await case.autoscale("web", recommenders=BY_HAND)
    await case.advise("web", **_LARGER)

    async def held_back() -> float:
        labels = {"decision": "wait", "reason": "rollout_in_progress"}
        return await world.total(UPDATER, "vpa_updater_candidate_pods", **labels)

    await world.until(held_back, "the updater says that a rollout holds evictions back")
    await world.passes(UPDATER, 20)
    assert old <= await case.uids("web")

    soon = template("web", requests=_SMALL, annotations={"kubelet.sandbox/ready-delay": "1s"})
    await case.edit(DEPLOYMENTS, "web", template=soon)
    await case.fits("web", 8, seconds=100)
