"""Evictions that wait for room in a cluster with a scheduler."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from capacity_definitions import BUFFERS
from common.kube.endpoints import NODES, PODS, Endpoint
from common.target.owners import Controller
from provisioners import provisioner_of
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.components import simulation_of
from sandbox.kubelet.service import Kubelets
from sandbox.scenario import parse_scenario
from updater.capacity.capacity_requests import (
    CapacityDemand,
    CapacityMode,
    CapacityRequest,
    CapacityRequests,
    PassDemands,
    RequestStage,
)
from updater.capacity.detection import CapacityDetection
from updater.preview import PassPreview
from updater.snapshot.live_pod import MANAGER
from updater_sandbox import UpdaterSandbox, in_updater_sandbox
from workloads import DEFINITIONS

BUDGETS = Endpoint("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any])
NEW_NODE = "nodes: [{name: large, cpu: 8, memory: 16Gi}]"
TOO_LARGE = "1900m"  # a node has 2 CPUs, and each pod requests 500m


@asynccontextmanager
async def new_node(sandbox: UpdaterSandbox) -> AsyncIterator[None]:
    """Run another node until the context ends."""
    scenario = parse_scenario(NEW_NODE)
    async with (
        sandbox.cluster.client("kubelet", user="system:node:new") as client,
        asyncio.TaskGroup() as group,
    ):
        kubelets = Kubelets(
            client,
            sandbox.cluster.clock,
            shapes=scenario.nodes,
            simulation=simulation_of(scenario, scenario.version),
        )
        running = group.create_task(kubelets.run())
        await kubelets.wait_ready()
        await sandbox.settle()
        yield
        running.cancel()


async def crowded(sandbox: UpdaterSandbox, mode: str = "Recreate") -> None:
    """Create four pods of which no replacement has room, because each node has two pods."""
    await sandbox.deploy(replicas=4)
    await sandbox.autoscale(mode)
    await sandbox.recommend(TOO_LARGE)


def test_an_eviction_waits_for_a_node_and_follows() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await crowded(sandbox)
        updater = sandbox.updater(capacity=CapacityMode.WAIT)
        for _ in range(3):
            await updater.run_once()
            await sandbox.settle()
        assert sandbox.calls("eviction") == []
        assert updater.waits_for_room
        messages = await sandbox.messages("EvictionSkipped")
        assert all("no node has room: the replacement needs cpu 1900m" in each for each in messages)
        async with new_node(sandbox):
            await updater.run_once()
            await sandbox.settle()
            assert sandbox.calls("eviction") == [201, 201]
            pods = await sandbox.admin.list(PODS, namespace="shop")
            assert all(pod.spec.node_name for pod in pods.items)  # none is Pending

    in_updater_sandbox(test)


def test_without_the_check_the_pod_is_evicted() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await crowded(sandbox)
        await sandbox.updater(capacity=CapacityMode.OFF).run_once()
        assert sandbox.calls("eviction") == [201, 201]

    in_updater_sandbox(test)


def test_auto_waits_in_a_cluster_without_an_autoscaler() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await crowded(sandbox)
        plan = await sandbox.updater(capacity=CapacityMode.AUTO).plan()
        assert isinstance(plan, PassPreview)
        assert "no_capacity" in {each.reason.value for each in plan.decisions.values()}

    in_updater_sandbox(test)


@dataclass(slots=True)
class Provisioner:
    """A provisioner that records demands, and answers as a test requests."""

    stage: RequestStage = RequestStage.REQUESTED
    unavailable: str = ""
    wanted: list[PassDemands] = field(default_factory=list)

    @property
    def demands(self) -> list[Sequence[CapacityDemand]]:
        return [each.demands for each in self.wanted]

    async def reconcile(self, wanted: PassDemands, *, now: datetime) -> CapacityRequests:
        demands = wanted.demands
        self.wanted.append(wanted)
        until = now + timedelta(minutes=10)
        request = CapacityRequest(stage=self.stage, until=until, name="vpa-web")
        requests: Mapping[Controller, CapacityRequest] = {
            each.workload: request for each in demands
        }
        return CapacityRequests(by_workload=requests, unavailable=self.unavailable)


async def serve_buffers(sandbox: UpdaterSandbox) -> None:
    names = {
        "plural": "capacitybuffers",
        "singular": "capacitybuffer",
        "kind": "CapacityBuffer",
        "listKind": "CapacityBufferList",
    }
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    body = {
        "metadata": {"name": "capacitybuffers.autoscaling.x-k8s.io"},
        "spec": {
            "group": "autoscaling.x-k8s.io",
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    await sandbox.admin.create(DEFINITIONS, body)
    await sandbox.settle()


def test_capacity_is_requested_until_a_node_has_room() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await serve_buffers(sandbox)
        await crowded(sandbox)
        provisioner = Provisioner()
        updater = sandbox.updater(capacity=CapacityMode.AUTO, provisioner=provisioner)
        await updater.run_once()
        await updater.run_once()
        assert sandbox.calls("eviction") == []
        ((first,), (second,)) = provisioner.demands
        assert (first.workload.kind, first.workload.name) == ("Deployment", "web")
        assert (first.count, first.need.cpu) == (2, 1900)
        assert second == first
        async with new_node(sandbox):
            await updater.run_once()
            assert sandbox.calls("eviction") == [201, 201]
        evicted = PassDemands(evicted=frozenset((first.workload,)), refused=frozenset())
        assert provisioner.wanted[2] == evicted

    in_updater_sandbox(test)


def test_without_requests_the_check_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    provisioner = Provisioner(unavailable="it is forbidden")

    async def test(sandbox: UpdaterSandbox) -> None:
        await serve_buffers(sandbox)
        await crowded(sandbox)
        updater = sandbox.updater(capacity=CapacityMode.PROVISION, provisioner=provisioner)
        for _ in range(3):
            await updater.run_once()
        assert sandbox.calls("eviction") == []

    caplog.set_level(logging.INFO)
    in_updater_sandbox(test)
    lines = [line for line in caplog.records if line.message == "check of room before evictions"]
    assert [line.__dict__["mode"] for line in lines] == ["provision", "wait"]
    assert provisioner.demands[1:] == [(), ()]


def test_a_refused_request_keeps_the_pod() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await serve_buffers(sandbox)
        await crowded(sandbox)
        provisioner = Provisioner(stage=RequestStage.REFUSED)
        updater = sandbox.updater(capacity=CapacityMode.PROVISION, provisioner=provisioner)
        await updater.run_once()
        plan = await updater.plan()
        assert isinstance(plan, PassPreview)
        assert "capacity_refused" in {each.reason.value for each in plan.decisions.values()}
        await updater.run_once()
        assert sandbox.calls("eviction") == []
        assert provisioner.demands[0] == provisioner.demands[1] != ()

    in_updater_sandbox(test)


async def buffers(sandbox: UpdaterSandbox) -> int:
    return len((await sandbox.admin.list(BUFFERS)).items)


async def protect(sandbox: UpdaterSandbox) -> None:
    """Allow no disruption of the pods."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    body = {"metadata": {"name": "web"}, "spec": spec}
    await sandbox.admin.create(BUDGETS, body, namespace="shop")
    await sandbox.settle()


