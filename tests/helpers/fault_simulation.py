"""A simulation of two days with a hundred random faults of the recommender.

The workloads are the same in each simulation: usage and the one OOM kill are functions of time.
The faults are drawn from a seed, and recorded.
"""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from common.errors import DecodeError, KubeError
from common.kube.client import PatchType
from common.kube.endpoints import CHECKPOINTS, VPAS
from common.runtime.clock import Clock
from common.runtime.service import every
from recommender.__main__ import assemble
from recommender.metrics import RecommenderMetrics
from recommender.run import Recommender
from recommender.settings import RecommenderSettings
from recommender.sources.informers import Informers
from recommender_simulation import ACCOUNT, MEBI, RecommenderSimulation
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.kubelet.metrics_server import MetricsServer, UsageSource
from sandbox.kubelet.usage import Usage
from sandbox.objects.resources import DEPLOYMENTS, PODS
from sandbox.objects.store import Change, ChangeType
from sandbox.times import rfc3339
from sandbox.virtual_time import EPOCH
from workloads import NAMESPACE

INTERVAL = 600.0  # seconds between two cycles
HOUR = 3600.0
END = 50.0  # hours
SPIKE = (30.0, 31.0)  # hours: in the second day's windows
KILL = 33.5  # hours
CALM = 48.5  # hours; no faults after that
AGENT = "vpa-recommender"
CHECKPOINTS_OF = CHECKPOINTS.as_dicts()


class MetricsWithGaps(MetricsServer):
    """A metrics server that reports only memory for a while."""

    memory_only = False

    def __init__(self, source: UsageSource, clock: Clock, *, window: timedelta) -> None:
        del window  # irrelevant at one request in ten minutes
        super().__init__(source, clock, window=timedelta(minutes=1))

    def answer(self, *args: Any, **more: Any) -> tuple[int, Any]:
        status, body = super().answer(*args, **more)
        if self.memory_only and isinstance(body, dict):
            for pod in body.get("items", ()):
                for container in pod.get("containers", ()):
                    container["usage"].pop("cpu")
        return status, body


def usage_at(clock: Callable[[], Clock]) -> Callable[[str, str], Usage]:
    """Return the usage at a time. No percentile is near the edge of a bucket."""

    def usage(workload: str, container: str) -> Usage:
        if container != "app":
            return _used(70.0, 350)
        hours = (clock().now() - EPOCH) / timedelta(hours=1)
        if workload == "bursty":
            return _used(400.0 if 8 <= hours % 24 < 16 else 100.0, 600)
        if workload == "spiky":
            return _used(200.0, 900 if SPIKE[0] <= hours < SPIKE[1] else 350)
        return _used(150.0, 400)

    return usage


def _used(millicores: float, mebibytes: int) -> Usage:
    return Usage(cpu_millicores=millicores, memory_bytes=mebibytes * MEBI)


async def deploy_workloads(simulation: RecommenderSimulation) -> None:
    for name in ("bursty", "spiky", "oomer"):
        await simulation.deploy(name)


def kill_by_memory(simulation: RecommenderSimulation, workload: str = "oomer") -> None:
    """OOM-kill and restart a container of each pod of one workload."""
    for name in simulation.workloads[workload].pods:
        stored = simulation.api.store.get(PODS, NAMESPACE, name)
        assert stored is not None
        pod = stored.object(PODS)
        at = rfc3339(simulation.clock.now())
        (app,) = (one for one in pod["status"]["containerStatuses"] if one["name"] == "app")
        dead = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at, "startedAt": at}
        app |= {"restartCount": 1, "lastState": {"terminated": dead}}
        simulation.api.store.update(PODS, pod)


def weights(status: Mapping[str, Any]) -> tuple[float, float]:
    """Return the total weights of a checkpoint's histograms, relative to the start."""
    found = []
    for name in ("cpuHistogram", "memoryHistogram"):
        histogram = status.get(name) or {}
        reference = histogram.get("referenceTimestamp")
        days = 0.0
        if reference:
            days = (datetime.fromisoformat(reference) - EPOCH) / timedelta(days=1)
        found.append(float(histogram.get("totalWeight", 0)) * math.exp2(days))
    return found[0], found[1]


