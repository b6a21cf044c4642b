"""A recommender with a scripted API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from common.kube import endpoints
from common.kube.transport import no_check
from fake_api import FakeApi, Reply, listing, named
from fixed_clock import FixedClock
from recommender.__main__ import assemble
from recommender.metrics import RecommenderMetrics
from recommender.run import Recommender
from recommender.settings import RecommenderSettings
from recommender.sources.informers import Informers

FOLLOWED = (
    *(endpoints.DEPLOYMENTS, endpoints.REPLICA_SETS, endpoints.STATEFUL_SETS),
    *(endpoints.DAEMON_SETS, endpoints.JOBS, endpoints.CRON_JOBS),
    *(endpoints.REPLICATION_CONTROLLERS, endpoints.EVENTS, endpoints.PODS, endpoints.VPAS),
    endpoints.RESOURCE_QUOTAS,
    endpoints.NODES,
)
METRICS = f"GET {endpoints.POD_METRICS.collection()}"
CHECKPOINTS = f"GET {endpoints.CHECKPOINTS.collection()}"
CHECKPOINTS_OF_SHOP = f"GET {endpoints.CHECKPOINTS.collection('shop')}"
NEW_CHECKPOINT = f"POST {endpoints.CHECKPOINTS.collection('shop')}"
START = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def status_of(name: str) -> str:
    return f"PATCH {endpoints.VPAS.object(name, 'shop', 'status')}"


def checkpoint_of(name: str) -> str:
    return f"PATCH {endpoints.CHECKPOINTS.object(name, 'shop')}"


def deployment(name: str = "web") -> Any:
    selector = {"matchLabels": {"app": name}}
    return named(name, spec={"selector": selector})


def vpa(name: str = "web", *, kind: str = "Deployment", **spec: Any) -> Any:
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    return named(name, spec={"targetRef": target, **spec}, status={})


def pod(name: str = "web-1", *, app: str = "web", status: Any = None) -> Any:
    found = named(
        name,
        spec={"containers": [{"name": "app", "resources": {"requests": {"memory": "50Mi"}}}]},
        status=status or {"phase": "Running"},
    )
    found["metadata"] |= {"uid": f"uid-{name}", "labels": {"app": app}}
    return found


def quota(name: str = "team", *, used: Any = None, **hard: str) -> Any:
    """Return a ResourceQuota; ``requests_cpu`` stands for requests.cpu."""
    limits = {resource.replace("_", "."): amount for resource, amount in hard.items()}
    return named(name, spec={}, status={"hard": limits, "used": used or dict.fromkeys(limits, "0")})


def node(name: str = "n1", **allocatable: str) -> Any:
    found = named(name, spec={}, status={"allocatable": {"pods": "110", **allocatable}})
    found["metadata"] = {"name": name, "resourceVersion": "1", "labels": {}}
    return found


def usage(name: str = "web-1", *, at: datetime = START, **resources: str) -> Any:
    containers = [{"name": "app", "usage": resources or {"cpu": "100m", "memory": "200Mi"}}]
    return named(name, timestamp=at.isoformat(), window="15s", containers=containers)


WEB = status_of("web")


def checkpoint_writes(api: FakeApi, name: str = "web-app") -> list[Any]:
    """Return the statuses in all writes of a checkpoint, oldest first."""
    route = checkpoint_of(name)
    statuses = []
    for each in api.requests:
        if f"{each.method} {each.path}" == route:
            statuses.append(each.json()[-1]["value"])
        elif f"{each.method} {each.path}" == NEW_CHECKPOINT:
            body = each.json()
            statuses += [body["status"]] if body["metadata"]["name"] == name else []
    return statuses


def written(api: FakeApi, route: str = WEB) -> Any:
    """Return the value of a status's last patch, or the last write of a checkpoint."""
    if endpoints.CHECKPOINTS.resource in route:
        return checkpoint_writes(api, route.rpartition("/")[2])[-1]
    bodies = [each.json() for each in api.requests if f"{each.method} {each.path}" == route]
    return bodies[-1][-1]["value"]


def target(api: FakeApi, name: str = "web") -> dict[str, str]:
    """Return the target of the first container; empty if there is none."""
    found = written(api, status_of(name))["recommendation"].get("containerRecommendations")
    target: dict[str, str] = found[0]["target"] if found else {}
    return target


