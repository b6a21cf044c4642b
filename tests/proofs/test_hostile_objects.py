"""A tenant with random texts in any field affects no other tenant and no process.

``HOSTILE_OBJECTS`` sets the number of objects, 10,000 in ``make proofs``.
"""

import asyncio
import json
import logging
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.errors import KubeError
from common.kube.cache import Cache, Change
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DEPLOYMENTS, NAMESPACES, PODS, VPAS
from common.runtime.clock import SystemClock
from common.runtime.logs import JsonFormatter, TextFormatter
from custom_kind import define_robots
from hostile_metadata import VICTIMS
from hostile_objects import Hostile, HostileObjects
from sandbox import virtual_time
from sandbox.cluster import running_cluster
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock
from synced_caches import following
from three_components import Component, components, registered
from workloads import NAMESPACE, deploy, prepare

OBJECTS = int(os.environ.get("HOSTILE_OBJECTS", "300"))
SEED = int(os.environ.get("PROOF_SEED", "1"))
ROUNDS = max(2, OBJECTS // 1000)
TENANT = "tenant"
INTERVAL = timedelta(minutes=1)
REPLICAS = 3
TIME_TO_SETTLE = 6 * INTERVAL
SMALL = {"cpu": "50m", "memory": "64Mi"}
SCENARIO = parse_scenario("""
nodes: [{count: 2, cpu: 64, memory: 256Gi}]
timing: {heartbeat: 60s, memory-check: 60s}
metrics: {window: 15s}
usage:
  - match: {}
    cpu: 400m
    memory: 600Mi
""")
LOGGERS = ("recommender", "updater", "admission", "common", "asyncio")
CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
LONGEST = 2048 + len("… (1000000 more characters)")


class LogChecker(logging.Handler):
    """A handler that formats all log records, and keeps those that break a rule."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen = 0
        self.violations: list[str] = []
        self.traces: list[str] = []
        self._text, self._json = TextFormatter(), JsonFormatter()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen += 1
        text, line = self._text.format(record), self._json.format(record)
        if record.exc_info:
            self.traces.append(text[-3000:])
        first, *others = text.split("\n")
        problems = {
            "several lines": bool(others) and not record.exc_info,
            "control characters": bool(CONTROL_CHARACTERS.search(text.replace("\n", ""))),
            "control characters in JSON": bool(CONTROL_CHARACTERS.search(line)),
            "a long value": any(map(_is_long, json.loads(line).items())),
        }
        found = [problem for problem, is_there in problems.items() if is_there]
        if found:
            self.violations.append(f"{found}: {first[:500]!r}")


def _is_long(pair: tuple[str, Any]) -> bool:
    key, value = pair
    return key != "stacktrace" and isinstance(value, str) and len(value) > LONGEST


@contextmanager
def log_checker() -> Iterator[LogChecker]:
    """Check every line of our components, debug lines included."""
    checker, loggers = LogChecker(), [logging.getLogger(name) for name in LOGGERS]
    for each in loggers:
        each.addHandler(checker)
        each.setLevel(logging.DEBUG)
        each.propagate = False
    try:
        yield checker
    finally:
        for each in loggers:
            each.setLevel(logging.NOTSET)
            each.propagate = True
            each.removeHandler(checker)


@dataclass(slots=True)
class Requests:
    """The objects that were stored or refused, by kind."""

    objects: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # the last refusal

    @property
    def count(self) -> int:
        """Return the number of stored objects."""
        return sum(self.objects.values())

    async def send(self, client: KubeClient, one: Hostile, namespace: str) -> None:
        """Create the object, then write its status; an API server may refuse either."""
        kind, endpoint = one.endpoint.kind, one.endpoint
        body = {"apiVersion": endpoint.api_version, "kind": kind, **one.manifest}
        try:
            await client.request(
                "POST", endpoint.collection(namespace), body=json.dumps(body).encode()
            )
        except KubeError as error:
            _count(self.refused, kind)
            self.reasons[kind] = str(error)[:500]
            return
        _count(self.objects, kind)
        if one.status is None:
            return
        try:
            await client.request(
                "PATCH",
                endpoint.object(one.name, namespace, "status"),
                body=json.dumps({"status": one.status}).encode(),
                content_type=PatchType.MERGE.value,
            )
        except KubeError as error:
            _count(self.refused, f"{kind}/status")
            self.reasons[f"{kind}/status"] = str(error)[:500]
        else:
            _count(self.statuses, kind)


def _count(counts: dict[str, int], kind: str) -> None:
    counts[kind] = counts.get(kind, 0) + 1


@dataclass
class OtherTenant:
    """The ordinary workloads of another namespace, and the times of their recommendations."""

    clock: VirtualClock
    pods: Cache[Pod] = field(init=False)
    vpas: Cache[VerticalPodAutoscaler] = field(init=False)
    written: dict[str, list[datetime]] = field(default_factory=dict)

    def follow(self, client: KubeClient) -> tuple[Cache[Any], ...]:
        self.pods = Cache(client, PODS, namespace=NAMESPACE)
        self.vpas = Cache(client, VPAS, namespace=NAMESPACE, on_change=self._note)
        return self.pods, self.vpas

    def _note(self, change: Change[VerticalPodAutoscaler]) -> None:
        if change.new is None:
            return
        times = self.written.setdefault(change.new.metadata.name, [self.clock.now()])
        if change.old is not None and change.old.status != change.new.status:
            times.append(self.clock.now())

    def target(self, name: str) -> dict[str, Any]:
        vpa = self.vpas.get(NAMESPACE, name)
        assert vpa is not None
        assert vpa.status.recommendation is not None, name
        (app,) = vpa.status.recommendation.container_recommendations or ()
        return dict(app.target)

    def requests(self, name: str) -> list[dict[str, Any]]:
        """Return the requests of a workload's pods that aren't being deleted."""
        found = []
        for pod in self.pods.in_namespace(NAMESPACE):
            resources = pod.spec.containers[0].resources
            if (pod.metadata.labels or {}).get(
                "app"
            ) == name and not pod.metadata.deletion_timestamp:
                found.append(dict((resources and resources.requests) or {}))
        return found

    @property
    def longest(self) -> timedelta:
        return max(map(self.longest_wait, self.written))

    def longest_wait(self, name: str) -> timedelta:
        """Return the longest time between two changes of a VPA's status, or until now."""
        times = [*self.written[name], self.clock.now()]
        return max(b - a for a, b in pairwise(times))


async def create_workloads(client: KubeClient, namespace: str) -> None:
    """Create a namespace of the tenant with running workloads."""
    await client.create(NAMESPACES.as_dicts(), {"metadata": {"name": namespace}})
    for name in VICTIMS:
        labels = {"app": name}
        container = {"name": "app", "image": "app", "resources": {"requests": SMALL}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        body = {"metadata": {"name": name}, "spec": spec}
        await client.create(DEPLOYMENTS.as_dicts(), body, namespace=namespace)


@dataclass
class Tenant:
    """Creates objects, in each round in a namespace of its own.

    The sandbox lists the pods of a namespace for each change of one where there are quotas.
    """

    client: KubeClient
    random: Random
    stored: Requests = field(default_factory=Requests)
    _objects: HostileObjects = field(init=False)
    _number: int = 0

    async def move(self, namespace: str) -> None:
        await create_workloads(self.client, namespace)
        self._objects = HostileObjects(random=self.random, namespace=namespace, number=self._number)

    async def attack(self, count: int) -> None:
        for _ in range(count):
            await self.stored.send(self.client, self._objects.draw(), self._objects.namespace)
        self._number = self._objects.number


async def run_rounds(clock: VirtualClock, folder: Path, checker: LogChecker) -> None:
    metrics: set[str] = set()
    other_tenant = OtherTenant(clock)
    async with (
        running_cluster(SCENARIO, clock=clock) as cluster,
        cluster.client("test") as client,
    ):
        await prepare(client)
        await define_robots(client)
        tenant = Tenant(client, Random(SEED))
        part = OBJECTS // (2 * ROUNDS)
        run = partial(components, cluster, clock, folder)
        await tenant.move(f"{TENANT}-0")
        await tenant.attack(part)  # before the processes start
        async with (
            run(names=("recommender", "updater")) as others,
            following(other_tenant.follow(client)),
        ):
            for number in range(ROUNDS):
                name = f"shop-{number}"
                if number:
                    await tenant.move(f"{TENANT}-{number}")
                    await tenant.attack(part)  # without a webhook
                async with run(names=("admission",)) as hooks:
                    await registered(client)
                    await deploy(client, name, replicas=REPLICAS, requests=SMALL)
                    await tenant.attack(part)
                    await asyncio.sleep(TIME_TO_SETTLE.total_seconds())
                    metrics |= await check_components((*others, *hooks))
                    for each in range(number + 1):
                        check_workload(other_tenant, f"shop-{each}")
                report = f"{tenant.stored.count} objects, longest wait {other_tenant.longest}"
                print(f"round {number}: {report}")  # noqa: T201 - shown with -s
    print(f"{tenant.stored}, {checker.seen} lines")  # noqa: T201 - with -s, and when it fails
    assert tenant.stored.count > OBJECTS * 0.6
    assert not checker.traces, checker.traces[:5]
    assert not object_errors(metrics)
    assert not checker.violations, checker.violations[:5]


def check_workload(other_tenant: OtherTenant, name: str) -> None:
    """Check that the recommendation is refreshed, and that the pods get it."""
    assert other_tenant.longest_wait(name) <= 2 * INTERVAL, name
    assert other_tenant.requests(name) == [other_tenant.target(name)] * REPLICAS, name


async def check_components(started: Sequence[Component]) -> set[str]:
    """Check that every process runs and is healthy; return the lines of all metrics."""
    pages = []
    for one in started:
        assert not one.task.done(), one.name
        assert await one.get("/health-check") == (200, "OK"), one.name
        code, metrics = await one.get("/metrics")
        assert code == 200
        assert list(text_string_to_metric_families(metrics))
        pages.append(metrics)
    return set("".join(pages).splitlines())


def object_errors(metrics: Collection[str]) -> list[str]:
    """Return the counters of objects that were skipped after an unexpected error."""
    return [line for line in metrics if re.match(r"vpa_\w+_object_errors_total\{", line)]


@pytest.mark.timeout(1800)
def test_random_texts_in_every_field_do_not_affect_other_tenants(tmp_path: Path) -> None:
    with log_checker() as checker:
        virtual_time.run(
            lambda clock: run_rounds(clock, tmp_path, checker), epoch=SystemClock().now()
        )
