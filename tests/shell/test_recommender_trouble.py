"""Cycles with invalid objects, refused calls and outages: their effects and the log."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from common.errors import NotLeadingError
from common.features import FeatureGates
from fake_api import FakeApi, Reply, listing, named, status, until
from recommender.checkpoints.codec import LONGEST_LAG
from recommender_harness import (
    CHECKPOINTS,
    HISTOGRAM,
    METRICS,
    NEW_CHECKPOINT,
    START,
    WEB,
    Running,
    checkpoint,
    checkpoint_of,
    conditions,
    deployment,
    killed,
    pod,
    prepare,
    published,
    running,
    status_of,
    target,
    usage,
    vpa,
    written,
)


def policy(**overrides: Any) -> Any:
    return {"containerPolicies": [{"containerName": "*", **overrides}]}


def without_zone(found: Any) -> Any:
    found["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00"
    return found


def without_schema(found: Any) -> Any:
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
        pytest.param(without_zone(vpa("odd")), {}, id="a time without a zone"),
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
            id="huge usage",
        ),
    ],
)
async def test_an_invalid_object_affects_only_itself(odd: Any, more: dict[str, list[Any]]) -> None:
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


async def test_a_foreign_condition_without_a_time_is_kept() -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[without_schema(vpa())])
        async with running(api) as process:
            await process.cycle()
        assert conditions(api).keys() > {"FromElsewhere"}
        (kept,) = (one for one in written(api)["conditions"] if one["type"] == "FromElsewhere")
        assert kept == {"type": "FromElsewhere", "status": "True"}


@pytest.mark.parametrize(
    ("ahead", "samples"),
    [
        pytest.param(timedelta(seconds=75), [1441], id="clocks differ"),
        pytest.param(timedelta(hours=2), [], id="a clock is wrong"),
        pytest.param(timedelta(days=3000), [], id="a clock is very wrong"),
    ],
)
async def test_usage_from_the_future_does_not_remove_history(
    ahead: timedelta, samples: list[int]
) -> None:
    """With a sample that far ahead, the weights of all others would decay to zero."""
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint()))
        api.on(METRICS, listing(usage(at=START + ahead)))
        async with running(api) as process:
            await process.cycle()
            process.clock.forward(LONGEST_LAG)
            await process.cycle()
        stored = [
            one
            for one in api.requests
            if one.path == checkpoint_of("web-app").removeprefix("PATCH ")
        ]
        assert [one.json()[-1]["value"]["totalSamplesCount"] for one in stored] == samples
        assert target(api) == {"cpu": "813m", "memory": "813749082"}


async def test_one_sample_from_the_future_does_not_stop_later_samples() -> None:
    """The usage rises a minute after a sample that was 55 minutes ahead."""
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing(usage(at=START + timedelta(minutes=55), cpu="100m")))
        async with running(api) as process:
            await process.cycle()
            now = process.clock.forward(timedelta(minutes=1))
            api.on(METRICS, listing(usage(at=now, cpu="1")))
            await process.cycle()
        assert target(api)["cpu"] == "1168m"


async def test_the_beginning_and_end_of_usage_from_the_future_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            for ahead in (timedelta(), timedelta(hours=2), timedelta(hours=2), timedelta()):
                api.on(METRICS, listing(usage(at=START + ahead)))
                await process.cycle()
    messages = [
        one.getMessage()
        for one in caplog.records
        if one.name == "recommender.sources.usage_ingestion"
    ]
    assert messages == [
        "usage with future timestamps left out; check the clocks",
        "no more usage with future timestamps",
    ]


async def test_a_kill_from_the_future_does_not_remove_history() -> None:
    async with FakeApi() as api:
        prepare(api, pods=[killed("2036-01-02T12:00:00Z")])
        api.on(CHECKPOINTS, listing(checkpoint()))
        async with running(api) as process:
            await process.cycle()
            assert process.sample("vpa_recommender_ooms_postponed") == 1
            assert process.sample("vpa_recommender_oom_seen_total") == 0
        assert target(api) == {"cpu": "813m", "memory": "813749082"}


@pytest.mark.parametrize("slow", [status_of("db"), checkpoint_of("db-app")])
async def test_a_slow_response_delays_no_other_write(slow: str) -> None:
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[deployment(), deployment("db")],
            pods=[pod(), pod("db-1", app="db")],
            verticalpodautoscalers=[vpa("db"), vpa()],
        )
        api.on(METRICS, listing(usage(), usage("db-1")))
        api.on(slow, Reply(chunks=[b"{"], hold=True))
        api.on(CHECKPOINTS, listing(checkpoint("db"), checkpoint()))
        async with running(api) as process, asyncio.TaskGroup() as group:
            process.clock.forward(LONGEST_LAG)
            cycle = group.create_task(process.cycle())
            await api.asked(slow)
            for name in ("web", "db"):  # also of the same VPA: statuses don't wait for checkpoints
                await api.asked(status_of(name))
                await api.asked(checkpoint_of(f"{name}-app"))
            assert not cycle.done()
            cycle.cancel()


async def test_the_beginning_and_end_of_a_lasting_refusal_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="recommender.write_failures")
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[deployment(), deployment("db")],
            pods=[pod(), pod("db-1", app="db")],
            verticalpodautoscalers=[vpa("db"), vpa()],
        )
        for name in ("db", "web"):
            api.on(status_of(name), status(403, "Forbidden", "no permission"))
        api.on(NEW_CHECKPOINT, status(403, "Forbidden", "no permission"))
        async with running(api) as process:
            for _ in range(3):
                await process.cycle()
                api.on(METRICS, listing(usage(at=process.clock.forward(timedelta(minutes=1)))))
            records = {record.getMessage(): vars(record) for record in caplog.records}
            assert len(caplog.records) == 2
            assert records.keys() == {"status not written", "checkpoint not written"}
            first = records["status not written"]
            assert (first["count"], first["vpa"], first["error"]) == (2, "shop/db", "no permission")
            for name in ("db", "web"):
                api.on(status_of(name), Reply(body=named(name)))
            api.on(NEW_CHECKPOINT, Reply(status=201, body=named("web-app")))
            await process.cycle()
        told_last = sorted(record.getMessage() for record in caplog.records[2:])
        assert told_last == ["every checkpoint is written again", "every status is written again"]


async def test_a_policy_that_cannot_be_read_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(resourcePolicy=policy(minAllowed={"cpu": "?"}))])
        async with running(api) as process:
            await process.cycle()
            await process.cycle()
        (records,) = [record for record in caplog.records if record.name.startswith("recommender")]
        assert vars(records)["vpa"] == "shop/web"
        assert "not a quantity: '?'" in vars(records)["why"]


async def test_usage_that_cannot_be_decoded_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing(usage(), {**usage("web-2"), "containers": 7}))
        async with running(api) as process:
            for _ in range(3):
                await process.cycle()
        assert caplog.text.count("object skipped") == 1


async def test_an_invalid_vpa_affects_only_itself() -> None:
    nonsense = vpa("odd", resourcePolicy={"containerPolicies": [{"minAllowed": {"cpu": "?"}}]})
    nonsense["spec"]["resourcePolicy"]["containerPolicies"][0]["containerName"] = "*"
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[deployment(), deployment("odd")],
            pods=[pod(), pod("odd-1", app="odd")],
            verticalpodautoscalers=[nonsense, vpa(), {"spec": 7}],
        )
        api.on(METRICS, listing(usage(), usage("odd-1")))
        async with running(api) as process:
            await process.cycle()
        assert target(api) == {"cpu": "126m", "memory": "250Mi"}
        assert status_of("odd") not in api.routes


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


EXISTING = "GET /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web"
NOT_FOUND = status(404, "NotFound", name="web", kind="verticalpodautoscalers")
MISSING = "verticalpodautoscalers.autoscaling.k8s.io has no status subresource; apply deploy/crd/"


def vpa_with(uid: str) -> Any:
    found = vpa()
    found["metadata"]["uid"] = uid
    return found


@dataclass(frozen=True, kw_only=True)
class RefusedWrite:
    """The responses to writes of a status in three cycles."""

    id: str
    answer: Reply
    there: Reply = NOT_FOUND  # the response to a GET of the VPA
    reason: str = ""  # in the metric, once for each cycle
    level: int | None = None  # of the one line in the log
    says: str = ""


REFUSED_WRITES = [
    RefusedWrite(id="the VPA was edited", answer=status(409, "Conflict"), reason="Conflict"),
    RefusedWrite(id="x121 the VPA was deleted", answer=NOT_FOUND),
    RefusedWrite(
        id="x121 the VPA was replaced by one of the same name",
        answer=NOT_FOUND,
        there=Reply(body=vpa_with("2")),
    ),
    RefusedWrite(
        id="x121 no status subresource",
        answer=NOT_FOUND,
        there=Reply(body=vpa_with("1")),
        reason="NoStatusSubresource",
        level=logging.ERROR,
        says=MISSING,
    ),
    RefusedWrite(
        id="x121 not found, and no response to a GET of the VPA",
        answer=NOT_FOUND,
        there=status(403, "Forbidden"),
        reason="Forbidden",
        level=logging.WARNING,
    ),
    RefusedWrite(
        id="x121 no VPAs are served, or not yet",
        answer=Reply(status=404, body="404 page not found\n"),
        there=Reply(body=vpa_with("1")),
        reason="NotFound",
        level=logging.WARNING,
    ),
    RefusedWrite(
        id="a quota",
        answer=status(403, "Forbidden"),
        reason="Forbidden",
        level=logging.WARNING,
    ),
]


@pytest.mark.parametrize("case", REFUSED_WRITES, ids=lambda case: case.id)
async def test_a_status_that_is_not_written(
    case: RefusedWrite, caplog: pytest.LogCaptureFixture
) -> None:
    """It is retried in each cycle, counted by its stored state, and logged at most once."""
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa_with("1")])
        api.on(WEB, case.answer)
        api.on(EXISTING, case.there)
        async with running(api) as process:
            for _ in range(3):
                await process.cycle()
            failed = process.metrics.registry.get_sample_value
            assert (api.routes.count(WEB), vpa_counts(process)) == (3, {"false": 1, "true": 0})
            for reason in ("Conflict", "Forbidden", "NoStatusSubresource", "NotFound"):
                labels = {"kind": "status", "reason": reason}
                want = 3 if reason == case.reason else None
                assert failed("vpa_recommender_failed_writes_total", labels) == want, reason
            lines = [line for line in caplog.records if line.name == "recommender.write_failures"]
            assert [line.levelno for line in lines] == [case.level] * (case.level is not None)
            assert all(case.says in vars(line)["error"] for line in lines)

            api.on(WEB, Reply(body=named("web")))
            await process.cycle()
            assert vpa_counts(process) == {"false": 0, "true": 1}
        assert target(api) == {"cpu": "126m", "memory": "250Mi"}


def vpa_counts(process: Running) -> dict[str, float | None]:
    """Return the number of VPAs of the last cycle, with and without a recommendation."""
    labels = {"update_mode": "Recreate", "api": "v1", "matches_pods": "true"}
    name, labels = "vpa_recommender_vpa_objects_count", labels | {"unsupported_config": "false"}
    return {
        has: process.sample(name, has_recommendation=has, **labels) for has in ("false", "true")
    }


async def test_x121_the_existence_of_vpas_is_checked_once_if_no_status_can_be_written() -> None:
    names = [f"web-{number}" for number in range(20)]
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(name) for name in names])
        there = {EXISTING.replace("/web", f"/{name}"): name for name in names}
        for route, name in there.items():
            api.on(status_of(name), status(404, "NotFound", name=name))
            api.on(route, Reply(body=vpa(name)))
        async with running(api, update_worker_count=1) as process:
            await process.cycle()
            await process.cycle()
            labels = {"kind": "status", "reason": "NoStatusSubresource"}
            assert process.sample("vpa_recommender_failed_writes_total", **labels) == 40
        assert [there[route] for route in api.routes if route in there] == names[:1]


async def test_x120_without_its_lease_it_writes_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The process then ends, with its own log line."""

    def check() -> None:
        raise NotLeadingError("it may have run out", reason="NotLeading")

    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint("gone")))
        api.on(EXISTING.replace("/web", "/gone"), status(404, "NotFound", name="gone"))
        async with running(api, before_write=check) as process:
            api.on(METRICS, listing(usage(at=process.clock.forward(timedelta(minutes=10)))))
            await process.cycle()
            for kind in ("status", "checkpoint"):
                labels = {"kind": kind, "reason": "NotLeading"}
                assert process.sample("vpa_recommender_failed_writes_total", **labels) == 1
    assert {route.split()[0] for route in api.routes} == {"GET", "NAMES", "WATCH"}
    said = [line.message for line in caplog.records if line.name.startswith("recommender")]
    assert said == ["checkpoints not collected"]


