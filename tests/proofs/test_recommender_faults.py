"""Faults around the recommender: it continues, loses no history, and logs and counts the fault.

Each test compares the targets after two hours with those of a run without a fault. Usage is high
in the first half hour and low afterwards, so the targets show if that history was kept.
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

pytestmark = pytest.mark.timeout(180)  # some seconds, but longer with coverage
BUSY = timedelta(minutes=30)
BEGIN, END = 35 * 60.0, 115 * 60.0  # seconds; of the fault at the earliest, and of the test
HOUR = 3600.0
FAULT_BEGINS = "the fault begins"
AGENT = "vpa-recommender*"
Targets = Mapping[tuple[str, str], Mapping[str, Any]]
Fault = Callable[[RecommenderSimulation, Replica], Awaitable[None]]


def usage_of(clock: VirtualClock) -> UsageOf:
    def usage(_workload: str, container: str) -> Usage:
        if clock.now() < EPOCH + BUSY:
            return Usage(cpu_millicores=800, memory_bytes=1500 * MEBI)
        return Usage(cpu_millicores=90, memory_bytes=300 * MEBI)

    return usage


@dataclass(frozen=True, kw_only=True)
class Result:
    """Targets and metrics at the end."""

    targets: Targets
    samples: Sequence[Sample]

    def counted(self, name: str, **labels: str) -> float:
        return total(self.samples, name, **labels)


def run_with(fault: Fault, **settings: Any) -> Result:
    """Run a recommender with a fault for two hours."""

    async def main(clock: VirtualClock) -> Result:
        with tempfile.TemporaryDirectory() as folder:
            async with running_simulation(clock, Path(folder), usage=usage_of(clock)) as simulation:
                for name in ("web", "db"):
                    await simulation.deploy(name)
                replica = simulation.replica(**settings)
                replica.start()
                await asyncio.sleep(BEGIN)
                logging.getLogger("recommender").info(FAULT_BEGINS)
                await fault(simulation, replica)
                await asyncio.sleep(END - asyncio.get_running_loop().time())
                alive = [one for one in simulation.replicas if one.lives]
                return Result(targets=await simulation.targets(), samples=await alive[0].samples())

    return virtual_time.run(main)


@functools.cache
def undisturbed() -> Targets:
    async def nothing(_simulation: RecommenderSimulation, _replica: Replica) -> None:
        """Inject no fault."""

    return run_with(nothing).targets


LogLines = Callable[[], list[str]]


@pytest.fixture
def log_lines(caplog: pytest.LogCaptureFixture) -> LogLines:
    """Return the recommender's log messages since the beginning of the fault."""
    undisturbed()
    caplog.set_level(logging.INFO)

    def lines() -> list[str]:
        said = [one for one in caplog.records if one.name.startswith(("recommender", "common"))]
        messages = [one.getMessage() for one in said]
        return messages[messages.index(FAULT_BEGINS) + 1 :]

    return lines


def test_targets_without_a_fault_include_the_busy_half_hour() -> None:
    for target in undisturbed().values():
        assert target == {"cpu": "920m", "memory": "1836551791"}


# Log messages

AWAY, BACK = "API server unreachable, trying again until it is back", "API server reachable again"
SILENT = "nothing is written until the caches follow the API server again"
GOES_ON = "caches follow the API server again, recommendations go on"
TOO_OLD = "listing again, what was seen last is too old"
UNFOLLOWED, FOLLOWED = "can't follow the resource, trying again", "following again"
NO_STATUS, NO_CHECKPOINT = "status not written", "checkpoint not written"
STATUSES, CHECKPOINTS_AGAIN = "every status is written again", "every checkpoint is written again"
NO_USAGE, USAGE = "no usage", "usage is there again"
LESS = "checkpoint would have known less, what is stored was kept with it"
TARGET = "target changed"
CACHES = 13  # watched resources


def logged_once(
    lines: Sequence[str], *once: str, allowed: Mapping[str, int] = MappingProxyType({})
) -> bool:
    """Return True if each line occurs once, and those in ``allowed`` at most that many times."""
    said = Counter(lines)
    return all(said.pop(line, 0) == 1 for line in once) and all(
        count <= allowed.get(line, 0) for line, count in said.items()
    )