def conditions(api: FakeApi, name: str = "web") -> dict[str, str]:
    found = written(api, status_of(name))
    return {one["type"]: one.get("message", "") for one in found["conditions"]}


HISTOGRAM = {"referenceTimestamp": "2026-01-02T00:00:00Z", "bucketWeights": {"30": 10000}}


def checkpoint(name: str = "web", container: str = "app", **more: Any) -> Any:
    found = named(
        f"{name}-{container}",
        spec={"vpaObjectName": name, "containerName": container},
        status={
            "version": "v3",
            "lastUpdateTime": "2026-01-02T11:00:00Z",
            "cpuHistogram": {**HISTOGRAM, "totalWeight": 100},
            "memoryHistogram": {**HISTOGRAM, "totalWeight": 10},
            "firstSampleStart": "2026-01-01T00:00:00Z",
            "lastSampleStart": "2026-01-02T11:00:00Z",
            "totalSamplesCount": 1440,
            **more,
        },
    )
    found["metadata"]["annotations"] = {"vpa-recommender/target": f"Deployment/{name}"}
    return found


def killed(at: str, name: str = "web-1", *, app: str = "web") -> Any:
    terminated = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at}
    state = {"name": "app", "restartCount": 0, "state": {"terminated": terminated}}
    return pod(name, app=app, status={"phase": "Running", "containerStatuses": [state]})


def published(found: Any, **target: str) -> Any:
    one = {"containerName": "app", "target": target, "lowerBound": target, "upperBound": target}
    found["status"] = {
        "recommendation": {"containerRecommendations": [{**one, "uncappedTarget": target}]},
        "conditions": [
            {
                "type": "RecommendationProvided",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    return found


def prepare(api: FakeApi, **objects: list[Any]) -> None:
    """Create a Deployment with a pod and its usage, and a VPA; ``objects`` are by resource."""
    known: dict[str, list[Any]] = {
        "deployments": [deployment()],
        "pods": [pod()],
        "verticalpodautoscalers": [vpa()],
        **objects,
    }
    for endpoint in FOLLOWED:
        api.on(f"GET {endpoint.collection()}", listing(*known.get(endpoint.resource, [])))
        api.on(f"WATCH {endpoint.collection()}", Reply(chunks=[], hold=True))
    for found in known["verticalpodautoscalers"]:
        name = found.get("metadata", {}).get("name", "")
        api.on(status_of(name), Reply(body=named(name)))
        api.on(checkpoint_of(f"{name}-app"), Reply(body=named(f"{name}-app")))
    api.on(NEW_CHECKPOINT, Reply(status=201, body=named("web-app")))
    api.on(METRICS, listing(usage()))
    api.on(CHECKPOINTS, listing())
    api.on(CHECKPOINTS_OF_SHOP, listing())
    api.on(f"NAMES {endpoints.CHECKPOINTS.collection()}", listing())
    api.on(f"WATCH {endpoints.CHECKPOINTS.collection()}", Reply(chunks=[], hold=True))


@dataclass
class Running:
    """A recommender with filled caches."""

    recommender: Recommender
    informers: Informers
    clock: FixedClock
    metrics: RecommenderMetrics = field(default_factory=RecommenderMetrics)

    async def cycle(self) -> None:
        await self.recommender.run_once()

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@contextlib.asynccontextmanager
async def running(
    api: FakeApi,
    following: type[Informers] = Informers,
    before_write: Callable[[], None] = no_check,
    **settings: Any,
) -> AsyncIterator[Running]:
    wanted, clock = RecommenderSettings(**settings), FixedClock(START)
    metrics = RecommenderMetrics(per_container=wanted.container_metrics)
    async with api.client() as client, asyncio.TaskGroup() as group:
        informers = following(
            client.guarded(before_write),
            namespace="",
            errors=metrics.object_errors,
            features=wanted.feature_gates,
            with_quotas=wanted.cap_to_quotas,
        )
        tasks = [group.create_task(_run(task)) for task in informers.background]
        try:
            await informers.wait_synced()
            recommender = assemble(wanted, informers, metrics, clock)
            tasks += [group.create_task(_run(task)) for task in recommender.background]
            await recommender.start()
            yield Running(recommender, informers, clock, metrics)
        finally:
            for task in tasks:
                task.cancel()


async def _run(task: Any) -> None:
    await task()
