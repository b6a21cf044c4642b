"""Liveness, readiness and metrics, and the server of these endpoints."""

import asyncio
import contextlib
import functools
import json
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime, timedelta

import aiohttp
import fastapi
import prometheus_client
import pytest
import uvloop
from prometheus_client.core import CounterMetricFamily, Metric

from common.errors import ConfigError
from common.runtime.health import Checks, Health, ops_server
from common.runtime.web_server import WebServer, listen, parse_address
from common.version import version, version_info
from fake_api import TIMEOUT
from fixed_clock import FixedClock

START = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def healthy() -> Health:
    return Health(FixedClock(START), timedelta(minutes=5))


def test_a_process_that_is_not_armed_is_healthy() -> None:
    clock = FixedClock(START)
    health = Health(clock, timedelta(minutes=5))
    health.beat()
    clock.forward(timedelta(days=1))
    assert health.answer() == (200, "OK")


def test_a_process_is_healthy_for_the_timeout_after_its_last_cycle() -> None:
    clock = FixedClock(START)
    health = Health(clock, timedelta(minutes=5))
    health.arm()
    clock.forward(timedelta(minutes=5))
    assert health.answer() == (200, "OK")
    clock.forward(timedelta(seconds=1))
    assert health.answer() == (500, "Error: last activity more than 5m1s ago")
    health.beat()
    assert health.answer() == (200, "OK")