@dataclass
class Life:
    """A recommender from start to end, without the server of its metrics.

    The server polls the clock ten times a second, which would take most of the time of three days.
    """

    simulation: RecommenderSimulation
    settings: RecommenderSettings
    _task: asyncio.Task[None] = field(init=False)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def kill(self) -> None:
        """End it at any point; raise the error if it had crashed."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def stop(self) -> None:
        """End it as a signal does, so that it writes its state."""
        self._stop.set()
        await self._task

    async def _run(self) -> None:
        user = self.simulation.access.client(AGENT, user=ACCOUNT)
        async with user as client, asyncio.TaskGroup() as group:
            metrics = RecommenderMetrics()
            informers = Informers(client, namespace="", errors=metrics.object_errors)
            recommender = assemble(self.settings, informers, metrics, self.simulation.clock)
            tasks = [
                group.create_task(_coroutine(task))
                for task in (*informers.background, *recommender.background)
            ]
            await informers.wait_synced()
            await _start(recommender)
            interval = self.settings.interval.total_seconds()
            await every(interval, recommender.run_once, stop=self._stop)
            await recommender.end(timedelta(seconds=15))
            for task in tasks:
                task.cancel()


async def _coroutine(task: Callable[[], Awaitable[None]]) -> None:
    await task()


async def _start(recommender: Recommender) -> None:
    """Load the history, with as many attempts as needed."""
    while True:
        try:
            return await recommender.start()
        except (KubeError, DecodeError):
            await asyncio.sleep(5.0)


@dataclass
class FaultSimulation:
    """A recommender with faults; ``events`` records them."""

    simulation: RecommenderSimulation
    rng: Random
    events: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # checkpoints that were replaced by smaller ones
    _allowed: bool = False  # a writer that ignores stored checkpoints is active
    _now: Life | None = None

    def __post_init__(self) -> None:
        resource = self.simulation.api.registry.find(
            CHECKPOINTS.group, CHECKPOINTS.version, CHECKPOINTS.resource
        )
        assert resource is not None
        self._checkpoints = resource
        self.simulation.api.store.subscribe(resource, self._compare)

    def _compare(self, change: Change) -> None:
        """Record a checkpoint that has less history than the one before it."""
        if change.type is ChangeType.ADDED or self._allowed:
            return
        if change.type is ChangeType.DELETED or change.previous is None:
            self.lost.append(f"{change.stored.name} deleted")
            return
        before, after = (
            one.object(self._checkpoints)["status"] for one in (change.previous, change.stored)
        )
        for old, new in zip(weights(before), weights(after), strict=True):
            if new < old * (1 - 1e-6) - 1e-4:
                self.lost.append(f"{self._time} {change.stored.name}: {old} became {new}")
        if (after.get("firstSampleStart") or "~") > (before.get("firstSampleStart") or "~"):
            self.lost.append(f"{self._time} {change.stored.name} begins later")

    @property
    def _time(self) -> str:
        return f"{self.simulation.clock.now():%dd %H:%M:%S}"

    @property
    def hours(self) -> float:
        return (self.simulation.clock.now() - EPOCH) / timedelta(hours=1)

    # Targets and checkpoints

    def start(self) -> None:
        self._now = self._new()

    def _new(self, **settings: Any) -> Life:
        return Life(
            self.simulation, RecommenderSettings(interval=timedelta(seconds=INTERVAL), **settings)
        )

    async def end(self) -> None:
        assert self._now is not None
        await self._now.kill()

    async def inject_faults(self, count: int) -> None:
        """Cause this many faults, one after the other."""
        other = self._new(recommender_name="other")
        events = [event for event, share in EVENTS for _ in range(share)]
        for _ in range(count):
            await asyncio.sleep(self.rng.uniform(60, 600))
            await self._one(self.rng.choice(events))
        await other.kill()

    async def _one(self, event: Callable[["FaultSimulation"], Awaitable[None]]) -> None:
        if event in LOSING_SAMPLES and self._samples_matter(2.0):
            event = restart
        self.events.append(f"{self._time} {event.__name__}")
        await event(self)

    def _samples_matter(self, ahead: float) -> bool:
        """Return whether samples of the present or the coming hours must not be lost."""
        return any(begin - ahead < self.hours < end for begin, end in (SPIKE, (KILL, KILL + 1.0)))

    async def replace(self, pause: float) -> None:
        assert self._now is not None
        await self._now.kill()
        await asyncio.sleep(pause)
        self.start()

    async def healed(self) -> None:
        """Wait until every checkpoint has been written once more."""
        await asyncio.sleep(3 * INTERVAL)

    async def change_vpa(self, name: str, spec: Mapping[str, Any]) -> None:
        patch = {"spec": spec}
        await self.simulation.admin.patch(
            VPAS, name, patch, patch_type=PatchType.MERGE, namespace=NAMESPACE
        )

    def change_selector(self, name: str, app: str) -> None:
        stored = self.simulation.api.store.get(DEPLOYMENTS, NAMESPACE, name)
        assert stored is not None
        deployment = stored.object(DEPLOYMENTS)
        deployment["spec"]["selector"]["matchLabels"] = {"app": app}
        self.simulation.api.store.update(DEPLOYMENTS, deployment)

    @property
    def some_workload(self) -> str:
        return self.rng.choice(list(self.simulation.workloads))


async def restart(faults: FaultSimulation) -> None:
    await faults.replace(faults.rng.choice((0.0, 1.0, 30.0, 600.0)))


async def crash_in_the_middle_of_writes(faults: FaultSimulation) -> None:
    """Delay or lose responses, then kill the process."""
    effect = faults.rng.choice(
        (
            Effect(delay=faults.rng.uniform(0.5, 9.0)),
            Effect(drop=True, done=True),
            Effect(drop=True, done=False),
            Effect(delay=3.0, refuse=Refusal.UNAVAILABLE, done=True),
        )
    )
    verb = faults.rng.choice(("patch", "list", "*"))
    calls = Calls(verb=verb, group=CHECKPOINTS.group, user_agent=f"{AGENT}*")
    forget = faults.simulation.api.faults.add(ApiFault(calls=calls, effect=effect))
    await asyncio.sleep(faults.rng.uniform(0.0, INTERVAL + 20))
    assert faults._now is not None
    await faults._now.kill()
    forget()
    faults.start()


async def target_goes_and_comes(faults: FaultSimulation) -> None:
    name = faults.some_workload
    target = {"apiVersion": "apps/v1", "kind": "Deployment"}
    await faults.change_vpa(name, {"targetRef": {**target, "name": "missing"}})
    await asyncio.sleep(faults.rng.uniform(10, 1500))
    if faults.rng.random() < 0.5:
        await faults.replace(1.0)
        await asyncio.sleep(faults.rng.uniform(10, 900))
    await faults.change_vpa(name, {"targetRef": {**target, "name": name}})


async def selector_goes_and_comes(faults: FaultSimulation) -> None:
    name = faults.some_workload
    faults.change_selector(name, faults.rng.choice(("missing", *faults.simulation.workloads)))
    await asyncio.sleep(faults.rng.uniform(10, 1500))
    if faults.rng.random() < 0.5:
        await faults.replace(1.0)
        await asyncio.sleep(faults.rng.uniform(10, 900))
    faults.change_selector(name, name)


async def another_recommender_for_a_while(faults: FaultSimulation) -> None:
    names = [name for name in faults.simulation.workloads if faults.rng.random() < 0.7]
    for recommenders in ([{"name": "other"}], None):
        for name in names:
            await faults.change_vpa(name, {"recommenders": recommenders})
        await asyncio.sleep(faults.rng.choice((20.0, 700.0, 3000.0)))


async def no_metrics_for_an_hour(faults: FaultSimulation) -> None:
    faults.simulation.metrics.fault = 503
    await asyncio.sleep(HOUR / 2)
    if faults.rng.random() < 0.3:
        await faults.replace(1.0)
    await asyncio.sleep(HOUR / 2)
    faults.simulation.metrics.fault = None


async def memory_only_for_an_hour(faults: FaultSimulation) -> None:
    metrics = faults.simulation.metrics
    assert isinstance(metrics, MetricsWithGaps)
    metrics.memory_only = True
    await asyncio.sleep(HOUR / 2)
    if faults.rng.random() < 0.5:
        await faults.replace(1.0)
    await asyncio.sleep(HOUR / 2)
    metrics.memory_only = False


async def two_at_once(faults: FaultSimulation) -> None:
    """Run two recommenders without a Lease, as during a rollout; either may stay."""
    assert faults._now is not None
    pair = [faults._now, faults._new()]
    await asyncio.sleep(faults.rng.uniform(1, 2400))
    faults.rng.shuffle(pair)
    faults._now, gone = pair
    await gone.kill()


async def the_reference_for_a_while(faults: FaultSimulation) -> None:
    """Run a writer that replaces stored checkpoints with old ones without reading them."""
    read = [
        one.object(faults._checkpoints)
        for one in faults.simulation.api.store.list(faults._checkpoints)
    ]
    await asyncio.sleep(faults.rng.uniform(1, 400))
    for one in read:
        status = one["status"] | {"lastUpdateTime": rfc3339(faults.simulation.clock.now())}
        patch = [{"op": "replace", "path": "/status", "value": status}]
        path = CHECKPOINTS_OF.object(one["metadata"]["name"], NAMESPACE)
        faults._allowed = True
        await faults.simulation.admin.request(
            "PATCH", path, body=patch, content_type=PatchType.JSON.value
        )
        faults._allowed = False
    await faults.healed()


async def api_server_restarts(faults: FaultSimulation) -> None:
    listener = faults.simulation.access.listener
    await listener.pause()
    await asyncio.sleep(faults.rng.uniform(1, 120))
    faults.simulation.api.store.restart()
    await listener.resume()
    if faults.rng.random() < 0.3:
        await faults.replace(0.0)


EVENTS: tuple[tuple[Callable[[FaultSimulation], Awaitable[None]], int], ...] = (
    (restart, 4),
    (crash_in_the_middle_of_writes, 4),
    (target_goes_and_comes, 2),
    (selector_goes_and_comes, 2),
    (another_recommender_for_a_while, 2),
    (no_metrics_for_an_hour, 1),
    (memory_only_for_an_hour, 1),
    (two_at_once, 2),
    (the_reference_for_a_while, 1),
    (api_server_restarts, 1),
)
LOSING_SAMPLES = (no_metrics_for_an_hour, the_reference_for_a_while)
