"""Whole cycles against an API server that says what the test tells it to."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.features import FeatureGates
from common.kube.watch import WatchProtocol
from fake_api import FakeApi, Reply, listing, named, status, until, watch_line
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    NEW_CHECKPOINT,
    START,
    checkpoint_of,
    deployment,
    pod,
    prepare,
    running,
    status_of,
    usage,
    vpa,
)

WEB = status_of("web")
DELETE_OLD = "DELETE /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"


def written(api: FakeApi, route: str = WEB) -> Any:
    """The value of the last patch of a status, or of a checkpoint."""
    bodies = [each.json() for each in api.requests if f"{each.method} {each.path}" == route]
    return bodies[-1][-1]["value"]


def target(api: FakeApi, name: str = "web") -> dict[str, str]:
    found = written(api, status_of(name))
    target: dict[str, str] = found["recommendation"]["containerRecommendations"][0]["target"]
    return target


def conditions(api: FakeApi, name: str = "web") -> dict[str, str]:
    found = written(api, status_of(name))
    return {one["type"]: one.get("message", "") for one in found["conditions"]}


HISTOGRAM = {"referenceTimestamp": "2026-01-02T00:00:00Z", "bucketWeights": {"30": 10000}}


def checkpoint(name: str = "web", container: str = "app", **more: Any) -> Any:
    return named(
        f"{name}-{container}",
        spec={"vpaObjectName": name, "containerName": container},
        status={
            "version": "v3",
            "lastUpdateTime": "2026-01-02T11:00:00Z",
            "cpuHistogram": {**HISTOGRAM, "totalWeight": 100},
            "memoryHistogram": {**HISTOGRAM, "totalWeight": 10},
            "firstSampleStart": "2026-01-01T00:00:00Z",
            "lastSampleStart": "2026-01-02T11:00:00Z",
            "totalSamplesCount": 1440,
            **more,
        },
    )


def protocol() -> WatchProtocol[VerticalPodAutoscaler]:
    return WatchProtocol(VerticalPodAutoscaler, resource_version="10")


def killed(at: str, name: str = "web-1", *, app: str = "web") -> Any:
    terminated = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at}
    state = {"name": "app", "restartCount": 0, "state": {"terminated": terminated}}
    return pod(name, app=app, status={"phase": "Running", "containerStatuses": [state]})


async def test_usage_becomes_a_status_and_a_checkpoint() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(checkpoint_of("web-app"), status(404, "NotFound"))
        api.on(NEW_CHECKPOINT, Reply(status=201, body=named("web-app")))
        async with running(api) as process:
            await process.cycle()
            assert target(api) == {"cpu": "126m", "memory": "250Mi"}
            assert conditions(api).keys() == {"LowConfidence", "RecommendationProvided"}
            created = (await api.asked(NEW_CHECKPOINT)).json()
            assert created["spec"] == {"vpaObjectName": "web", "containerName": "app"}
            assert created["status"]["cpuHistogram"]["bucketWeights"] == {"8": 10000}
            assert process.sample("vpa_recommender_aggregate_container_states_count") == 1


async def test_a_restart_goes_on_from_status_and_checkpoint() -> None:
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


async def test_a_checkpoint_counts_from_the_first_status_on() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing())
        api.on(CHECKPOINTS, listing(checkpoint(), checkpoint("other"), checkpoint(version="v2")))
        async with running(api) as process:
            await process.cycle()
        assert target(api) == {"cpu": "813m", "memory": "813749082"}
        assert conditions(api).keys() == {"RecommendationProvided"}  # a day is known


CHECKPOINTS_OF_SHOP = (
    "GET /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"
)


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
            process.followed.vpas._apply(next(protocol().feed(line)))
            await process.cycle()
            assert WEB not in api.routes  # what is known may be little
            assert checkpoint_of("web-app") not in api.routes
            api.on(CHECKPOINTS_OF_SHOP, listing(checkpoint()))
            await process.cycle()
            assert target(api) == {"cpu": "813m", "memory": "813749082"}
            assert written(api, checkpoint_of("web-app"))["totalSamplesCount"] == 1441
            reads = api.routes.count(CHECKPOINTS_OF_SHOP)
            await process.cycle()
            assert api.routes.count(CHECKPOINTS_OF_SHOP) == reads


async def test_a_vpa_that_is_away_for_a_moment_keeps_its_history() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint()))
        async with running(api) as process:
            await process.cycle()
            feed = protocol().feed
            strange = at_version(11, {**vpa(), "spec": 7})
            process.followed.vpas._apply(next(feed(watch_line("MODIFIED", strange))))
            await process.cycle()
            line = watch_line("MODIFIED", at_version(12, vpa()))
            process.followed.vpas._apply(next(feed(line)))
            api.on(METRICS, listing(usage(at=process.clock.forward(timedelta(minutes=1)))))
            await process.cycle()
            assert target(api) == {"cpu": "813m", "memory": "813749082"}
            assert written(api, checkpoint_of("web-app"))["totalSamplesCount"] == 1442
            assert CHECKPOINTS_OF_SHOP not in api.routes


async def test_a_checkpoint_is_written_only_when_something_happened() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            await process.cycle()
            process.clock.forward(timedelta(minutes=1))
            await process.cycle()  # the same sample again: it is out of order now
            assert api.routes.count(checkpoint_of("web-app")) == 1
            api.on(METRICS, listing(usage(at=process.clock.now())))
            await process.cycle()
            assert api.routes.count(checkpoint_of("web-app")) == 2


async def test_the_spec_of_a_checkpoint_is_tested_before_it_is_overwritten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(checkpoint_of("web-app"), status(422, "Invalid", "testing value failed"))
        async with running(api) as process:
            await process.cycle()
        tests = (await api.asked(checkpoint_of("web-app"))).json()[:2]
        assert [(one["op"], one["path"], one["value"]) for one in tests] == [
            ("test", "/spec/vpaObjectName", "web"),
            ("test", "/spec/containerName", "app"),
        ]
        assert "it may be another container's" in caplog.text


async def test_a_missing_target_is_told_in_the_conditions() -> None:
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


def published(found: Any, **target: str) -> Any:
    one = {"containerName": "app", "target": target, "lowerBound": target, "upperBound": target}
    found["status"] = {
        "recommendation": {"containerRecommendations": [{**one, "uncappedTarget": target}]},
        "conditions": [
            {
                "type": "RecommendationProvided",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    return found


async def test_a_restart_without_history_or_usage_keeps_what_is_published() -> None:
    """The minimum would have large pods evicted, to come back too small."""
    one = published(vpa(), cpu="3", memory="2Gi")
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[one])
        api.on(METRICS, status(503, "ServiceUnavailable"))
        async with running(api) as process:
            await process.cycle()
            assert target(api) == {"cpu": "3", "memory": "2Gi"}
            api.on(METRICS, listing(usage()))
            await process.cycle()
            assert target(api) == {"cpu": "126m", "memory": "250Mi"}  # now we know


async def test_a_target_that_cannot_be_asked_for_yet_wipes_nothing() -> None:
    one = published(vpa(kind="Machine"), cpu="3", memory="2Gi")
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[one])
        api.on("GET /apis/apps", status(503, "ServiceUnavailable", "too early"))
        async with running(api) as process:
            await process.cycle()
        found = written(api)
        assert target(api) == {"cpu": "3", "memory": "2Gi"}
        assert conditions(api) == {
            "ConfigUnsupported": "Cannot read targetRef. Reason: unhandled targetRef "
            "apps/v1 / Machine / web, last error too early",
            "RecommendationProvided": "",
        }
        assert found["conditions"][1]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


async def test_one_strange_vpa_costs_only_itself() -> None:
    nonsense = vpa("odd", resourcePolicy={"containerPolicies": [{"minAllowed": {"cpu": "?"}}]})
    nonsense["spec"]["resourcePolicy"]["containerPolicies"][0]["containerName"] = "*"
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[deployment(), deployment("odd")],
            pods=[pod(), pod("odd-1", app="odd")],
            verticalpodautoscalers=[nonsense, vpa(), {"spec": 7}],
        )
        async with running(api) as process:
            await process.cycle()
        assert target(api) == {"cpu": "126m", "memory": "250Mi"}
        assert status_of("odd") not in api.routes


def policy(**overrides: Any) -> Any:
    return {"containerPolicies": [{"containerName": "*", **overrides}]}


def naive(found: Any) -> Any:
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00"
    return found


def loose(found: Any) -> Any:
    found["status"]["conditions"] = [{"type": "FromElsewhere", "status": "True"}]
    return found


HUGE = {"containers": [{"name": "app", "resources": {"requests": {"memory": "8Ei"}}}]}


@pytest.mark.parametrize(
    ("odd", "more"),
    [
        pytest.param(
            vpa("odd", resourcePolicy=policy(memoryAggregationIntervalCount=10**15)), {}, id="count"
        ),
        pytest.param(
            vpa("odd", resourcePolicy=policy(memoryAggregationIntervalSeconds=10**18)),
            {},
            id="seconds",
        ),
        pytest.param(
            vpa("odd", resourcePolicy=policy(memoryAggregationIntervalCount=-(10**15))),
            {},
            id="negative count",
        ),
        pytest.param(
            vpa("odd", resourcePolicy=policy(oomBumpUpRatio="1e99", oomMinBumpUp="1e99")),
            {"pods": [pod(), {**killed("2026-01-02T11:59:00Z", "odd-1", app="odd"), "spec": HUGE}]},
            id="ratio",
        ),
        pytest.param(
            vpa("odd"), {"checkpoints": [checkpoint("odd", totalSamplesCount=10**30)]}, id="samples"
        ),
        pytest.param(
            vpa("odd"),
            {
                "checkpoints": [
                    checkpoint("odd", cpuHistogram={**HISTOGRAM, "totalWeight": 1.7e308}),
                    checkpoint("web", "b", cpuHistogram={**HISTOGRAM, "totalWeight": 1.7e308}),
                ]
            },
            id="weight",
        ),
        pytest.param(naive(vpa("odd")), {}, id="a time without a zone"),
        pytest.param(
            vpa("odd"),
            {"pods": [pod(), killed("2026-01-02T11:59:00", "odd-1", app="odd")]},
            id="a kill without a zone",
        ),
        pytest.param(
            vpa("odd"),
            {"usage": [usage(), usage("odd-1", at=START.replace(tzinfo=None))]},
            id="usage without a zone",
        ),
        pytest.param(
            vpa("odd"),
            {"usage": [usage(), usage("odd-1", cpu="9" * 200, memory="9" * 200)]},
            id="usage of all computers",
        ),
    ],
)
async def test_one_strange_object_costs_only_itself(odd: Any, more: dict[str, list[Any]]) -> None:
    gates = FeatureGates(per_vpa_config=True)
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[deployment(), deployment("odd")],
            pods=more.get("pods", [pod(), pod("odd-1", app="odd")]),
            verticalpodautoscalers=[odd, vpa()],
        )
        api.on(METRICS, listing(*more.get("usage", [usage(), usage("odd-1")])))
        api.on(CHECKPOINTS, listing(*more.get("checkpoints", [])))
        async with running(api, feature_gates=gates) as process:
            await process.cycle()
            process.clock.forward(timedelta(minutes=1))
            await process.cycle()
        assert target(api) == {"cpu": "126m", "memory": "250Mi"}


async def test_a_condition_of_others_that_lacks_its_time_is_kept() -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[loose(vpa())])
        async with running(api) as process:
            await process.cycle()
        assert conditions(api).keys() > {"FromElsewhere"}
        (kept,) = (one for one in written(api)["conditions"] if one["type"] == "FromElsewhere")
        assert kept == {"type": "FromElsewhere", "status": "True"}


@pytest.mark.parametrize(
    ("ahead", "samples"),
    [
        pytest.param(timedelta(minutes=59), 1, id="clocks differ"),
        pytest.param(timedelta(hours=2), 0, id="a clock is wrong"),
        pytest.param(timedelta(days=3000), 0, id="a clock is very wrong"),
    ],
)
async def test_usage_from_the_future_must_not_wipe_the_past(ahead: timedelta, samples: int) -> None:
    """A sample that far ahead would make all others weigh nothing."""
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint()))
        api.on(METRICS, listing(usage(at=START + ahead)))
        async with running(api) as process:
            await process.cycle()
        assert written(api, checkpoint_of("web-app"))["totalSamplesCount"] == 1440 + samples
        assert target(api) == {"cpu": "813m", "memory": "813749082"}


async def test_a_kill_from_the_future_must_not_wipe_the_past() -> None:
    async with FakeApi() as api:
        prepare(api, pods=[killed("2036-01-02T12:00:00Z")])
        api.on(CHECKPOINTS, listing(checkpoint()))
        async with running(api) as process:
            await process.cycle()
            name = "vpa_recommender_oom_discarded_total"
            assert process.sample(name, reason="in_the_future") == 1
        assert target(api) == {"cpu": "813m", "memory": "813749082"}


async def test_a_refused_write_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[deployment(), deployment("db")],
            verticalpodautoscalers=[vpa("db"), vpa()],
        )
        api.on(status_of("db"), status(403, "Forbidden", "quota"))
        async with running(api) as process:
            await process.cycle()
            labels = {"kind": "status", "reason": "Forbidden"}
            assert process.sample("vpa_recommender_failed_writes_total", **labels) == 1
        assert target(api) == {"cpu": "126m", "memory": "250Mi"}
        assert caplog.text.count("status not written") == 1


async def test_a_lasting_refusal_is_told_once_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="recommender.refusals")
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[deployment(), deployment("db")],
            pods=[pod(), pod("db-1", app="db")],
            verticalpodautoscalers=[vpa("db"), vpa()],
        )
        for name in ("db", "web"):
            api.on(status_of(name), status(403, "Forbidden", "no permission"))
            api.on(checkpoint_of(f"{name}-app"), status(403, "Forbidden", "no permission"))
        async with running(api) as process:
            for _ in range(3):
                await process.cycle()
                api.on(METRICS, listing(usage(at=process.clock.forward(timedelta(minutes=1)))))
            told = [record.getMessage() for record in caplog.records]
            assert told == ["status not written", "checkpoint not written"]
            first = vars(caplog.records[0])
            assert (first["count"], first["vpa"], first["error"]) == (2, "shop/db", "no permission")
            for name in ("db", "web"):
                api.on(status_of(name), Reply(body=named(name)))
                api.on(checkpoint_of(f"{name}-app"), Reply(body=named(f"{name}-app")))
            await process.cycle()
        told = [record.getMessage() for record in caplog.records[2:]]
        assert told == ["every status is written again", "every checkpoint is written again"]


async def test_a_checkpoint_of_another_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(checkpoint_of("web-app"), status(422, "Invalid", "testing value failed"))
        async with running(api) as process:
            for _ in range(3):
                await process.cycle()
                api.on(METRICS, listing(usage(at=process.clock.forward(timedelta(minutes=1)))))
        assert caplog.text.count("it may be another container's") == 1


async def test_a_policy_that_cannot_be_read_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(resourcePolicy=policy(minAllowed={"cpu": "?"}))])
        async with running(api) as process:
            await process.cycle()
            await process.cycle()
        (told,) = [record for record in caplog.records if record.name.startswith("recommender")]
        assert vars(told)["vpa"] == "shop/web"
        assert "not a quantity: '?'" in vars(told)["why"]


async def test_usage_that_cannot_be_decoded_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing(usage(), {**usage("web-2"), "containers": 7}))
        async with running(api) as process:
            for _ in range(3):
                await process.cycle()
        assert caplog.text.count("object skipped") == 1


async def test_a_vpa_of_another_recommender_is_left_alone() -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(recommenders=[{"name": "other"}])])
        async with running(api) as process:
            await process.cycle()
        assert WEB not in api.routes
        assert checkpoint_of("web-app") not in api.routes


async def test_a_failing_metrics_server_is_told_once_and_the_cycle_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="recommender")
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, status(503, "ServiceUnavailable"))
        async with running(api) as process:
            await process.cycle()
            await process.cycle()
            assert caplog.text.count("no usage") == 1
            assert target(api) == {"cpu": "25m", "memory": "250Mi"}  # the minimum
            api.on(METRICS, listing(usage()))
            await process.cycle()
            assert caplog.text.count("usage is there again") == 1
            name = "vpa_recommender_metric_server_responses"
            client = {"client_name": "default-metrics-client"}
            assert process.sample(name, is_error="true", **client) == 2
            assert process.sample(name, is_error="false", **client) == 1


async def test_nothing_is_written_while_the_api_server_is_away() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            await api.stop()
            await process.cycle()
            assert WEB not in api.routes
            await api.start()
            await process.cycle()
            assert WEB not in api.routes  # the watches have to catch up first
            await until(lambda: process.followed.fresh)
            await process.cycle()
            assert target(api) == {"cpu": "126m", "memory": "250Mi"}


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
            await until(lambda: process.followed.pods.get("shop", "web-1") is not None)
            await until(
                lambda: (
                    process.followed.pods.snapshot.get("shop", "web-1").metadata.resource_version  # type: ignore[union-attr] # it is there
                    == "12"
                )
            )
            await process.cycle()
            assert process.sample("vpa_recommender_oom_seen_total") == 1
            assert process.sample("vpa_recommender_oom_recorded_total") == 1
        # 200 MiB of usage, raised by 100 MiB, with the margin of its bucket.
        assert target(api)["memory"] == "380258472"


async def test_a_pod_that_dies_as_it_goes_between_cycles_still_teaches() -> None:
    born = pod("web-2")
    gone = killed("2026-01-02T12:00:30Z", "web-2")
    gone["metadata"]["resourceVersion"] = "12"
    async with FakeApi() as api:
        prepare(api)
        chunks = [watch_line("ADDED", born), watch_line("DELETED", gone)]
        api.on("WATCH /api/v1/pods", Reply(chunks=chunks, hold=True))
        async with running(api) as process:
            await until(lambda: process.followed.pods._version == "12")
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
        api.on(f"{vpas}/gone", status(404, "NotFound"))
        api.on(f"{vpas}/new", Reply(body=vpa("new")))  # the cache doesn't know it yet
        api.on(f"{DELETE_OLD}/gone-app", Reply(body={}))
        async with running(api) as process:
            await process.cycle()
            assert f"{DELETE_OLD}/gone-app" not in api.routes
            process.clock.forward(timedelta(minutes=10))
            await process.cycle()
        deleted = [route for route in api.routes if route.startswith("DELETE")]
        assert deleted == [f"{DELETE_OLD}/gone-app"]
