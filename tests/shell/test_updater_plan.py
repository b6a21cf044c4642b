"""Plans of a whole updater, in virtual time: their basis, and that they change nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.kube.lease import AdmissionStatus
from common.recommendation.resource_changes import ResourceChange
from updater.decision import Reason
from updater.preview import NotNow, PassPreview
from updater.snapshot.selection import Scope
from updater_harness import RecordingActuator
from updater_sandbox import UpdaterSandbox, in_updater_sandbox


@dataclass(slots=True)
class PausedActuator(RecordingActuator):
    """An actuator that evicts after ``released``."""

    awake: asyncio.Event = field(default_factory=asyncio.Event)

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        await RecordingActuator.evict(self, pod, vpa, reason, changes)
        await self.awake.wait()


def decisions(plan: PassPreview | NotNow) -> Sequence[str]:
    assert isinstance(plan, PassPreview), plan
    return sorted(f"{each.action} {each.reason}" for each in plan.decisions.values())


async def drifted(sandbox: UpdaterSandbox, mode: str = "Recreate", *, cpu: str = "100m") -> None:
    """Create three pods whose requests differ from the target."""
    await sandbox.deploy()
    await sandbox.autoscale(mode)
    await sandbox.recommend(cpu)


def test_a_pass_carries_out_its_plan_and_planning_changes_nothing() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await drifted(sandbox)
        registry = CollectorRegistry()
        updater = sandbox.updater(registry=registry)
        before = list(registry.collect())
        plan = await updater.plan()
        assert decisions(plan) == [
            *("evict outside_range", "wait budget_exhausted", "wait budget_exhausted")
        ]
        assert sandbox.calls("eviction") == []
        assert list(registry.collect()) == before
        await updater.run_once()
        assert sandbox.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_plan_has_the_state_of_the_admission_lease_and_its_time() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await drifted(sandbox)
        sandbox.admission = AdmissionStatus.STALE
        plan = await sandbox.updater().plan()
        assert decisions(plan) == ["wait admission_not_ready"] * 3
        assert isinstance(plan, PassPreview)
        assert plan.admission is AdmissionStatus.STALE
        assert plan.taken_at == sandbox.clock.now()

    in_updater_sandbox(test)


@pytest.mark.parametrize(
    ("scope", "vpas", "pods"),
    [
        (Scope(), ["idle", "web"], 3),
        (Scope("shop", "web"), ["web"], 3),
        (Scope("", "idle"), ["idle"], 0),
        (Scope("elsewhere"), [], 0),
    ],
)
def test_a_plan_of_a_scope(scope: Scope, vpas: list[str], pods: int) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate")
        await sandbox.settle()
        await sandbox.autoscale(
            "Recreate", name="idle"
        )  # younger, so the other VPA controls the pods
        await sandbox.recommend("100m")
        plan = await sandbox.updater().plan(scope)
        assert len(decisions(plan)) == pods
        assert isinstance(plan, PassPreview)
        assert sorted(vpa.metadata.name for vpa in plan.vpas) == vpas

    in_updater_sandbox(test)


def test_a_decision_is_valid_until_the_time_in_the_plan() -> None:
    """Two nodes of two cores, and three pods with a target of 1.9: one resize has to wait."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await drifted(sandbox, "InPlaceOrRecreate", cpu="1900m")
        updater = sandbox.updater()
        waiting: dict[str, datetime] = {}
        while not waiting:
            await updater.run_once()
            await asyncio.sleep(30)
            plan = await updater.plan()
            assert isinstance(plan, PassPreview)
            waiting = {
                uid: each.until
                for uid, each in plan.decisions.items()
                if each.reason is Reason.RESIZE_DEFERRED and each.until is not None
            }
        uid, until = min(waiting.items(), key=lambda item: item[1])
        assert until > sandbox.clock.now() + timedelta(minutes=3)  # after a step for another pod
        for seconds, deferred in ((-1, True), (1, False)):
            left = until - sandbox.clock.now() + timedelta(seconds=seconds)
            await asyncio.sleep(left.total_seconds())
            plan = await updater.plan()
            assert isinstance(plan, PassPreview)
            assert (plan.decisions[uid].reason is Reason.RESIZE_DEFERRED) is deferred
            assert sandbox.calls("eviction") == []
            await updater.run_once()

    in_updater_sandbox(test)


def test_a_plan_waits_for_the_current_pass_and_includes_its_actions() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await drifted(sandbox)
        actuator = PausedActuator()
        updater = sandbox.updater(actuator=actuator)
        async with asyncio.TaskGroup() as group:
            group.create_task(updater.run_once())
            await asyncio.sleep(1)
            assert len(actuator.calls) == 1
            planning = group.create_task(updater.plan())
            await asyncio.sleep(1)
            assert not planning.done()
            assert await updater.plan() is NotNow.PLANNING
            actuator.awake.set()
        # One counts as deleted, although the cache still contains it, and the others wait for it.
        assert decisions(planning.result()) == ["wait budget_exhausted"] * 2

    in_updater_sandbox(test)


def test_the_wait_for_an_endless_pass_is_bounded() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await drifted(sandbox)
        actuator = PausedActuator()
        updater = sandbox.updater(actuator=actuator)
        async with asyncio.TaskGroup() as group:
            group.create_task(updater.run_once())
            await asyncio.sleep(1)
            assert await updater.plan() is NotNow.UNDER_WAY
            actuator.awake.set()
        assert isinstance(await updater.plan(), PassPreview)

    in_updater_sandbox(test)


def test_a_slow_plan_times_out() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        sandbox.admission_takes = 31.0  # virtual seconds; half an interval is 30
        updater = sandbox.updater()
        assert await updater.plan() is NotNow.TOO_SLOW
        sandbox.admission_takes = 0.0
        assert isinstance(await updater.plan(), PassPreview)

    in_updater_sandbox(test)


def test_without_fresh_caches_there_is_no_plan() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        updater = sandbox.updater()
        await sandbox.cluster.stop_api_server()
        assert await updater.plan() is NotNow.NOT_FRESH

    in_updater_sandbox(test)
