"""The recommender's rows of the read API: from the model and the statuses after a cycle."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.watch import WatchProtocol
from common.read_model.page import ReadMetadata
from common.read_model.recommender import VpaDetail, VpaSummary
from fake_api import FakeApi, listing, watch_line
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    START,
    Running,
    checkpoint,
    deployment,
    prepare,
    published,
    running,
    usage,
    vpa,
)

NOTHING = ReadMetadata(last_pass=None, leading=None, leader=None)
WRONG = {"containerPolicies": [{"containerName": "app", "maxAllowed": {"cpu": "a lot"}}]}


def summaries(process: Running) -> list[VpaSummary]:
    table = process.recommender.vpa_table
    bodies = [table.rows(key).item([table.rows(key).body(0)]) for key in table.keys]
    return [msgspec.json.decode(body, type=VpaSummary) for body in bodies]


def detail(process: Running, name: str = "web") -> VpaDetail:
    found = process.recommender.detail("shop", name, NOTHING)
    assert found is not None
    return found


async def test_nothing_is_known_before_the_first_cycle() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            assert (summaries(process), process.recommender.last_cycle) == ([], None)
            assert process.recommender.detail("shop", "web", NOTHING) is None


async def test_each_cycle_has_a_number_and_its_vpas() -> None:
    async with FakeApi() as api:
        names = ("web", "api", "db")
        prepare(api, verticalpodautoscalers=[vpa(name) for name in names])
        async with running(api) as process:
            for number in (1, 2):
                await process.cycle()
                passed = process.recommender.last_cycle
                assert passed is not None
                assert (passed.number, passed.at) == (number, START)
                assert process.recommender.vpa_table.number == number
            assert [found.name for found in summaries(process)] == ["api", "db", "web"]
            assert list(process.recommender.vpa_table.ends) == [1, 2, 3]


async def test_the_history_of_a_container_includes_its_checkpoint() -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[published(vpa(), cpu="1", memory="1Gi")])
        api.on(CHECKPOINTS, listing(checkpoint()))
        async with running(api) as process:
            await process.cycle()
            (web,) = summaries(process)
    (app,) = web.containers
    assert (app.target, app.uncapped_target) == ({"cpu": "1", "memory": "1Gi"},) * 2
    assert app.samples == 1441
    assert app.first_sample == datetime(2026, 1, 1, tzinfo=UTC)
    assert app.last_sample == START
    assert app.confidence == {
        "cpu": pytest.approx(1441 / 1440),
        "memory": pytest.approx(1441 / 1440),
    }
    assert (web.mode, web.pods, web.target_ref and web.target_ref.kind) == (
        "Recreate",
        1,
        "Deployment",
    )
    (condition,) = web.conditions
    assert (condition.type, condition.since) == (
        "RecommendationProvided",
        datetime(2026, 1, 1, tzinfo=UTC),
    )


async def test_the_age_of_checkpoints() -> None:
    updated = datetime(2026, 1, 2, 11, tzinfo=UTC)
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(), vpa("new")], deployments=[deployment()])
        log = checkpoint(container="log", lastUpdateTime="2026-01-02T11:30:00Z")
        api.on(CHECKPOINTS, listing(checkpoint(), log))
        async with running(api) as process:
            await process.cycle()
            new, web = summaries(process)
            assert (new.checkpointed_at, web.checkpointed_at) == (START, updated)
            process.clock.forward(timedelta(hours=2))
            await process.cycle()
            assert summaries(process)[1].checkpointed_at == START + timedelta(hours=2)


async def test_a_container_without_samples_has_empty_numbers() -> None:
    async with FakeApi() as api:
        prepare(api, pods=[], verticalpodautoscalers=[published(vpa(), cpu="1")])
        api.on(METRICS, listing())
        async with running(api) as process:
            await process.cycle()
            (web,) = summaries(process)
    (app,) = web.containers
    assert (app.target, app.samples, app.first_sample, app.last_sample) == (
        {"cpu": "1"},
        0,
        None,
        None,
    )
    assert app.confidence == {"cpu": 0, "memory": 0}
    assert web.pods == 0


async def test_a_vpa_that_was_deleted_since_the_cycle_is_still_a_row() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            await process.cycle()
            feed = WatchProtocol(VerticalPodAutoscaler, resource_version="10").feed
            process.informers.vpas._apply(next(feed(watch_line("DELETED", vpa()))))
            (web,) = summaries(process)
            assert (web.name, web.target_ref, web.containers[0].samples) == ("web", None, 1)
            assert detail(process).summary == web


async def test_histograms_have_the_shares_and_percentiles_of_the_merged_usage() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api, margin_fraction=0.1) as process:
            for cpu in ("100m", "100m", "100m", "1000m"):
                process.clock.forward(timedelta(minutes=1))
                at = process.clock.now()
                api.on(METRICS, listing(usage(at=at, cpu=cpu, memory="200Mi")))
                await process.cycle()
            found = detail(process)
    ((name, (cpu_usage, memory)),) = [(one.name, one.histograms) for one in found.containers]
    assert (name, cpu_usage.unit, memory.unit) == ("app", "millicores", "bytes")
    low, high = cpu_usage.buckets
    assert low.start <= 100 < high.start <= 1000
    assert low.share == pytest.approx(0.75, abs=0.01)
    assert high.share == pytest.approx(0.25, abs=0.01)
    curve = {point.fraction: point.amount for point in cpu_usage.curve}
    assert len(curve) == 101
    assert curve[0.0] == curve[0.5] == curve[0.74] < curve[0.76] == curve[1.0]
    assert cpu_usage.weight == pytest.approx(0.4, abs=0.01)
    assert (cpu_usage.target, cpu_usage.lower_bound, cpu_usage.upper_bound) == (0.9, 0.5, 0.95)
    assert cpu_usage.margin == 0.1
    assert len(memory.buckets) == 1


async def test_an_empty_histogram_has_no_curve() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing())
        async with running(api) as process:
            await process.cycle()
            found = detail(process)
    ((_, (cpu, _memory)),) = [(one.name, one.histograms) for one in found.containers]
    assert (cpu.weight, cpu.buckets, cpu.curve) == (0.0, (), ())


async def test_a_policy_that_can_not_be_read_leaves_no_explanation() -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(resourcePolicy=WRONG)])
        async with running(api) as process:
            await process.cycle()
            found = detail(process)
    assert found.explanation is None
    assert (found.unexplained or "").startswith("its policy can't be read: ")
    assert found.summary.containers[0].samples == 1
