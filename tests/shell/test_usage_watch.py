"""The memory usage of watched pods: calls, the running window, and failures."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from common.quantity import Quantity
from fake_api import FakeApi, Reply, listing, named, status
from fixed_clock import FixedClock
from sandbox.times import rfc3339
from updater.resize.limit_decrease import LimitDecrease
from updater.resize.memory_decrease import MemoryDecreaseRules, MemoryUse, memory_step
from updater.usage_watch import UsageWatch
from updater_harness import NOW

MIB, SECOND, MINUTE = 1 << 20, timedelta(seconds=1), timedelta(minutes=1)
METRICS = "/apis/metrics.k8s.io/v1beta1"
WEB = {"uid-web": ("shop", "web")}


def usage(
    name: str = "web", memory: Any = "10Mi", *, at: datetime = NOW, namespace: str = "shop"
) -> dict[str, Any]:
    containers = [{"name": "app", "usage": {"cpu": "1m", "memory": memory}}]
    metrics: dict[str, Any] = named(
        name, namespace=namespace, timestamp=rfc3339(at), window="30s", containers=containers
    )
    return metrics


def one(name: str = "web", namespace: str = "shop") -> str:
    return f"GET {METRICS}/namespaces/{namespace}/pods/{name}"


def every(namespace: str = "") -> str:
    return f"GET {METRICS}/namespaces/{namespace}/pods" if namespace else f"GET {METRICS}/pods"


def pods(count: int, namespace: str = "shop") -> dict[str, tuple[str, str]]:
    return {f"uid-{namespace}-{number}": (namespace, f"web-{number}") for number in range(count)}


@asynccontextmanager
async def watching() -> AsyncIterator[tuple[FakeApi, UsageWatch, FixedClock]]:
    async with FakeApi() as api, api.client() as client:
        clock = FixedClock(NOW)
        yield api, UsageWatch(client, clock), clock


def uses(watch: UsageWatch, uid: str = "uid-web") -> MemoryUse | None:
    return watch.use.get(uid, {}).get("app")


async def test_the_maximum_of_the_window_counts_with_the_time_of_the_newest_sample() -> None:
    async with watching() as (api, watch, clock):
        for memory in ("10Mi", "30Mi", "20Mi"):
            api.on(one(), Reply(body=usage(memory=memory, at=clock.now())))
            await watch.sample(WEB, within=5)
            clock.forward(MINUTE)
        assert uses(watch) == MemoryUse(most=30 * MIB, oldest=NOW, newest=NOW + 2 * MINUTE)


@pytest.mark.parametrize(
    ("age", "most"),
    [(15 * MINUTE, 30), (15 * MINUTE + SECOND, 10)],
    ids=["15 minutes before the last pass", "more than 15 minutes before the last pass"],
)
async def test_samples_of_15_minutes_and_an_interval_count(age: timedelta, most: int) -> None:
    async with watching() as (api, watch, clock):
        for memory, pause in (("30Mi", age), ("10Mi", MINUTE), ("10Mi", timedelta())):
            api.on(one(), Reply(body=usage(memory=memory, at=clock.now())))
            await watch.sample(WEB, within=5)
            clock.forward(pause)
        oldest = NOW if most == 30 else NOW + age
        assert uses(watch) == MemoryUse(most=most * MIB, oldest=oldest, newest=clock.now())


@pytest.mark.parametrize(
    ("pause", "interval", "passes"),
    [(5, 1, 7), (14, 1, 16), (15, 1, 17), (30, 1, 17), (5, 10, 3), (5, 15, 3), (5, 20, 3)],
)
async def test_any_pause_and_interval_end_in_a_decrease(
    pause: int, interval: int, passes: int
) -> None:
    """The first pass starts to watch, and a sample is of 20 seconds before its pass."""
    decrease = LimitDecrease(
        container="app",
        limit=Quantity.parse("1Gi"),
        request=Quantity.parse("1Gi"),
        new_limit=Quantity.parse("900Mi"),
        new_request=Quantity.parse("900Mi"),
    )
    rules = MemoryDecreaseRules(pause=pause * MINUTE)
    held = []
    async with watching() as (api, watch, clock):
        for _ in range(passes):
            api.on(one(), Reply(body=usage(at=clock.now() - 20 * SECOND)))
            await watch.sample(WEB, within=5)
            step = memory_step(
                decrease, use=uses(watch), floor=None, last=None, rules=rules, now=clock.now()
            )
            held.append(step.held is not None)
            clock.forward(interval * MINUTE)
    assert held == [True] * (passes - 1) + [False]


async def test_pods_that_are_no_longer_watched_are_forgotten() -> None:
    async with watching() as (api, watch, _):
        api.on(one(), Reply(body=usage()))
        await watch.sample(WEB, within=5)
        await watch.sample({}, within=5)
        assert watch.use == {}
        assert len(api.requests) == 1, "without watched pods nothing is read"


TWICE_IN_20 = {
    f"uid-{number}-{name}": (f"shop-{number}", name) for number in range(20) for name in "ab"
}


@pytest.mark.parametrize(
    ("watched", "routes"),
    [
        (pods(10), {one(f"web-{number}") for number in range(10)}),
        (pods(11), {every("shop")}),
        (pods(11) | pods(11, "bank"), {every("shop"), every("bank")}),
        (
            pods(10) | pods(10, "bank"),
            {one(f"web-{number}", name) for number in range(10) for name in ("shop", "bank")},
        ),
        (
            pods(10) | pods(10, "bank") | pods(1, "farm"),
            {every("shop"), every("bank"), every("farm")},
        ),
        (
            {f"uid-{number}": (f"shop-{number}", "web") for number in range(20)},
            {one("web", f"shop-{number}") for number in range(20)},
        ),
        (TWICE_IN_20, {every(f"shop-{number}") for number in range(20)}),
        (TWICE_IN_20 | pods(1), {every()}),
    ],
    ids=[
        "ten pods of a namespace are read one by one",
        "eleven pods of a namespace are listed",
        "two namespaces are listed",
        "twenty pods are read one by one",
        "more than twenty calls become a list of each namespace",
        "twenty namespaces with a pod each are read one by one",
        "twenty namespaces are listed",
        "more than twenty namespaces become one list",
    ],
)
async def test_few_calls_read_the_usage(
    watched: Mapping[str, tuple[str, str]], routes: set[str]
) -> None:
    async with watching() as (api, watch, _):
        items = [usage(name, namespace=namespace) for namespace, name in watched.values()]
        for namespace in {namespace for namespace, _ in watched.values()}:
            found = [each for each in items if each["metadata"]["namespace"] == namespace]
            api.on(every(namespace), listing(*found))
        api.on(every(), listing(*items))
        for item in items:
            meta = item["metadata"]
            api.on(one(meta["name"], meta["namespace"]), Reply(body=item))
        await watch.sample(watched, within=5)
        assert set(api.routes) == routes
        assert watch.use.keys() == watched.keys()
        known = MemoryUse(most=10 * MIB, oldest=NOW, newest=NOW)
        assert all(each == {"app": known} for each in watch.use.values())


@pytest.mark.parametrize("memory", ["a lot", None, True, [], ""], ids=repr)
async def test_an_unreadable_amount_is_no_usage(memory: Any) -> None:
    async with watching() as (api, watch, _):
        api.on(one(), Reply(body=usage(memory=memory)))
        await watch.sample(WEB, within=5)
        assert uses(watch) is None


async def test_a_timestamp_in_the_future_counts_as_now() -> None:
    async with watching() as (api, watch, _):
        api.on(one(), Reply(body=usage(at=NOW + MINUTE)))
        await watch.sample(WEB, within=5)
        assert uses(watch) == MemoryUse(most=10 * MIB, oldest=NOW, newest=NOW)


async def test_a_sample_of_before_the_pod_was_watched_does_not_count() -> None:
    """It may be of an earlier pod of a StatefulSet, with the same name."""
    async with watching() as (api, watch, clock):
        api.on(one(), Reply(body=usage(at=NOW - SECOND)))
        await watch.sample(WEB, within=5)
        assert uses(watch) is None
        clock.forward(MINUTE)
        api.on(one(), Reply(body=usage()))
        await watch.sample(WEB, within=5)
        assert uses(watch) == MemoryUse(most=10 * MIB, oldest=NOW, newest=NOW)


async def test_the_samples_are_dropped_when_the_clock_is_set_back() -> None:
    async with watching() as (api, watch, clock):
        for memory in ("30Mi", "10Mi"):
            api.on(one(), Reply(body=usage(memory=memory, at=clock.now())))
            await watch.sample(WEB, within=5)
            clock.forward(-5 * MINUTE)
        before = NOW - 5 * MINUTE
        assert uses(watch) == MemoryUse(most=10 * MIB, oldest=before, newest=before)


async def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    found = [(each.levelname, getattr(each, "namespace", "")) for each in caplog.records]
    caplog.clear()
    return found


async def test_a_failure_is_logged_once_for_each_namespace_until_a_read_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger=UsageWatch.__module__)
    watched = WEB | {"uid-bank": ("bank", "web")}
    async with watching() as (api, watch, _):
        api.on(one("web", "bank"), Reply(body=usage(namespace="bank")))
        for reply in (status(403, "Forbidden"), status(503, "ServiceUnavailable")):
            api.on(one(), reply)
            await watch.sample(watched, within=5)
        assert uses(watch) is None
        assert uses(watch, "uid-bank") is not None
        assert await logged(caplog) == [("WARNING", "shop")]
        api.on(one("web", "bank"), status(503, "ServiceUnavailable"))
        await watch.sample(watched, within=5)
        assert await logged(caplog) == [("WARNING", "bank")]
        api.on(one(), Reply(body=usage()))
        await watch.sample(watched, within=5)
        assert await logged(caplog) == [("INFO", "shop")]
        api.on(one(), status(403, "Forbidden"))
        await watch.sample(watched, within=5)
        assert await logged(caplog) == [("WARNING", "shop")]
        assert uses(watch) is not None, "the samples of before stay in the window"


@pytest.mark.parametrize(
    ("reply", "levels"),
    [
        (status(404, "NotFound", name="web", kind="pods"), []),
        (Reply(status=404, body="404 page not found"), ["WARNING"]),
    ],
    ids=["a pod without usage yet", "metrics.k8s.io isn't served"],
)
async def test_a_pod_that_is_not_found_is_no_failure(
    reply: Reply, levels: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with watching() as (api, watch, _):
        api.on(one(), reply)
        await watch.sample(WEB, within=5)
        assert uses(watch) is None
    assert [each.levelname for each in caplog.records] == levels


async def test_a_call_without_an_answer_is_logged_although_another_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with watching() as (api, watch, _):
        api.on(one(), Reply(chunks=[b"{"], hold=True))
        api.on(one("web", "bank"), Reply(body=usage(namespace="bank")))
        await watch.sample(WEB | {"uid-bank": ("bank", "web")}, within=0.2)
        assert uses(watch, "uid-bank") is not None
    assert await logged(caplog) == [("WARNING", "shop")]


async def test_a_server_that_does_not_answer_delays_a_pass_only_for_a_while() -> None:
    async with watching() as (api, watch, _):
        api.on(one(), Reply(chunks=[b"{"], hold=True))
        await watch.sample(WEB, within=0.1)
        assert uses(watch) is None
