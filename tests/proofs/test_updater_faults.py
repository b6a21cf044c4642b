"""The updater with refused and hanging calls, restarts and a second replica.

Each pod is updated once, and in the end all are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest

from common.errors import LeadershipLostError
from common.features import FeatureGates
from common.kube.endpoints import PODS, VPAS
from disruption_judge import Judge
from faulty_cluster import BUDGETS, INTERVAL, FaultyCluster, Process, Workload, faulty_cluster
from sandbox import virtual_time
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.virtual_time import VirtualClock
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.pass_context import Rules
from updater.snapshot.live_pod import MANAGER
from workloads import NAMESPACE

pytestmark = pytest.mark.timeout(180)  # some seconds, but more while coverage is measured
RULES = Rules(
    interval=timedelta(seconds=INTERVAL),
    features=FeatureGates(in_place=True),
    disruption=DisruptionPolicy(),
    checks_outcomes=False,  # no webhook patches the replacements
)
LAG = timedelta(seconds=1)  # of watches without faults
AFTER_TIMEOUT = 58.0  # seconds; longer than the client waits for a response


MODES = (
    Workload(name="recreate", mode="Recreate"),
    Workload(name="either", mode="InPlaceOrRecreate"),
    Workload(name="never", mode="InPlace"),
)


def run_test(
    workloads: Sequence[Workload],
    test: Callable[[FaultyCluster], Awaitable[None]],
    *,
    version: str = "1.36",
) -> None:
    """Run a test in a cluster without random faults; check all calls at the end."""

    async def main(clock: VirtualClock) -> None:
        async with faulty_cluster(workloads, RULES, clock, seed=1, version=version) as faulty:
            await test(faulty)
            Judge(RULES.disruption.tolerance_fraction, LAG).check(faulty.log.entries)

    virtual_time.run(main)


def add_fault(
    faulty: FaultyCluster,
    pods: str,
    effect: Effect,
    *,
    count: int | None = None,
    of: str = "*",
) -> None:
    """Add a fault to the updater's evictions and resizes of these pods."""
    for kind in ("eviction", "resize") if of == "*" else (of,):
        calls = Calls(resource=f"pods/{kind}", name=pods, user_agent=f"{MANAGER}*")
        faulty.cluster.api.faults.add(ApiFault(calls=calls, effect=effect, count=count))


def requests(faulty: FaultyCluster, workload: str = "shop") -> list[str]:
    """Return the CPU requests of a workload's pods."""
    return [pod.wanted["app"]["requests"]["cpu"] for pod in faulty.log.pods if pod.app == workload]


def completed(faulty: FaultyCluster, kind: str) -> list[str]:
    """Return the pods that were evicted or resized, in order."""
    return [
        call.name for call in faulty.log.calls if call.kind == kind and call.done_at is not None
    ]


def workloads_evicted(faulty: FaultyCluster) -> set[str]:
    """Return the workloads of evicted pods."""
    return {faulty.workload_of(name).name for name in completed(faulty, "eviction")}


async def recommend(faulty: FaultyCluster) -> None:
    for one in MODES:
        await faulty.recommend(one.name, 300, 256)


def check_all_updated(faulty: FaultyCluster, before: Sequence[str]) -> None:
    """Check that pods of mode Recreate were replaced, and all others were resized once.

    A replacement isn't patched here, so it may be evicted, too.
    """
    evicted = completed(faulty, "eviction")
    assert len(evicted) == len(set(evicted))
    assert len(evicted) > 1
    assert workloads_evicted(faulty) == {"recreate"}
    assert len(requests(faulty, "recreate")) == 3
    kept = [name for name in before if not name.startswith("recreate")]
    assert sorted(completed(faulty, "resize")) == kept
    assert requests(faulty, "either") + requests(faulty, "never") == ["300m"] * 6


async def wait_for_passes(faulty: FaultyCluster, count: int) -> None:
    """Wait until ``count`` more passes have begun, and a second more."""
    faulty.process.goal = faulty.process.passes + count - 1
    faulty.process.reached.clear()
    await faulty.process.reached.wait()
    await asyncio.sleep(1)


