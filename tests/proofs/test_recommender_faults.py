"""The recommender in trouble: it goes on, loses no history, says so once, and counts.

Each test compares what is recommended after two hours with a twin that had no trouble. Usage is
high in the first half hour and low from then on: a target tells whether that is still known.
"""

import asyncio
import copy
import functools
import itertools
import logging
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from prometheus_client.core import Sample

from common.errors import LeadershipLostError
from common.features import FeatureGates
from common.kube.endpoints import CHECKPOINTS, VPAS
from recommender_simulation import (
    ACCOUNT,
    MEBI,
    RecommenderSimulation,
    Replica,
    UsageOf,
    running_simulation,
    total,
)
from sandbox import virtual_time
from sandbox.apiserver.auth import ADMIN
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.kubelet.usage import Usage
from sandbox.virtual_time import EPOCH, VirtualClock

pytestmark = pytest.mark.timeout(180)  # some seconds, but more while coverage is measured
BUSY = timedelta(minutes=30)
BEGIN, END = 35 * 60.0, 115 * 60.0  # of the trouble at the earliest, and of the test
HOUR = 3600.0
BEGINNING = "the trouble begins"
AGENT = "vpa-recommender*"
Targets = Mapping[tuple[str, str], Mapping[str, Any]]
Trouble = Callable[[RecommenderSimulation, Replica], Awaitable[None]]


