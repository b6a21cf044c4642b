"""Requests for capacity on an API server: created, settled, refused, timed out and cleaned up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import container
from capacity_definitions import BUFFERS, REQUESTS, capacity_definition
from common.api.core import PodSpec
from common.errors import NotLeadingError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DEPLOYMENTS, NODES, POD_TEMPLATES, PODS, Endpoint
from common.runtime.clock import SystemClock
from common.scheduling.room import Room
from common.target.owners import Controller
from fake_api import FakeApi, Reply
from provisioners import provisioner_of
from sandbox import virtual_time
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock
from synced_caches import following
from updater.capacity.capacity_requests import (
    CapacityDemand,
    CapacityRequests,
    PassDemands,
    RequestStage,
)
from updater.capacity.provisioner import Provisioner
from updater.snapshot.caches import Caches
from updater.snapshot.live_pod import MANAGER
from workloads import DEFINITIONS

SCENARIO = """
nodes: [{name: node, count: 1, cpu: 4, memory: 8Gi}]
namespaces: [shop]
"""
WEB = Controller("shop", "Deployment", "web", "apps/v1")
NEED = Room(1000, 1 << 30, 1)
SPEC = PodSpec(containers=(container(requests={"cpu": "1", "memory": "1Gi"}),))
TEMPLATES = POD_TEMPLATES.as_dicts()


def demand(workload: Controller = WEB, *, cpu: int = 1000, count: int = 2) -> CapacityDemand:
    return CapacityDemand(
        workload=workload,
        vpa="uid-of-vpa",
        vpa_name="web",
        spec=SPEC,
        need=Room(cpu, 1 << 30, 1),
        count=count,
    )


@dataclass
class World:
    """A sandbox with a Deployment of two pods, and a provisioner."""

    cluster: Cluster
    admin: KubeClient
    client: KubeClient
    caches: Caches
    clock: VirtualClock
    provisioner: Provisioner = field(init=False)

    def __post_init__(self) -> None:
        self.provisioner = self.new_process()

    def new_process(self, *, leads: Callable[[], None] = lambda: None) -> Provisioner:
        return provisioner_of(
            self.client, self.caches, self.clock, writer=self.client.guarded(leads)
        )

    def refuse(self, resource: str, verb: str, refusal: Refusal, **limits: Any) -> None:
        """Refuse calls from now on."""
        calls, effect = Calls(resource=resource, verb=verb), Effect(refuse=refusal)
        self.cluster.api.faults.add(ApiFault(calls=calls, effect=effect, **limits))

    async def serve(self, *kinds: Endpoint[dict[str, Any]]) -> None:
        for kind in kinds or (BUFFERS,):
            await self.admin.create(DEFINITIONS, capacity_definition(kind))
        await asyncio.sleep(1)

    async def pass_(self, *demands: CapacityDemand, complete: bool = True) -> CapacityRequests:
        wanted = PassDemands(demands=demands, complete=complete)
        return await self.provisioner.reconcile(wanted, now=self.clock.now())

    async def names(self, endpoint: Endpoint[dict[str, Any]]) -> list[str]:
        listing = await self.admin.list(endpoint)
        return [each["metadata"]["name"] for each in listing.items]

    async def sizes(self) -> list[int]:
        return [each["spec"]["replicas"] for each in (await self.admin.list(BUFFERS)).items]

    async def deploy(self, replicas: int = 2) -> None:
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "app", "image": "shop:1"}],
                    "priorityClassName": "high",
                },
            },
        }
        body = {"metadata": {"name": "web"}, "spec": spec}
        await self.admin.create(DEPLOYMENTS.as_dicts(), body, namespace="shop")
        await asyncio.sleep(5)

    async def delete_pods(self, count: int) -> None:
        listing = await self.admin.list(PODS, namespace="shop")
        for pod in listing.items[:count]:
            await self.admin.delete(PODS, pod.metadata.name, namespace="shop")

    async def condition(self, endpoint: Endpoint[dict[str, Any]], **condition: str) -> None:
        (name,) = await self.names(endpoint)
        await self.admin.patch(
            endpoint,
            name,
            {"status": {"conditions": [condition]}},
            patch_type=PatchType.MERGE,
            namespace="shop",
            subresource="status",
        )

    def writes(self) -> list[tuple[str, str]]:
        return [
            (entry.verb, entry.resource)
            for entry in self.cluster.audit(userAgent=MANAGER)
            if entry.verb in ("create", "delete", "patch")
        ]


@asynccontextmanager
async def world(clock: VirtualClock) -> AsyncIterator[World]:
    async with (
        running_cluster(parse_scenario(SCENARIO), clock=clock) as cluster,
        cluster.client("test") as admin,
        cluster.client(MANAGER) as client,
    ):
        caches = Caches.following(client)
        opened = World(cluster, admin, client, caches, clock)
        async with following((caches.pods, *caches.controllers.all()), opened.provisioner.run):
            await opened.deploy()
            yield opened


def in_world(test: Callable[[World], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        async with world(clock) as opened:
            await test(opened)

    virtual_time.run(main)


def test_a_buffer_and_its_template_are_made_for_a_demand() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        requests = await opened.pass_(demand())
        (buffer,) = (await opened.admin.list(BUFFERS)).items
        (template,) = (await opened.admin.list(TEMPLATES)).items
        request = requests.by_workload[WEB]
        assert (request.stage, request.name) == (RequestStage.REQUESTED, buffer["metadata"]["name"])
        assert request.until - opened.clock.now() == timedelta(minutes=10)
        assert buffer["spec"]["podTemplateRef"] == {"name": template["metadata"]["name"]}
        assert buffer["spec"]["replicas"] == 2
        spec = template["template"]["spec"]
        assert spec["priorityClassName"] == "high"
        assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}

    in_world(check)


def test_a_provisioning_request_is_made_where_no_buffers_are_served() -> None:
    async def check(opened: World) -> None:
        await opened.serve(REQUESTS)
        await opened.pass_(demand())
        (request,) = (await opened.admin.list(REQUESTS)).items
        assert request["spec"]["podSets"][0]["count"] == 2
        assert not (await opened.pass_()).by_workload
        assert await opened.names(REQUESTS) == await opened.names(TEMPLATES) == []

    in_world(check)


def test_buffers_come_before_provisioning_requests_and_in_the_newest_version() -> None:
    async def check(opened: World) -> None:
        await opened.serve(BUFFERS, REQUESTS)
        await opened.pass_(demand())
        assert not await opened.names(REQUESTS)
        (buffer,) = (await opened.admin.list(BUFFERS)).items
        (entry,) = buffer["metadata"]["managedFields"]
        assert entry["apiVersion"] == "autoscaling.x-k8s.io/v1beta1"

    in_world(check)


def test_the_same_demand_writes_nothing_and_another_count_resizes() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        before = opened.writes()
        await opened.pass_(demand())
        assert opened.writes() == before
        await opened.pass_(demand(count=1))
        assert opened.writes()[len(before) :] == [("patch", "capacitybuffers")]
        assert await opened.sizes() == [1]

    in_world(check)


def test_another_need_replaces_buffer_and_template() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        old = await opened.names(BUFFERS)
        await opened.pass_(demand(cpu=2000))
        new = await opened.names(BUFFERS)
        assert len(new) == 1
        assert new != old
        assert await opened.names(TEMPLATES) == new

    in_world(check)


def test_a_buffer_shrinks_and_goes_within_two_seconds_of_the_replacements_on_nodes() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        await opened.delete_pods(1)
        await asyncio.sleep(3)
        assert await opened.sizes() == [1]
        await opened.delete_pods(1)
        await asyncio.sleep(3)
        assert await opened.names(BUFFERS) == await opened.names(TEMPLATES) == []

    in_world(check)


def test_a_buffer_without_demand_stays_for_a_missing_replacement_for_a_minute() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand(count=1))
        node = {"spec": {"unschedulable": True}}
        await opened.admin.patch(NODES, "node-0", node, patch_type=PatchType.MERGE)
        await opened.delete_pods(1)
        await asyncio.sleep(5)
        await opened.pass_()
        await asyncio.sleep(50)
        assert await opened.sizes() == [1]
        await asyncio.sleep(12)
        assert not await opened.names(BUFFERS)

    in_world(check)


def test_a_refused_buffer_is_withdrawn_and_requested_again_later() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        await opened.condition(
            BUFFERS,
            type="ReadyForProvisioning",
            status="False",
            message="no node group fits",
            reason="error",
        )
        await asyncio.sleep(61)
        refused = (await opened.pass_(demand())).by_workload[WEB]
        assert (refused.stage, refused.message) == (RequestStage.REFUSED, "no node group fits")
        assert not await opened.names(BUFFERS)
        assert not await opened.names(TEMPLATES)
        await asyncio.sleep(14 * 60)
        await opened.pass_(demand())
        assert not await opened.names(BUFFERS)
        await asyncio.sleep(60)
        await opened.pass_(demand())
        assert await opened.names(BUFFERS)

    in_world(check)


def test_a_buffer_without_effect_is_withdrawn_after_the_time_out() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        await asyncio.sleep(599)
        assert (await opened.pass_(demand())).by_workload[WEB].stage is RequestStage.REQUESTED
        await asyncio.sleep(1)
        assert (await opened.pass_(demand())).by_workload[WEB].stage is RequestStage.TIMED_OUT
        assert not await opened.names(BUFFERS)

    in_world(check)


# Restarts


def test_the_time_out_survives_a_restart() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        await asyncio.sleep(300)
        opened.provisioner = opened.new_process()
        before = opened.writes()
        request = (await opened.pass_(demand())).by_workload[WEB]
        assert request.until - opened.clock.now() == timedelta(minutes=5)
        assert opened.writes() == before

    in_world(check)


def test_objects_of_a_former_process_are_deleted_without_demand() -> None:
    async def check(opened: World) -> None:
        await opened.serve(BUFFERS, REQUESTS)
        await opened.pass_(demand())
        opened.provisioner = opened.new_process()
        await opened.pass_()
        assert await opened.names(BUFFERS) == await opened.names(TEMPLATES) == []

    in_world(check)


INCOMPLETE = [
    ("incomplete passes", [False, False], 0, True),
    ("incomplete passes for less than the time-out", [False], 599, True),
    ("incomplete passes for the time-out", [False], 600, False),
    ("a complete pass", [False, True], 0, False),
    ("an incomplete pass after a complete one", [True, False], 0, False),
]


@pytest.mark.parametrize(
    ("complete", "seconds", "kept"), [pytest.param(*case, id=name) for name, *case in INCOMPLETE]
)
def test_objects_without_demand_stay_until_all_demands_are_known(
    complete: list[bool], seconds: float, *, kept: bool
) -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        opened.provisioner = opened.new_process()
        for each in complete:
            await opened.pass_(complete=each)
            await asyncio.sleep(seconds)
        if seconds:
            await opened.pass_(complete=False)
        assert (await opened.sizes() == [2]) is kept

    in_world(check)


def test_a_new_process_deletes_objects_of_both_kinds_and_what_a_crash_left() -> None:
    async def check(opened: World) -> None:
        await opened.serve(REQUESTS)
        await opened.pass_(demand())
        await opened.serve(BUFFERS)
        opened.provisioner = opened.new_process()
        await opened.pass_(demand())
        labels = {"app.kubernetes.io/managed-by": "vpa-updater"}
        for endpoint, name in ((TEMPLATES, "vpa-orphan"), (BUFFERS, "vpa-unreadable")):
            body = {"metadata": {"name": name, "labels": labels}, "template": {}, "spec": {}}
            await opened.admin.create(endpoint, body, namespace="shop")
        opened.provisioner = opened.new_process()
        await opened.pass_()
        for kind in (BUFFERS, REQUESTS, TEMPLATES):
            assert await opened.names(kind) == []

    in_world(check)


def test_objects_of_others_stay() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        labels = {"app.kubernetes.io/managed-by": "helm"}
        body = {"metadata": {"name": "spare", "labels": labels}, "template": {}, "spec": {}}
        for endpoint in (TEMPLATES, BUFFERS):
            await opened.admin.create(endpoint, body, namespace="shop")
        await opened.pass_()
        assert await opened.names(BUFFERS) == await opened.names(TEMPLATES) == ["spare"]

    in_world(check)


HALF_WAY = [
    ("a policy, or a missing right", Refusal.FORBIDDEN, "no", RequestStage.UNAVAILABLE),
    ("a quota", Refusal.FORBIDDEN, "exceeded quota: objects", RequestStage.REFUSED),
    ("a rule of the definition", Refusal.INVALID, "no", RequestStage.REFUSED),
]


@pytest.mark.parametrize("fails", ["podtemplates", "capacitybuffers"])
@pytest.mark.parametrize(
    ("refusal", "message", "stage"), [pytest.param(*case, id=name) for name, *case in HALF_WAY]
)
def test_nothing_is_left_of_a_creation_that_fails_half_way(
    fails: str, refusal: Refusal, message: str, stage: RequestStage
) -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        opened.cluster.api.faults.add(
            ApiFault(
                calls=Calls(resource=fails, verb="create"),
                effect=Effect(refuse=refusal, message=message),
            )
        )
        refused = (await opened.pass_(demand())).by_workload[WEB]
        assert refused.stage is stage
        assert refused.until - opened.clock.now() == timedelta(minutes=15)
        assert await opened.names(BUFFERS) == await opened.names(TEMPLATES) == []
        before = opened.writes()
        again = (await opened.pass_(demand())).by_workload[WEB]
        assert (again, opened.writes()) == (refused, before)

    in_world(check)


def test_a_process_that_lost_its_lease_writes_nothing() -> None:
    def refuse() -> None:
        raise NotLeadingError("the Lease may have run out")

    async def check(opened: World) -> None:
        await opened.serve()
        opened.provisioner = opened.new_process(leads=refuse)
        assert not (await opened.pass_(demand())).by_workload
        assert not opened.writes()

    in_world(check)


def test_objects_in_ignored_namespaces_belong_to_another_updater() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        opened.provisioner = provisioner_of(
            opened.client, opened.caches, opened.clock, ignored=["shop"]
        )
        await opened.pass_()
        assert await opened.names(BUFFERS) == await opened.names(TEMPLATES) != []

    in_world(check)


# Fallbacks


@pytest.mark.parametrize("asks", [True, False])
def test_problems_are_logged_if_the_mode_may_request_capacity(
    caplog: pytest.LogCaptureFixture, *, asks: bool
) -> None:
    caplog.set_level("INFO")

    async def check(opened: World) -> None:
        provisioner = provisioner_of(opened.client, opened.caches, opened.clock, asks=asks)
        assert (await provisioner.reconcile(PassDemands(), now=opened.clock.now())).unavailable
        await opened.serve()
        await asyncio.sleep(600)
        found = await provisioner.reconcile(PassDemands(), now=opened.clock.now())
        assert not found.unavailable

    in_world(check)
    lines = [each.message for each in caplog.records if "be requested" in each.message]
    assert len(lines) == 2 * asks


def test_without_the_apis_requests_are_unavailable_until_they_are_served() -> None:
    async def check(opened: World) -> None:
        found = await opened.pass_(demand())
        assert found.unavailable == "neither CapacityBuffer nor ProvisioningRequest is served"
        await opened.serve()
        assert (await opened.pass_()).unavailable
        await asyncio.sleep(300)
        assert not (await opened.pass_(demand())).unavailable
        assert await opened.names(BUFFERS)

    in_world(check)


@pytest.mark.parametrize("refused", ["capacitybuffers", "podtemplates"])
def test_without_the_rights_requests_are_unavailable(
    refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def check(opened: World) -> None:
        await opened.serve()
        opened.refuse(refused, "list", Refusal.FORBIDDEN)
        for _ in range(3):
            assert (await opened.pass_(demand())).unavailable
            await asyncio.sleep(900)
        lines = [each for each in caplog.records if "can't be requested" in each.message]
        assert len(lines) == 1

    in_world(check)


def test_a_definition_that_goes_takes_its_objects_along() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        await opened.admin.delete(DEFINITIONS, "capacitybuffers.autoscaling.x-k8s.io")
        await asyncio.sleep(2)
        assert (await opened.pass_(demand())).unavailable
        await asyncio.sleep(60)
        await opened.pass_(demand())
        assert not await opened.names(TEMPLATES)

    in_world(check)


def test_for_workloads_without_a_known_template_none_are_available(
    caplog: pytest.LogCaptureFixture,
) -> None:
    robot = Controller("shop", "Robot", "marvin", "example.com/v1")

    async def check(opened: World) -> None:
        await opened.serve()
        found = await opened.pass_(demand(robot), demand())
        request = found.by_workload[robot]
        assert request.stage is RequestStage.UNAVAILABLE
        assert request.message == "the pod template of kind Robot isn't known"
        assert not found.unavailable
        assert await opened.sizes() == [2]
        await opened.pass_(demand(replace(robot, name="eva")))

    in_world(check)
    lines = [each for each in caplog.records if "for a workload" in each.message]
    assert len(lines) == 1


def test_what_is_unavailable_is_reported_without_demand_until_it_is_tried_again() -> None:
    """In mode off the pods are evicted, so the next pass may have no demand."""

    async def check(opened: World) -> None:
        await opened.serve()
        opened.refuse("podtemplates", "create", Refusal.FORBIDDEN)
        await opened.pass_(demand())
        await asyncio.sleep(15 * 60 - 1)
        assert (await opened.pass_()).are_unavailable_for(WEB)
        await asyncio.sleep(1)
        assert not (await opened.pass_()).are_unavailable_for(WEB)

    in_world(check)


def test_a_workload_that_is_gone_is_refused() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        gone = Controller("shop", "Deployment", "gone", "apps/v1")
        refused = (await opened.pass_(demand(gone))).by_workload[gone]
        assert refused.message == 'deployments.apps "gone" not found'
        assert not await opened.names(TEMPLATES)

    in_world(check)


def test_an_idle_provisioner_lists_every_ten_minutes() -> None:
    async def check(opened: World) -> None:
        await opened.serve()

        def lists() -> int:
            calls = opened.cluster.audit(userAgent=MANAGER)
            return sum((each.verb, each.resource) == ("list", "capacitybuffers") for each in calls)

        for _ in range(10):
            await opened.pass_()
            await asyncio.sleep(60)
        assert lists() == 1
        await opened.pass_()
        assert lists() == 2

    in_world(check)


# Failures of the API server


@pytest.mark.parametrize("refusal", [Refusal.INTERNAL, Refusal.UNAVAILABLE, Refusal.OVERLOADED])
def test_after_a_failure_the_last_requests_count(
    refusal: Refusal, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def check(opened: World) -> None:
        await opened.serve()
        requested = await opened.pass_(demand())
        opened.refuse("capacitybuffers", "list", refusal, end=62)
        await asyncio.sleep(1)
        assert await opened.pass_(demand()) == requested
        await asyncio.sleep(60)
        assert await opened.pass_(demand()) == requested
        assert await opened.sizes() == [2]

    in_world(check)
    lines = [each for each in caplog.records if each.message == "capacity requests not updated"]
    assert len(lines) == 1


TRANSIENT = [Refusal.CONFLICT, Refusal.OVERLOADED, Refusal.INTERNAL, Refusal.TIMEOUT]


@pytest.mark.parametrize("fails", ["podtemplates", "capacitybuffers"])
@pytest.mark.parametrize("refusal", TRANSIENT)
def test_a_creation_that_fails_is_repeated_in_the_next_pass(fails: str, refusal: Refusal) -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        opened.refuse(fails, "create", refusal, end=50)
        found = await opened.pass_(demand())
        assert not await opened.names(BUFFERS)
        assert found.postponed[WEB].startswith("the API server failed to create the request")
        await asyncio.sleep(60)
        request = (await opened.pass_(demand())).by_workload[WEB]
        assert request.stage is RequestStage.REQUESTED
        assert await opened.names(BUFFERS) == await opened.names(TEMPLATES) != []

    in_world(check)


def test_creations_that_fail_for_the_time_out_are_paused() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        opened.refuse("capacitybuffers", "create", Refusal.INTERNAL)
        for _ in range(10):
            await opened.pass_(demand())
            await asyncio.sleep(60)
        request = (await opened.pass_(demand())).by_workload[WEB]
        assert request.stage is RequestStage.TIMED_OUT

    in_world(check)


@pytest.mark.parametrize("verb", ["patch", "delete"])
def test_a_call_that_is_refused_between_passes_is_repeated_after_a_pause(
    verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        opened.refuse("capacitybuffers", verb, Refusal.FORBIDDEN)
        await opened.delete_pods(1 if verb == "patch" else 2)
        await asyncio.sleep(60)
        refused = [each for each in opened.writes() if each == (verb, "capacitybuffers")]
        assert 5 <= len(refused) <= 6

    in_world(check)
    done = {"patch": "resized", "delete": "deleted"}[verb]
    messages = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert messages.count(f"capacity request not {done}") == 1


@dataclass
class BrokenClock:
    """A clock that fails once."""

    clock: VirtualClock
    works: bool = False

    def now(self) -> datetime:
        if not self.works:
            self.works = True
            raise RuntimeError("a bug")
        return self.clock.now()


def test_an_unexpected_error_between_passes_does_not_end_the_checks() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        clock = BrokenClock(opened.clock)
        provisioner = provisioner_of(opened.client, opened.caches, clock)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(provisioner.run())
            wanted = PassDemands(demands=[demand()])
            await provisioner.reconcile(wanted, now=opened.clock.now())
            await opened.delete_pods(1)
            await asyncio.sleep(15)
            assert clock.works
            assert await opened.sizes() == [1]
            running.cancel()

    in_world(check)


def test_slow_calls_between_passes_delay_a_pass_by_ten_seconds_at_most() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand(count=1))
        slow = Calls(resource="capacitybuffers", verb="delete")
        opened.cluster.api.faults.add(ApiFault(calls=slow, effect=Effect(delay=29)))
        await opened.delete_pods(1)
        await asyncio.sleep(3)
        began = opened.clock.now()
        await opened.pass_(demand(count=1))
        assert opened.clock.now() - began <= timedelta(seconds=10)

    in_world(check)


@pytest.mark.parametrize(
    ("seconds", "unavailable"),
    [pytest.param(290, False, id="within 5 minutes"), pytest.param(310, True, id="after them")],
)
def test_failures_that_last_make_requests_unavailable(seconds: float, *, unavailable: bool) -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_(demand())
        opened.refuse("podtemplates", "list", Refusal.INTERNAL, end=seconds + 60)
        await opened.pass_(demand())
        await asyncio.sleep(seconds)
        assert bool((await opened.pass_(demand())).unavailable) is unavailable
        await asyncio.sleep(60)
        assert not (await opened.pass_(demand())).unavailable

    in_world(check)


async def test_after_an_unexpected_error_the_last_requests_count() -> None:
    """The Deployment that the API server returns has no template."""
    group = "GET /apis/autoscaling.x-k8s.io"
    buffers = f"{group}/v1beta1/capacitybuffers"
    replies = {
        group: Reply(body={"versions": [{"version": "v1beta1"}]}),
        f"{group}/v1beta1": Reply(body={"resources": [{"name": "capacitybuffers"}]}),
        buffers: Reply(body={"metadata": {}, "items": []}),
        "GET /api/v1/podtemplates": Reply(body={"metadata": {}, "items": []}),
        "GET /apis/apps/v1/namespaces/shop/deployments/web": Reply(body={}),
    }
    async with FakeApi() as api, api.client() as client:
        for route, reply in replies.items():
            api.on(route, reply)
        clock = SystemClock()
        caches = Caches.following(client)
        provisioner = provisioner_of(client, caches, clock)
        requests = await provisioner.reconcile(PassDemands(demands=[demand()]), now=clock.now())
        failure = "nothing is requested: an unexpected error, which the log has"
        assert requests == CapacityRequests(postponed={WEB: failure})
        later = clock.now() + timedelta(minutes=5, seconds=1)
        requests = await provisioner.reconcile(PassDemands(demands=[demand()]), now=later)
        assert requests.unavailable == "an unexpected error, which the log has"


def test_a_creation_without_an_answer_is_found_in_the_next_pass() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        await opened.pass_()
        lost = ApiFault(
            calls=Calls(resource="capacitybuffers", verb="create"),
            effect=Effect(drop=True, done=True),
        )
        end = opened.cluster.api.faults.add(lost)
        assert not (await opened.pass_(demand())).by_workload
        end()
        await opened.pass_()
        assert await opened.names(BUFFERS) == await opened.names(TEMPLATES) == []

    in_world(check)


def test_a_slow_api_server_delays_a_pass_by_half_a_minute_at_most() -> None:
    async def check(opened: World) -> None:
        await opened.serve()
        slow = ApiFault(calls=Calls(verb="create"), effect=Effect(delay=20))
        end = opened.cluster.api.faults.add(slow)
        began = opened.clock.now()
        assert not (await opened.pass_(demand())).unavailable
        assert opened.clock.now() - began == timedelta(seconds=30)
        end()
        await asyncio.sleep(30)
        assert not (await opened.pass_()).unavailable
        assert await opened.names(BUFFERS) == await opened.names(TEMPLATES) == []

    in_world(check)
