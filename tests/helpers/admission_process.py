"""Admission as a process, with an API server that only lists."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from common.kube import endpoints
from component import Process, running_component, webhook_flags
from demo.processes import free_port
from fake_api import FakeApi, Reply, listing, named, status

LISTED = (
    *(endpoints.DEPLOYMENTS, endpoints.REPLICA_SETS, endpoints.STATEFUL_SETS),
    *(endpoints.DAEMON_SETS, endpoints.JOBS, endpoints.CRON_JOBS),
    *(endpoints.REPLICATION_CONTROLLERS, endpoints.LIMIT_RANGES, endpoints.VPAS),
)
WEBHOOKS = endpoints.MUTATING_WEBHOOKS.collection()
WEBHOOK = endpoints.MUTATING_WEBHOOKS.object("vpa-webhook-config")
LEASES = endpoints.LEASES.collection("kube-system")
LEASE = endpoints.LEASES.object("vpa-admission-controller", "kube-system")


def owned_by(kind: str, name: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


def objects() -> dict[str, list[Any]]:
    """Return a Deployment with its ReplicaSet, and a VPA for it."""
    replica_set = named("web-1")
    replica_set["metadata"] |= owned_by("Deployment", "web")
    target = {"cpu": "250m"}
    return {
        endpoints.DEPLOYMENTS.resource: [
            named("web", spec={"selector": {"matchLabels": {"app": "web"}}})
        ],
        endpoints.REPLICA_SETS.resource: [replica_set],
        endpoints.VPAS.resource: [
            named(
                "web",
                spec={"targetRef": {"kind": "Deployment", "name": "web"}},
                status={
                    "recommendation": {
                        "containerRecommendations": [{"containerName": "app", "target": target}]
                    }
                },
            )
        ],
    }


def prepare(api: FakeApi) -> None:
    for endpoint in LISTED:
        items = objects().get(endpoint.resource, [])
        api.on(f"GET {endpoint.collection()}", listing(*items))
        api.on(f"WATCH {endpoint.collection()}", Reply(chunks=[], hold=True))
    api.on(f"GET {WEBHOOK}", status(404, "NotFound"))
    api.on(f"POST {WEBHOOKS}", Reply(status=201, keep=WEBHOOK))
    api.on(f"GET {LEASE}", status(404, "NotFound"))
    api.on(f"POST {LEASES}", Reply(status=201, body=named("vpa-admission-controller")))


POD = {
    "metadata": {"generateName": "web-1-", "labels": {"app": "web"}}
    | owned_by("ReplicaSet", "web-1"),
    "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]},
}


@asynccontextmanager
async def running(
    api: FakeApi, folder: Path, *arguments: str
) -> AsyncIterator[tuple[Process, int]]:
    """Run the process; yield it with the port of its webhook."""
    port = free_port()
    flags = (*webhook_flags(folder, port), "--status-lease-update-interval=100ms", *arguments)
    async with running_component("admission", api, folder, *flags) as process:
        yield process, port
