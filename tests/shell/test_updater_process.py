"""``python -P -m updater`` as its own process, with a fake API server."""

import signal
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from common.kube import endpoints
from common.runtime.clock import SystemClock
from component import Process, running_component
from fake_api import FakeApi, Reply, listing, named, status
from updater.preview import NotNow

LISTED = (
    *(endpoints.DEPLOYMENTS, endpoints.REPLICA_SETS, endpoints.STATEFUL_SETS),
    *(endpoints.DAEMON_SETS, endpoints.JOBS, endpoints.CRON_JOBS),
    *(endpoints.REPLICATION_CONTROLLERS, endpoints.LIMIT_RANGES, endpoints.VPAS),
    endpoints.PODS,
)
EVENTS = f"POST {endpoints.EVENTS.collection('shop')}"
LEASE = f"GET {endpoints.LEASES.object('vpa-admission-controller', 'kube-system')}"


def objects() -> dict[str, list[Any]]:
    """Return a Deployment, and two pods that request a tenth of the target."""
    selector = {"selector": {"matchLabels": {"app": "web"}}, "replicas": 2}
    replica_set = named("web-1", spec=selector)
    owner = {"kind": "Deployment", "name": "web", "controller": True}
    replica_set["metadata"]["ownerReferences"] = [owner]
    amounts = {"cpu": "1", "memory": "1Gi"}
    recommended = {
        "containerName": "app",
        "target": amounts,
        "lowerBound": amounts,
        "upperBound": amounts,
    }
    target = {"kind": "Deployment", "name": "web"}
    return {
        "deployments": [named("web", spec=selector)],
        "replicasets": [replica_set],
        "verticalpodautoscalers": [
            named(
                "web",
                spec={"targetRef": target},
                status={"recommendation": {"containerRecommendations": [recommended]}},
            )
        ],
        "pods": [pod("web-a"), pod("web-b")],
    }