def test_an_eviction_without_a_response_counts_in_the_next_pass() -> None:
    """It is carried out a minute later, when the next pass would have evicted another pod."""

    async def test(faulty: FaultyCluster) -> None:
        first, second, _ = faulty.names()
        add_fault(faulty, first, Effect(delay=10.0, refuse=Refusal.UNAVAILABLE), count=1)
        add_fault(faulty, second, Effect(delay=AFTER_TIMEOUT), count=1)
        await faulty.recommend("shop", 300, 256)
        await asyncio.sleep(2 * AFTER_TIMEOUT)
        assert completed(faulty, "eviction")[0] == second

    run_test([Workload(name="shop", slow=True)], test)


# Refusals

REFUSALS = {
    "409": Effect(refuse=Refusal.CONFLICT),
    "422": Effect(refuse=Refusal.INVALID),
    "429": Effect(refuse=Refusal.OVERLOADED),
    "500": Effect(refuse=Refusal.INTERNAL),
    "503": Effect(refuse=Refusal.UNAVAILABLE),
    "504": Effect(refuse=Refusal.TIMEOUT),
    "504, and carried out": Effect(refuse=Refusal.TIMEOUT, done=True),
    "no response": Effect(drop=True),
    "no response, and carried out": Effect(drop=True, done=True),
    "a late response": Effect(delay=20.0),
    "carried out after the client's timeout": Effect(delay=AFTER_TIMEOUT),
}


@pytest.mark.parametrize("effect", REFUSALS.values(), ids=REFUSALS)
def test_calls_that_fail_twice_are_done_once(effect: Effect) -> None:
    async def test(faulty: FaultyCluster) -> None:
        before = faulty.names()
        add_fault(faulty, "recreate-*", effect, count=2)
        add_fault(faulty, "either-*", effect, count=2, of="resize")
        add_fault(faulty, "never-*", effect, count=2)
        await recommend(faulty)
        await wait_for_passes(faulty, 10)
        check_all_updated(faulty, before)

    run_test(MODES, test)


LOST = ("no response", "no response, and carried out", "carried out after the client's timeout")


@pytest.mark.parametrize("lost", LOST)
def test_calls_with_an_unknown_result_are_done_once_after_a_restart(lost: str) -> None:
    """An eviction has the pod's UID as a precondition, and a resize changes the spec."""

    async def test(faulty: FaultyCluster) -> None:
        before = faulty.names()
        add_fault(faulty, "recreate-*", REFUSALS[lost], count=2)
        add_fault(faulty, "either-*", REFUSALS[lost], count=2, of="resize")
        add_fault(faulty, "never-*", REFUSALS[lost], count=2)
        await recommend(faulty)
        await wait_for_passes(faulty, 1)
        await faulty.process.kill()
        faulty.process.start()
        await wait_for_passes(faulty, 10)
        check_all_updated(faulty, before)

    run_test(MODES, test)


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_an_eviction_is_retried_until_the_disruption_budget_allows_it(mode: str) -> None:
    async def test(faulty: FaultyCluster) -> None:
        add_fault(faulty, "*", Effect(refuse=Refusal.FORBIDDEN), of="resize")
        await faulty.recommend("shop", 300, 256)
        await wait_for_passes(faulty, 3)
        answers = faulty.cluster.audit(subresource="eviction", userAgent=MANAGER)
        assert {entry.code for entry in answers} == {429}
        await faulty.merge(BUDGETS, "shop", {"spec": {"minAvailable": 2}})
        await wait_for_passes(faulty, 3)
        assert completed(faulty, "eviction")

    run_test([Workload(name="shop", mode=mode, guarded=3)], test)


# Changes during a pass


