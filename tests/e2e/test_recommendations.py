"""The recommender's promises."""

import json
from time import monotonic

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import CHECKPOINTS, DEPLOYMENTS, VPAS
from common.quantity import parse_milli, parse_value
from e2e.installation import RECOMMENDER
from e2e.pods import Object
from e2e.world import Case

_CONFIDENCE = 30.0  # seconds, as the overlay says
# 300 MiB and 100 MiB more: the end of the bucket, and 15 % on top.
_NEEDED = 511_772_986


@pytest.mark.concurrent
async def test_a_recommendation_appears_for_what_pods_use(case: Case) -> None:
    await case.deploy("web", uses={"cpu": "600m", "memory": "400Mi"})
    await case.running("web")
    await case.autoscale("web", "Off")
    target = await case.recommended("web")
    assert 600 < parse_milli(target["cpu"]) < 800, "the end of a bucket, and 15 % on top"
    assert 400 < parse_value(target["memory"]) / 2**20 < 500
    printed = await case.world.kubectl("get", "vpa", "web", namespace=case.namespace)
    assert "True" in printed.splitlines()[1].split()  # PROVIDED


async def test_x125_containers_without_usage_get_no_recommendation(case: Case) -> None:
    async with case.world.cluster.without_metrics():
        await case.autoscale("web", "Off")
        await case.deploy("web")
        told = await case.tells("web", NoSamples="True", RecommendationProvided="False")
        assert told["NoSamples"][1].startswith("app: no usage is known.")
        assert not await case.target("web")
    await case.tells("web", NoSamples=None, RecommendationProvided="True")
    assert await case.target("web")


async def test_x123_a_vpa_that_is_moved_to_another_workload_begins_anew(case: Case) -> None:
    await case.deploy("large", replicas=1, uses={"cpu": "1500m"})
    await case.deploy("small", replicas=1, uses={"cpu": "100m"})
    for name in ("large", "small"):
        await case.running(name, replicas=1)
    await case.autoscale("large", "Off")
    before = await case.recommended("large")
    assert parse_milli(before["cpu"]) > 1500

    async def stored_for_small() -> bool:
        found = await case.checkpoint_annotations("large")
        return bool(found.get("vpa-recommender/target") == "Deployment/small")

    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "small"}
    await case.edit(VPAS, "large", targetRef=target)
    await case.world.until(stored_for_small, "the checkpoint is about the other workload")
    assert parse_milli((await case.recommended("large"))["cpu"]) < 200
    async with case.world.installation.without(RECOMMENDER):
        await _wipe(case, "large")
    assert parse_milli((await case.recommended("large"))["cpu"]) < 200


@pytest.mark.concurrent
async def test_x123_who_deletes_a_checkpoint_has_the_history_begin_anew(case: Case) -> None:
    await case.deploy("web")
    await case.running("web")
    await case.autoscale("web", "Off")

    async def has_samples() -> Object:
        found = await case.checkpoint("web")
        return found if found.get("totalSamplesCount", 0) > 4 else {}

    before = await case.world.until(has_samples, "a checkpoint with samples", seconds=100)
    await case.world.client.delete(CHECKPOINTS, "web-app", namespace=case.namespace)

    async def starts_over() -> bool:
        found = await case.checkpoint("web")
        begun: str = found.get("firstSampleStart") or ""
        return bool(begun >= before["lastSampleStart"])

    await case.world.until(starts_over, "a checkpoint that begins later", seconds=100)


@pytest.mark.concurrent
async def test_mode_off_leaves_the_pods_alone(case: Case) -> None:
    await case.deploy("web")
    before = {pod["metadata"]["uid"] for pod in await case.running("web")}
    await case.autoscale("web", "Off")
    await case.recommended("web")
    await case.world.passes("vpa-updater", 8)  # longer than a young pod is spared
    assert await case.uids("web") == before
    assert not case.evictions() + case.resizes()


@pytest.mark.concurrent
async def test_a_vpa_without_pods_says_so_until_they_come(case: Case) -> None:
    await case.deploy("web", replicas=0)
    await case.autoscale("web", "Off")
    told = await case.tells("web", NoPodsMatched="True", RecommendationProvided="False")
    sentence = "No pods match this VPA object"
    assert told == {
        "NoPodsMatched": ("True", sentence),
        "RecommendationProvided": ("False", sentence),
    }
    assert not await case.target("web")
    await case.edit(DEPLOYMENTS, "web", replicas=1)
    await case.tells("web", NoPodsMatched=None, RecommendationProvided="True")
    assert await case.target("web")


@pytest.mark.concurrent
async def test_a_recommendation_outlives_its_pods_and_both_conditions_say_so(case: Case) -> None:
    await case.deploy("web", uses={"cpu": "600m"})
    await case.running("web")
    await case.autoscale("web", "Off")
    before = await case.recommended("web")
    await case.edit(DEPLOYMENTS, "web", replicas=0)
    await case.tells("web", NoPodsMatched="True", RecommendationProvided="True")
    assert await case.target("web") == before


