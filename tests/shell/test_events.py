"""Events: queued without blocking, sent in the background."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from common.api.meta import ObjectMeta
from common.kube.endpoints import PODS
from common.kube.events import NORMAL, EventRecorder, reference
from fake_api import FakeApi, Reply, named, status, until
from fixed_clock import FixedClock

EVENTS = "/api/v1/namespaces/shop/events"
POD = reference(PODS, ObjectMeta(name="web-0", namespace="shop", uid="u", resource_version="7"))
TEXT = "Pod was evicted by VPA Updater to apply resource recommendation."
CREATED = Reply(status=201, body=named("x"))


@contextlib.asynccontextmanager
async def recording(api: FakeApi) -> AsyncIterator[EventRecorder]:
    async with api.client() as client, asyncio.TaskGroup() as group:
        recorder = EventRecorder(
            client, "vpa-updater", clock=FixedClock(datetime(2026, 1, 2, 12, 0, tzinfo=UTC))
        )
        task = group.create_task(recorder.run())
        yield recorder
        task.cancel()


async def test_the_same_event_is_created_once_and_then_counted() -> None:
    async with FakeApi() as api, recording(api) as recorder:
        api.on(f"POST {EVENTS}", CREATED)
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)
        name = (await api.asked(f"POST {EVENTS}")).json()["metadata"]["name"]
        api.on(f"PATCH {EVENTS}/{name}", Reply(body=named(name)))
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)
        patch = await api.asked(f"PATCH {EVENTS}/{name}")
    assert patch.json() == {"count": 2, "lastTimestamp": "2026-01-02T12:00:00Z"}
    assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
    created = api.requests[0].json()
    assert created["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "web-0",
        "uid": "u",
        "resourceVersion": "7",
    }
    assert (created["kind"], created["type"], created["message"]) == ("Event", "Normal", TEXT)


async def test_an_expired_event_is_created_again() -> None:
    async with FakeApi() as api, recording(api) as recorder:
        api.on(f"POST {EVENTS}", CREATED)
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)  # its PATCH gets a 404
        again = await api.asked(f"POST {EVENTS}", times=2)
    assert again.json()["count"] == 1


async def test_a_refused_event_is_logged_and_the_next_one_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApi() as api, recording(api) as recorder:
        api.on(f"POST {EVENTS}", status(403, "Forbidden"), CREATED)
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)
        await api.asked(f"POST {EVENTS}", times=2)
    assert [record.message for record in caplog.records] == ["event not sent"]


async def test_queued_events_are_sent_at_the_end() -> None:
    async with FakeApi() as api:
        api.on(f"POST {EVENTS}", CREATED)
        async with recording(api) as recorder:
            await asyncio.sleep(0)  # the task stands at its queue
            for number in range(3):
                recorder.event(POD, NORMAL, "EvictedByVPA", f"{TEXT} {number}")
    assert len(api.requests) == 3


async def test_a_full_queue_drops_and_never_blocks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with FakeApi() as api, api.client() as client:
        recorder = EventRecorder(client, "vpa-updater")
        for _ in range(1010):
            recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)
    assert [record.message for record in caplog.records] == ["events dropped, too many wait"]


async def test_dropped_events_are_logged_once_and_counted_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="common.kube.events")
    async with FakeApi() as api:
        api.on(f"POST {EVENTS}", CREATED)
        async with recording(api) as recorder:
            for burst in range(3):  # the queue has room again and again, and is full again
                for number in range(1000 + burst):
                    recorder.event(POD, NORMAL, "EvictedByVPA", f"{TEXT} {number}")
                await api.asked(f"POST {EVENTS}", times=burst + 1)
            await until(lambda: "no longer dropped" in caplog.text)
    messages = [record.message for record in caplog.records]
    assert messages == ["events dropped, too many wait", "events are no longer dropped"]
    assert vars(caplog.records[1])["dropped"] > 1000


async def test_refusals_are_logged_once_and_counted_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="common.kube.events")
    async with FakeApi() as api, recording(api) as recorder:
        api.on(f"POST {EVENTS}", status(403, "Forbidden"))
        for number in range(3):
            recorder.event(POD, NORMAL, "EvictedByVPA", f"{TEXT} {number}")
            await api.asked(f"POST {EVENTS}", times=number + 1)
        await until(lambda: recorder._lost == 3)
        api.on(f"POST {EVENTS}", CREATED)
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)
        await until(lambda: "sent again" in caplog.text)
    messages = [record.message for record in caplog.records]
    assert messages == ["event not sent", "events are sent again"]
    assert vars(caplog.records[1])["lost"] == 3


async def test_an_unreachable_server_is_logged_only_by_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApi() as api, recording(api) as recorder:
        api.on(f"POST {EVENTS}", Reply(cut=True))
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)
        await until(lambda: "API server unreachable" in caplog.text)
    assert "event not sent" not in caplog.text