def busy_at_first(clock: VirtualClock) -> UsageOf:
    def usage(_workload: str, container: str) -> Usage:
        if clock.now() < EPOCH + BUSY:
            return Usage(cpu_millicores=800, memory_bytes=1500 * MEBI)
        return Usage(cpu_millicores=90, memory_bytes=300 * MEBI)

    return usage


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What there is in the end."""

    targets: Targets
    samples: Sequence[Sample]

    def counted(self, name: str, **labels: str) -> float:
        return total(self.samples, name, **labels)


def lived_through(trouble: Trouble, **settings: Any) -> Ended:
    """Two hours with a recommender, and what is true after them."""

    async def main(clock: VirtualClock) -> Ended:
        with tempfile.TemporaryDirectory() as folder:
            async with running_simulation(
                clock, Path(folder), usage=busy_at_first(clock)
            ) as simulation:
                for name in ("web", "db"):
                    await simulation.deploy(name)
                replica = simulation.replica(**settings)
                replica.start()
                await asyncio.sleep(BEGIN)
                logging.getLogger("recommender").info(BEGINNING)
                await trouble(simulation, replica)
                await asyncio.sleep(END - asyncio.get_running_loop().time())
                alive = [one for one in simulation.replicas if one.lives]
                return Ended(targets=await simulation.targets(), samples=await alive[0].samples())

    return virtual_time.run(main)


@functools.cache
def undisturbed() -> Targets:
    async def nothing(_town: RecommenderSimulation, _replica: Replica) -> None:
        """Nothing happens."""

    return lived_through(nothing).targets


Told = Callable[[], list[str]]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    """What the recommender says from the beginning of the trouble on."""
    undisturbed()
    caplog.set_level(logging.INFO)

    def lines() -> list[str]:
        said = [one for one in caplog.records if one.name.startswith(("recommender", "common"))]
        messages = [one.getMessage() for one in said]
        return messages[messages.index(BEGINNING) + 1 :]

    return lines


def test_the_busy_hour_shows() -> None:
    for target in undisturbed().values():
        assert target == {"cpu": "920m", "memory": "1836551791"}


# What it says

AWAY, BACK = "API server unreachable, trying again until it is back", "API server reachable again"
SILENT = "nothing is written until the caches follow the API server again"
GOES_ON = "caches follow the API server again, recommendations go on"
TOO_OLD = "listing again, what was seen last is too old"
UNFOLLOWED, FOLLOWED = "can't follow the resource, trying again", "following again"
NO_STATUS, NO_CHECKPOINT = "status not written", "checkpoint not written"
STATUSES, CHECKPOINTS_AGAIN = "every status is written again", "every checkpoint is written again"
NO_USAGE, USAGE = "no usage", "usage is there again"
LESS = "checkpoint would have known less, what is stored was kept with it"
CACHES = 11  # resources that are followed


def one_of_each(
    lines: Sequence[str], *once: str, several: Mapping[str, int] = MappingProxyType({})
) -> bool:
    """Whether these lines were said once each, and of ``several`` no more than so many."""
    said = Counter(lines)
    return all(said.pop(line, 0) == 1 for line in once) and all(
        count <= several.get(line, 0) for line, count in said.items()
    )


# The API server


def test_an_api_server_that_restarts(told: Told) -> None:
    async def trouble(simulation: RecommenderSimulation, _replica: Replica) -> None:
        await simulation.stop_api_server()
        await asyncio.sleep(300)
        await simulation.start_api_server()

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    assert one_of_each(told(), AWAY, SILENT, BACK, GOES_ON, several={TOO_OLD: CACHES})
    assert ended.counted("cycles_without_writes_total") >= 5
    assert ended.counted("failed_reads_total", reason="Unreachable") >= CACHES


def test_what_was_seen_is_too_old_410(told: Told) -> None:
    async def trouble(simulation: RecommenderSimulation, _replica: Replica) -> None:
        await simulation.stop_api_server()
        for name in simulation.workloads:
            simulation.roll_out(name)
        await simulation.start_api_server(forgetful=True)

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    lines = [line for line in told() if line not in (AWAY, BACK, SILENT, GOES_ON)]
    assert one_of_each(lines, several={TOO_OLD: CACHES})
    assert ended.counted("failed_reads_total", reason="Expired") == CACHES


def test_watches_that_break(told: Told) -> None:
    """Every twenty seconds, for an hour."""

    async def trouble(simulation: RecommenderSimulation, _replica: Replica) -> None:
        simulation.api.faults.add(wrong(Effect(watch_cut=20.0), verb="watch"))
        await simulation.stop_api_server()
        await simulation.start_api_server()

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    assert len(told()) < 30  # of 1,800 watches
    assert set(told()) <= {AWAY, BACK, SILENT, GOES_ON, TOO_OLD}
    assert ended.counted("failed_reads_total", reason="Unreachable") > 500


def wrong(effect: Effect, **calls: str) -> ApiFault:
    return ApiFault(calls=Calls(user_agent=AGENT, **calls), effect=effect, end=HOUR)


def test_writes_that_come_too_often_429(told: Told) -> None:
    async def trouble(simulation: RecommenderSimulation, _replica: Replica) -> None:
        effect = Effect(refuse=Refusal.OVERLOADED, retry_after=30)
        simulation.api.faults.add(wrong(effect, verb="patch"))

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    assert one_of_each(told(), NO_STATUS, NO_CHECKPOINT, STATUSES, CHECKPOINTS_AGAIN)
    for kind in ("status", "checkpoint"):
        assert ended.counted("failed_writes_total", kind=kind, reason="TooManyRequests") > 50


def test_reads_that_come_too_often_429(told: Told) -> None:
    """The list of pods cannot be had for an hour, and what was seen before is too old."""

    async def trouble(simulation: RecommenderSimulation, _replica: Replica) -> None:
        effect = Effect(refuse=Refusal.OVERLOADED, retry_after=30)
        simulation.api.faults.add(wrong(effect, resource="pods", group="core"))
        await simulation.stop_api_server()
        simulation.roll_out("web")
        await simulation.start_api_server(forgetful=True)

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    lines = [line for line in told() if line not in (AWAY, BACK, TOO_OLD)]
    assert one_of_each(lines, UNFOLLOWED, SILENT, FOLLOWED, GOES_ON)
    tries = ended.counted("failed_reads_total", api_resource="pods", reason="TooManyRequests")
    assert 0 < tries <= HOUR / 30
    assert 58 <= ended.counted("cycles_without_writes_total") <= 62


@pytest.mark.parametrize("code", [Refusal.INTERNAL, Refusal.UNAVAILABLE, Refusal.TIMEOUT])
def test_one_object_that_cannot_be_written_5xx(told: Told, code: Refusal) -> None:
    async def trouble(simulation: RecommenderSimulation, _replica: Replica) -> None:
        simulation.api.faults.add(wrong(Effect(refuse=code), verb="patch", name="web*"))

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    assert one_of_each(told(), NO_STATUS, NO_CHECKPOINT, STATUSES, CHECKPOINTS_AGAIN)
    for kind in ("status", "checkpoint"):
        assert ended.counted("failed_writes_total", kind=kind) > 50


# Usage


def test_an_hour_without_metrics(told: Told) -> None:
    async def trouble(simulation: RecommenderSimulation, _replica: Replica) -> None:
        simulation.metrics.fault = 503
        await asyncio.sleep(HOUR)
        simulation.metrics.fault = None

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    assert one_of_each(told(), NO_USAGE, USAGE)
    assert ended.counted("usage_requests_total", outcome="ServiceUnavailable") >= 59


def test_an_hour_of_old_metrics(told: Told) -> None:
    """The metrics server answers, and samples nothing any more."""
    ages: list[float] = []

    async def trouble(simulation: RecommenderSimulation, replica: Replica) -> None:
        simulation.metrics.stalled = True
        await asyncio.sleep(HOUR)
        ages.append(await replica.sample("usage_age_seconds"))
        simulation.metrics.stalled = False

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    assert one_of_each(told(), "usage is old", "usage is new again")
    assert ages[0] == pytest.approx(HOUR, abs=120)
    assert ended.counted("usage_age_seconds") < 60


# The clock


@pytest.mark.parametrize("everybody", [True, False], ids=["everybody's", "ours alone"])
def test_a_clock_that_is_put_back_by_a_minute(told: Told, *, everybody: bool) -> None:
    async def trouble(simulation: RecommenderSimulation, replica: Replica) -> None:
        (simulation.clock if everybody else replica.clock).jump(-timedelta(minutes=1))

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    assert told() == ["system clock moved backwards; timestamps may repeat"]
    assert ended.counted("clock_set_back_total") == 1


def test_a_clock_that_was_a_day_ahead_holds_up_no_checkpoint(told: Told) -> None:
    """What is due next is told by times that are a day away when it is put right."""

    async def trouble(simulation: RecommenderSimulation, replica: Replica) -> None:
        replica.clock.jump(timedelta(days=1))
        await asyncio.sleep(600)
        replica.clock.jump(-timedelta(days=1))
        await asyncio.sleep(60)
        put_right = simulation.clock.now()
        await asyncio.sleep(600)
        written = [
            entry.name
            for entry in simulation.api.audit.find(
                {"resource": CHECKPOINTS.resource, "verb": "patch"}
            )
            if entry.time > put_right
        ]
        assert set(written) == {"web-app", "web-sidecar", "db-app", "db-sidecar"}

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    assert one_of_each(
        told(),
        "usage is old",
        "system clock moved backwards; timestamps may repeat",
        "usage is new again",
        # A day ahead the running memory windows were over, and now they aren't.
        several={LESS: 4},
    )
    assert ended.counted("clock_set_back_total") == 1


def test_a_clock_that_was_a_month_ahead_forgets_nothing(told: Told) -> None:
    """All usage seems to be older than the eight days for which it is kept (X98)."""

    async def trouble(_: RecommenderSimulation, replica: Replica) -> None:
        replica.clock.jump(timedelta(days=30))
        await asyncio.sleep(2 * 3600)  # usage is collected every hour
        replica.clock.jump(-timedelta(days=30))

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    assert "aggregates forgotten" not in told()


# Strange objects

STRANGE: tuple[Any, ...] = (
    *(None, True, "", "?", "nonsense", -1, 0, 1.5, 10**15, 10**40, -(10**40), "9" * 400),
    *("-5", "1e99999", "1e-99999", "1Ei", "NaN", "\u0000", [], {}, [[]], {"cpu": {}}, ["?"]),
)
"""What stands in each place of an object in turn; hardly any of it would pass a schema."""

AMOUNTS = {"cpu": "100m", "memory": "100Mi"}
SPEC: dict[str, Any] = {
    "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "odd"},
    "updatePolicy": {
        "updateMode": "Recreate",
        "minReplicas": 1,
        "evictionRequirements": [
            {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
        ],
        "evictAfterOOMSeconds": 60,
    },
    "resourcePolicy": {
        "containerPolicies": [
            {
                "containerName": "*",
                "mode": "Auto",
                "minAllowed": AMOUNTS,
                "maxAllowed": {"cpu": "2", "memory": "2Gi"},
                "controlledResources": ["cpu", "memory"],
                "controlledValues": "RequestsOnly",
                "oomBumpUpRatio": "1.5",
                "oomMinBumpUp": "100Mi",
                "memoryAggregationIntervalSeconds": 3600,
                "memoryAggregationIntervalCount": 4,
            }
        ]
    },
    "recommenders": [{"name": "default"}],
    "startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 10}},
}
HISTOGRAM = {
    "referenceTimestamp": "2026-01-01T00:00:00Z",
    "bucketWeights": {"30": 10000},
    "totalWeight": 10.5,
}
STATUS: dict[str, Any] = {
    "version": "v3",
    "lastUpdateTime": "2026-01-01T00:00:00Z",
    "cpuHistogram": HISTOGRAM,
    "memoryHistogram": HISTOGRAM,
    "firstSampleStart": "2026-01-01T00:00:00Z",
    "lastSampleStart": "2026-01-01T00:20:00Z",
    "totalSamplesCount": 20,
}


def strange(whole: Any) -> Iterator[Any]:
    """The object with each of its parts replaced, one at a time."""
    for path in places(whole):
        for value in STRANGE:
            changed = copy.deepcopy(whole)
            part = changed
            for step in path[:-1]:
                part = part[step]
            part[path[-1]] = value
            yield changed


def places(whole: Any) -> Iterator[tuple[Any, ...]]:
    """The way to each part of an object."""
    parts = whole.items() if isinstance(whole, dict) else enumerate(whole)
    for step, part in parts:
        yield (step,)
        if isinstance(part, dict | list):
            yield from ((step, *rest) for rest in places(part))


def test_vpas_with_nonsense_in_every_field(told: Told) -> None:
    """For some cycles; each of them could stop the others, or cost them their history."""

    async def trouble(simulation: RecommenderSimulation, _replica: Replica) -> None:
        await simulation.deploy("odd", replicas=1)
        names = [f"odd-{number}" for number, _ in enumerate(strange(SPEC))]
        for name, spec in zip(names, strange(SPEC), strict=True):
            simulation.put_custom(VPAS.resource, name, spec=spec)
        await asyncio.sleep(200)
        for name in names:
            simulation.delete_custom(VPAS.resource, name)
        del simulation.workloads["odd"]

    ended = lived_through(trouble, feature_gates=FeatureGates(per_vpa_config=True))
    assert ended.targets == undisturbed()
    lines = Counter(told())
    unusable, undecodable = (
        lines.pop(line)
        for line in ("VPA can't be used as it is", "object skipped, it can't be decoded")
    )
    assert undecodable == ended.counted("failed_reads_total", reason="undecodable")
    assert unusable >= ended.counted("failed_reads_total", reason="policy") > 0
    assert one_of_each([*lines.elements()], "history loaded", "checkpoints without a VPA deleted")


def test_checkpoints_with_nonsense_in_every_field(told: Told) -> None:
    async def trouble(simulation: RecommenderSimulation, replica: Replica) -> None:
        await replica.kill()
        for number, status in enumerate(strange(STATUS)):
            spec = {"vpaObjectName": "web", "containerName": f"odd-{number}"}
            simulation.put_custom(
                CHECKPOINTS.resource, f"web-odd-{number}", spec=spec, status=status
            )
        replica.start()

    ended = lived_through(trouble)
    assert ended.targets == undisturbed()
    lines = Counter(told())
    garbage = lines.pop("checkpoint not loaded, the next one will replace it")
    assert garbage == ended.counted("failed_reads_total", api_resource=CHECKPOINTS.resource)
    assert one_of_each([*lines.elements()], "listening", "history loaded", several={LESS: 9})


# Rivals


def test_two_replicas_that_fight_for_the_lease(told: Told) -> None:
    """Each in turn can't renew it, ends, and is started again."""
    elected = {"leader_elect": True}

    async def trouble(simulation: RecommenderSimulation, replica: Replica) -> None:
        rival = simulation.replica(user=ADMIN, **elected)
        rival.start()
        for one, other in ((replica, rival), (rival, replica)) * 2:
            await asyncio.sleep(300)
            assert (await one.sample("leading"), await other.sample("leading")) == (1, 0)
            user = ACCOUNT if one is replica else ADMIN
            fault = ApiFault(
                calls=Calls(resource="leases", user=user), effect=Effect(drop=True), end=60.0
            )
            simulation.api.faults.add(fault)
            await asyncio.sleep(60)
            with pytest.raises(ExceptionGroup) as ended:
                await one.kill()
            assert ended.value.subgroup(LeadershipLostError) is not None
            one.start()
        assert 0 < writers_take_turns(simulation) <= 4

    ended = lived_through(trouble, **elected)
    assert ended.targets == undisturbed()


def writers_take_turns(simulation: RecommenderSimulation) -> int:
    """How often another one wrote than before."""
    writers = [
        entry.user
        for entry in simulation.api.audit.find({"verb": "patch"})
        if entry.resource in (VPAS.resource, CHECKPOINTS.resource)
    ]
    return sum(one != other for one, other in itertools.pairwise(writers))
