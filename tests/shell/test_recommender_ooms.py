"""Each OOM kill is recorded once, and counted: recommender.md 4.4, 12.4, Q9, Q10, Q19.

Whole cycles; between them the events of a case are sent in its order.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from fake_api import FakeApi, Reply, listing, named
from oom_deliveries import MINUTE, OomDeliveries, OomFaults, delivered, ended, evicted
from recommender.model.oom_outcome import OomOutcome
from recommender_harness import (
    CHECKPOINTS,
    NEW_CHECKPOINT,
    checkpoint,
    checkpoint_of,
    deployment,
    pod,
    prepare,
    running,
    target,
    usage,
    vpa,
    written,
)

KILL = ended("2026-01-02T12:00:20Z")
LATER = ended("2026-01-02T12:00:40Z")
Step = Callable[[OomDeliveries], None]


def add(found: Any) -> Step:
    return lambda simulation: simulation.pod("ADDED", found)


def change(found: Any) -> Step:
    return lambda simulation: simulation.pod("MODIFIED", found)


def delete(found: Any) -> Step:
    return lambda simulation: simulation.pod("DELETED", found)


def evict(found: Any) -> Step:
    return lambda simulation: simulation.event("ADDED", found)


def expire(found: Any) -> Step:
    return lambda simulation: simulation.event("DELETED", found)


def unreadable(found: Any) -> Step:
    return lambda simulation: simulation.pod("MODIFIED", {**found, "spec": 7})


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    cycles: Sequence[Sequence[Step]]
    recorded: int = 1
    discarded: Sequence[OomOutcome] = ()


DEAD = delivered(state=KILL)
CASES = [
    Case(
        id="created, killed and deleted within a second",
        cycles=[[add(delivered()), change(DEAD), delete(DEAD)]],
    ),
    Case(id="first seen after its termination", cycles=[[add(DEAD)]]),
    Case(id="first seen after its termination, and deleted", cycles=[[add(DEAD), delete(DEAD)]]),
    Case(id="reported by its deletion", cycles=[[add(delivered()), delete(DEAD)]]),
    Case(
        id="deleted in the next minute", cycles=[[add(delivered()), change(DEAD)], [delete(DEAD)]]
    ),
    Case(
        id="killed, and runs again",
        cycles=[[add(delivered()), change(DEAD)], [change(delivered(last=KILL, restarts=1))]],
    ),
    Case(
        id="every later status repeats it",
        cycles=[[add(delivered())], *[[change(delivered(last=KILL, restarts=1))]] * 3],
    ),
    Case(
        id="the container restarts for another reason, and the kill is still its last state",
        cycles=[
            [add(delivered()), change(delivered(last=KILL, restarts=1))],
            [
                change(
                    delivered(state=ended("2026-01-02T12:01:00Z", "Error"), last=KILL, restarts=1)
                )
            ],
            [change(delivered(last=KILL, restarts=2))],
        ],
    ),
    Case(
        id="killed twice",
        cycles=[
            [add(delivered()), change(DEAD)],
            [change(delivered(state=LATER, last=KILL, restarts=1))],
        ],
        recorded=2,
    ),
    Case(
        id="Q33: another pod takes the name at once",
        cycles=[[add(delivered()), change(DEAD), delete(DEAD), add(delivered(uid="second"))]],
    ),
    Case(
        id="Q33: both pods of the name are killed",
        cycles=[
            [
                *(add(delivered()), change(DEAD), delete(DEAD)),
                *(add(delivered(uid="second")), change(delivered(uid="second", state=LATER))),
            ]
        ],
        recorded=2,
    ),
    Case(
        id="restartPolicy Never: the pod has failed",
        cycles=[[add(delivered()), change(delivered(state=KILL, phase="Failed"))]],
    ),
    Case(
        id="exit code 137, but not for memory",
        cycles=[
            [add(delivered()), change(delivered(state=ended("2026-01-02T12:00:20Z", "Error")))]
        ],
        recorded=0,
    ),
    Case(
        id="Q10: its labels change",
        cycles=[
            [add(delivered()), change(delivered(labels={"track": "b"}))],
            [change(delivered(state=KILL, labels={"track": "b"}))],
        ],
    ),
    Case(
        id="the pod temporarily can't be decoded",
        cycles=[[add(delivered()), change(DEAD)], [unreadable(DEAD)], [change(DEAD)]],
    ),
    Case(id="evicted", cycles=[[add(delivered())], [evict(evicted())]]),
    Case(
        id="evicted and deleted",
        cycles=[
            [
                add(delivered()),
                evict(evicted()),
                change(delivered(phase="Failed")),
                delete(delivered()),
            ]
        ],
    ),
    Case(id="the Event is first", cycles=[[evict(evicted())], [add(delivered())]]),
    Case(
        id="the Event comes minutes after the pod went",
        cycles=[[add(delivered())], [delete(delivered())], [], [evict(evicted())]],
    ),
    Case(
        id="the Event is about an earlier pod of that name",
        cycles=[
            [add(delivered()), delete(delivered()), add(delivered(uid="second"))],
            [evict(evicted())],
        ],
    ),
    Case(
        id="a static pod's Event has another uid",
        cycles=[[add(delivered())], [evict(evicted(uid="of-the-manifest"))]],
    ),
    Case(
        id="Q19: the Event is sent again by a new watch",
        cycles=[
            [add(delivered()), evict(evicted())],
            [expire(evicted()), evict(evicted())],
        ],
    ),
    Case(
        id="two Events are two evictions",
        cycles=[[add(delivered()), evict(evicted())], [evict(evicted(number=2))]],
        recorded=2,
    ),
    Case(
        id="an Event of an unknown pod",
        cycles=[[evict(evicted("gone"))], [], [], []],
        recorded=0,
        discarded=[OomOutcome.UNKNOWN_CONTAINER],
    ),
    Case(
        id="an Event about a sidecar, which is ignored",
        cycles=[[add(delivered()), evict(evicted(container="mesh"))]],
        recorded=0,
        discarded=[OomOutcome.UNKNOWN_CONTAINER],
    ),
    Case(
        id="a kill without a time",
        cycles=[
            [add(delivered()), change(delivered(state={"terminated": {"reason": "OOMKilled"}}))],
            [change(delivered(last={"terminated": {"reason": "OOMKilled"}}, restarts=1))],
        ],
        recorded=0,
        discarded=[OomOutcome.UNDATED],
    ),
    Case(
        id="minutes ahead, so it is recorded minutes later",
        cycles=[
            [add(delivered()), change(delivered(state=ended("2026-01-02T12:06:00Z")))],
            *[[change(delivered(state=ended("2026-01-02T12:06:00Z")))]] * 4,
        ],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_each_kill_is_recorded_once(case: Case) -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle(usage())
            for steps in case.cycles:
                for step in steps:
                    step(simulation)
                await simulation.cycle()
            await simulation.cycle()  # nothing is recorded again
            _, recorded, discarded = simulation.counts()
            assert recorded == case.recorded
            assert discarded == dict.fromkeys(case.discarded, 1)
            there = {
                (found.metadata.namespace, found.metadata.name)
                for found in process.informers.pods.snapshot.items()
            }
            assert process.recommender._usage.pods.keys() == there


async def test_a_kill_before_the_pod_is_replaced_replaces_the_peak_of_its_window() -> None:
    """The killed pod's window is still used, although another pod has its name."""
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle(usage(cpu="100m", memory="600Mi"))
            labels = {"app": "web"}
            for step in (
                change(delivered("web-1", state=KILL)),
                delete(delivered("web-1", state=KILL)),
                add(delivered("web-1", uid="second")),
            ):
                step(simulation)
            await simulation.cycle()
            model = process.recommender._usage
            (label_set,) = (one for one in model.matching if one.labels == labels)
            row = label_set.aggregates["app"]
            # One window, one peak: 720 MiB, which is 1.2 times as much, and not 600 beside it.
            assert model.aggregates.memory.weights[row].nonzero()[0].size == 1
            assert target(api)["memory"] == "920733364"