def pod(name: str) -> Any:
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
    made = named(
        name,
        spec={"nodeName": "node", "containers": [{"name": "app", "resources": resources}]},
        status={"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    )
    made["metadata"] |= {
        "uid": f"uid-{name}",
        "labels": {"app": "web"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "controller": True}],
    }
    return made


def prepare(api: FakeApi) -> None:
    found = objects()
    for endpoint in LISTED:
        path = endpoint.collection()
        api.on(f"GET {path}", listing(*found.get(endpoint.resource, [])))
        api.on(f"WATCH {path}", Reply(chunks=[], hold=True))
    renewed = (SystemClock().now() + timedelta(minutes=10)).isoformat()
    lease = named("vpa-admission-controller", namespace="kube-system", spec={"renewTime": renewed})
    api.on(LEASE, Reply(body=lease))
    for name in ("web-a", "web-b"):
        api.on(f"POST {evictions(name)}", Reply(status=201, body={"status": "Success"}))
    api.on(EVENTS, Reply(status=201, body={}))


def evictions(name: str) -> str:
    return endpoints.PODS.object(name, "shop", "eviction")


def running(api: FakeApi, folder: Path, *arguments: str) -> AbstractAsyncContextManager[Process]:
    return running_component("updater", api, folder, "--updater-interval=300ms", *arguments)


async def test_the_process_runs_passes_until_sigterm(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api, tmp_path) as process:
            await api.asked(f"POST {evictions('web-a')}")
            await api.asked(LEASE, times=4)  # some passes later
            assert await process.get("/readyz") == (200, "OK")
            assert await process.get("/health-check") == (200, "OK")
            _, metrics = await process.get("/metrics")
            assert 'vpa_updater_candidate_pods{decision="wait",reason="below_min' in metrics
            assert "vpa_updater_leading 1.0" in metrics
            assert "vpa_updater_interval_seconds 0.3" in metrics
            assert "vpa_updater_last_successful_cycle_timestamp_seconds 0.0" not in metrics
            assert 'vpa_updater_cache_age_seconds{api_resource="nodes"}' in metrics
            evicted = 'rest_client_requests_total{api_resource="pods/eviction",code="201"'
            assert evicted in metrics
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0
            assert not any("Traceback" in line for line in process.log)
            decided = [line for line in process.log if 'decision="evict"' in line]
            assert len(decided) == 1
        # The cache still contains the pod, but it is evicted only once.
        assert api.routes.count(f"POST {evictions('web-a')}") == 1
        assert api.routes.count(f"POST {evictions('web-b')}") == 0


async def test_without_the_permission_to_read_nodes_passes_continue(tmp_path: Path) -> None:
    """X103: older roles have no rule for nodes."""
    async with FakeApi() as api:
        prepare(api)
        denied = {
            "kind": "Status",
            "status": "Failure",
            "reason": "Forbidden",
            "message": "nodes is forbidden",
            "code": 403,
        }
        nodes = f"GET {endpoints.NODES.collection()}"
        api.on(nodes, Reply(status=403, body=denied))
        async with running(api, tmp_path) as process:
            await api.asked(nodes, times=2)
            await api.asked(f"POST {evictions('web-a')}")
            assert await process.get("/readyz") == (200, "OK")
            assert await process.get("/health-check") == (200, "OK")
            lines = [line for line in process.log if 'resource="nodes"' in line]
            assert len(lines) == 1
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0


@pytest.mark.parametrize("flag", ["true", "false"])
async def test_one_call_without_a_response_delays_no_other(tmp_path: Path, flag: str) -> None:
    """The watches are silent for minutes, so only another request can detect the recovery."""
    async with FakeApi() as api:
        prepare(api)
        route = f"POST {evictions('web-a')}"
        api.on(route, Reply(cut=True), Reply(status=201, body={"status": "Success"}))
        lease = f"--use-admission-controller-status={flag}"
        flags = ("--eviction-tolerance=1", "--min-replicas=1")
        async with running(api, tmp_path, lease, *flags) as process:
            await api.asked(route, times=2)
            await api.asked(f"POST {evictions('web-b')}")
            assert not any("pass" in line for line in process.log)
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0


async def test_a_target_without_a_response_affects_only_its_vpa(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on("GET /apis/slow.example.com", Reply(chunks=[], hold=True))
        target = {"apiVersion": "slow.example.com/v1", "kind": "Snail", "name": "web"}
        (ordinary,) = objects()["verticalpodautoscalers"]
        vpas = listing(named("a-snail", spec={"targetRef": target}), ordinary)
        api.on(f"GET {endpoints.VPAS.collection()}", vpas)
        async with running(api, tmp_path) as process:
            await api.asked(f"POST {evictions('web-a')}")
            await process.logged("no answer in time")
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0


async def test_a_hanging_call_does_not_delay_the_end(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        route = f"POST {evictions('web-a')}"
        api.on(route, Reply(chunks=[], hold=True))
        async with running(api, tmp_path) as process:
            await api.asked(route)
            process.process.send_signal(signal.SIGTERM)
            assert await process.ended() == 0


async def test_a_lost_lease_ends_the_process(tmp_path: Path) -> None:
    lease = endpoints.LEASES.object("vpa-updater", "kube-system")
    async with FakeApi() as api:
        prepare(api)
        held = named("vpa-updater", namespace="kube-system", spec={})
        api.on(f"GET {lease}", Reply(body=held), status(500, "InternalError"))
        api.on(f"PUT {lease}", Reply(body=held), status(409, "Conflict"))
        timing = ("duration=4s", "renew-deadline=1s", "retry-period=200ms")
        flags = [f"--leader-elect-{'lease-' if 'dur' in each else ''}{each}" for each in timing]
        async with running(api, tmp_path, "--leader-elect", *flags) as process:
            assert await process.ended(within=30) == 1
            await process.logged("was not renewed in time")


PLAN = "/debug/plan"


async def test_without_its_flag_nothing_is_planned(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api, tmp_path) as process:
            await process.logged("caches have synced")
            assert (await process.get(PLAN))[0] == 404
            assert PLAN not in (await process.get("/openapi.json"))[1]


async def test_no_plan_before_the_caches_are_filled(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        await api.stop()
        async with running(api, tmp_path, "--debug-endpoints") as process:
            await process.logged("API server unreachable")
            code, lines = await process.get(PLAN)
            assert (code, lines) == (503, f'{{"error":"{NotNow.NOT_SYNCED}"}}\n')
            await api.start()
            await process.logged("caches have synced")
            code, lines = await process.get(f"{PLAN}?namespace=shop")
            assert code == 200
            assert '"namespace":"shop","name":"web"' in lines


async def test_a_standby_has_no_plan(tmp_path: Path) -> None:
    renewed = SystemClock().now().isoformat()
    spec = {"holderIdentity": "other", "renewTime": renewed, "leaseDurationSeconds": 600}
    held = named("vpa-updater", namespace="kube-system", spec=spec)
    lease = f"GET {endpoints.LEASES.object('vpa-updater', 'kube-system')}"
    async with FakeApi() as api:
        prepare(api)
        api.on(lease, Reply(body=held))
        async with running(api, tmp_path, "--debug-endpoints", "--leader-elect") as process:
            await api.asked(lease)
            code, lines = await process.get(PLAN)
            assert (code, lines) == (503, f'{{"error":"{NotNow.NOT_LEADING}"}}\n')
