"""The updater among refusals, hanging answers and rivals: nothing twice, and it all comes right."""

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
from updater.eviction.disruption import DisruptionPolicy
from updater.pass_context import Rules
from updater.snapshot.live_pod import MANAGER
from workloads import NAMESPACE

pytestmark = pytest.mark.timeout(180)  # some seconds, but more while coverage is measured
RULES = Rules(
    interval=timedelta(seconds=INTERVAL),
    features=FeatureGates(in_place=True),
    disruption=DisruptionPolicy(),
    checks_outcomes=False,  # nobody patches the pods that come instead
)
LAG = timedelta(seconds=1)  # of watches that are all right
LATE = 58.0  # seconds; nobody waits so long for an answer


MODES = (
    Workload(name="recreate", mode="Recreate"),
    Workload(name="either", mode="InPlaceOrRecreate"),
    Workload(name="never", mode="InPlace"),
)


def in_cluster(
    workloads: Sequence[Workload],
    test: Callable[[FaultyCluster], Awaitable[None]],
    *,
    version: str = "1.36",
) -> None:
    """Run a test in a cluster without mishaps; at the end the judge looks at what was sent."""

    async def main(clock: VirtualClock) -> None:
        async with faulty_cluster(workloads, RULES, clock, seed=1, version=version) as calm:
            await test(calm)
            Judge(RULES.disruption.tolerance_fraction, LAG).check(calm.log.entries)

    virtual_time.run(main)


def trouble(
    faulty_cluster: FaultyCluster,
    pods: str,
    effect: Effect,
    *,
    count: int | None = None,
    of: str = "*",
) -> None:
    """Something is wrong with the updater's evictions and resizes of these pods."""
    for kind in ("eviction", "resize") if of == "*" else (of,):
        calls = Calls(resource=f"pods/{kind}", name=pods, user_agent=f"{MANAGER}*")
        faulty_cluster.cluster.api.faults.add(ApiFault(calls=calls, effect=effect, count=count))


def requests(faulty_cluster: FaultyCluster, workload: str = "shop") -> list[str]:
    """Of CPU, by the pods that are there."""
    return [
        pod.wanted["app"]["requests"]["cpu"]
        for pod in faulty_cluster.log.pods
        if pod.app == workload
    ]


def done(faulty_cluster: FaultyCluster, kind: str) -> list[str]:
    """The pods that were evicted or resized, in order."""
    return [
        call.name
        for call in faulty_cluster.log.calls
        if call.kind == kind and call.done_at is not None
    ]


def workloads_evicted(faulty_cluster: FaultyCluster) -> set[str]:
    """The workloads that pods were evicted of."""
    return {faulty_cluster.workload_of(name).name for name in done(faulty_cluster, "eviction")}


async def recommend(faulty_cluster: FaultyCluster) -> None:
    for one in MODES:
        await faulty_cluster.recommend(one.name, 300, 256)


def brought_up_to_date(faulty_cluster: FaultyCluster, before: Sequence[str]) -> None:
    """Pods of mode Recreate were replaced, some of them again; all others were resized once."""
    evicted = done(faulty_cluster, "eviction")
    assert len(evicted) == len(set(evicted))
    assert len(evicted) > 1
    assert workloads_evicted(faulty_cluster) == {"recreate"}
    assert len(requests(faulty_cluster, "recreate")) == 3
    kept = [name for name in before if not name.startswith("recreate")]
    assert sorted(done(faulty_cluster, "resize")) == kept
    assert requests(faulty_cluster, "either") + requests(faulty_cluster, "never") == ["300m"] * 6


async def passes(faulty_cluster: FaultyCluster, count: int) -> None:
    """Until so many more passes have begun, and a moment longer."""
    faulty_cluster.process.goal = faulty_cluster.process.passes + count - 1
    faulty_cluster.process.reached.clear()
    await faulty_cluster.process.reached.wait()
    await asyncio.sleep(1)


