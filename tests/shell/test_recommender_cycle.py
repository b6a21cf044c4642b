"""Whole cycles of the recommender with a fake API server."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.watch import WatchProtocol
from fake_api import FakeApi, Reply, listing, status, until, watch_line
from recommender.checkpoints.codec import LONGEST_LAG
from recommender.model.pods import RequestSource
from recommender_harness import (
    CHECKPOINTS,
    CHECKPOINTS_OF_SHOP,
    METRICS,
    NEW_CHECKPOINT,
    WEB,
    checkpoint,
    checkpoint_of,
    checkpoint_writes,
    conditions,
    killed,
    pod,
    prepare,
    published,
    running,
    target,
    usage,
    vpa,
    written,
)

CAPPED = {"containerName": "app", "maxAllowed": {"cpu": "100m"}}
INTEGER_CPU = "vpa-post-processor.kubernetes.io/app_integerCPU"
DELETE_OLD = "DELETE /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"


def protocol() -> WatchProtocol[VerticalPodAutoscaler]:
    return WatchProtocol(VerticalPodAutoscaler, resource_version="10")


async def test_usage_becomes_a_status_and_a_checkpoint() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            await process.cycle()
            assert target(api) == {"cpu": "126m", "memory": "250Mi"}
            assert conditions(api).keys() == {"LowConfidence", "RecommendationProvided"}
            created = (await api.asked(NEW_CHECKPOINT)).json()
            assert created["spec"] == {"vpaObjectName": "web", "containerName": "app"}
            assert created["status"]["cpuHistogram"]["bucketWeights"] == {"8": 10000}
            assert process.sample("vpa_recommender_aggregate_container_states_count") == 1


async def test_a_changed_target_is_logged_with_old_and_new_amounts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[published(vpa(), cpu="1", memory="250Mi")])
        async with running(api) as process:
            await process.cycle()
    (line,) = (each for each in caplog.records if each.message == "target changed")
    assert (line.__dict__["vpa"], line.__dict__["changes"]) == ("shop/web", "app cpu 1 -> 126m")


async def test_a_restart_continues_from_status_and_checkpoint() -> None:
    async with FakeApi() as before, FakeApi() as api:
        prepare(before)
        async with running(before) as process:
            await process.cycle()
        found = vpa()
        found["status"] = written(before)
        prepare(api, verticalpodautoscalers=[found])
        kept = checkpoint()
        kept["status"] = written(before, checkpoint_of("web-app"))
        api.on(CHECKPOINTS, listing(kept))
        async with running(api) as process:
            await process.cycle()
        assert WEB not in api.routes
        assert written(api, checkpoint_of("web-app"))["totalSamplesCount"] == 2


async def test_a_checkpoint_is_used_from_the_first_status() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing())
        api.on(CHECKPOINTS, listing(checkpoint(), checkpoint("other"), checkpoint(version="v2")))
        async with running(api) as process:
            await process.cycle()
        assert target(api) == {"cpu": "813m", "memory": "813749082"}
        assert conditions(api).keys() == {"RecommendationProvided"}  # a day of history


def written_version(api: FakeApi) -> str:
    """Return the VPA's version in the last patch of its status."""
    patch = next(one for one in reversed(api.requests) if f"{one.method} {one.path}" == WEB)
    return next(str(each["value"]) for each in patch.json() if "resourceVersion" in each["path"])


def at_version(version: int, found: Any) -> Any:
    found["metadata"]["resourceVersion"] = str(version)
    return found


async def test_the_history_of_a_vpa_that_comes_later_is_read_before_it_is_overwritten() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on("GET /apis/autoscaling.k8s.io/v1/verticalpodautoscalers", listing())
        api.on(CHECKPOINTS_OF_SHOP, status(503, "ServiceUnavailable"))
        async with running(api) as process:
            await process.cycle()
            line = watch_line("ADDED", at_version(11, vpa()))
            process.informers.vpas._apply(next(protocol().feed(line)))
            await process.cycle()
            assert WEB not in api.routes  # the history may be incomplete
            assert checkpoint_of("web-app") not in api.routes
            api.on(CHECKPOINTS_OF_SHOP, listing(checkpoint()))
            await process.cycle()
            assert target(api) == {"cpu": "813m", "memory": "813749082"}
            process.clock.forward(LONGEST_LAG)
            await process.cycle()
            assert written(api, checkpoint_of("web-app"))["totalSamplesCount"] == 1441
            reads = api.routes.count(CHECKPOINTS_OF_SHOP)
            await process.cycle()
            assert api.routes.count(CHECKPOINTS_OF_SHOP) == reads