# The API server


def test_an_outage_of_the_api_server(log_lines: LogLines) -> None:
    async def fault(simulation: RecommenderSimulation, _replica: Replica) -> None:
        await simulation.stop_api_server()
        await asyncio.sleep(300)
        await simulation.start_api_server()

    result = run_with(fault)
    assert result.targets == undisturbed()
    assert logged_once(log_lines(), AWAY, SILENT, BACK, GOES_ON, allowed={TOO_OLD: CACHES})
    assert result.counted("cycles_without_writes_total") >= 5
    assert result.counted("failed_reads_total", reason="Unreachable") >= CACHES


def test_a_resource_version_that_is_too_old_410(log_lines: LogLines) -> None:
    async def fault(simulation: RecommenderSimulation, _replica: Replica) -> None:
        await simulation.stop_api_server()
        for name in simulation.workloads:
            simulation.roll_out(name)
        await simulation.start_api_server(forgetful=True)

    result = run_with(fault)
    assert result.targets == undisturbed()
    lines = [line for line in log_lines() if line not in (AWAY, BACK, SILENT, GOES_ON)]
    assert logged_once(lines, allowed={TOO_OLD: CACHES})
    assert result.counted("failed_reads_total", reason="Expired") == CACHES


def test_broken_watches(log_lines: LogLines) -> None:
    """Watches break every twenty seconds for an hour."""

    async def fault(simulation: RecommenderSimulation, _replica: Replica) -> None:
        simulation.api.faults.add(api_fault(Effect(watch_cut=20.0), verb="watch"))
        await simulation.stop_api_server()
        await simulation.start_api_server()

    result = run_with(fault)
    assert result.targets == undisturbed()
    assert len(log_lines()) < 30  # of 1,800 watches
    assert set(log_lines()) <= {AWAY, BACK, SILENT, GOES_ON, TOO_OLD}
    assert result.counted("failed_reads_total", reason="Unreachable") > 500


def api_fault(effect: Effect, **calls: str) -> ApiFault:
    return ApiFault(calls=Calls(user_agent=AGENT, **calls), effect=effect, end=HOUR)


def test_throttled_writes_429(log_lines: LogLines) -> None:
    async def fault(simulation: RecommenderSimulation, _replica: Replica) -> None:
        effect = Effect(refuse=Refusal.OVERLOADED, retry_after=30)
        simulation.api.faults.add(api_fault(effect, verb="patch"))

    result = run_with(fault)
    assert result.targets == undisturbed()
    assert logged_once(log_lines(), NO_STATUS, NO_CHECKPOINT, STATUSES, CHECKPOINTS_AGAIN)
    for kind in ("status", "checkpoint"):
        assert result.counted("failed_writes_total", kind=kind, reason="TooManyRequests") > 50


def test_throttled_reads_429(log_lines: LogLines) -> None:
    """Pods can't be listed for an hour, and the old resource version is gone."""

    async def fault(simulation: RecommenderSimulation, _replica: Replica) -> None:
        effect = Effect(refuse=Refusal.OVERLOADED, retry_after=30)
        simulation.api.faults.add(api_fault(effect, resource="pods", group="core"))
        await simulation.stop_api_server()
        simulation.roll_out("web")
        await simulation.start_api_server(forgetful=True)

    result = run_with(fault)
    assert result.targets == undisturbed()
    lines = [line for line in log_lines() if line not in (AWAY, BACK, TOO_OLD)]
    assert logged_once(lines, UNFOLLOWED, SILENT, FOLLOWED, GOES_ON)
    tries = result.counted("failed_reads_total", api_resource="pods", reason="TooManyRequests")
    assert 0 < tries <= HOUR / 30
    assert 58 <= result.counted("cycles_without_writes_total") <= 62


