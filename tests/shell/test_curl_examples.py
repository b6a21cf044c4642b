"""The curl examples of the documentation: each is called, and its response compared."""

import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from certificates import new_bundle
from certs.certificate_stores import Directory
from common.kube import endpoints
from common.runtime.clock import SystemClock
from component import LOOPBACK, running_component, webhook_flags
from demo.processes import free_port
from demo.settings import RECOMMENDER
from fake_api import FakeApi, Reply, listing, named, status
from page_commands import COMPONENTS, ROOT, PageCommand, commands
from page_runner import run_commands

REPLICA_SET = "overprovisioned-t6hn5hg2qm"
LISTED = (
    *(endpoints.DEPLOYMENTS, endpoints.REPLICA_SETS, endpoints.STATEFUL_SETS),
    *(endpoints.DAEMON_SETS, endpoints.JOBS, endpoints.CRON_JOBS),
    *(endpoints.REPLICATION_CONTROLLERS, endpoints.LIMIT_RANGES, endpoints.VPAS, endpoints.PODS),
    *(endpoints.EVENTS, endpoints.CHECKPOINTS, endpoints.POD_METRICS),
)


def calls() -> list[PageCommand]:
    """Return the commands that call a component; the others in README.md are about the demo."""
    return [one for page in COMPONENTS for one in commands(page) if one.command.startswith("curl")]


