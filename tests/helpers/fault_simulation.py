"""Two days of a small simulation, and a hundred things that may go wrong with its recommender.

The workloads do the same in each simulation: usage is a function of time, and so is the one OOM
kill. What happens to the recommender is drawn from a seed, and remembered as it happens.
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
CALM = 48.5  # hours; from then on nothing goes wrong any more
AGENT = "vpa-recommender"
CHECKPOINTS_OF = CHECKPOINTS.as_dicts()


class MetricsWithGaps(MetricsServer):
    """Knows for a while of memory alone."""

    memory_only = False

    def __init__(self, source: UsageSource, clock: Clock, *, window: timedelta) -> None:
        del window  # whoever asks once in ten minutes needs none of fifteen seconds
        super().__init__(source, clock, window=timedelta(minutes=1))

    def answer(self, *args: Any, **more: Any) -> tuple[int, Any]:
        status, body = super().answer(*args, **more)
        if self.memory_only and isinstance(body, dict):
            for pod in body.get("items", ()):
                for container in pod.get("containers", ()):
                    container["usage"].pop("cpu")
        return status, body


def usage_at(clock: Callable[[], Clock]) -> Callable[[str, str], Usage]:
    """What containers use as time goes by; no percentile is near the edge of a bucket's share."""

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
    """A container of each pod of one workload runs out of memory, and starts again."""
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
    """Total weights of a checkpoint's histograms, as of the start of all."""
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
    """A recommender from its start to its death, without the server of its metrics.

    That one looks at the clock ten times a second: of three days nearly all the time.
    """

    simulation: RecommenderSimulation
    settings: RecommenderSettings
    _task: asyncio.Task[None] = field(init=False)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def kill(self) -> None:
        """End it wherever it is. What it died of by itself is raised."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def stop(self) -> None:
        """End it as a signal does: it writes down what it knows."""
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
    """Read the history, as often as it takes."""
    while True:
        try:
            return await recommender.start()
        except (KubeError, DecodeError):
            await asyncio.sleep(5.0)


@dataclass
class FaultSimulation:
    """A recommender to which things happen; ``told`` is what did."""

    simulation: RecommenderSimulation
    rng: Random
    told: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # checkpoints that were replaced by less
    _allowed: bool = False  # a writer that doesn't look is at work
    _now: Life | None = None

    def __post_init__(self) -> None:
        resource = self.simulation.api.registry.find(
            CHECKPOINTS.group, CHECKPOINTS.version, CHECKPOINTS.resource
        )
        assert resource is not None
        self._checkpoints = resource
        self.simulation.api.store.subscribe(resource, self._compare)

    def _compare(self, change: Change) -> None:
        """No checkpoint may know less than the one before it."""
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

    # What it is all about

    def start(self) -> None:
        self._now = self._new()

    def _new(self, **settings: Any) -> Life:
        return Life(
            self.simulation, RecommenderSettings(interval=timedelta(seconds=INTERVAL), **settings)
        )

    async def end(self) -> None:
        assert self._now is not None
        await self._now.kill()

    async def rage(self, count: int) -> None:
        """So many things go wrong, one after the other."""
        other = self._new(recommender_name="other")
        events = [event for event, share in EVENTS for _ in range(share)]
        for _ in range(count):
            await asyncio.sleep(self.rng.uniform(60, 600))
            await self._one(self.rng.choice(events))
        await other.kill()

    async def _one(self, event: Callable[["FaultSimulation"], Awaitable[None]]) -> None:
        if event in DEAF and self._something_is_to_be_learnt(2.0):
            event = restart
        self.told.append(f"{self._time} {event.__name__}")
        await event(self)

    def _something_is_to_be_learnt(self, ahead: float) -> bool:
        """An hour of which nobody may know nothing: it would be another story."""
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
    def anybody(self) -> str:
        return self.rng.choice(list(self.simulation.workloads))


async def restart(chaos: FaultSimulation) -> None:
    await chaos.replace(chaos.rng.choice((0.0, 1.0, 30.0, 600.0)))


async def crash_in_the_middle_of_writes(chaos: FaultSimulation) -> None:
    """Answers take their time or get lost, and then the process dies."""
    effect = chaos.rng.choice(
        (
            Effect(delay=chaos.rng.uniform(0.5, 9.0)),
            Effect(drop=True, done=True),
            Effect(drop=True, done=False),
            Effect(delay=3.0, refuse=Refusal.UNAVAILABLE, done=True),
        )
    )
    verb = chaos.rng.choice(("patch", "list", "*"))
    calls = Calls(verb=verb, group=CHECKPOINTS.group, user_agent=f"{AGENT}*")
    forget = chaos.simulation.api.faults.add(ApiFault(calls=calls, effect=effect))
    await asyncio.sleep(chaos.rng.uniform(0.0, INTERVAL + 20))
    assert chaos._now is not None
    await chaos._now.kill()
    forget()
    chaos.start()


async def target_goes_and_comes(chaos: FaultSimulation) -> None:
    name = chaos.anybody
    target = {"apiVersion": "apps/v1", "kind": "Deployment"}
    await chaos.change_vpa(name, {"targetRef": {**target, "name": "nobody"}})
    await asyncio.sleep(chaos.rng.uniform(10, 1500))
    if chaos.rng.random() < 0.5:
        await chaos.replace(1.0)
        await asyncio.sleep(chaos.rng.uniform(10, 900))
    await chaos.change_vpa(name, {"targetRef": {**target, "name": name}})


async def selector_goes_and_comes(chaos: FaultSimulation) -> None:
    name = chaos.anybody
    chaos.change_selector(name, chaos.rng.choice(("nobody", *chaos.simulation.workloads)))
    await asyncio.sleep(chaos.rng.uniform(10, 1500))
    if chaos.rng.random() < 0.5:
        await chaos.replace(1.0)
        await asyncio.sleep(chaos.rng.uniform(10, 900))
    chaos.change_selector(name, name)


async def another_recommender_for_a_while(chaos: FaultSimulation) -> None:
    names = [name for name in chaos.simulation.workloads if chaos.rng.random() < 0.7]
    for recommenders in ([{"name": "other"}], None):
        for name in names:
            await chaos.change_vpa(name, {"recommenders": recommenders})
        await asyncio.sleep(chaos.rng.choice((20.0, 700.0, 3000.0)))


async def no_metrics_for_an_hour(chaos: FaultSimulation) -> None:
    chaos.simulation.metrics.fault = 503
    await asyncio.sleep(HOUR / 2)
    if chaos.rng.random() < 0.3:
        await chaos.replace(1.0)
    await asyncio.sleep(HOUR / 2)
    chaos.simulation.metrics.fault = None


async def memory_only_for_an_hour(chaos: FaultSimulation) -> None:
    metrics = chaos.simulation.metrics
    assert isinstance(metrics, MetricsWithGaps)
    metrics.memory_only = True
    await asyncio.sleep(HOUR / 2)
    if chaos.rng.random() < 0.5:
        await chaos.replace(1.0)
    await asyncio.sleep(HOUR / 2)
    metrics.memory_only = False


async def two_at_once(chaos: FaultSimulation) -> None:
    """As during a rollout, without a Lease; either may be the one that stays."""
    assert chaos._now is not None
    pair = [chaos._now, chaos._new()]
    await asyncio.sleep(chaos.rng.uniform(1, 2400))
    chaos.rng.shuffle(pair)
    chaos._now, gone = pair
    await gone.kill()


async def the_reference_for_a_while(chaos: FaultSimulation) -> None:
    """It replaces what is stored by what it read a while ago, without looking."""
    read = [
        one.object(chaos._checkpoints)
        for one in chaos.simulation.api.store.list(chaos._checkpoints)
    ]
    await asyncio.sleep(chaos.rng.uniform(1, 400))
    for one in read:
        status = one["status"] | {"lastUpdateTime": rfc3339(chaos.simulation.clock.now())}
        patch = [{"op": "replace", "path": "/status", "value": status}]
        path = CHECKPOINTS_OF.object(one["metadata"]["name"], NAMESPACE)
        chaos._allowed = True
        await chaos.simulation.admin.request(
            "PATCH", path, body=patch, content_type=PatchType.JSON.value
        )
        chaos._allowed = False
    await chaos.healed()


async def api_server_restarts(chaos: FaultSimulation) -> None:
    listener = chaos.simulation.access.serving.listener
    await listener.pause()
    await asyncio.sleep(chaos.rng.uniform(1, 120))
    chaos.simulation.api.store.restart()
    await listener.resume()
    if chaos.rng.random() < 0.3:
        await chaos.replace(0.0)


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
DEAF = (no_metrics_for_an_hour, the_reference_for_a_while)
