"""The updater disrupts no more pods than allowed, with random faults of cluster and updater."""

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import cluster_faults
from disruption_judge import Judge
from faulty_cluster import INTERVAL, LAG, Workload, faulty_cluster
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.pass_context import Rules
from updater.resize.resize_timeouts import Timeouts

# 1,000 in ``make proofs``.
CYCLES = int(os.environ.get("PROOF_CYCLES", "30"))
FEW, MANY = 20, 100  # cycles in which some, and many, calls of each kind are certain
SEED = int(os.environ.get("PROOF_SEED", "1"))
MODES = ("Recreate", "InPlaceOrRecreate", "Auto", "InPlaceOrRecreate")
REQUESTED = (("cpu", "memory"), ("cpu", "memory"), ("cpu",), ())
POD_LEVEL = ((), ("requests",), ("limits",), ("requests", "limits"))
STRATEGIES: tuple[dict[str, Any], ...] = (
    {},
    {"type": "Recreate"},
    {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
    {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
    {"rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 2}},
)
WORKLOADS = [
    *(
        Workload(
            name=f"shop-{number}",
            kind="StatefulSet" if number % 5 == 0 else "Deployment",
            replicas=1 + number % 7,
            mode=MODES[number % len(MODES)],
            restarts=number % 3 == 0,
            guarded=number % 7 if number % 4 == 2 else 0,
            slow=number % 6 == 3,
            grace=45 if number % 6 == 1 else 1,
        )
        for number in range(36)
    ),
    *(
        Workload(
            name=f"chain-{number}",
            replicas=8 - number % 4,
            mode=MODES[number % len(MODES)],
            min_replicas=(1, 2, 8)[number % 3],
            requested=REQUESTED[number // 4 % len(REQUESTED)],
            pod_level=POD_LEVEL[number % len(POD_LEVEL)],
            strategy=STRATEGIES[number % len(STRATEGIES)],
            slow=number % 7 == 3,
        )
        for number in range(12)
    ),
    Workload(name="daemon", kind="DaemonSet", mode="Recreate"),
    *(
        Workload(name=f"driver-{number}", kind="DaemonSet", mode="Recreate", slow=True)
        for number in range(4)
    ),
    Workload(name="agent", kind="DaemonSet", mode="InPlaceOrRecreate", restarts=True),
]
FAULTS = (
    cluster_faults.trouble_for_the_updater,
    cluster_faults.trouble_for_the_updater,
    cluster_faults.trouble_for_its_watches,
    cluster_faults.updater_dies,
    cluster_faults.updater_is_away_for_a_while,
    cluster_faults.api_server_restarts,
    cluster_faults.history_is_forgotten,
    cluster_faults.kubelet_trouble,
    cluster_faults.memory_runs_out,
    cluster_faults.node_shrinks_or_grows,
    cluster_faults.kubelet_dies_for_a_while,
    cluster_faults.pod_is_deleted,
    cluster_faults.pod_changes_owner,
    cluster_faults.vpa_goes_and_comes,
    cluster_faults.scaled,
    *(cluster_faults.rolled_out,) * 2,
    *(cluster_faults.rollout_is_stuck_for_a_while,) * 2,
    cluster_faults.quota_is_tight_for_a_while,
    cluster_faults.policy_refuses_pods_for_a_while,
    *(cluster_faults.out_of_range_for_a_while,) * 6,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the proof, with a share of its cycles in percent."""

    id: str
    share: int
    tolerance: float = 0.5
    event_driven: bool = False
    checked: bool = False  # outcomes of evictions; a webhook patches new pods


PARTS = [
    Part(id="tolerance of a half", share=30),
    Part(id="tolerance of a fifth", share=15, tolerance=0.2),
    Part(id="event-driven", share=15, event_driven=True),
    Part(id="outcomes checked", share=25, checked=True),
    Part(id="outcomes checked, event-driven", share=15, event_driven=True, checked=True),
]


async def prove(clock: VirtualClock, part: Part, folder: Path) -> None:
    cycles = CYCLES * part.share // 100
    interval = timedelta(seconds=INTERVAL)
    rules = Rules(
        interval=interval,
        pace=interval if part.event_driven else timedelta(),
        disruption=DisruptionPolicy(tolerance_fraction=part.tolerance),
        timeouts=Timeouts(in_progress=timedelta(minutes=5)),
        checks_outcomes=part.checked,
    )
    faults = (*FAULTS, *(cluster_faults.webhook_patches_nothing_for_a_while,) * part.checked)
    where = folder if part.checked else None
    async with faulty_cluster(WORKLOADS, rules, clock, seed=SEED, folder=where) as faulty:
        await faulty.last(cycles, faults, pause=INTERVAL / 2)
        completed = [call for call in faulty.log.calls if call.done_at is not None]
        evicted = sum(call.kind == "eviction" for call in completed)
        restarted = sum(call.restarts for call in completed)
        refused = len(faulty.log.calls) - len(completed)
        print(  # noqa: T201 - figures, shown with -s
            f"{part.id}: {cycles} cycles, {evicted} evictions, {restarted} resizes with restarts, "
            f"{len(completed) - evicted - restarted} others, and {refused} failed calls"
        )
        guarded = {one.name: one.guarded for one in WORKLOADS if one.guarded}
        min_replicas = {one.name: one.min_replicas for one in WORKLOADS}
        judge = Judge(part.tolerance, LAG, guarded, min_replicas, counts_lost=part.checked)
        judge.check(faulty.log.entries)
        # Thirty cycles may have few calls, and event-driven ones may be only a second apart.
        if cycles >= FEW:
            assert evicted > cycles / 10
        if cycles >= MANY and not part.event_driven and not part.checked:
            assert evicted > cycles / 2
            assert restarted > cycles / 40
            assert refused > cycles / 10


@pytest.mark.timeout(120 + CYCLES)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.id)
def test_no_group_loses_more_pods_than_allowed(part: Part, tmp_path: Path) -> None:
    print(f"seed {SEED}")  # noqa: T201 - to reproduce a failure
    virtual_time.run(lambda clock: prove(clock, part, tmp_path))