def test_an_eviction_without_an_answer_still_counts_in_the_next_pass() -> None:
    """It is carried out a minute later, when the next one would have taken another pod."""

    async def test(calm: FaultyCluster) -> None:
        first, second, _ = calm.names()
        trouble(calm, first, Effect(delay=10.0, refuse=Refusal.UNAVAILABLE), count=1)
        trouble(calm, second, Effect(delay=LATE), count=1)
        await calm.recommend("shop", 300, 256)
        await asyncio.sleep(2 * LATE)
        assert done(calm, "eviction")[0] == second

    in_cluster([Workload(name="shop", slow=True)], test)


# Refusals

REFUSALS = {
    "409": Effect(refuse=Refusal.CONFLICT),
    "422": Effect(refuse=Refusal.INVALID),
    "429": Effect(refuse=Refusal.OVERLOADED),
    "500": Effect(refuse=Refusal.INTERNAL),
    "503": Effect(refuse=Refusal.UNAVAILABLE),
    "504": Effect(refuse=Refusal.TIMEOUT),
    "504, and carried out": Effect(refuse=Refusal.TIMEOUT, done=True),
    "no answer": Effect(drop=True),
    "no answer, and carried out": Effect(drop=True, done=True),
    "a late answer": Effect(delay=20.0),
    "carried out when nobody waits any more": Effect(delay=LATE),
}


@pytest.mark.parametrize("effect", REFUSALS.values(), ids=REFUSALS)
def test_calls_that_fail_twice_are_done_once_in_the_end(effect: Effect) -> None:
    async def test(calm: FaultyCluster) -> None:
        before = calm.names()
        trouble(calm, "recreate-*", effect, count=2)
        trouble(calm, "either-*", effect, count=2, of="resize")
        trouble(calm, "never-*", effect, count=2)
        await recommend(calm)
        await passes(calm, 10)
        brought_up_to_date(calm, before)

    in_cluster(MODES, test)


LOST = ("no answer", "no answer, and carried out", "carried out when nobody waits any more")


@pytest.mark.parametrize("lost", LOST)
def test_what_became_of_calls_need_not_be_known_after_a_restart(lost: str) -> None:
    """An eviction names the pod's UID, and a resize that was carried out stands in the spec."""

    async def test(calm: FaultyCluster) -> None:
        before = calm.names()
        trouble(calm, "recreate-*", REFUSALS[lost], count=2)
        trouble(calm, "either-*", REFUSALS[lost], count=2, of="resize")
        trouble(calm, "never-*", REFUSALS[lost], count=2)
        await recommend(calm)
        await passes(calm, 1)
        await calm.process.kill()
        calm.process.start()
        await passes(calm, 10)
        brought_up_to_date(calm, before)

    in_cluster(MODES, test)


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_a_disruption_budget_is_asked_again_until_it_gives_way(mode: str) -> None:
    async def test(calm: FaultyCluster) -> None:
        trouble(calm, "*", Effect(refuse=Refusal.FORBIDDEN), of="resize")
        await calm.recommend("shop", 300, 256)
        await passes(calm, 3)
        answers = calm.cluster.audit(subresource="eviction", userAgent=MANAGER)
        assert {entry.code for entry in answers} == {429}
        await calm.merge(BUDGETS, "shop", {"spec": {"minAvailable": 2}})
        await passes(calm, 3)
        assert done(calm, "eviction")

    in_cluster([Workload(name="shop", mode=mode, guarded=3)], test)


# The world moves on while a pass is under way


