"""SIGTERM in every phase of a recommender's life: it ends in time, and another one goes on.

Source: recommender.md 13.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from common.kube.endpoints import CHECKPOINTS, LEASES, POD_METRICS, VPAS
from component import Process
from process_harness import AGENTS, World, world
from sandbox.apiserver.faults import ApiFault, Calls, Effect
from workloads import NAMESPACE, deploy

AGENT = AGENTS["recommender"]
LEASE = "vpa-recommender-lease"
ELECTED = (
    "--leader-elect",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=200ms",
)
SLOW, HANGING = 0.8, 30.0  # seconds; within the grace of a cycle, and far beyond it
STATUSES = f"{VPAS.resource}/status"


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Where a recommender is when the signal comes: in a call that takes its time."""

    name: str
    verb: str
    resource: str
    group: str = "*"

    def slow(self, seconds: float) -> ApiFault:
        calls = Calls(
            verb=self.verb, resource=self.resource, group=self.group, user_agent=f"{AGENT}*"
        )
        return ApiFault(calls=calls, effect=Effect(delay=seconds))


LISTS = Phase(name="pods are listed", verb="list", resource="pods", group="core")
HISTORY = Phase(name="history is loaded", verb="list", resource=CHECKPOINTS.resource)
CYCLE = (
    Phase(name="usage is read", verb="list", resource="pods", group=POD_METRICS.group),
    Phase(name="statuses are written", verb="patch", resource=STATUSES),
    Phase(name="checkpoints are written", verb="patch", resource=CHECKPOINTS.resource),
)


async def stopped_in(it: World, phase: Phase, seconds: float, process: Process) -> None:
    """Send SIGTERM while a call of the phase is under way; the process ends in order, in time."""
    faults = it.cluster.api.faults
    fault = phase.slow(seconds)
    undo = faults.add(fault)
    await it.until(lambda: faults.hits(fault) > 0)
    undo()  # the next replica's calls take no longer than usual
    code, took = await process.stop()
    assert (phase.name, code) == (phase.name, 0)
    assert took < 5, phase.name
    assert process.said("Traceback") == [], phase.name


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the checkpoints of a container know."""

    samples: int
    first: datetime | None
    weight: float


async def known(it: World) -> dict[str, Known]:
    found = (await it.client.list(CHECKPOINTS, namespace=NAMESPACE)).items
    return {
        one.metadata.name: Known(
            samples=one.status.total_samples_count,
            first=one.status.first_sample_start,
            weight=0.0
            if one.status.cpu_histogram is None
            else one.status.cpu_histogram.total_weight,
        )
        for one in found
    }


async def holder(it: World) -> str:
    lease = await it.client.get(LEASES.as_dicts(), LEASE, namespace="kube-system")
    return str(lease["spec"]["holderIdentity"])


def none_knows_less(before: dict[str, Known], after: dict[str, Known]) -> bool:
    """A first cycle may find pods whose usage nobody has measured: their history begins later."""
    return before.keys() <= after.keys() and all(
        after[name].samples >= one.samples
        and one.first in (None, after[name].first)
        and after[name].weight >= one.weight * (1 - 1e-9)
        for name, one in before.items()
    )


@pytest.mark.timeout(180)
async def test_in_a_cycle_it_ends_the_cycle_and_the_next_replica_goes_on(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for name in ("small", "large"):
            await deploy(it.client, name, replicas=2)
        leader = await it.start("recommender", *ELECTED)
        await it.until(lambda: bool(it.target("small")) and bool(it.target("large")))
        for phase, seconds in (*((phase, SLOW) for phase in CYCLE), (CYCLE[-1], HANGING)):
            standby = await it.start("recommender", *ELECTED)
            await standby.logged("another replica leads")
            before = await known(it)
            await stopped_in(it, phase, seconds, leader)
            await standby.logged("became the leader")
            await standby.logged("history loaded")
            await it.passes(standby)
            assert none_knows_less(before, await known(it)), phase.name
            leader = standby
        targets = [it.target(name) for name in ("small", "large")]
        code, _ = await leader.stop()
        assert (code, await holder(it)) == (0, "")  # nobody has to wait for it to expire
        last = await it.start("recommender", *ELECTED)
        await it.ready(last)
        await it.passes(last)
        assert [it.target(name) for name in ("small", "large")] == targets


@pytest.mark.timeout(120)
async def test_in_the_cycle_at_hand_checkpoints_are_still_written(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for name in ("small", "large"):
            await deploy(it.client, name)
        process = await it.start("recommender")
        await it.until(lambda: len(it.calls(CHECKPOINTS.resource, "patch")) >= 2)
        fault = CYCLE[0].slow(SLOW)
        undo = it.cluster.api.faults.add(fault)
        await it.until(lambda: it.cluster.api.faults.hits(fault) > 0)
        before = len(it.cluster.audit())
        code, _ = await process.stop()
        undo()
        assert code == 0
        written = [one.name for one in it.cluster.audit()[before:] if one.verb == "patch"]
        assert {"small-app", "large-app"} <= set(written)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("phase", [LISTS, HISTORY], ids=lambda phase: phase.name)
async def test_before_the_first_cycle_it_goes_and_has_written_nothing(
    tmp_path: Path, phase: Phase
) -> None:
    async with world(tmp_path) as it:
        await deploy(it.client, "small")
        fault = phase.slow(HANGING)
        undo = it.cluster.api.faults.add(fault)
        process = await it.start("recommender", *ELECTED)
        await process.logged("became the leader")
        await it.until(lambda: it.cluster.api.faults.hits(fault) > 0)
        undo()
        await stopped_at_once(process)
        writes = ("create", "patch", "update", "delete")
        assert resources(it, writes) <= {LEASES.resource}
        assert await holder(it) == ""


@pytest.mark.timeout(120)
async def test_while_another_one_leads_it_goes_and_leaves_the_lease_alone(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        leader = await it.start("recommender", *ELECTED)
        await leader.logged("became the leader")
        standby = await it.start("recommender", *ELECTED)
        await standby.logged("another replica leads")
        leads = await holder(it)
        await stopped_at_once(standby)
        assert await holder(it) == leads != ""
        assert leader.process.returncode is None


async def stopped_at_once(process: Process) -> None:
    code, took = await process.stop()
    assert code == 0
    assert took < 3
    assert process.said("Traceback") == []


def resources(it: World, verbs: Sequence[str]) -> set[str]:
    """What the recommender has called with these verbs."""
    return {one.resource for one in it.cluster.audit(userAgent=AGENT) if one.verb in verbs}
