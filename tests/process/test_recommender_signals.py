"""SIGTERM in every phase of a recommender: it ends in time, and the next one continues.

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
SLOW, HANGING = 0.8, 30.0  # seconds; shorter and longer than the grace period of a cycle
STATUSES = f"{VPAS.resource}/status"


@dataclass(frozen=True, kw_only=True)
class Phase:
    """The call, made slow, during which the recommender gets the signal."""

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


async def stop_during(it: World, phase: Phase, seconds: float, process: Process) -> None:
    """Send SIGTERM during a call of the phase; check that the process ends in time."""
    faults = it.cluster.api.faults
    fault = phase.slow(seconds)
    undo = faults.add(fault)
    await it.until(lambda: faults.hits(fault) > 0)
    undo()  # the next replica's calls aren't slow
    code, took = await process.stop()
    assert (phase.name, code) == (phase.name, 0)
    assert took < 5, phase.name
    assert process.said("Traceback") == [], phase.name


@dataclass(frozen=True, kw_only=True)
class CheckpointContent:
    """The history in a container's checkpoint."""

    samples: int
    first: datetime | None
    weight: float


async def checkpoint_contents(it: World) -> dict[str, CheckpointContent]:
    found = (await it.client.list(CHECKPOINTS, namespace=NAMESPACE)).items
    return {
        one.metadata.name: CheckpointContent(
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


def history_is_kept(
    before: dict[str, CheckpointContent], after: dict[str, CheckpointContent]
) -> bool:
    """Return True if no checkpoint lost samples; pods that had no metrics may start later."""
    return before.keys() <= after.keys() and all(
        after[name].samples >= one.samples
        and one.first in (None, after[name].first)
        and after[name].weight >= one.weight * (1 - 1e-9)
        for name, one in before.items()
    )


async def test_a_signal_in_a_cycle_completes_it_and_the_next_replica_continues(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it:
        for name in ("small", "large"):
            await deploy(it.client, name, replicas=2)
        leader = await it.start("recommender", *ELECTED)
        await it.until(lambda: bool(it.target("small")) and bool(it.target("large")))
        for phase, seconds in (*((phase, SLOW) for phase in CYCLE), (CYCLE[-1], HANGING)):
            standby = await it.start("recommender", *ELECTED)
            await standby.logged("another replica leads")
            before = await checkpoint_contents(it)
            await stop_during(it, phase, seconds, leader)
            await standby.logged("became the leader")
            await standby.logged("history loaded")
            await it.passes(standby)
            assert history_is_kept(before, await checkpoint_contents(it)), phase.name
            leader = standby
        targets = [it.target(name) for name in ("small", "large")]
        code, _ = await leader.stop()
        assert (code, await holder(it)) == (0, "")  # the next one needn't wait for its expiry
        last = await it.start("recommender", *ELECTED)
        await it.ready(last)
        await it.passes(last)
        assert [it.target(name) for name in ("small", "large")] == targets


async def test_a_signal_in_a_cycle_still_writes_its_checkpoints(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("phase", [LISTS, HISTORY], ids=lambda phase: phase.name)
async def test_a_signal_before_the_first_cycle_ends_it_without_writes(
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
        await stop_quickly(process)
        writes = ("create", "patch", "update", "delete")
        assert called_resources(it, writes) <= {LEASES.resource}
        assert await holder(it) == ""


async def test_a_signal_to_a_standby_ends_it_without_a_change_of_the_lease(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        leader = await it.start("recommender", *ELECTED)
        await leader.logged("became the leader")
        standby = await it.start("recommender", *ELECTED)
        await standby.logged("another replica leads")
        identity = await holder(it)
        await stop_quickly(standby)
        assert await holder(it) == identity != ""
        assert leader.process.returncode is None


async def stop_quickly(process: Process) -> None:
    code, took = await process.stop()
    assert code == 0
    assert took < 3
    assert process.said("Traceback") == []


def called_resources(it: World, verbs: Sequence[str]) -> set[str]:
    """Return the resources that the recommender has called with these verbs."""
    return {one.resource for one in it.cluster.audit(userAgent=AGENT) if one.verb in verbs}