@pytest.mark.parametrize("change", ["owner", "vpa deleted", "mode off", "pod deleted"])
def test_a_planned_pod_is_checked_again_before_its_call(change: str) -> None:
    """The change is made during the first call, which is slow; the second pod would be next."""

    async def test(faulty: FaultyCluster) -> None:
        first, second, third = faulty.names()
        add_fault(faulty, first, Effect(delay=10.0, refuse=Refusal.UNAVAILABLE), count=1)
        await faulty.recommend("shop", 300, 256)
        await wait_for_passes(faulty, 1)
        await asyncio.sleep(4)
        assert [call.name for call in faulty.log.calls] == [first]
        if change == "owner":
            orphan = {"metadata": {"ownerReferences": None, "labels": {"app": "other"}}}
            await faulty.merge(PODS.as_dicts(), second, orphan)
        elif change == "pod deleted":
            await faulty.admin.delete(PODS, second, namespace=NAMESPACE)
        elif change == "vpa deleted":
            await faulty.admin.delete(VPAS, "shop", namespace=NAMESPACE)
        else:
            off = {"spec": {"updatePolicy": {"updateMode": "Off"}}}
            await faulty.merge(VPAS.as_dicts(), "shop", off)
        await asyncio.sleep(8)
        others = [third] if change in ("owner", "pod deleted") else []
        assert [call.name for call in faulty.log.calls] == [first, *others]
        await wait_for_passes(faulty, 3)
        assert second not in [call.name for call in faulty.log.calls]

    run_test([Workload(name="shop")], test)


@pytest.mark.parametrize("history", ["kept", "forgotten"])
def test_the_next_pass_continues_after_an_api_server_restart(
    history: str,
) -> None:
    async def test(faulty: FaultyCluster) -> None:
        before = faulty.names()
        add_fault(faulty, "*", Effect(delay=10.0), count=3)
        await recommend(faulty)
        await wait_for_passes(faulty, 1)
        if history == "kept":
            await faulty.cluster.restart_api_server()
        else:
            await faulty.cluster.forget_history()
        await wait_for_passes(faulty, 10)
        check_all_updated(faulty, before)

    run_test(MODES, test)


def test_broken_watches_and_duplicate_events_change_nothing() -> None:
    async def test(faulty: FaultyCluster) -> None:
        before = faulty.names()
        watches = Calls(verb="watch", user_agent=f"{MANAGER}*")
        effect = Effect(watch_cut=2.5 * INTERVAL, watch_duplicates=True)
        faulty.cluster.api.faults.add(ApiFault(calls=watches, effect=effect))
        await faulty.process.kill()
        faulty.process.start()
        await recommend(faulty)
        await wait_for_passes(faulty, 20)
        check_all_updated(faulty, before)

    run_test(MODES, test)


# A second replica


def test_a_leader_that_loses_the_lease_ends_before_the_next_one_begins() -> None:
    async def test(faulty: FaultyCluster) -> None:
        before = faulty.names()
        await faulty.process.kill()
        one, other = (
            Process(
                faulty.cluster, faulty.clock, faulty.log, RULES, f"{MANAGER}/{name}", elected=True
            )
            for name in ("one", "other")
        )
        one.start()
        await asyncio.sleep(1)
        other.start()
        await recommend(faulty)
        await asyncio.sleep(INTERVAL - 3)
        leases = Calls(resource="leases", user_agent=f"{MANAGER}/one*")
        faulty.cluster.api.faults.add(ApiFault(calls=leases, effect=Effect(drop=True)))
        add_fault(faulty, "*", Effect(delay=25.0, refuse=Refusal.INTERNAL), count=3)
        await asyncio.sleep(20)
        assert (one.passes, other.passes) == (1, 0)
        with pytest.raises(ExceptionGroup) as ended:
            await one.kill()
        assert ended.value.subgroup(LeadershipLostError) is not None
        await asyncio.sleep(12 * INTERVAL)
        assert other.passes > 5
        check_all_updated(faulty, before)
        await other.kill()

    run_test(MODES, test)


# Every version in every mode


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_every_version_runs_the_three_modes(version: str) -> None:
    async def test(faulty: FaultyCluster) -> None:
        before = faulty.names()
        await recommend(faulty)
        await wait_for_passes(faulty, 8)
        check_all_updated(faulty, before)
        await faulty.recommend("either", 20_000, 256)  # more than any node has
        await faulty.recommend("never", 20_000, 256)
        await wait_for_passes(faulty, 12)
        assert workloads_evicted(faulty) == {"recreate", "either"}
        await faulty.recommend("never", 100, 256)
        await wait_for_passes(faulty, 6)
        assert requests(faulty, "never") == ["100m"] * 3

    run_test(MODES, test, version=version)
