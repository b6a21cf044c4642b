"""``python -P -m recommender`` as its own process, against an API server that keeps still."""

import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from common.runtime.clock import SystemClock
from component import Process, running_component
from fake_api import FakeApi, Reply, listing, named, status
from recommender_harness import CHECKPOINTS, METRICS, NEW_CHECKPOINT, prepare, status_of, usage

WEB = status_of("web")


def running(api: FakeApi, folder: Path, *arguments: str) -> AbstractAsyncContextManager[Process]:
    return running_component("recommender", api, folder, "--recommender-interval=200ms", *arguments)


async def test_a_life_from_the_first_cycle_to_sigterm(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing(usage(at=SystemClock().now())))
        async with running(api, tmp_path) as process:
            await api.asked(WEB, times=2)  # the fake's VPA never changes, so it is written again
            await api.asked(NEW_CHECKPOINT)
            assert await process.get("/readyz") == (200, "OK")
            assert await process.get("/health-check") == (200, "OK")
            _, metrics = await process.get("/metrics")
            assert "vpa_recommender_aggregate_container_states_count 1.0" in metrics
            assert 'vpa_recommender_metric_server_responses{client_name="default' in metrics
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0
            assert not any("Traceback" in line for line in process.log)


async def test_history_that_cannot_be_read_holds_everything_up(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, status(403, "Forbidden", "not yet"))
        async with running(api, tmp_path) as process:
            await process.logged("history not loaded, trying again")
            assert METRICS not in api.routes
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0


async def test_an_api_server_that_is_away_is_waited_for(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        await api.stop()
        async with running(api, tmp_path) as process:
            await process.logged("API server unreachable")
            assert (await process.get("/readyz"))[0] == 503
            await api.start()
            await api.asked(WEB)
            lines = [line for line in process.log if "API server" in line]
            assert len(lines) == 2  # away, and back
            await api.stop()
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0
            assert not any("Traceback" in line for line in process.log)


async def test_a_silent_metrics_server_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, Reply(chunks=[b'{"items": ['], hold=True))
        async with running(api, tmp_path) as process:
            await api.asked(METRICS)
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0


async def test_a_killed_process_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, listing(usage(at=SystemClock().now(), cpu="800m", memory="1Gi")))
        async with running(api, tmp_path) as process:
            body = (await api.asked(NEW_CHECKPOINT)).json()
            process.process.kill()
        kept = named("web-app", spec=body["spec"], status=body["status"])
        api.on(CHECKPOINTS, listing(kept))
        api.on(METRICS, listing())
        before = api.routes.count(WEB)
        async with running(api, tmp_path):
            again = (await api.asked(WEB, times=before + 1)).json()
        (app,) = again[0]["value"]["recommendation"]["containerRecommendations"]
        assert app["target"]["cpu"] == "920m"
