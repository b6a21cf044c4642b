"""The plan equals the pass: in random clusters the planned actions are the executed ones."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry

from common.annotations import boosted_containers
from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import Pod
from common.patches import Operation
from common.recommendation.resource_changes import ResourceChange
from random_cluster import RandomCluster, random_cluster
from updater.decision import Decision, Reason
from updater.plan.actions import EvictPod, PodPlan, ResizePod
from updater.plan.assessment import Steps, assess
from updater.plan.progress import VpaProgress
from updater.plan.stages import plan_vpa
from updater.snapshot.cluster_snapshot import key_of
from updater.state import UpdaterState
from updater_harness import NOW, Call, RecordingActuator, context_of, preview, run

T = TypeVar("T")

CLUSTERS = 300
_ACTING = (UpdateMode.AUTO, UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE)


@dataclass(slots=True)
class SlowActuator(RecordingActuator):
    """All calls succeed after a random delay, so answers arrive in any order."""

    random: Random = field(default_factory=lambda: Random(0))

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        await self.answer()
        await RecordingActuator.evict(self, pod, vpa, reason, changes)

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
        *,
        detail: str = "",
    ) -> Pod:
        await self.answer()
        resized = await RecordingActuator.resize(self, pod, vpa, operations, reason)
        meta = structs.replace(resized.metadata, generation=resized.metadata.generation + 1)
        return structs.replace(resized, metadata=meta)

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        await self.answer()
        await RecordingActuator.annotate(self, pod, operations)

    async def answer(self) -> None:
        for _ in range(self.random.randint(0, 20)):
            await asyncio.sleep(0)


async def planned(given: RandomCluster) -> dict[str, Decision]:
    return await preview(
        given.snapshot,
        given.state,
        rules=given.rules,
        admission_ready=given.admission_ready,
        memory_use=given.memory_use,
    )


def planned_calls(given: RandomCluster) -> list[Call]:
    """Return the calls of the first plans, which are all calls if every call succeeds."""
    context = context_of(
        given.snapshot,
        given.state,
        rules=given.rules,
        admission_ready=given.admission_ready,
        memory_use=given.memory_use,
    )
    found: list[Call] = []
    for scaled in given.snapshot.autoscaled:
        assessment = result(assess(scaled, context))
        progress = VpaProgress.begin(assessment)
        plan = result(plan_vpa(assessment, progress, context))
        for each in plan.pods:
            found += call_of(each, key_of(scaled.vpa))
    return found


def call_of(planned: PodPlan, key: tuple[str, str]) -> Iterator[Call]:
    uid, reason = planned.pod.metadata.uid, planned.outcome.decision.reason
    match planned.action:
        case EvictPod():
            yield "evict", uid, key, reason, planned.outcome.subject.changes
        case ResizePod(plan=plan) if plan.changes:
            yield "resize", uid, key, plan.operations, reason


def result(steps: Steps[T]) -> T:
    """Run a computation to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


async def state_after_pass(
    given: RandomCluster, actuator: RecordingActuator, *, registry: CollectorRegistry | None = None
) -> UpdaterState:
    return await run(
        given.snapshot,
        actuator,
        state=given.state,
        rules=given.rules,
        admission_ready=given.admission_ready,
        memory_use=given.memory_use,
        registry=registry,
    )


def comparable(decision: Decision | None) -> tuple[object, ...] | None:
    """Return a decision with its time, which its equality ignores."""
    return None if decision is None else (decision.action, decision.reason, decision.until)


@pytest.mark.parametrize("seed", range(CLUSTERS))
async def test_planned_actions_equal_executed_ones(seed: int) -> None:
    """Every live pod of an active mode has one decision, which a pass makes and counts too."""
    given = random_cluster(seed, now=NOW)
    done, registry = SlowActuator(random=Random(seed)), CollectorRegistry()
    plan = await planned(given)
    after = await state_after_pass(given, done, registry=registry)
    for uid in given.snapshot.living:
        settled = plan.get(uid, given.state.of(uid).decision)
        assert comparable(settled) == comparable(after.of(uid).decision)
    sent = [call for call in done.calls if call[0] in ("evict", "resize")]
    assert Counter(map(str, planned_calls(given))) == Counter(map(str, sent))
    counted = sum(
        sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "vpa_updater_candidate_pods"
    )
    assert counted == len(plan)
    for scaled in given.snapshot.autoscaled:
        live = {pod.metadata.uid for pod in scaled.pods}
        gone = {uid for uid in live if given.state.of(uid).evicted}
        gated = scaled.mode is UpdateMode.IN_PLACE and given.rules.features.in_place
        if scaled.mode in _ACTING or gated:
            assert live & plan.keys() == live - gone
        else:  # only boosts are removed
            boosted = {
                pod.metadata.uid
                for pod in scaled.pods
                if boosted_containers(pod.metadata.annotations)
            }
            assert live & plan.keys() <= boosted - gone


async def test_a_plan_changes_no_state_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A second plan is therefore equal."""
    caplog.set_level("DEBUG")
    for seed in range(20):
        given, same = random_cluster(seed, now=NOW), random_cluster(seed, now=NOW)
        first, second = await planned(given), await planned(given)
        assert {uid: comparable(each) for uid, each in first.items()} == {
            uid: comparable(each) for uid, each in second.items()
        }
        assert given.state == same.state
    assert not [line for line in caplog.records if line.name.startswith("updater")]


async def test_the_random_clusters_have_nearly_all_reasons() -> None:
    """They have the reasons that a single pass can have if all calls succeed."""
    seen: Counter[Reason] = Counter()
    for seed in range(CLUSTERS):
        plan = await planned(random_cluster(seed, now=NOW))
        seen.update(decision.reason for decision in plan.values())
    failures = {
        Reason.REPLACEMENT_LACKS_RECOMMENDATION,
        *(Reason.RESIZE_FAILED_REPEATEDLY, Reason.RESIZE_NOT_SERVED, Reason.GONE),
        *(Reason.VPA_CHANGED, Reason.UNBOOST_FAILED, Reason.EVICTION_REFUSED),
        *(Reason.NO_CAPACITY, Reason.CAPACITY_REQUESTED, Reason.CAPACITY_REFUSED),
        *(Reason.EVICTION_FAILED, Reason.RATE_LIMITED, Reason.NO_TURN),
    }
    assert set(Reason) - set(seen) <= failures, seen
