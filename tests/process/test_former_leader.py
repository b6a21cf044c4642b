"""A replica that was stopped or disconnected until another one led: it overwrites nothing."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.api.core import Pod
from common.kube.client import PatchType
from common.kube.endpoints import CHECKPOINTS, POD_METRICS, VPAS
from fake_api import TIMEOUT
from process_harness import World, account, world
from sandbox.apiserver.audit import Entry
from sandbox.apiserver.faults import ApiFault, ApiFaults, Calls, Effect, Refusal
from updater.execute import MOST_CALLS
from workloads import NAMESPACE, deploy

FORMER = account("recommender")
STATUSES = f"{VPAS.resource}/status"
WRITTEN = ((STATUSES, "patch"), (CHECKPOINTS.resource, "create"))
NAMES = tuple(f"web-{number}" for number in range(6))
OFF = {"updatePolicy": {"updateMode": "Off"}}


def election_flags(*, lease: float, deadline: float) -> tuple[str, ...]:
    return (
        "--leader-elect",
        f"--leader-elect-lease-duration={lease}s",
        f"--leader-elect-renew-deadline={deadline}s",
        "--leader-elect-retry-period=200ms",
    )


@dataclass(frozen=True)
class CallFault:
    """A fault of calls of the former leader."""

    faults: ApiFaults
    rule: ApiFault
    end: Callable[[], None]

    @property
    def hits(self) -> int:
        return self.faults.hits(self.rule)


def add_fault(it: World, effect: Effect, *, user: str = FORMER, **calls: str) -> CallFault:
    rule = ApiFault(calls=Calls(user=user, **calls), effect=effect)
    faults = it.cluster.api.faults
    return CallFault(faults, rule, faults.add(rule))


def writes(it: World) -> list[Entry]:
    """Return the former leader's writes of statuses and checkpoints, failed ones included."""
    found = it.cluster.audit(user=FORMER)
    written = (VPAS.resource, CHECKPOINTS.resource)
    reads = ("get", "list", "watch")
    return [call for call in found if call.resource in written and call.verb not in reads]


def up_to_date(it: World) -> bool:
    """Return True if each status belongs to the newest spec of its VPA."""
    found = [it.vpas.get(NAMESPACE, name) for name in NAMES]
    return all(
        vpa is not None and vpa.status.observed_generation == vpa.metadata.generation
        for vpa in found
    )


async def refuse_statuses(it: World) -> CallFault:
    """Change each VPA, and refuse all writes of their statuses until the fault ends."""
    await it.until(lambda: all(it.target(name) for name in NAMES))
    refused = add_fault(it, Effect(refuse=Refusal.UNAVAILABLE), resource=STATUSES)
    for name in NAMES:
        await it.edit(name, **OFF)
    await it.until(lambda: refused.hits >= len(NAMES))
    return refused


async def wait_for_metrics(it: World) -> None:
    """Wait until each pod has metrics, so that the first cycle writes checkpoints."""
    async with asyncio.timeout(TIMEOUT):
        while len((await it.client.list(POD_METRICS, namespace=NAMESPACE)).items) < len(NAMES):
            await it.until(lambda: True)


async def test_a_former_leader_sends_no_write_after_a_stop_longer_than_its_lease(
    tmp_path: Path,
) -> None:
    flags = election_flags(lease=3, deadline=2)
    # Two of six writes are in progress at the stop; the cycle would have time for the others.
    unhurried = (*flags, "--update-worker-count=2", "--recommender-interval=1m")
    async with world(tmp_path) as it:
        for name in NAMES:
            await deploy(it.client, name, replicas=1)
        await wait_for_metrics(it)
        slow = [add_fault(it, Effect(delay=3.0), resource=one, verb=verb) for one, verb in WRITTEN]
        former = await it.start("recommender", *unhurried)
        await it.until(lambda: all(each.hits == 2 for each in slow))
        former.process.send_signal(signal.SIGSTOP)
        standby = await it.start_standby("recommender", *flags)
        await standby.logged("became the leader")
        await it.until(lambda: up_to_date(it))
        await it.passes(standby)
        for each in slow:
            each.end()
        await it.until(lambda: len(writes(it)) == 4)  # those in progress
        before = writes(it)

        former.process.send_signal(signal.SIGCONT)
        assert await former.ended() == 1
        await it.passes(standby)  # all requests have been answered
        assert [call.code < 300 for call in before] == [True] * 4
        assert writes(it) == before
        assert former.said("was not renewed in time") != []
        assert former.said("not written") == []