@pytest.mark.parametrize("code", [Refusal.INTERNAL, Refusal.UNAVAILABLE, Refusal.TIMEOUT])
def test_failed_writes_of_one_object_5xx(log_lines: LogLines, code: Refusal) -> None:
    async def fault(simulation: RecommenderSimulation, _replica: Replica) -> None:
        simulation.api.faults.add(api_fault(Effect(refuse=code), verb="patch", name="web*"))

    result = run_with(fault)
    assert result.targets == undisturbed()
    assert logged_once(log_lines(), NO_STATUS, NO_CHECKPOINT, STATUSES, CHECKPOINTS_AGAIN)
    for kind in ("status", "checkpoint"):
        assert result.counted("failed_writes_total", kind=kind) > 50


# Usage


def test_an_hour_without_metrics(log_lines: LogLines) -> None:
    async def fault(simulation: RecommenderSimulation, _replica: Replica) -> None:
        simulation.metrics.fault = 503
        await asyncio.sleep(HOUR)
        simulation.metrics.fault = None

    result = run_with(fault)
    assert result.targets == undisturbed()
    assert logged_once(log_lines(), NO_USAGE, USAGE)
    assert result.counted("usage_requests_total", outcome="ServiceUnavailable") >= 59


def test_an_hour_of_old_metrics(log_lines: LogLines) -> None:
    """The metrics server responds with old samples."""
    ages: list[float] = []

    async def fault(simulation: RecommenderSimulation, replica: Replica) -> None:
        simulation.metrics.stalled = True
        await asyncio.sleep(HOUR)
        ages.append(await replica.sample("usage_age_seconds"))
        simulation.metrics.stalled = False

    result = run_with(fault)
    assert result.targets == undisturbed()
    assert logged_once(log_lines(), "usage is old", "usage is new again")
    assert ages[0] == pytest.approx(HOUR, abs=120)
    assert result.counted("usage_age_seconds") < 60


# The clock


@pytest.mark.parametrize("cluster", [True, False], ids=["all clocks", "only the recommender's"])
def test_a_clock_that_moves_back_by_a_minute(log_lines: LogLines, *, cluster: bool) -> None:
    async def fault(simulation: RecommenderSimulation, replica: Replica) -> None:
        (simulation.clock if cluster else replica.clock).jump(-timedelta(minutes=1))

    result = run_with(fault)
    assert result.targets == undisturbed()
    assert log_lines() == ["system clock moved backwards; timestamps may repeat"]
    assert result.counted("clock_set_back_total") == 1


def test_a_clock_that_was_a_day_ahead_delays_no_checkpoint(log_lines: LogLines) -> None:
    """The times of the last writes are a day ahead when the clock is corrected."""

    async def fault(simulation: RecommenderSimulation, replica: Replica) -> None:
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

    result = run_with(fault)
    assert result.targets == undisturbed()
    assert logged_once(
        log_lines(),
        "usage is old",
        "system clock moved backwards; timestamps may repeat",
        "usage is new again",
        # With the clock a day ahead the current memory windows had ended.
        allowed={LESS: 4},
    )
    assert result.counted("clock_set_back_total") == 1


def test_a_clock_that_was_a_month_ahead_deletes_no_history(log_lines: LogLines) -> None:
    """All usage seems to be older than the eight days for which it is kept (X98)."""

    async def fault(_: RecommenderSimulation, replica: Replica) -> None:
        replica.clock.jump(timedelta(days=30))
        await asyncio.sleep(2 * 3600)  # garbage is collected every hour
        replica.clock.jump(-timedelta(days=30))

    result = run_with(fault)
    assert result.targets == undisturbed()
    assert "aggregates forgotten" not in log_lines()


# Bad values

BAD_VALUES: tuple[Any, ...] = (
    *(None, True, "", "?", "nonsense", -1, 0, 1.5, 10**15, 10**40, -(10**40), "9" * 400),
    *("-5", "1e99999", "1e-99999", "1Ei", "NaN", "\u0000", [], {}, [[]], {"cpu": {}}, ["?"]),
)
"""The values that replace each part of an object in turn; a schema would refuse most of them."""

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


def variants(whole: Any) -> Iterator[Any]:
    """Yield the object with one part replaced, for each part and each bad value."""
    for path in paths(whole):
        for value in BAD_VALUES:
            changed = copy.deepcopy(whole)
            part = changed
            for step in path[:-1]:
                part = part[step]
            part[path[-1]] = value
            yield changed