async def test_a_kill_in_a_pod_without_a_vpa_is_used_by_a_later_vpa() -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[])
        found = vpa()
        api.on(
            "GET /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints",
            listing(),
        )
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle()
            for step in (add(delivered()), evict(evicted()), delete(delivered())):
                step(simulation)
            await simulation.cycle()
            simulation.vpa("ADDED", found)
            api.on(
                "PATCH /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers"
                "/web/status",
                Reply(body=found),
            )
            api.on(checkpoint_of("web-app"), Reply(body=named("web-app")))
            await simulation.cycle()
            assert simulation.counts() == (1, 1, {})
            assert target(api)["memory"] == "628694953"  # 400 MiB and 100 MiB


async def test_the_memory_saver_records_only_kills_in_pods_with_a_vpa() -> None:
    async with FakeApi() as api:
        prepare(api, pods=[pod()], deployments=[deployment()])
        async with running(api, memory_saver=True) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle()
            stranger = delivered("db-1", state=KILL)
            stranger["metadata"]["labels"] = {"app": "db"}
            for step in (add(stranger), delete(stranger), add(DEAD), delete(DEAD)):
                step(simulation)
            await simulation.cycle()
            assert simulation.counts() == (2, 1, {OomOutcome.UNMATCHED: 1})
            assert process.sample("vpa_recommender_aggregate_container_states_count") == 1


