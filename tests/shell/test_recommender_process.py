"""``python -P -m recommender`` as its own process, with a fake API server."""

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


async def test_the_process_runs_cycles_until_sigterm(tmp_path: Path) -> None:
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
            assert "process_resident_memory_bytes" in metrics
            assert "vpa_recommender_leading 1.0" in metrics
            assert "vpa_recommender_interval_seconds 0.2" in metrics
            assert "vpa_recommender_last_successful_cycle_timestamp_seconds 0.0" not in metrics
            assert 'vpa_recommender_cache_age_seconds{api_resource="pods"}' in metrics
            listed = 'rest_client_requests_total{api_resource="pods",code="200",method="GET"}'
            assert listed in metrics
            assert "vpa_recommender_container_request" not in metrics  # needs a flag
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0
            assert not any("Traceback" in line for line in process.log)


async def test_no_cycle_runs_while_checkpoints_cannot_be_read(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(CHECKPOINTS, status(403, "Forbidden", "not yet"))
        async with running(api, tmp_path) as process:
            await process.logged("history not loaded, trying again")
            assert METRICS not in api.routes
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0


async def test_a_silent_metrics_server_does_not_delay_the_end(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(METRICS, Reply(chunks=[b'{"items": ['], hold=True))
        async with running(api, tmp_path) as process:
            await api.asked(METRICS)
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0


async def test_a_killed_process_continues_from_its_checkpoint(tmp_path: Path) -> None:
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
        (app,) = again[-1]["value"]["recommendation"]["containerRecommendations"]
        assert app["target"]["cpu"] == "920m"


EXPLAINED = "/debug/vpa/shop/web"


async def test_without_its_flag_there_is_no_explanation(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api, tmp_path) as process:
            await api.asked(WEB)
            assert (await process.get(EXPLAINED))[0] == 404
            assert "/debug/vpa" not in (await process.get("/openapi.json"))[1]


async def test_a_recommendation_is_explained_once_there_is_one(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        await api.stop()
        async with running(api, tmp_path, "--debug-endpoints") as process:
            await process.logged("API server unreachable")
            code, text = await process.get(EXPLAINED)
            assert (code, "no cycle has ended yet" in text) == (503, True)
            await api.start()
            await api.asked(WEB, times=2)
            code, text = await process.get(EXPLAINED)
            assert code == 200
            assert '{"step":"percentile","by":"0.9","before":null,"after":"' in text
            code, text = await process.get("/debug/vpa/shop/missing")
            assert (code, text) == (404, '{"error":"there is no VPA shop/missing"}\n')


async def test_a_standby_has_no_explanation(tmp_path: Path) -> None:
    renewed = SystemClock().now().isoformat()
    spec = {"holderIdentity": "other", "renewTime": renewed, "leaseDurationSeconds": 600}
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-recommender-lease"
    async with FakeApi() as api:
        prepare(api)
        api.on(f"GET {lease}", Reply(body=named("vpa-recommender-lease", spec=spec)))
        async with running(api, tmp_path, "--debug-endpoints", "--leader-elect") as process:
            await process.logged("another replica leads")
            code, text = await process.get(EXPLAINED)
            assert (code, "another replica is the leader" in text) == (503, True)