@pytest.mark.parametrize("change", ["owner", "vpa deleted", "mode off", "pod deleted"])
def test_a_pod_that_waits_for_its_turn_is_looked_at_once_more(change: str) -> None:
    """The first call takes its time and is refused in the end; the second pod was next."""

    async def test(calm: FaultyCluster) -> None:
        first, second, third = calm.names()
        trouble(calm, first, Effect(delay=10.0, refuse=Refusal.UNAVAILABLE), count=1)
        await calm.recommend("shop", 300, 256)
        await passes(calm, 1)
        await asyncio.sleep(4)
        assert [call.name for call in calm.log.calls] == [first]
        if change == "owner":
            orphan = {"metadata": {"ownerReferences": None, "labels": {"app": "nobody"}}}
            await calm.merge(PODS.as_dicts(), second, orphan)
        elif change == "pod deleted":
            await calm.admin.delete(PODS, second, namespace=NAMESPACE)
        elif change == "vpa deleted":
            await calm.admin.delete(VPAS, "shop", namespace=NAMESPACE)
        else:
            off = {"spec": {"updatePolicy": {"updateMode": "Off"}}}
            await calm.merge(VPAS.as_dicts(), "shop", off)
        await asyncio.sleep(8)
        others = [third] if change in ("owner", "pod deleted") else []
        assert [call.name for call in calm.log.calls] == [first, *others]
        await passes(calm, 3)
        assert second not in [call.name for call in calm.log.calls]

    in_cluster([Workload(name="shop")], test)


@pytest.mark.parametrize("history", ["kept", "forgotten"])
def test_an_api_server_that_restarts_in_mid_pass_ends_it_and_the_next_one_goes_on(
    history: str,
) -> None:
    async def test(calm: FaultyCluster) -> None:
        before = calm.names()
        trouble(calm, "*", Effect(delay=10.0), count=3)
        await recommend(calm)
        await passes(calm, 1)
        if history == "kept":
            await calm.cluster.restart_api_server()
        else:
            await calm.cluster.forget_history()
        await passes(calm, 10)
        brought_up_to_date(calm, before)

    in_cluster(MODES, test)


def test_watches_that_break_and_tell_everything_twice_change_nothing() -> None:
    async def test(calm: FaultyCluster) -> None:
        before = calm.names()
        watches = Calls(verb="watch", user_agent=f"{MANAGER}*")
        effect = Effect(watch_cut=2.5 * INTERVAL, watch_duplicates=True)
        calm.cluster.api.faults.add(ApiFault(calls=watches, effect=effect))
        await calm.process.kill()
        calm.process.start()
        await recommend(calm)
        await passes(calm, 20)
        brought_up_to_date(calm, before)

    in_cluster(MODES, test)


# Rivals


def test_who_loses_the_lease_in_mid_pass_ends_before_the_other_one_begins() -> None:
    async def test(calm: FaultyCluster) -> None:
        before = calm.names()
        await calm.process.kill()
        one, other = (
            Process(calm.cluster, calm.clock, calm.log, RULES, f"{MANAGER}/{name}", elected=True)
            for name in ("one", "other")
        )
        one.start()
        await asyncio.sleep(1)
        other.start()
        await recommend(calm)
        await asyncio.sleep(INTERVAL - 3)
        leases = Calls(resource="leases", user_agent=f"{MANAGER}/one*")
        calm.cluster.api.faults.add(ApiFault(calls=leases, effect=Effect(drop=True)))
        trouble(calm, "*", Effect(delay=25.0, refuse=Refusal.INTERNAL), count=3)
        await asyncio.sleep(20)
        assert (one.passes, other.passes) == (1, 0)
        with pytest.raises(ExceptionGroup) as ended:
            await one.kill()
        assert ended.value.subgroup(LeadershipLostError) is not None
        await asyncio.sleep(12 * INTERVAL)
        assert other.passes > 5
        brought_up_to_date(calm, before)
        await other.kill()

    in_cluster(MODES, test)


# Every version, every mode, end to end


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_every_version_runs_the_three_modes(version: str) -> None:
    async def test(calm: FaultyCluster) -> None:
        before = calm.names()
        await recommend(calm)
        await passes(calm, 8)
        brought_up_to_date(calm, before)
        await calm.recommend("either", 20_000, 256)  # which no node has
        await calm.recommend("never", 20_000, 256)
        await passes(calm, 12)
        assert workloads_evicted(calm) == {"recreate", "either"}
        await calm.recommend("never", 100, 256)
        await passes(calm, 6)
        assert requests(calm, "never") == ["100m"] * 3

    in_cluster(MODES, test, version=version)