DAYS_OLD = delivered("web-1", last=ended("2025-12-30T09:00:00Z"), restarts=1)


async def test_a_last_state_of_days_ago_is_recorded_once_across_restarts() -> None:
    """With a checkpoint that contains it, and with usage of later days."""
    kept, weight = checkpoint(lastUpdateTime="2026-01-02T11:59:00Z"), 0.0
    for restart in range(3):
        async with FakeApi() as api:
            prepare(api, pods=[DAYS_OLD])
            api.on(CHECKPOINTS, listing(kept))
            async with running(api) as process:
                simulation = OomDeliveries(api, process)
                process.clock.forward(restart * 7 * MINUTE)
                for _ in range(7):
                    await simulation.cycle(usage(at=process.clock.now() + MINUTE))
                    simulation.pod("MODIFIED", DAYS_OLD)
                assert simulation.counts() == (1, 0, {OomOutcome.LEARNT_BEFORE: 1})
            status = written(api, checkpoint_of("web-app"))
            kept["status"] = status
            if restart:
                assert status["memoryHistogram"]["totalWeight"] == pytest.approx(weight)
            weight = status["memoryHistogram"]["totalWeight"]


async def test_a_kill_that_is_in_no_checkpoint_is_recorded_at_the_start() -> None:
    async with FakeApi() as api:
        prepare(api, pods=[delivered("web-1", last=ended("2026-01-02T09:00:00Z"), restarts=1)])
        api.on(checkpoint_of("web-app"), Reply(status=404, body={"reason": "NotFound"}))
        api.on(NEW_CHECKPOINT, Reply(status=201, body=named("web-app")))
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle(usage())
            assert simulation.counts() == (1, 1, {})


@pytest.mark.parametrize("seed", range(4))
async def test_every_random_kill_is_recorded_and_the_counters_add_up(seed: int) -> None:
    rng = random.Random(seed)
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            simulation = OomDeliveries(api, process)
            faults = OomFaults(simulation, rng)
            for _ in range(60):
                for _ in range(rng.randrange(12)):
                    faults.step(process.clock.now())
                    seen, recorded, discarded = simulation.counts()
                    assert seen == recorded + sum(discarded.values())
                await simulation.cycle(usage(at=process.clock.now() + MINUTE))
            assert faults.kills > 60
            assert simulation.counts() == (faults.kills, faults.kills, {})
