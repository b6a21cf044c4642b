"""The budget proof: no group loses more pods to us than it tolerates, whatever goes wrong."""

import os
from datetime import timedelta

import pytest

import mishaps
from disruption_log import Judge
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from stormy_cluster import INTERVAL, LAG, Workload, storm
from updater.disruption import DisruptionPolicy
from updater.resize import Timeouts
from updater.work import Rules

# The whole proof is `make proofs`: 1,000 cycles.
CYCLES = int(os.environ.get("PROOF_CYCLES", "120"))
SEED = int(os.environ.get("PROOF_SEED", "1"))
MODES = ("Recreate", "InPlaceOrRecreate", "Auto", "InPlaceOrRecreate")
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
        for number in range(48)
    ),
    Workload(name="daemon", kind="DaemonSet", mode="Recreate"),
    *(
        Workload(name=f"driver-{number}", kind="DaemonSet", mode="Recreate", slow=True)
        for number in range(4)
    ),
    Workload(name="agent", kind="DaemonSet", mode="InPlaceOrRecreate", restarts=True),
]
MISHAPS = (
    mishaps.trouble_for_the_updater,
    mishaps.trouble_for_the_updater,
    mishaps.trouble_for_its_watches,
    mishaps.updater_dies,
    mishaps.updater_is_away_for_a_while,
    mishaps.api_server_restarts,
    mishaps.history_is_forgotten,
    mishaps.kubelet_trouble,
    mishaps.memory_runs_out,
    mishaps.node_shrinks_or_grows,
    mishaps.kubelet_dies_for_a_while,
    mishaps.pod_is_deleted,
    mishaps.pod_changes_owner,
    mishaps.vpa_goes_and_comes,
    mishaps.scaled,
    *(mishaps.out_of_range_for_a_while,) * 6,
)


async def prove(clock: VirtualClock, *, tolerance: float, cycles: int) -> None:
    rules = Rules(
        interval=timedelta(seconds=INTERVAL),
        disruption=DisruptionPolicy(tolerance_fraction=tolerance),
        timeouts=Timeouts(in_progress=timedelta(minutes=5)),
        checks_outcomes=False,  # nobody patches the pods that come instead
    )
    async with storm(WORKLOADS, rules, clock, seed=SEED) as raging:
        await raging.last(cycles, MISHAPS, pause=INTERVAL / 2)
        done = [call for call in raging.log.calls if call.done_at is not None]
        evicted = sum(call.kind == "eviction" for call in done)
        restarted = sum(call.restarts for call in done)
        refused = len(raging.log.calls) - len(done)
        print(  # noqa: T201 - figures for who asks with -s
            f"{cycles} cycles: {evicted} evictions, {restarted} resizes that restart, "
            f"{len(done) - evicted - restarted} others, and {refused} that came to nothing"
        )
        assert evicted > cycles / 2
        assert restarted > cycles / 20
        assert refused > cycles / 10
        guarded = {one.name: one.guarded for one in WORKLOADS if one.guarded}
        Judge(tolerance, LAG, guarded).check(raging.log.entries)


@pytest.mark.timeout(120 + CYCLES)
@pytest.mark.parametrize("tolerance", [0.5, 0.2])
def test_no_group_loses_more_than_it_tolerates(tolerance: float) -> None:
    print(f"seed {SEED}")  # noqa: T201 - to run it again
    virtual_time.run(lambda clock: prove(clock, tolerance=tolerance, cycles=CYCLES // 2))
