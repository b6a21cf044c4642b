"""In mode InPlace no pod is evicted, with random faults of cluster and updater."""

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
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.pass_context import Rules

# 1,000 in ``make proofs``.
CYCLES = int(os.environ.get("PROOF_CYCLES", "30"))
SEED = int(os.environ.get("PROOF_SEED", "1"))
REQUESTED = (("cpu", "memory"), ("cpu", "memory"), ("cpu",), ())
POD_LEVEL = ((), (), (), ("requests",), ("limits",), ("requests", "limits"))
QUIET = 45  # cycles; longer than the longest backoff, 32 intervals
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
FAULTS = (
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
    """A part of the proof, with a share of its cycles in percent."""

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
    async with faulty_cluster(WORKLOADS, rules, clock, seed=SEED) as faulty:
        await faulty.last(cycles, FAULTS, pause=INTERVAL / 2)
        await faulty.calm()
        targets = await set_last_targets(faulty)
        await asyncio.sleep(QUIET * INTERVAL)

        counts = faulty.cluster.api.audit.counts()
        assert not [one for one in counts if one["subresource"] == "eviction"]
        assert set(faulty.log.others) <= {
            ("patch", "pods"),
            ("create", "events"),
            ("patch", "events"),
        }
        completed = [call for call in faulty.log.calls if call.done_at is not None]
        refused = len(faulty.log.calls) - len(completed)
        figures = f"{cycles} cycles, {len(completed)} resizes, and {refused} failed calls"
        print(f"{part.id}: {figures}")  # noqa: T201 - figures, shown with -s
        assert len(completed) > cycles
        assert refused > cycles / (20 if part.event_driven else 10)
        assert any(call.restarts for call in completed)
        Judge(rules.disruption.tolerance_fraction, LAG).check(faulty.log.entries)
        check_targets(faulty, targets)


async def set_last_targets(faulty: FaultyCluster) -> dict[str, int]:
    """Set targets below all earlier ones or above any node, in millicores by workload.

    End the kubelet faults of pods that restart for a resize: a pod whose resize never completes
    uses up the budget of its group, and the updater would correctly not resize the others.
    """
    for name in faulty.names():
        fault = faulty.kubelet_fault(name)
        if fault == "infeasible" or (fault and faulty.workload_of(name).restarts):
            await faulty.annotate(name, {KUBELET_FAULT: None})
    targets = {}
    for one in WORKLOADS:
        targets[one.name] = 20_000 if faulty.rng.random() < 0.2 else faulty.rng.randrange(20, 40)
        await faulty.recommend(one.name, targets[one.name], faulty.rng.randrange(20, 40))
    return targets


def check_targets(faulty: FaultyCluster, targets: dict[str, int]) -> None:
    """Check that each pod has its target, unless no node can hold it."""
    waiting, late = [], []
    for state in faulty.log.pods:
        one = faulty.workload_of(state.name)
        if not one.requested and not one.pod_level:
            continue  # a request would change its QoS class
        target = targets[one.name]
        if state.waits:
            waiting.append(f"{state.name}: {state.waits}")
        elif target <= CPU * 1000 and _cpu_request(state) != f"{target}m":
            late.append(f"{state.name}: {state.wanted}, and not {target}m")
    assert not late, "\n".join(late)
    assert len(waiting) < len(faulty.log.pods) / 2


def _cpu_request(state: PodState) -> str:
    return str(state.wanted["app"].get("requests", {}).get("cpu", ""))


@pytest.mark.timeout(120 + CYCLES)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.id)
def test_no_pod_is_evicted_in_mode_in_place(part: Part) -> None:
    print(f"seed {SEED}")  # noqa: T201 - to reproduce a failure
    virtual_time.run(lambda clock: prove(clock, part))
