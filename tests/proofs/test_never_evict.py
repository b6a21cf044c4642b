"""The never-evict proof: in mode InPlace no pod is evicted, whatever goes wrong."""

import asyncio
import os
from dataclasses import dataclass
from datetime import timedelta

import pytest

import cluster_faults
from common.features import FeatureGates
from disruption_judge import Judge
from disruption_log import PodState
from faulty_cluster import (
    CPU,
    INTERVAL,
    KUBELET_FAULT,
    LAG,
    FaultyCluster,
    Workload,
    faulty_cluster,
)
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from updater.eviction.disruption import DisruptionPolicy
from updater.pass_context import Rules

# The whole proof is `make proofs`: 1,000 cycles.
CYCLES = int(os.environ.get("PROOF_CYCLES", "30"))
SEED = int(os.environ.get("PROOF_SEED", "1"))
REQUESTED = (("cpu", "memory"), ("cpu", "memory"), ("cpu",), ())
POD_LEVEL = ((), (), (), ("requests",), ("limits",), ("requests", "limits"))
QUIET = 45  # cycles: longer than the longest back-off, 32 intervals
WORKLOADS = [
    Workload(
        name=f"shop-{number}",
        replicas=5,
        mode="InPlace",
        restarts=number % 4 == 0,
        requested=REQUESTED[number // 5 % len(REQUESTED)],
        pod_level=POD_LEVEL[number % len(POD_LEVEL)],
    )
    for number in range(40)
]
MISHAPS = (
    cluster_faults.trouble_for_the_updater,
    cluster_faults.trouble_for_the_updater,
    cluster_faults.trouble_for_its_watches,
    cluster_faults.updater_dies,
    cluster_faults.api_server_restarts,
    cluster_faults.history_is_forgotten,
    *(cluster_faults.kubelet_trouble,) * 4,
    cluster_faults.memory_runs_out,
    cluster_faults.node_shrinks_or_grows,
    cluster_faults.kubelet_dies_for_a_while,
    cluster_faults.pod_is_deleted,
    cluster_faults.pod_changes_owner,
    cluster_faults.vpa_goes_and_comes,
    cluster_faults.rolled_out,
    cluster_faults.rollout_is_stuck_for_a_while,
    cluster_faults.quota_is_tight_for_a_while,
    cluster_faults.policy_refuses_pods_for_a_while,
    cluster_faults.policy_refuses_resizes_for_a_while,
    *(cluster_faults.new_recommendation,) * 6,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the proof, of so many of a hundred cycles."""

    id: str
    share: int
    event_driven: bool = False


PARTS = [
    Part(id="once an interval", share=70),
    Part(id="event-driven", share=30, event_driven=True),
]


async def prove(clock: VirtualClock, part: Part) -> None:
    cycles, interval = CYCLES * part.share // 100, timedelta(seconds=INTERVAL)
    rules = Rules(
        interval=interval,
        pace=interval if part.event_driven else timedelta(),
        features=FeatureGates(in_place=True),
        disruption=DisruptionPolicy(),
    )
    async with faulty_cluster(WORKLOADS, rules, clock, seed=SEED) as raging:
        await raging.last(cycles, MISHAPS, pause=INTERVAL / 2)
        await raging.calm()
        targets = await last_words(raging)
        await asyncio.sleep(QUIET * INTERVAL)

        counts = raging.cluster.api.audit.counts()
        assert not [one for one in counts if one["subresource"] == "eviction"]
        assert set(raging.log.others) <= {
            ("patch", "pods"),
            ("create", "events"),
            ("patch", "events"),
        }
        done = [call for call in raging.log.calls if call.done_at is not None]
        refused = len(raging.log.calls) - len(done)
        figures = f"{cycles} cycles, {len(done)} resizes, and {refused} that came to nothing"
        print(f"{part.id}: {figures}")  # noqa: T201 - figures for who asks with -s
        assert len(done) > cycles
        assert refused > cycles / (20 if part.event_driven else 10)
        assert any(call.restarts for call in done)
        Judge(rules.disruption.tolerance_fraction, LAG).check(raging.log.entries)
        converged(raging, targets)


async def last_words(raging: FaultyCluster) -> dict[str, int]:
    """The last targets in millicores, by workload: less than ever, or more than a node has.

    Whoever restarts for a resize has no trouble any more: a pod that is stuck in between takes up
    the budget of its group, and the others would rightly wait for it.
    """
    for name in raging.names():
        told = raging.kubelet_fault(name)
        if told == "infeasible" or (told and raging.workload_of(name).restarts):
            await raging.annotate(name, {KUBELET_FAULT: None})
    targets = {}
    for one in WORKLOADS:
        targets[one.name] = 20_000 if raging.rng.random() < 0.2 else raging.rng.randrange(20, 40)
        await raging.recommend(one.name, targets[one.name], raging.rng.randrange(20, 40))
    return targets


def converged(raging: FaultyCluster, targets: dict[str, int]) -> None:
    """Every pod that can has what is recommended for it."""
    waiting, late = [], []
    for state in raging.log.pods:
        one = raging.workload_of(state.name)
        if not one.requested and not one.pod_level:
            continue  # a request would change its QoS class
        target = targets[one.name]
        if state.waits:
            waiting.append(f"{state.name}: {state.waits}")
        elif target <= CPU * 1000 and _cpu_of(state) != f"{target}m":
            late.append(f"{state.name}: {state.wanted}, and not {target}m")
    assert not late, "\n".join(late)
    assert len(waiting) < len(raging.log.pods) / 2


def _cpu_of(state: PodState) -> str:
    return str(state.wanted["app"].get("requests", {}).get("cpu", ""))


@pytest.mark.timeout(120 + CYCLES)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.id)
def test_no_pod_is_ever_evicted_in_mode_in_place(part: Part) -> None:
    print(f"seed {SEED}")  # noqa: T201 - to run it again
    virtual_time.run(lambda clock: prove(clock, part))
