"""The recommender: targets, conditions, OOM kills and checkpoints."""

import json
from time import monotonic

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import CHECKPOINTS, DEPLOYMENTS, VPAS
from common.quantity import parse_milli, parse_value
from e2e.cluster import Case
from e2e.installation import RECOMMENDER
from e2e.pods import Object

_CONFIDENCE = 30.0  # seconds, as in the overlay
# 300 MiB and 100 MiB: the end of the bucket, and a margin of 15 %.
_OOM_TARGET = 511_772_986


async def test_x125_containers_without_usage_get_no_recommendation(case: Case) -> None:
    async with case.cluster.control_plane.without_metrics():
        await case.create_vpa("web", "Off")
        await case.deploy("web")
        conditions = await case.wait_for_conditions(
            "web", NoSamples="True", RecommendationProvided="False"
        )
        assert conditions["NoSamples"][1].startswith("app: no usage is known.")
        assert not await case.target("web")
    await case.wait_for_conditions("web", NoSamples=None, RecommendationProvided="True")
    assert await case.target("web")


async def test_x123_a_new_target_starts_a_new_history(case: Case) -> None:
    await case.deploy("large", replicas=1, usage={"cpu": "1500m"})
    await case.deploy("small", replicas=1, usage={"cpu": "100m"})
    for name in ("large", "small"):
        await case.wait_until_measured(name, replicas=1)
    await case.create_vpa("large", "Off")
    before = await case.wait_for_recommendation("large")
    assert parse_milli(before["cpu"]) > 1500

    async def stored_for_small() -> bool:
        found = await case.checkpoint_annotations("large")
        return bool(found.get("vpa-recommender/target") == "Deployment/small")

    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "small"}
    await case.edit(VPAS, "large", targetRef=target)
    await case.cluster.wait_for(stored_for_small, "the checkpoint is about the other workload")
    assert parse_milli((await case.wait_for_recommendation("large"))["cpu"]) < 200
    async with case.cluster.installation.scaled_to_zero(RECOMMENDER):
        await _clear_recommendation(case, "large")
    assert parse_milli((await case.wait_for_recommendation("large"))["cpu"]) < 200


@pytest.mark.concurrent
async def test_x123_deleting_a_checkpoint_starts_a_new_history(case: Case) -> None:
    await case.deploy("web")
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Off")

    async def has_samples() -> Object:
        found = await case.checkpoint("web")
        return found if found.get("totalSamplesCount", 0) > 4 else {}

    before = await case.cluster.wait_for(has_samples, "a checkpoint with samples", seconds=100)
    await case.cluster.client.delete(CHECKPOINTS, "web-app", namespace=case.namespace)

    async def restarted() -> bool:
        found = await case.checkpoint("web")
        start: str = found.get("firstSampleStart") or ""
        return bool(start >= before["lastSampleStart"])

    await case.cluster.wait_for(restarted, "a checkpoint that begins later", seconds=100)


@pytest.mark.concurrent
async def test_mode_off_leaves_the_pods_alone(case: Case) -> None:
    await case.deploy("web")
    before = {pod["metadata"]["uid"] for pod in await case.wait_until_measured("web")}
    await case.create_vpa("web", "Off")
    await case.wait_for_recommendation("web")
    await case.cluster.wait_for_cycles("vpa-updater", 8)  # longer than the minimum lifetime
    assert await case.uids("web") == before
    assert not case.evictions() + case.resizes()


@pytest.mark.concurrent
async def test_a_vpa_without_pods_has_a_condition_until_pods_are_created(case: Case) -> None:
    await case.deploy("web", replicas=0)
    await case.create_vpa("web", "Off")
    conditions = await case.wait_for_conditions(
        "web", NoPodsMatched="True", RecommendationProvided="False"
    )
    sentence = "No pods match this VPA object"
    assert conditions == {
        "NoPodsMatched": ("True", sentence),
        "RecommendationProvided": ("False", sentence),
    }
    assert not await case.target("web")
    await case.edit(DEPLOYMENTS, "web", replicas=1)
    await case.wait_for_conditions("web", NoPodsMatched=None, RecommendationProvided="True")
    assert await case.target("web")


@pytest.mark.concurrent
async def test_a_recommendation_is_kept_without_pods_and_both_conditions_are_true(
    case: Case,
) -> None:
    await case.deploy("web", usage={"cpu": "600m"})
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Off")
    before = await case.wait_for_recommendation("web")
    await case.edit(DEPLOYMENTS, "web", replicas=0)
    await case.wait_for_conditions("web", NoPodsMatched="True", RecommendationProvided="True")
    assert await case.target("web") == before


@pytest.mark.concurrent
async def test_low_confidence_is_true_for_less_than_a_confidence_interval_of_usage(
    case: Case,
) -> None:
    await case.deploy("web", replicas=1)
    await case.wait_until_measured("web", replicas=1)
    await case.create_vpa("web", "Off")
    conditions = await case.wait_for_conditions(
        "web", LowConfidence="True", RecommendationProvided="True"
    )
    assert "of usage is known. The bounds stay wide until" in conditions["LowConfidence"][1]
    start = monotonic()
    await case.wait_for_conditions("web", LowConfidence=None, RecommendationProvided="True")
    assert monotonic() - start > _CONFIDENCE / 2, "not before"