@pytest.mark.concurrent
async def test_low_confidence_is_told_until_a_confidence_interval_is_known(case: Case) -> None:
    await case.deploy("web", replicas=1)
    await case.running("web", replicas=1)
    await case.autoscale("web", "Off")
    told = await case.tells("web", LowConfidence="True", RecommendationProvided="True")
    assert told["LowConfidence"][1] == "Less than one confidence interval of usage is known"
    begun = monotonic()
    await case.tells("web", LowConfidence=None, RecommendationProvided="True")
    assert monotonic() - begun > _CONFIDENCE / 2, "not before"


@pytest.mark.concurrent
async def test_an_oom_kill_is_learnt_once(case: Case) -> None:
    """Only what the kubelet writes into the pod's status tells of it: no usage was ever so high."""
    before = await _kills(case)
    await _killed(case)
    await case.world.passes(RECOMMENDER, 5)
    assert parse_value((await case.target("web"))["memory"]) == _NEEDED
    assert await _kills(case) == {"seen": before["seen"] + 1, "recorded": before["recorded"] + 1}


async def test_an_oom_kill_outlives_a_restart_and_is_not_learnt_anew(case: Case) -> None:
    """The pod still tells of it, in the last state of its container."""
    world = case.world
    await _killed(case)
    await world.passes(RECOMMENDER, 3)  # it is in the checkpoint
    async with world.installation.without(RECOMMENDER):
        await _wipe(case)
    target = await case.recommended("web")
    assert parse_value(target["memory"]) == _NEEDED
    await world.passes(RECOMMENDER, 5)
    assert await case.target("web") == target
    assert (await _kills(case))["recorded"] == 0, "by the new process"


async def _killed(case: Case) -> None:
    """A pod whose first run ends with an OOM kill, and a VPA that knows."""
    leak = {"from": "100Mi", "rate": "60Mi", "every": "1s", "after": "4s", "until": "500Mi"}
    memory = json.dumps({"runs": [{"leak": leak}, "100Mi"]})
    await case.autoscale("web", "Off")
    await case.world.passes(RECOMMENDER, 30)  # its pods come much later
    tight = {"memory": "300Mi"}
    await case.deploy("web", replicas=1, requests=tight, limits=tight, uses={"memory": memory})

    async def killed() -> list[str]:
        """Why containers that run again were ended."""
        return [
            state["lastState"]["terminated"]["reason"]
            for pod in await case.pods("web")
            for state in pod["status"].get("containerStatuses") or ()
            if state["ready"] and state["restartCount"]
        ]

    assert await case.world.until(killed, "it was ended, and runs again") == ["OOMKilled"]

    async def raised() -> bool:
        return parse_value((await case.target("web")).get("memory", "0")) == _NEEDED

    await case.world.until(raised, "the target is what the killed container would have needed")


async def _kills(case: Case) -> dict[str, float]:
    """What the recommender counted, of all namespaces: no other case beside has a kill."""
    return {
        word: await case.world.total(RECOMMENDER, f"vpa_recommender_oom_{word}_total")
        for word in ("seen", "recorded")
    }


async def _wipe(case: Case, vpa: str = "web") -> None:
    """Take the recommendation away."""
    await case.world.client.patch(
        VPAS.as_dicts(),
        vpa,
        {"status": {"recommendation": None}},
        patch_type=PatchType.MERGE,
        namespace=case.namespace,
        subresource="status",
    )
    assert not await case.target(vpa)


async def test_a_checkpoint_is_written_and_read_back_by_the_next_recommender(case: Case) -> None:
    world = case.world
    await case.deploy("web", uses={"cpu": "600m"})
    await case.running("web")
    await case.autoscale("web", "Off")
    target = await case.recommended("web")

    async def has_samples() -> Object:
        found = await case.checkpoint("web")
        return found if found.get("totalSamplesCount", 0) > 0 else {}

    await world.until(has_samples, "a checkpoint with samples", seconds=100)
    async with world.installation.without(RECOMMENDER):
        before = await case.checkpoint("web")
        # Nothing but the checkpoint is left to know from.
        await case.edit(DEPLOYMENTS, "web", replicas=0)
        await case.running("web", replicas=0)
        await _wipe(case)
    assert (await case.recommended("web"))["cpu"] == target["cpu"]
    await case.edit(DEPLOYMENTS, "web", replicas=2)  # there is something new to write

    async def written_again() -> Object:
        found = await case.checkpoint("web")
        return found if found["totalSamplesCount"] > before["totalSamplesCount"] else {}

    after = await world.until(written_again, "the new recommender goes on", seconds=100)
    assert after["firstSampleStart"] == before["firstSampleStart"]
    assert after["lastUpdateTime"] > before["lastUpdateTime"]


@pytest.mark.concurrent
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