def paths(whole: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path to each part of an object."""
    parts = whole.items() if isinstance(whole, dict) else enumerate(whole)
    for step, part in parts:
        yield (step,)
        if isinstance(part, dict | list):
            yield from ((step, *rest) for rest in paths(part))


def test_vpas_with_bad_values_in_every_field(log_lines: LogLines) -> None:
    """The VPAs exist for some cycles; they must not affect other VPAs or their history."""

    async def fault(simulation: RecommenderSimulation, _replica: Replica) -> None:
        await simulation.deploy("odd", replicas=1)
        names = [f"odd-{number}" for number, _ in enumerate(variants(SPEC))]
        for name, spec in zip(names, variants(SPEC), strict=True):
            simulation.put_custom(VPAS.resource, name, spec=spec)
        await asyncio.sleep(200)
        for name in names:
            simulation.delete_custom(VPAS.resource, name)
        del simulation.workloads["odd"]

    result = run_with(fault, feature_gates=FeatureGates(per_vpa_config=True))
    assert result.targets == undisturbed()
    lines = Counter(log_lines())
    unusable, undecodable = (
        lines.pop(line)
        for line in ("VPA can't be used as it is", "object skipped, it can't be decoded")
    )
    assert undecodable == result.counted("failed_reads_total", reason="undecodable")
    assert unusable >= result.counted("failed_reads_total", reason="policy") > 0
    assert lines.pop(TARGET) <= 4 * len([*variants(SPEC)])  # the cycles in which they exist
    assert logged_once([*lines.elements()], "history loaded", "checkpoints without a VPA deleted")


def test_checkpoints_with_bad_values_in_every_field(log_lines: LogLines) -> None:
    async def fault(simulation: RecommenderSimulation, replica: Replica) -> None:
        await replica.kill()
        for number, status in enumerate(variants(STATUS)):
            spec = {"vpaObjectName": "web", "containerName": f"odd-{number}"}
            simulation.put_custom(
                CHECKPOINTS.resource, f"web-odd-{number}", spec=spec, status=status
            )
        replica.start()

    result = run_with(fault)
    assert result.targets == undisturbed()
    lines = Counter(log_lines())
    garbage = lines.pop("checkpoint not loaded, the next one will replace it")
    assert garbage == result.counted("failed_reads_total", api_resource=CHECKPOINTS.resource)
    allowed = {LESS: 9, TARGET: 3}  # the minimum of the pod is shared with the other containers
    assert logged_once([*lines.elements()], "listening", "history loaded", allowed=allowed)


# A second replica


def test_two_replicas_that_alternately_lose_the_lease(log_lines: LogLines) -> None:
    """Each replica in turn can't renew the Lease, ends, and is started again."""
    elected = {"leader_elect": True}

    async def fault(simulation: RecommenderSimulation, replica: Replica) -> None:
        second = simulation.replica(user=ADMIN, **elected)
        second.start()
        for one, other in ((replica, second), (second, replica)) * 2:
            await asyncio.sleep(300)
            assert (await one.sample("leading"), await other.sample("leading")) == (1, 0)
            user = ACCOUNT if one is replica else ADMIN
            lease_fault = ApiFault(
                calls=Calls(resource="leases", user=user), effect=Effect(drop=True), end=60.0
            )
            simulation.api.faults.add(lease_fault)
            await asyncio.sleep(60)
            with pytest.raises(ExceptionGroup) as raised:
                await one.kill()
            assert raised.value.subgroup(LeadershipLostError) is not None
            one.start()
        assert 0 < writer_changes(simulation) <= 4

    result = run_with(fault, **elected)
    assert result.targets == undisturbed()


def writer_changes(simulation: RecommenderSimulation) -> int:
    """Return the number of times that the writer changed."""
    writers = [
        entry.user
        for entry in simulation.api.audit.find({"verb": "patch"})
        if entry.resource in (VPAS.resource, CHECKPOINTS.resource)
    ]
    return sum(one != other for one, other in itertools.pairwise(writers))