async def test_x120_a_checkpoint_is_not_written_again_after_the_lease_expired() -> None:
    """The write of another leader is read, and kept."""
    async with FakeApi() as api:

        def check() -> None:
            if checkpoint_of("web-app") in api.routes:
                raise NotLeadingError("it may have run out", reason="NotLeading")

        prepare(api)
        theirs = checkpoint(totalSamplesCount=2000)
        theirs["metadata"]["resourceVersion"] = "7"
        api.on(CHECKPOINTS, listing(checkpoint()))
        api.on(CHECKPOINTS.replace("/v1/", "/v1/namespaces/shop/"), listing(theirs))
        api.on(checkpoint_of("web-app"), status(409, "Conflict"))
        async with running(api, before_write=check) as process:
            api.on(METRICS, listing(usage(at=process.clock.forward(LONGEST_LAG))))
            await process.cycle()
            labels = {"kind": "checkpoint", "reason": "NotLeading"}
            assert process.sample("vpa_recommender_failed_writes_total", **labels) == 1
            assert process.sample("vpa_recommender_checkpoint_conflicts_total", reason="foreign")
        assert api.routes.count(checkpoint_of("web-app")) == 1


async def test_a_failing_metrics_server_is_logged_once_and_the_cycle_continues(
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
            assert written(api)["recommendation"] == {}
            assert conditions(api)["NoSamples"].startswith("app: no usage is known")
            api.on(METRICS, listing(usage()))
            await process.cycle()
            assert caplog.text.count("usage is there again") == 1
            name = "vpa_recommender_metric_server_responses"
            client = {"client_name": "default-metrics-client"}
            assert process.sample(name, is_error="true", **client) == 2
            assert process.sample(name, is_error="false", **client) == 1


async def test_a_restart_without_history_or_usage_keeps_the_published_recommendation() -> None:
    """With the minimum, large pods would be evicted, and their replacements too small."""
    one = published(vpa(), cpu="3", memory="2Gi")
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[one])
        api.on(METRICS, status(503, "ServiceUnavailable"))
        async with running(api) as process:
            await process.cycle()
            assert target(api) == {"cpu": "3", "memory": "2Gi"}
            api.on(METRICS, listing(usage()))
            await process.cycle()
            assert target(api) == {"cpu": "126m", "memory": "250Mi"}  # history is loaded