async def test_a_vpa_that_is_recreated_shortly_later_keeps_its_history() -> None:
    """Its checkpoint is read again; samples that both contain are counted once."""
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint()))
        api.on(CHECKPOINTS_OF_SHOP, listing(checkpoint()))
        async with running(api) as process:
            await process.cycle()
            feed = protocol().feed
            strange = at_version(11, {**vpa(), "spec": 7})
            process.informers.vpas._apply(next(feed(watch_line("MODIFIED", strange))))
            await process.cycle()
            line = watch_line("MODIFIED", at_version(12, vpa()))
            process.informers.vpas._apply(next(feed(line)))
            api.on(METRICS, listing(usage(at=process.clock.forward(timedelta(minutes=1)))))
            await process.cycle()
            assert target(api) == {"cpu": "813m", "memory": "813749082"}
            process.clock.forward(LONGEST_LAG)
            await process.cycle()
            assert written(api, checkpoint_of("web-app"))["totalSamplesCount"] == 1442
            assert api.routes.count(CHECKPOINTS_OF_SHOP) == 1


async def test_a_checkpoint_of_long_history_lags_behind_by_five_minutes_at_the_most() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint()))
        async with running(api) as process:
            counts = []
            for _ in range(16):
                await process.cycle()
                counts.append(api.routes.count(checkpoint_of("web-app")))
                api.on(METRICS, listing(usage(at=process.clock.forward(timedelta(minutes=1)))))
        writes = [cycle for cycle in range(1, 16) if counts[cycle] > counts[cycle - 1]]
        assert writes[0] <= 5
        assert [later - one for one, later in pairwise(writes)] == [5, 5]


@pytest.mark.parametrize(
    ("annotations", "writes"),
    [
        pytest.param({"vpa-recommender/target": "Deployment/web"}, 0, id="with all annotations"),
        pytest.param({}, 1, id="X123: without its target"),
    ],
)
async def test_a_restart_writes_no_checkpoint_that_is_equal(
    annotations: dict[str, str], writes: int
) -> None:
    stored = checkpoint()
    stored["metadata"]["annotations"] = annotations
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(stored))
        api.on(METRICS, listing())
        async with running(api) as process:
            await process.cycle()
            for _ in range(2):
                process.clock.forward(LONGEST_LAG)
                await process.cycle()
        assert api.routes.count(checkpoint_of("web-app")) == writes


async def test_a_restart_writes_no_status_that_is_equal() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint()))
        async with running(api) as process:
            await process.cycle()
        status = written(api)
        api.on(
            "GET /apis/autoscaling.k8s.io/v1/verticalpodautoscalers",
            listing(vpa() | {"status": status}),
        )
        async with running(api) as process:
            await process.cycle()
            assert api.routes.count(WEB) == 1
            process.clock.forward(timedelta(hours=1))
            await process.cycle()
        assert api.routes.count(WEB) == 1


@pytest.mark.parametrize(
    ("changed", "cpu"),
    [
        pytest.param(
            {"spec": {"resourcePolicy": {"containerPolicies": [CAPPED]}}}, "100m", id="its policy"
        ),
        pytest.param({"metadata": {"annotations": {INTEGER_CPU: "true"}}}, "1", id="an annotation"),
    ],
)
async def test_a_vpa_that_changes_while_its_status_is_written(changed: Any, cpu: str) -> None:
    """The write has the version of the decision; the next cycle uses the new version."""
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint()))
        async with running(api, integer_cpu=True) as process:
            await process.cycle()
            feed = protocol().feed
            said = written(api, WEB)
            emptied = at_version(11, vpa())
            process.informers.vpas._apply(next(feed(watch_line("MODIFIED", emptied))))
            other = at_version(12, {**vpa(), "status": said})
            for part, fields in changed.items():
                other[part] |= fields
            api.on(WEB, status(409, "Conflict"), Reply(body=other))
            await process.cycle()
            assert (written_version(api), target(api)["cpu"]) == ("11", "813m")
            process.informers.vpas._apply(next(feed(watch_line("MODIFIED", other))))
            await process.cycle()
            assert (written_version(api), target(api)["cpu"]) == ("12", cpu)


async def test_a_checkpoint_is_written_only_when_something_happened() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            await process.cycle()
            process.clock.forward(timedelta(minutes=1))
            await process.cycle()  # the same sample again is out of order
            assert len(checkpoint_writes(api)) == 1
            api.on(METRICS, listing(usage(at=process.clock.now())))
            await process.cycle()
            assert len(checkpoint_writes(api)) == 2


async def test_a_missing_target_is_shown_in_the_conditions() -> None:
    async with FakeApi() as api:
        prepare(api, deployments=[])
        async with running(api) as process:
            await process.cycle()
        assert conditions(api) == {
            "ConfigUnsupported": "Cannot read targetRef. Reason: "
            "Deployment shop/web does not exist",
            "NoPodsMatched": "No pods match this VPA object",
            "RecommendationProvided": "No pods match this VPA object",
        }
        assert written(api)["recommendation"] == {}


async def test_a_vpa_of_another_recommender_is_left_alone() -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(recommenders=[{"name": "other"}])])
        async with running(api) as process:
            await process.cycle()
        assert WEB not in api.routes
        assert checkpoint_of("web-app") not in api.routes


