"""Plans of a whole updater, in virtual time: what they are based on, and that nobody notices."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.kube.lease import AdmissionStatus
from common.recommendation.changes import ResourceChange
from updater.decision import Reason
from updater.preview import NotNow, PassPreview
from updater.snapshot.selection import Scope
from updater_harness import RecordingActuator
from updater_sandbox import UpdaterSandbox, in_updater_sandbox


@dataclass(slots=True)
class Asleep(RecordingActuator):
    """Evicts when it is told to."""

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


async def drifted(shop: UpdaterSandbox, mode: str = "Recreate", *, cpu: str = "100m") -> None:
    """Three pods that request something else than is recommended."""
    await shop.deploy()
    await shop.autoscale(mode)
    await shop.recommend(cpu)


def test_a_pass_does_what_was_planned_and_nothing_else_was_done() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await drifted(shop)
        registry = CollectorRegistry()
        updater = shop.updater(registry=registry)
        before = list(registry.collect())
        plan = await updater.plan()
        assert decisions(plan) == [
            *("evict outside_range", "wait budget_exhausted", "wait budget_exhausted")
        ]
        assert shop.calls("eviction") == []
        assert list(registry.collect()) == before
        await updater.run_once()
        assert shop.calls("eviction") == [201]

    in_updater_sandbox(test)


def test_a_plan_knows_the_admission_lease_and_when_it_was_made() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await drifted(shop)
        shop.admission = AdmissionStatus.STALE
        plan = await shop.updater().plan()
        assert decisions(plan) == ["wait admission_not_ready"] * 3
        assert isinstance(plan, PassPreview)
        assert plan.admission is AdmissionStatus.STALE
        assert plan.taken_at == shop.clock.now()

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
def test_only_what_is_asked_for(scope: Scope, vpas: list[str], pods: int) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate")
        await shop.settle()
        await shop.autoscale("Recreate", name="idle")  # younger: the pods are the other one's
        await shop.recommend("100m")
        plan = await shop.updater().plan(scope)
        assert len(decisions(plan)) == pods
        assert isinstance(plan, PassPreview)
        assert sorted(vpa.metadata.name for vpa in plan.vpas) == vpas

    in_updater_sandbox(test)


def test_a_decision_stands_until_the_time_that_the_plan_tells() -> None:
    """Two nodes of two cores, and three pods that would like 1.9 each: one resize has to wait."""

    async def test(shop: UpdaterSandbox) -> None:
        await drifted(shop, "InPlaceOrRecreate", cpu="1900m")
        updater = shop.updater()
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
        assert until > shop.clock.now() + timedelta(minutes=4)
        for seconds, deferred in ((-1, True), (1, False)):
            left = until - shop.clock.now() + timedelta(seconds=seconds)
            await asyncio.sleep(left.total_seconds())
            plan = await updater.plan()
            assert isinstance(plan, PassPreview)
            assert (plan.decisions[uid].reason is Reason.RESIZE_DEFERRED) is deferred
            assert shop.calls("eviction") == []
            await updater.run_once()

    in_updater_sandbox(test)


def test_a_plan_waits_for_the_pass_that_goes_on_and_then_knows_what_that_did() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await drifted(shop)
        actuator = Asleep()
        updater = shop.updater(actuator=actuator)
        async with asyncio.TaskGroup() as group:
            group.create_task(updater.run_once())
            await asyncio.sleep(1)
            assert len(actuator.calls) == 1
            planning = group.create_task(updater.plan())
            await asyncio.sleep(1)
            assert not planning.done()
            assert await updater.plan() is NotNow.PLANNING
            actuator.awake.set()
        # One is taken to be gone, although the cache still shows it, and the others wait for it.
        assert decisions(planning.result()) == ["wait budget_exhausted"] * 2

    in_updater_sandbox(test)


def test_a_pass_without_end_is_not_waited_for_without_end() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await drifted(shop)
        actuator = Asleep()
        updater = shop.updater(actuator=actuator)
        async with asyncio.TaskGroup() as group:
            group.create_task(updater.run_once())
            await asyncio.sleep(1)
            assert await updater.plan() is NotNow.UNDER_WAY
            actuator.awake.set()
        assert isinstance(await updater.plan(), PassPreview)

    in_updater_sandbox(test)


def test_a_plan_that_takes_too_long_is_given_up() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        shop.admission_takes = 31.0  # virtual seconds; half an interval is 30
        updater = shop.updater()
        assert await updater.plan() is NotNow.TOO_SLOW
        shop.admission_takes = 0.0
        assert isinstance(await updater.plan(), PassPreview)

    in_updater_sandbox(test)


def test_without_fresh_caches_there_is_no_plan() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        updater = shop.updater()
        await shop.cluster.stop_api_server()
        assert await updater.plan() is NotNow.NOT_FRESH

    in_updater_sandbox(test)
