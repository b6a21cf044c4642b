"""The updater evicts pods, and respects budgets, OOM kills and lost replacements."""

import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from common.errors import KubeError
from common.kube.endpoints import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS
from e2e.cluster import BUDGETS, OTHER_RECOMMENDER, Case
from e2e.installation import ADMISSION, UPDATER
from e2e.pods import LARGE, is_ready, requests, template
from workloads import refusing_webhook

_SMALL = {"cpu": "50m", "memory": "64Mi"}
_LARGER = {"app": {"cpu": "100m", "memory": "64Mi"}}


@pytest.mark.concurrent
async def test_pods_that_request_too_much_are_evicted_and_come_back_small(case: Case) -> None:
    await case.deploy("web", replicas=3, requests=LARGE)
    before = {pod["metadata"]["name"] for pod in await case.wait_until_measured("web", replicas=3)}
    await case.create_vpa("web", "Recreate")
    pods = await case.wait_until_applied("web", replicas=3)
    assert sorted(case.evictions()) == sorted(before), "each pod once"
    assert not case.resizes()
    assert all(requests(pod)["cpu"] != LARGE["cpu"] for pod in pods)
    events = await case.cluster.kubectl("get", "events", namespace=case.namespace)
    assert "EvictedByVPA" in events


@pytest.mark.concurrent
async def test_an_eviction_respects_a_disruption_budget(case: Case) -> None:
    cluster = case.cluster
    await case.deploy("web", requests=LARGE)
    budget = {
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    await case.create(BUDGETS, budget)
    before = {pod["metadata"]["uid"] for pod in await case.wait_until_measured("web")}
    await case.create_vpa("web", "Recreate")

    async def refused() -> list[str]:
        return case.evictions(code=429)

    await cluster.wait_for(refused, "the budget refuses an eviction")
    await cluster.wait_for_cycles(UPDATER, 3)
    assert await case.uids("web") == before
    assert not case.evictions()
    await case.edit(BUDGETS, "web", minAvailable=1)
    await case.wait_until_applied("web")
    assert not await case.uids("web") & before


async def test_nothing_is_evicted_while_the_webhook_is_not_alive(case: Case) -> None:
    """The replacement of a pod that is evicted meanwhile would not be patched."""
    cluster = case.cluster
    await case.deploy("web", requests=LARGE)
    before = {pod["metadata"]["uid"] for pod in await case.wait_until_measured("web")}

    async def logged() -> int:
        """Return how many times the updater has logged it."""
        printed = await cluster.kubectl(
            "logs", f"deployment/{UPDATER}", "--tail=-1", namespace="kube-system"
        )
        return printed.count("no evictions, a replacement might not be patched")

    earlier = await logged()
    async with cluster.installation.scaled_to_zero(ADMISSION):

        async def held_back() -> bool:
            return await logged() > earlier

        await cluster.wait_for(held_back, "the updater logs that the Lease has expired")
        await case.create_vpa("web", "Recreate")
        await case.wait_for_recommendation("web")
        await cluster.wait_for_cycles(UPDATER, 8)
        assert await case.uids("web") == before
    await case.wait_until_applied("web")


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
async def test_an_oom_kill_costs_no_memory_and_one_update(case: Case, mode: str) -> None:
    """The recommendation is older than the kill at first. Not concurrent: others count kills."""
    cluster, tight = case.cluster, {"cpu": "100m", "memory": "300Mi"}
    leak = {"from": "100Mi", "rate": "60Mi", "every": "1s", "after": "2s", "until": "400Mi"}
    memory = json.dumps({"runs": [{"leak": leak}, "100Mi"]})
    await case.create_vpa(
        "web", updatePolicy={"updateMode": mode, "minReplicas": 1}, recommenders=OTHER_RECOMMENDER
    )
    await case.deploy(
        "web", replicas=1, requests=tight, limits={"memory": "300Mi"}, usage={"memory": memory}
    )

    async def killed() -> set[str]:
        """Return the uids of pods that run again."""
        return {
            pod["metadata"]["uid"]
            for pod in await case.pods("web")
            if is_ready(pod) and pod["status"]["containerStatuses"][0]["restartCount"]
        }

    before = await cluster.wait_for(killed, "it was killed, and runs again")
    await case.set_recommendation("web", app={"cpu": "200m", "memory": "250Mi"})

    async def held() -> bool:
        reason = "oom_not_learnt_yet"
        return bool(
            await cluster.metric_total(UPDATER, "vpa_updater_candidate_pods", reason=reason)
        )

    await cluster.wait_for(held, "the updater waits for the recommendation to rise")
    await cluster.wait_for_cycles(UPDATER, 4)
    (pod,) = await case.pods("web")
    assert pod["metadata"]["uid"] in before
    assert requests(pod) == tight | ({} if mode == "Recreate" else {"cpu": "200m"})
    assert not case.evictions()
    await case.set_recommendation("web", app={"cpu": "200m", "memory": "488Mi"})
    await case.wait_until_applied("web", replicas=1)
    await cluster.wait_for_cycles(UPDATER, 4)
    assert len(case.evictions()) == (mode == "Recreate")


@contextlib.asynccontextmanager
async def refused_pods(case: Case) -> AsyncIterator[None]:
    """Refuse all new pods by a third party's webhook without a server."""
    client, name = case.cluster.client, f"refuses-{case.namespace}"
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
        await case.cluster.wait_for(refused, "new pods are refused")
        yield
    finally:
        await client.delete(MUTATING_WEBHOOKS, name)


@pytest.mark.concurrent
@pytest.mark.timeout(400)
async def test_an_eviction_wave_with_a_rollout_restart_in_between_loses_three_pods(
    case: Case,
) -> None:
    """The ReplicaSet of the lost pods shrinks, and the next one can't create pods, either."""
    cluster = case.cluster
    await case.deploy("web", replicas=8, requests=_SMALL)
    before = await case.wait_until_ready("web", 8)
    async with refused_pods(case):
        await case.create_vpa("web", recommenders=OTHER_RECOMMENDER)
        await case.set_recommendation("web", **_LARGER)

        async def three() -> bool:
            return len(case.evictions()) == 3

        await cluster.wait_for(three, "three evictions")
        await cluster.kubectl("rollout", "restart", "deployment/web", namespace=case.namespace)

        async def decided() -> bool:
            return bool(await case.events("EvictionsSuspended")) or len(case.evictions()) > 3

        await cluster.wait_for(decided, "evictions are suspended", seconds=200)
        await cluster.wait_for_cycles(UPDATER, 5)
        assert len(case.evictions()) == 3
        assert len(await case.uids("web") & before) == 5
        (event,) = await case.events("EvictionsSuspended")
        assert "was not created within two minutes" in event["message"]
    pods = await case.wait_until_applied("web", 8, seconds=100)
    assert all(requests(pod)["cpu"] == "100m" for pod in pods)


@pytest.mark.concurrent
@pytest.mark.timeout(300)
async def test_a_rollout_stuck_at_six_old_and_four_new_pods_of_eight_loses_none(
    case: Case,
) -> None:
    cluster = case.cluster
    await case.deploy("web", replicas=8, requests=_SMALL)
    await case.wait_until_ready("web", 8)
    never = template("web", requests=_SMALL, annotations={"kubelet.sandbox/ready-delay": "never"})
    await case.edit(DEPLOYMENTS, "web", template=never)

    async def stuck() -> set[str]:
        pods = await case.pods("web")
        old = {pod["metadata"]["uid"] for pod in pods if is_ready(pod)}
        return old if (len(old), len(pods)) == (6, 10) else set()

    old = await cluster.wait_for(stuck, "six old pods, and four new ones that are not ready")
    await case.create_vpa("web", recommenders=OTHER_RECOMMENDER)
    await case.set_recommendation("web", **_LARGER)

    async def held_back() -> float:
        labels = {"decision": "wait", "reason": "rollout_in_progress"}
        return await cluster.metric_total(UPDATER, "vpa_updater_candidate_pods", **labels)

    await cluster.wait_for(held_back, "the updater reports that a rollout prevents evictions")
    await cluster.wait_for_cycles(UPDATER, 20)
    assert old <= await case.uids("web")

    soon = template("web", requests=_SMALL, annotations={"kubelet.sandbox/ready-delay": "1s"})
    await case.edit(DEPLOYMENTS, "web", template=soon)
    await case.wait_until_applied("web", 8, seconds=100)