@pytest.mark.concurrent
async def test_an_oom_kill_is_recorded_once(case: Case) -> None:
    """The kill is in the pod's status only: no measured usage was as high."""
    before = await _oom_metrics(case)
    await _run_oom_killed_pod(case)
    await case.cluster.wait_for_cycles(RECOMMENDER, 5)
    assert parse_value((await case.target("web"))["memory"]) == _OOM_TARGET
    assert await _oom_metrics(case) == {
        "seen": before["seen"] + 1,
        "recorded": before["recorded"] + 1,
    }


async def test_an_oom_kill_is_recorded_once_across_a_restart(case: Case) -> None:
    """The last state of the pod's container still contains the kill."""
    cluster = case.cluster
    await _run_oom_killed_pod(case)
    await cluster.wait_for_cycles(RECOMMENDER, 3)  # writes the kill into the checkpoint
    async with cluster.installation.scaled_to_zero(RECOMMENDER):
        await _clear_recommendation(case)
    target = await case.wait_for_recommendation("web")
    assert parse_value(target["memory"]) == _OOM_TARGET
    await cluster.wait_for_cycles(RECOMMENDER, 5)
    assert await case.target("web") == target
    assert (await _oom_metrics(case))["recorded"] == 0, "by the new process"


async def _run_oom_killed_pod(case: Case) -> None:
    """Create a pod whose first run ends with an OOM kill, and a VPA; wait for the target."""
    leak = {"from": "100Mi", "rate": "60Mi", "every": "1s", "after": "4s", "until": "500Mi"}
    memory = json.dumps({"runs": [{"leak": leak}, "100Mi"]})
    await case.create_vpa("web", "Off")
    await case.cluster.wait_for_cycles(RECOMMENDER, 30)  # its pods come much later
    tight = {"memory": "300Mi"}
    await case.deploy("web", replicas=1, requests=tight, limits=tight, usage={"memory": memory})

    async def terminations() -> list[str]:
        """Return the reasons why restarted containers were terminated."""
        return [
            state["lastState"]["terminated"]["reason"]
            for pod in await case.pods("web")
            for state in pod["status"].get("containerStatuses") or ()
            if state["ready"] and state["restartCount"]
        ]

    assert await case.cluster.wait_for(terminations, "it was ended, and runs again") == [
        "OOMKilled"
    ]

    async def raised() -> bool:
        return parse_value((await case.target("web")).get("memory", "0")) == _OOM_TARGET

    await case.cluster.wait_for(
        raised, "the target is what the terminations container would have needed"
    )


async def _oom_metrics(case: Case) -> dict[str, float]:
    """Return the recommender's counters; no concurrent case has a kill."""
    return {
        word: await case.cluster.metric_total(RECOMMENDER, f"vpa_recommender_oom_{word}_total")
        for word in ("seen", "recorded")
    }


async def _clear_recommendation(case: Case, vpa: str = "web") -> None:
    """Remove the recommendation."""
    await case.cluster.client.patch(
        VPAS.as_dicts(),
        vpa,
        {"status": {"recommendation": None}},
        patch_type=PatchType.MERGE,
        namespace=case.namespace,
        subresource="status",
    )
    assert not await case.target(vpa)


async def test_a_checkpoint_is_written_and_read_back_by_the_next_recommender(case: Case) -> None:
    cluster = case.cluster
    await case.deploy("web", usage={"cpu": "600m"})
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Off")
    target = await case.wait_for_recommendation("web")

    async def has_samples() -> Object:
        found = await case.checkpoint("web")
        return found if found.get("totalSamplesCount", 0) > 0 else {}

    await cluster.wait_for(has_samples, "a checkpoint with samples", seconds=100)
    async with cluster.installation.scaled_to_zero(RECOMMENDER):
        before = await case.checkpoint("web")
        # Without pods the checkpoint is the only source.
        await case.edit(DEPLOYMENTS, "web", replicas=0)
        await case.wait_until_measured("web", replicas=0)
        await _clear_recommendation(case)
    assert (await case.wait_for_recommendation("web"))["cpu"] == target["cpu"]
    await case.edit(DEPLOYMENTS, "web", replicas=2)  # new samples to write

    async def written_again() -> Object:
        found = await case.checkpoint("web")
        return found if found["totalSamplesCount"] > before["totalSamplesCount"] else {}

    after = await cluster.wait_for(written_again, "a newer checkpoint", seconds=100)
    assert after["firstSampleStart"] == before["firstSampleStart"]
    assert after["lastUpdateTime"] > before["lastUpdateTime"]


@pytest.mark.concurrent
async def test_a_checkpoint_is_deleted_with_its_vpa(case: Case) -> None:
    await case.deploy("web")
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Off")
    await case.wait_for_recommendation("web")

    async def written() -> Object:
        return await case.checkpoint("web")

    async def collected() -> bool:
        return not await case.checkpoint("web")

    await case.cluster.wait_for(written, "a checkpoint", seconds=100)
    await case.cluster.client.delete(VPAS, "web", namespace=case.namespace)
    await case.cluster.wait_for(collected, "the checkpoint is collected")