@contextlib.asynccontextmanager
async def serving(server: WebServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            yield session
        task.cancel()


async def answer(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as response:
        return response.status, await response.text()


async def test_the_endpoints_of_the_ops_address() -> None:
    clock = FixedClock(START)
    health = Health(clock, timedelta(minutes=5))
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("vpa_things", "Things.", registry=registry).inc()
    ready = {"pods": False, "vpas": False, "leader": True}
    checks: Checks = {name: functools.partial(ready.__getitem__, name) for name in ready}
    server = ops_server(health, "127.0.0.1:0", checks=checks, registry=registry)
    async with serving(server) as session:
        for path in ("/health-check", "/livez", "/healthz"):
            assert await answer(session, path) == (200, "OK")
        assert await answer(session, "/readyz") == (503, "not ready: pods, vpas")
        ready.update(pods=True, vpas=True)
        assert await answer(session, "/readyz") == (200, "OK")
        status, text = await answer(session, "/metrics")
        assert status == 200
        assert "vpa_things_total 1.0" in text
        assert "vpa_things" not in (await answer(session, "/metrics?name[]=vpa_others"))[1]
        text = (await answer(session, "/metrics?name[]=vpa_others&name[]=vpa_things_total"))[1]
        assert "vpa_things_total 1.0" in text
        health.arm()
        clock.forward(timedelta(minutes=6))
        for path in ("/health-check", "/livez", "/healthz"):
            assert (await answer(session, path))[0] == 500


async def test_the_index_lists_every_path_with_a_sentence() -> None:
    router = fastapi.APIRouter()

    @router.get("/own")
    async def own() -> str:
        """Answer with a word. The word is always the same."""
        return "own"

    server = ops_server(healthy(), "127.0.0.1:0", profiling=True, routers=(router,))
    async with serving(server) as session:
        described = json.loads((await answer(session, "/openapi.json"))[1])
        listed = json.loads((await answer(session, "/"))[1])["paths"]
        async with session.get("/", headers={"Accept": "text/plain"}) as response:
            lines = (await response.text()).splitlines()
    paths = {each["path"]: each for each in listed}
    assert paths.keys() == described["paths"].keys() | {"/openapi.json", "/docs"}
    assert paths["/readyz"] == {
        "path": "/readyz",
        "methods": ["GET"],
        "about": "Report whether all checks pass, such as synced caches, for readiness probes.",
    }
    assert paths["/own"]["about"] == "Answer with a word."
    assert all(each["about"].endswith(".") for each in listed)
    assert [line.split()[0] for line in lines] == sorted(paths)


class SlowCollector:
    """Blocks until ``release`` is set."""

    def __init__(self) -> None:
        self.asked, self.release = threading.Event(), threading.Event()

    def collect(self) -> Iterable[Metric]:
        self.asked.set()
        assert self.release.wait(TIMEOUT)
        yield CounterMetricFamily("vpa_things", "Things.", value=1)


async def test_a_slow_scrape_delays_no_other_request() -> None:
    registry, slow = prometheus_client.CollectorRegistry(), SlowCollector()
    slow.release.set()
    registry.register(slow)
    slow.release.clear()
    server = ops_server(healthy(), "127.0.0.1:0", registry=registry)
    async with serving(server) as session, asyncio.TaskGroup() as group:
        scrape = group.create_task(answer(session, "/metrics"))
        await asyncio.to_thread(slow.asked.wait, TIMEOUT)
        assert await answer(session, "/health-check") == (200, "OK")
        assert not scrape.done()
        slow.release.set()
    assert "vpa_things_total 1.0" in scrape.result()[1]


async def test_the_openapi_page_lists_the_endpoints_of_the_ops_address() -> None:
    server = ops_server(healthy(), "127.0.0.1:0", profiling=True)
    async with serving(server) as session:
        status, page = await answer(session, "/docs")
        assert (status, "/openapi.json" in page) == (200, True)
        described = json.loads((await answer(session, "/openapi.json"))[1])
        assert described["info"]["version"] == version()
        status, text = await answer(session, "/version")
        assert (status, json.loads(text)) == (200, version_info(version()))
    paths = described["paths"]
    assert {path: sorted(methods["get"]["responses"]) for path, methods in paths.items()} == {
        "/": ["200"],
        "/health-check": ["200", "500"],
        "/healthz": ["200", "500"],
        "/livez": ["200", "500"],
        "/readyz": ["200", "503"],
        "/metrics": ["200", "422", "503"],
        "/version": ["200"],
        "/debug/pprof/profile": ["200", "422"],
        "/debug/pprof/heap": ["200", "422"],
    }


async def test_a_cancelled_server_releases_its_port() -> None:
    server = ops_server(healthy(), "127.0.0.1:0")
    async with serving(server) as session:
        await answer(session, "/health-check")
    listen(f"127.0.0.1:{server.port}").close()


def test_a_port_in_use_raises_a_one_line_error() -> None:
    health = Health(FixedClock(START), timedelta(minutes=5))
    with contextlib.closing(listen("127.0.0.1:0")) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"can't listen on {address}: Address already in use"):
            ops_server(health, address)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (":8942", ("", 8942)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("localhost:65535", ("localhost", 65535)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_valid_addresses(text: str, want: tuple[str, int]) -> None:
    assert parse_address(text) == want


@pytest.mark.parametrize(
    "text", ["", "8942", "host:", ":65536", ":-1", ":http", "::1:80", ":\uff18"]
)
def test_invalid_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match="address"):
        parse_address(text)


def test_no_host_means_every_interface() -> None:
    with (
        contextlib.closing(listen(":0")) as every,
        contextlib.closing(listen("127.0.0.1:0")) as one,
    ):
        assert every.getsockname()[0] in {"::", "0.0.0.0"}
        assert one.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("address", [":0", "127.0.0.1:0"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_answers_are_sent_at_once(
    address: str, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Nagle's algorithm would delay the body of an answer."""

    async def delays() -> list[int]:
        server = ops_server(healthy(), address)
        async with serving(server) as session:
            await answer(session, "/health-check")
            opened = [one.transport for one in server._server.server_state.connections]
            sockets = [one.get_extra_info("socket") for one in opened]
            return [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets]

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(delays()) == [1]


class CountingCollector:
    """Counts its scrapes."""

    def __init__(self) -> None:
        self.asked = 0

    def collect(self) -> Iterable[Metric]:
        self.asked += 1
        yield CounterMetricFamily("vpa_things", "Things.", value=self.asked)


async def test_scrapes_within_a_second_share_an_answer() -> None:
    registry, things = prometheus_client.CollectorRegistry(auto_describe=True), CountingCollector()
    registry.register(things)
    before = things.asked
    server = ops_server(healthy(), "127.0.0.1:0", registry=registry)
    async with serving(server) as session:
        answers = await asyncio.gather(*(answer(session, "/metrics") for _ in range(15)))
        assert things.asked == before + 1
        assert len(set(answers)) == 1
        await answer(session, "/metrics?name[]=vpa_things_total")
        assert things.asked == before + 2
        await answer(session, "/metrics?name[]=vpa_things_total")
        assert things.asked == before + 2


async def test_concurrent_scrapes_above_the_limit_are_refused() -> None:
    registry, slow = prometheus_client.CollectorRegistry(auto_describe=True), SlowCollector()
    slow.release.set()
    registry.register(slow)
    slow.release.clear()
    slow.asked.clear()
    server = ops_server(healthy(), "127.0.0.1:0", registry=registry)
    async with serving(server) as session, asyncio.TaskGroup() as group:
        scrapes = [
            group.create_task(answer(session, f"/metrics?name[]=vpa_things_total&name[]={number}"))
            for number in range(20)
        ]
        await asyncio.to_thread(slow.asked.wait, TIMEOUT)
        _, waiting = await asyncio.wait(scrapes, return_when=asyncio.FIRST_COMPLETED)
        assert waiting
        slow.release.set()
    statuses = Counter(scrape.result()[0] for scrape in scrapes)
    assert statuses == {200: 16, 503: 4}


async def test_profiles_are_served_only_with_the_flag() -> None:
    server = ops_server(healthy(), "127.0.0.1:0")
    async with serving(server) as session:
        status, _ = await answer(session, "/debug/pprof/profile")
    assert status == 404


async def test_only_one_profile_is_taken_at_a_time() -> None:
    health = healthy()
    server = ops_server(health, "127.0.0.1:0", profiling=True)
    async with serving(server) as session:
        answers = await asyncio.gather(
            *(answer(session, "/debug/pprof/heap?seconds=0.05") for _ in range(2))
        )
    assert sorted(status for status, _ in answers) == [200, 409]


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "-1", "-0.001", "soon"])
async def test_an_invalid_duration_of_a_profile_is_refused(seconds: str) -> None:
    server = ops_server(healthy(), "127.0.0.1:0", profiling=True)
    async with serving(server) as session:
        for kind in ("profile", "heap"):
            assert (await answer(session, f"/debug/pprof/{kind}?seconds={seconds}"))[0] == 422


async def test_a_profile_ends_when_its_client_leaves() -> None:
    server = ops_server(healthy(), "127.0.0.1:0", profiling=True)
    async with serving(server) as session:
        with pytest.raises(TimeoutError):
            await session.get(
                "/debug/pprof/heap?seconds=300", timeout=aiohttp.ClientTimeout(total=0.2)
            )
        async with asyncio.timeout(TIMEOUT):
            while (await answer(session, "/debug/pprof/heap?seconds=0"))[0] == 409:
                pass


async def test_a_profile_lists_functions_with_their_time() -> None:
    health = healthy()
    server = ops_server(health, "127.0.0.1:0", profiling=True)
    async with serving(server) as session:
        status, text = await answer(session, "/debug/pprof/profile?seconds=0.01")
    assert status == 200
    assert "cumulative" in text
