"""A simulated day: a cluster and our three components with default flags, in one process.

All share one virtual-time loop, so the day takes seconds. With a daily load the workloads get
the requests that they need, few pods are disrupted, and no call fails.
"""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.kube.cache import Cache, Change
from common.kube.client import KubeClient
from common.kube.endpoints import PODS, VPAS
from common.quantity import parse_milli, parse_value
from common.runtime.clock import SystemClock
from sandbox import virtual_time
from sandbox.cluster import running_cluster
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock
from three_components import components, registered
from workloads import NAMESPACE, deploy, prepare

HOURS = 19  # from 6:00, until twelve hours after the last early eviction
REPLICAS = 3
HEARTBEAT = timedelta(seconds=30)
SCENARIO = parse_scenario("""
nodes: [{count: 2, cpu: 16, memory: 32Gi}]
timing: {heartbeat: 60s, memory-check: 60s}
metrics: {window: 60s}
seed: 1
usage:
  - match: {labels: {app: shop}}
    cpu: {daily: {low: 100m, high: 900m, peak-at: 14h}, noise: 0.1}
    memory: {daily: {low: 200Mi, high: 600Mi, peak-at: 14h}, noise: 0.05}
  - match: {labels: {app: cache}}
    cpu: {constant: 150m, noise: 0.2}
    memory: {ramp: {from: 300Mi, to: 900Mi, over: 6h}}
  - match: {labels: {app: idle}}
    cpu: 5m
    memory: 30Mi
""")


@dataclass
class Journal:
    """The current pods and VPAs, the uids of all pods so far, and their restarts."""

    uids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    restarts: int = 0

    def follow(self, client: KubeClient) -> tuple[Cache[Pod], Cache[VerticalPodAutoscaler]]:
        self.pods = Cache(client, PODS, on_change=self._note)
        self.vpas = Cache(client, VPAS)
        return self.pods, self.vpas

    def _note(self, change: Change[Pod]) -> None:
        if (pod := change.new) is not None:
            self.uids[(pod.metadata.labels or {})["app"]].add(pod.metadata.uid)
            counts = (one.restart_count for one in pod.status.container_statuses or ())
            self.restarts = max(self.restarts, *counts, 0)

    def requests(self, app: str) -> list[tuple[int, int]]:
        """Return the pods' requests in millicores and bytes, sorted."""
        found = []
        for pod in self.pods.in_namespace(NAMESPACE):
            resources = pod.spec.containers[0].resources
            if (pod.metadata.labels or {}).get("app") == app and resources is not None:
                requests = resources.requests or {}
                found.append((parse_milli(requests["cpu"]), parse_value(requests["memory"])))
        return sorted(found)

    def target(self, name: str) -> tuple[int, int]:
        """Return a VPA's target in millicores and bytes."""
        vpa = self.vpas.get(NAMESPACE, name)
        assert vpa is not None
        assert vpa.status.recommendation is not None, name
        (container,) = vpa.status.recommendation.container_recommendations or ()
        return parse_milli(container.target["cpu"]), parse_value(container.target["memory"])


async def run_day(clock: VirtualClock, folder: Path) -> None:
    """Simulate the day, and check its results."""
    rng = Random(1)
    async with (
        running_cluster(SCENARIO, clock=clock, rng=rng) as cluster,
        cluster.client("test") as client,
    ):
        await prepare(client)
        journal = Journal()
        async with (
            # With the default of ten seconds, most of the day's calls would be heartbeats.
            components(
                cluster,
                clock,
                folder,
                admission_settings={"status_lease_update_interval": HEARTBEAT},
            ),
            asyncio.TaskGroup() as group,
        ):
            caches = [group.create_task(cache.run()) for cache in journal.follow(client)]
            await registered(client)
            small, large = {"cpu": "200m", "memory": "256Mi"}, {"cpu": "2", "memory": "2Gi"}
            for name, mode, requests in (
                ("shop", "InPlaceOrRecreate", small),
                ("cache", "Recreate", large),
                ("idle", "Off", large),
            ):
                await deploy(client, name, replicas=REPLICAS, mode=mode, requests=requests)
            for _ in range(HOURS):
                await asyncio.sleep(3600)
                figures = (f"{app} {journal.requests(app)}" for app in ("shop", "cache"))
                print(f"{clock.now():%H:%M}  {'  '.join(figures)}")  # noqa: T201 - a figure, shown with -s
            for cache in caches:
                cache.cancel()
        check_results(journal)
        counts = cluster.api.audit.counts()
        failed = {(one["verb"], one["resource"]) for one in counts if one["code"] >= 500}
        assert failed <= {("list", "pods")}  # metrics, in the first minute
        assert sum(one["count"] for one in counts if one["subresource"] == "resize") < 60


def check_results(journal: Journal) -> None:
    mib = 1024 * 1024
    for app in ("shop", "cache", "idle"):
        assert len(journal.requests(app)) == REPLICAS
    for cpu, memory in journal.requests("shop"):
        assert 800 < cpu < 1300  # nearly the peak, with a margin
        assert 600 * mib < memory < 900 * mib
    assert len(journal.uids["shop"]) == REPLICAS  # all were resized in place
    for cpu, memory in journal.requests("cache"):
        assert 150 < cpu < 250
        assert 900 * mib < memory < 1300 * mib
    assert REPLICAS < len(journal.uids["cache"]) <= 6 * REPLICAS
    assert journal.requests("idle") == [(2000, 2048 * mib)] * REPLICAS
    assert journal.target("idle") == (25, 250 * mib)  # the minimum of all recommendations
    assert len(journal.uids["idle"]) == REPLICAS
    assert journal.restarts == 0


@pytest.mark.timeout(240)  # half a minute, but much longer with coverage
def test_a_simulated_day(tmp_path: Path) -> None:
    today = SystemClock().now().astimezone(UTC)
    epoch = datetime(today.year, today.month, today.day, 6, tzinfo=UTC)
    began = time.perf_counter()
    virtual_time.run(lambda clock: run_day(clock, tmp_path), epoch=epoch)
    took = time.perf_counter() - began
    print(f"{HOURS} hours in {took:.1f} s: {HOURS * 3600 / took:.0f} times as fast")  # noqa: T201 - a figure, shown with -s