async def test_an_oom_kill_raises_memory_once() -> None:
    late = killed("2026-01-02T12:00:30Z")
    late["metadata"]["resourceVersion"] = "11"
    again = killed("2026-01-02T12:00:30Z")
    again["metadata"]["resourceVersion"] = "12"
    async with FakeApi() as api:
        prepare(api)
        chunks = [watch_line("MODIFIED", late), watch_line("MODIFIED", again)]
        api.on("WATCH /api/v1/pods", Reply(chunks=chunks, hold=True))
        async with running(api) as process:
            await until(lambda: process.informers.pods.get("shop", "web-1") is not None)
            pods = process.informers.pods
            await until(
                lambda: (
                    [pod.metadata.resource_version for pod in pods.in_namespace("shop")] == ["12"]
                )
            )
            await process.cycle()
            assert process.sample("vpa_recommender_oom_seen_total") == 1
            assert process.sample("vpa_recommender_oom_recorded_total") == 1
        # 200 MiB of usage, raised by 100 MiB, with the margin of its bucket.
        assert target(api)["memory"] == "380258472"


async def test_a_kill_at_the_deletion_of_a_pod_between_cycles_is_recorded() -> None:
    born = pod("web-2")
    gone = killed("2026-01-02T12:00:30Z", "web-2")
    gone["metadata"]["resourceVersion"] = "12"
    async with FakeApi() as api:
        prepare(api)
        chunks = [watch_line("ADDED", born), watch_line("DELETED", gone)]
        api.on("WATCH /api/v1/pods", Reply(chunks=chunks, hold=True))
        async with running(api) as process:
            await until(lambda: process.informers.pods._version == "12")
            await process.cycle()
            assert process.sample("vpa_recommender_oom_recorded_total") == 1
            assert list(process.recommender._usage.pods) == [("shop", "web-1")]


@pytest.mark.parametrize(
    ("at", "outcome"),
    [
        pytest.param("2026-01-02T10:00:00Z", "discarded", id="before the checkpoint"),
        pytest.param("2026-01-02T11:30:00Z", "recorded", id="after the checkpoint"),
    ],
)
async def test_a_kill_from_before_the_restart(at: str, outcome: str) -> None:
    async with FakeApi() as api:
        prepare(api, pods=[killed(at)])
        api.on(CHECKPOINTS, listing(checkpoint()))
        async with running(api) as process:
            await process.cycle()
            assert process.sample("vpa_recommender_oom_seen_total") == 1
            recorded = process.sample("vpa_recommender_oom_recorded_total")
            assert recorded == (1 if outcome == "recorded" else 0)


async def test_checkpoints_without_a_vpa_are_deleted() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint(), checkpoint("gone"), checkpoint("new")))
        vpas = "GET /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers"
        api.on(f"{vpas}/gone", status(404, "NotFound", name="gone"))
        api.on(f"{vpas}/new", Reply(body=vpa("new")))  # not yet in the cache
        api.on(f"{DELETE_OLD}/gone-app", Reply(body={}))
        async with running(api) as process:
            await process.cycle()
            assert f"{DELETE_OLD}/gone-app" not in api.routes
            process.clock.forward(timedelta(minutes=10))
            await process.cycle()
        deleted = [route for route in api.routes if route.startswith("DELETE")]
        assert deleted == [f"{DELETE_OLD}/gone-app"]


async def test_a_server_that_serves_no_vpas_yet_causes_no_deletion_of_checkpoints() -> None:
    """A starting server responds with 404 to custom resources; the VPA may still exist."""
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint("early")))
        path = "GET /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/early"
        api.on(path, status(404, "NotFound", "the server could not find the requested resource"))
        async with running(api) as process:
            process.clock.forward(timedelta(minutes=10))
            await process.cycle()
            assert path in api.routes
            assert not [route for route in api.routes if route.startswith("DELETE")]


async def test_where_requests_are_read_is_counted_once_for_each_version_of_a_pod() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            await process.cycle()
            await process.cycle()
            counts = {
                source: process.sample("vpa_resources_get_resources_count", source=source)
                for source in RequestSource
            }
    assert counts == dict.fromkeys(RequestSource, 0) | {RequestSource.SPEC: 1}


async def test_the_quality_of_recommendations_is_measured_from_the_first_sample() -> None:
    mode, resource = {"update_mode": "Off"}, {"resource": "cpu", "is_oom": "false"}
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(updatePolicy={"updateMode": "Off"})])
        async with running(api) as process:

            def seen(name: str, **labels: str) -> float | None:
                return process.sample(f"vpa_quality_{name}", **mode, **labels)

            await process.cycle()  # no recommendation at the time of the sample
            assert seen("usage_sample_missing_recommendation_count", **resource) == 1
            assert seen("cpu_recommendations_cores_count") == 1
            assert seen("relative_recommendation_changes_count", **resource) is None
            later = process.clock.forward(timedelta(minutes=1))
            api.on(METRICS, listing(usage(at=later, cpu="63m", memory="200Mi")))
            await process.cycle()  # 126m were recommended
            assert seen("usage_sample_missing_recommendation_count", **resource) == 1
            assert seen("usage_recommendation_relative_diffs_sum", **resource) == -0.5
            fits = {"recommendation_missing": "false"}
            assert seen("cpu_recommendation_over_usage_diffs_cores_sum", **fits) == 0.063
            change = {"resource": "cpu", "vpa_size_log2": "0"}
            assert seen("relative_recommendation_changes_count", **change) == 1