def test_a_pass_that_ends_early_does_not_know_all_demands() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await crowded(sandbox)
        provisioner = Provisioner()
        updater = sandbox.updater(capacity=CapacityMode.OFF, provisioner=provisioner)
        sandbox.stop.set()
        await updater.run_once()
        assert [each.complete for each in provisioner.wanted] == [False]

    in_updater_sandbox(test)


def test_a_new_process_keeps_requests_until_it_knows_what_is_served() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        async def uids() -> list[str]:
            return [each["metadata"]["uid"] for each in (await sandbox.admin.list(BUFFERS)).items]

        async def run_a_new_process() -> None:
            provisioner = provisioner_of(sandbox.client, sandbox.caches, sandbox.clock)
            updater = sandbox.updater(capacity=CapacityMode.AUTO, provisioner=provisioner)
            for _ in range(2):
                await updater.run_once()
                await asyncio.sleep(60)

        await serve_buffers(sandbox)
        await crowded(sandbox)
        await run_a_new_process()
        before = await uids()
        refuse(sandbox, "configmaps", seconds=150)  # until the second pass of the next process
        await run_a_new_process()
        assert await uids() == before != []

    in_updater_sandbox(test)


def test_a_budget_that_allows_no_eviction_gets_one_node_and_then_a_pause() -> None:
    """An autoscaler adds a node for a buffer, and removes it when the buffer is gone."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await serve_buffers(sandbox)
        await crowded(sandbox)
        await protect(sandbox)
        updater = sandbox.updater(
            capacity=CapacityMode.PROVISION,
            provisioner=provisioner_of(sandbox.client, sandbox.caches, sandbox.clock),
        )
        await updater.run_once()
        assert await buffers(sandbox) == 1
        async with new_node(sandbox):
            for _ in range(9):
                await asyncio.sleep(60)
                await updater.run_once()
                assert await buffers(sandbox) == 1
            await asyncio.sleep(60)
            await updater.run_once()
        assert set(sandbox.calls("eviction")) == {429}
        for node in (await sandbox.admin.list(NODES)).items:
            name = node["metadata"]["name"]
            if name.startswith("large"):
                await sandbox.admin.delete(NODES, name)
        found = []
        for _ in range(14):
            found.append(await buffers(sandbox))
            await asyncio.sleep(60)
            await updater.run_once()
        assert found == [0] * 14
        plan = await updater.plan()
        assert isinstance(plan, PassPreview)
        details = {each.reason.value: each.detail for each in plan.decisions.values()}
        assert "there was room, but the evictions were refused" in details["capacity_refused"]
        await asyncio.sleep(120)
        await updater.run_once()
        assert await buffers(sandbox) == 1

    in_updater_sandbox(test)


def test_nodes_that_cannot_be_read_any_more_end_the_check_after_five_minutes() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        detection = CapacityDetection(sandbox.client, CapacityMode.WAIT, sees_all_pods=True)
        modes = []
        for fresh, pause in ((True, 0), (False, 299), (False, 1), (True, 0)):
            await asyncio.sleep(pause)
            modes.append((await detection.refresh(nodes_fresh=fresh, requests=None)).mode)
        assert modes == [*(CapacityMode.WAIT,) * 2, CapacityMode.OFF, CapacityMode.WAIT]

    in_updater_sandbox(test)


def test_what_the_cluster_serves_is_looked_up_every_five_minutes() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        detection = CapacityDetection(sandbox.client, CapacityMode.AUTO, sees_all_pods=True)
        modes = [(await detection.refresh(nodes_fresh=True, requests="")).mode]
        await serve_buffers(sandbox)
        for pause in (0, 300):
            await asyncio.sleep(pause)
            modes.append((await detection.refresh(nodes_fresh=True, requests="")).mode)
        assert modes == [CapacityMode.WAIT, CapacityMode.WAIT, CapacityMode.PROVISION]

    in_updater_sandbox(test)


NODES_BEFORE = [
    ("not listed yet", True, 299, "nodes aren't listed yet", True),
    ("not listed for five minutes", True, 300, "nodes can't be read", False),
    ("forbidden", False, 0, "nodes can't be read", False),
]


@pytest.mark.parametrize(
    ("may_list", "seconds", "cause", "awaited"),
    [pytest.param(*case, id=name) for name, *case in NODES_BEFORE],
)
def test_nodes_that_are_not_listed_yet_are_awaited_for_five_minutes(
    seconds: float, cause: str, *, may_list: bool, awaited: bool
) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        detection = CapacityDetection(sandbox.client, CapacityMode.WAIT, sees_all_pods=True)
        for pause in (0, seconds):
            await asyncio.sleep(pause)
            found = await detection.refresh(
                nodes_fresh=False, may_list_nodes=may_list, requests=None
            )
        assert (found.cause, found.awaits_nodes) == (cause, awaited)
        assert found.mode is (CapacityMode.WAIT if awaited else CapacityMode.OFF)

    in_updater_sandbox(test)


def refuse(sandbox: UpdaterSandbox, resource: str, *, seconds: float) -> None:
    calls = Calls(resource=resource, user_agent=f"{MANAGER}*")
    fault = ApiFault(calls=calls, effect=Effect(refuse=Refusal.UNAVAILABLE), end=seconds)
    sandbox.cluster.api.faults.add(fault)


def test_after_a_failed_look_the_last_mode_counts_and_the_next_pass_looks_again() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await crowded(sandbox)
        updater = sandbox.updater(capacity=CapacityMode.AUTO)
        await updater.run_once()
        await asyncio.sleep(300)
        refuse(sandbox, "configmaps", seconds=30)
        await updater.run_once()
        await asyncio.sleep(60)
        await serve_buffers(sandbox)
        await updater.run_once()
        assert sandbox.calls("eviction") == []
        looks = sandbox.cluster.audit(userAgent=MANAGER, resource="configmaps")
        assert [each.code for each in looks if each.code != 503] == [404, 404]

    in_updater_sandbox(test)


@pytest.mark.parametrize(
    ("seconds", "evicted"),
    [
        pytest.param(240, [], id="no answer for less than five minutes"),
        pytest.param(330, [201, 201], id="no answer for more"),
    ],
)
def test_without_a_first_answer_nothing_is_evicted_without_room_for_five_minutes(
    seconds: int, evicted: list[int]
) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await crowded(sandbox)
        refuse(sandbox, "configmaps", seconds=seconds)
        updater = sandbox.updater(capacity=CapacityMode.AUTO)
        for _ in range(6):
            await updater.run_once()
            await asyncio.sleep(60)
        assert sandbox.calls("eviction")[:2] == evicted

    in_updater_sandbox(test)
