"""Events: queued without blocking, sent in the background."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from fake_api import FakeApi, Reply, named, status

from common.api.meta import ObjectMeta
from common.kube.endpoints import PODS
from common.kube.events import NORMAL, EventRecorder, reference

EVENTS = "/api/v1/namespaces/shop/events"
POD = reference(PODS, ObjectMeta(name="web-0", namespace="shop", uid="u", resource_version="7"))
TEXT = "Pod was evicted by VPA Updater to apply resource recommendation."
CREATED = Reply(status=201, body=named("x"))


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


@contextlib.asynccontextmanager
async def recording(api: FakeApi) -> AsyncIterator[EventRecorder]:
    async with api.client() as client, asyncio.TaskGroup() as group:
        recorder = EventRecorder(client, "vpa-updater", clock=StoppedClock())
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


async def test_an_event_that_lived_out_its_hour_is_created_anew() -> None:
    async with FakeApi() as api, recording(api) as recorder:
        api.on(f"POST {EVENTS}", CREATED)
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)
        recorder.event(POD, NORMAL, "EvictedByVPA", TEXT)  # its PATCH answers 404
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


async def test_what_waits_at_the_end_is_still_sent() -> None:
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