async def test_writes_that_a_network_outage_delayed_overwrite_nothing(tmp_path: Path) -> None:
    flags = election_flags(lease=6, deadline=5)
    async with world(tmp_path) as it:
        for name in NAMES:
            await deploy(it.client, name, replicas=1)
        former = await it.start("recommender", *flags)
        await former.logged("became the leader")
        standby = await it.start_standby("recommender", *flags)
        await standby.logged("another replica leads")
        refused = await refuse_statuses(it)

        slow = add_fault(it, Effect(delay=1.0), verb="list", group=POD_METRICS.group)
        await it.until(lambda: slow.hits > 0)
        gate = it.gates["recommender"]
        gate.hold_requests()  # the usage still arrives, but the writes that follow are delayed
        refused.end()
        before = writes(it)
        assert await former.ended(within=30) == 1
        await standby.logged("became the leader")
        await it.until(lambda: up_to_date(it))
        await it.passes(standby)

        gate.let_go()
        await it.until(
            lambda: {CHECKPOINTS.resource, VPAS.resource} <= later_responses(it, before).keys()
        )
        assert set().union(*later_responses(it, before).values()) == {409}


async def test_an_updater_evicts_nothing_after_a_stop_longer_than_its_lease(tmp_path: Path) -> None:
    flags = (*election_flags(lease=3, deadline=2), "--use-admission-controller-status=false")
    # 32 calls are in progress at the stop; the pass would have time for the others.
    unhurried = ("--updater-interval=12s", "--eviction-tolerance=1")
    pods = MOST_CALLS + 8
    async with world(tmp_path) as it:
        await deploy(it.client, "web", replicas=pods)
        await it.until(
            lambda: len(it.pods_of("web")) == pods and all(map(is_running, it.pods_of("web")))
        )
        await recommend(it, "web", cpu="600m", memory="400Mi")
        slow = add_fault(it, Effect(delay=3.0), user=account("updater"), resource="pods/eviction")
        former = await it.start("updater", *flags, *unhurried, "--eviction-outcome-check=false")
        await it.until(lambda: slow.hits == MOST_CALLS)
        former.process.send_signal(signal.SIGSTOP)
        slow.end()
        standby = await it.start_standby("updater", *flags)
        await standby.logged("became the leader")
        await it.until(lambda: len(evictions(it)) == MOST_CALLS)  # those in progress

        former.process.send_signal(signal.SIGCONT)
        assert await former.ended() == 1
        await it.passes(standby)  # all requests have been answered
        assert len(evictions(it)) == MOST_CALLS
        assert former.said("was not renewed in time") != []
        assert former.said("eviction refused") == []


def is_running(pod: Pod) -> bool:
    return pod.status.phase == "Running"


def evictions(it: World) -> list[Entry]:
    """Return the evictions that the first updater sent, failed ones included."""
    user = account("updater")
    return list(it.cluster.audit(user=user, resource="pods", subresource="eviction"))


async def recommend(it: World, name: str, **target: str) -> None:
    """Write a recommendation."""
    one = {"containerName": "app", "target": target, "lowerBound": target, "upperBound": target}
    provided = {
        "type": "RecommendationProvided",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"recommendation": {"containerRecommendations": [one]}, "conditions": [provided]}
    await it.client.patch(
        VPAS,
        name,
        {"status": status},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )


def later_responses(it: World, before: list[Entry]) -> dict[str, set[int]]:
    """Return the status codes of the former leader's later writes, by resource."""
    codes: dict[str, set[int]] = {}
    for call in writes(it)[len(before) :]:
        codes.setdefault(call.resource, set()).add(call.code)
    return codes