def example() -> dict[str, Any]:
    """Return the objects of the example, by kind, with the VPA's status as in the pages."""
    text = (ROOT / "examples" / "overprovisioned.yaml").read_text(encoding="utf-8")
    found = {each["kind"]: each for each in yaml.safe_load_all(text)}
    amounts = {
        amount: {"cpu": cpu, "memory": "250Mi"}
        for amount, cpu in (
            *(("target", "49m"), ("uncappedTarget", "49m")),
            *(("lowerBound", "48m"), ("upperBound", "114m")),
        )
    }
    since = "2026-01-01T00:00:00Z"
    unsure = (
        "app: 45s to 1m of usage is known. The bounds stay wide until 1m is known, which "
        "takes at most 15s more if no measurement is missing."
    )
    found["VerticalPodAutoscaler"]["status"] = {
        "recommendation": {"containerRecommendations": [{"containerName": "app"} | amounts]},
        "conditions": [
            {"type": name, "status": "True", "lastTransitionTime": since, "message": message}
            for name, message in (("LowConfidence", unsure), ("RecommendationProvided", ""))
        ],
    }
    for each in found.values():
        each["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    return found


def owned_object(kind: str, name: str, by: tuple[str, str], **parts: Any) -> dict[str, Any]:
    """Return an object that the example's Deployment owns."""
    made = named(name, namespace="demo", **parts)
    owner = {"apiVersion": "apps/v1", "kind": by[0], "name": by[1], "controller": True}
    labels = {"app": "overprovisioned"}
    made["metadata"] |= {"uid": f"uid-{name}", "labels": labels, "ownerReferences": [owner]}
    return {"kind": kind, **made}


def replica(suffix: str, *, cpu: str, memory: str, started: datetime) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return owned_object(
        "Pod",
        f"{REPLICA_SET}-{suffix}",
        ("ReplicaSet", REPLICA_SET),
        spec={"nodeName": "node", "containers": [{"name": "app", "resources": resources}]},
        status={"phase": "Running", "startTime": started.isoformat()},
    )


def history() -> dict[str, Any]:
    """Return the example's checkpoint after 45 seconds; its confidence interval is a minute."""
    now = SystemClock().now().replace(microsecond=0)
    weights = {"referenceTimestamp": now.isoformat(), "totalWeight": 1.5}
    kept: dict[str, Any] = named(
        "overprovisioned-app",
        namespace="demo",
        spec={"vpaObjectName": "overprovisioned", "containerName": "app"},
        status={
            "version": "v3",
            "lastUpdateTime": now.isoformat(),
            "cpuHistogram": weights | {"bucketWeights": {"3": 10000}},
            "memoryHistogram": weights | {"bucketWeights": {"5": 10000}},
            "firstSampleStart": (now - timedelta(seconds=45)).isoformat(),
            "lastSampleStart": now.isoformat(),
            "totalSamplesCount": 15,
        },
    )
    return kept


def prepare(api: FakeApi) -> None:
    objects = example()
    now = SystemClock().now()
    items = {
        endpoints.DEPLOYMENTS.resource: [objects["Deployment"]],
        endpoints.VPAS.resource: [objects["VerticalPodAutoscaler"]],
        endpoints.REPLICA_SETS.resource: [
            owned_object(
                "ReplicaSet",
                REPLICA_SET,
                ("Deployment", "overprovisioned"),
                spec={"replicas": 3, "selector": {"matchLabels": {"app": "overprovisioned"}}},
            )
        ],
        endpoints.CHECKPOINTS.resource: [history()],
        endpoints.PODS.resource: [
            replica("k6tsq", cpu="800m", memory="1Gi", started=now),
            replica("vwdnj", cpu="49m", memory="250Mi", started=now.replace(microsecond=0)),
            replica("zvsj6", cpu="800m", memory="1Gi", started=now),
        ],
    }
    for endpoint in LISTED:
        api.on(f"GET {endpoint.collection()}", listing(*items.get(endpoint.resource, [])))
        api.on(f"WATCH {endpoint.collection()}", Reply(chunks=[], hold=True))
    webhook = endpoints.MUTATING_WEBHOOKS
    path = webhook.object("vpa-webhook-config")
    api.on(f"GET {path}", status(404, "NotFound"))
    api.on(f"POST {webhook.collection()}", Reply(status=201, keep=path))
    leases = endpoints.LEASES
    lease = leases.object("vpa-admission-controller", "kube-system")
    api.on(f"GET {lease}", status(404, "NotFound"))
    created = Reply(status=201, body=named("vpa-admission-controller"))
    api.on(f"POST {leases.collection('kube-system')}", created)


@pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("bash", "curl", "jq", "base64")),
    reason="the calls on the pages need bash, curl, jq and base64",
)
@pytest.mark.timeout(180)  # three processes, and one for each call
async def test_the_pages_show_the_real_responses(tmp_path: Path) -> None:
    bundle = new_bundle()
    await Directory(tmp_path).save(bundle)
    port = free_port()
    flags = (
        *webhook_flags(tmp_path, port),
        *("--debug-endpoints", "--status-lease-update-interval=100ms"),
    )
    async with FakeApi() as api:
        prepare(api)
        planning = (
            *("--debug-endpoints", "--use-admission-controller-status=false"),
            "--updater-interval=1h",  # before that it only plans
        )
        often = (*RECOMMENDER, "--recommender-interval=100ms")
        async with (
            running_component("admission", api, tmp_path, *flags) as admission,
            running_component("updater", api, tmp_path, *planning) as updater,
            running_component("recommender", api, tmp_path, *often) as recommender,
        ):
            await api.asked(f"POST {endpoints.LEASES.collection('kube-system')}")
            await updater.logged("caches have synced")
            await api.asked(f"GET {endpoints.POD_METRICS.collection()}", times=2)  # after a cycle
            variables = {
                "WEBHOOK": f"https://{LOOPBACK}:{port}",
                "CA": str(tmp_path / "caCert.pem"),
                "OPS": f"http://{LOOPBACK}:{admission.ops}",
                "UPDATER": f"http://{LOOPBACK}:{updater.ops}",
                "RECOMMENDER": f"http://{LOOPBACK}:{recommender.ops}",
            }
            await run_commands(calls(), ROOT, variables)


async def test_without_the_flag_there_is_no_explanation(tmp_path: Path) -> None:
    await Directory(tmp_path).save(new_bundle())
    async with FakeApi() as api:
        prepare(api)
        flags = webhook_flags(tmp_path, free_port())
        async with running_component("admission", api, tmp_path, *flags) as admission:
            await admission.logged("listening")
            assert (await admission.get("/debug/explain"))[0] == 404
            assert "/debug/explain" not in (await admission.get("/openapi.json"))[1]


def test_the_pages_show_each_endpoint() -> None:
    found = [call.command for call in calls()]
    for part in (
        '"$WEBHOOK/"',
        "/health-check",
        "/readyz",
        "/metrics",
        "/debug/explain",
        "/debug/plan",
        "/debug/vpa",
    ):
        assert any(part in command for command in found), part