@pytest.mark.parametrize(
    ("observed", "want"),
    [
        pytest.param(1, {}, id="published for the former target"),
        pytest.param(2, {"cpu": "3", "memory": "2Gi"}, id="published for this target"),
    ],
)
async def test_x123_after_a_restart_only_a_recommendation_for_this_target_is_kept(
    observed: int, want: dict[str, str]
) -> None:
    """The checkpoint of a container of the former target still exists."""
    one = published(vpa(), cpu="3", memory="2Gi")
    one["metadata"]["generation"], one["status"]["observedGeneration"] = 2, observed
    stored = checkpoint(container="old")
    stored["metadata"]["annotations"] = {"vpa-recommender/target": "Deployment/db"}
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[one])
        api.on(CHECKPOINTS, listing(stored))
        api.on(METRICS, status(503, "ServiceUnavailable"))
        async with running(api) as process:
            await process.cycle()
            assert target(api) == want


async def test_nothing_is_written_while_the_api_server_is_unreachable() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            await api.stop()
            await process.cycle()
            assert WEB not in api.routes
            await api.start()
            await process.cycle()
            assert WEB not in api.routes  # the watches must be current first
            await until(lambda: process.informers.fresh)
            await process.cycle()
            assert target(api) == {"cpu": "126m", "memory": "250Mi"}
