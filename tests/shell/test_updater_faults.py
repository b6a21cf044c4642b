"""The updater among refusals, hanging answers and rivals: nothing twice, and it all comes right."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from common.features import FeatureGates
from disruption_log import Judge
from sandbox import virtual_time
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.virtual_time import VirtualClock
from stormy_cluster import INTERVAL, LAG, Storm, Workload, storm
from updater.disruption import DisruptionPolicy
from updater.live_pod import MANAGER
from updater.work import Rules

RULES = Rules(
    interval=timedelta(seconds=INTERVAL),
    features=FeatureGates(in_place=True),
    disruption=DisruptionPolicy(),
    checks_outcomes=False,  # nobody patches the pods that come instead
)
LATE = 58.0  # seconds; nobody waits so long for an answer


def in_cluster(
    workloads: Sequence[Workload],
    test: Callable[[Storm], Awaitable[None]],
    *,
    version: str = "1.36",
) -> None:
    """Run a test in a cluster without mishaps; at the end the judge looks at what was sent."""

    async def main(clock: VirtualClock) -> None:
        async with storm(workloads, RULES, clock, seed=1, version=version) as calm:
            await test(calm)
            Judge(RULES.disruption.tolerance_fraction, LAG).check(calm.log.entries)

    virtual_time.run(main)


def trouble(storm: Storm, pods: str, effect: Effect, *, count: int | None = None) -> None:
    """Something is wrong with the updater's evictions and resizes of these pods."""
    for subresource in ("eviction", "resize"):
        calls = Calls(resource=f"pods/{subresource}", name=pods, user_agent=f"{MANAGER}*")
        storm.cluster.api.faults.add(ApiFault(calls=calls, effect=effect, count=count))


def done(storm: Storm, kind: str) -> list[str]:
    """The pods that were evicted or resized, in order."""
    return [call.name for call in storm.log.calls if call.kind == kind and call.done_at is not None]


async def passes(storm: Storm, count: int) -> None:
    """Until so many more passes have begun, and a moment longer."""
    storm.process.goal = storm.process.passes + count - 1
    storm.process.reached.clear()
    await storm.process.reached.wait()
    await asyncio.sleep(1)


def test_an_eviction_without_an_answer_still_counts_in_the_next_pass() -> None:
    """It is carried out a minute later, when the next one would have taken another pod."""

    async def test(calm: Storm) -> None:
        first, second, _ = calm.names()
        trouble(calm, first, Effect(delay=10.0, refuse=Refusal.UNAVAILABLE), count=1)
        trouble(calm, second, Effect(delay=LATE), count=1)
        await calm.recommend("shop", 300, 256)
        await asyncio.sleep(2 * LATE)
        assert done(calm, "eviction")[0] == second

    in_cluster([Workload(name="shop", slow=True)], test)
