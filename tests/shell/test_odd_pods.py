"""How a pass decides on pods in unusual states, and on pods without a controller.

Each case does something to one of three pods that are all to be evicted, and says how it ends.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, PODS, REPLICA_SETS, Endpoint
from updater.preview import PassPreview
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

STAYS = {"metadata": {"finalizers": ["example.com/stays"]}}
NODE = {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "1", "controller": True}
IN_TURN = "evict outside_range"
NOT_LOOKED_AT = ""

Deed = Callable[[UpdaterSandbox, str], Awaitable[None]]


async def patch(
    shop: UpdaterSandbox, endpoint: Endpoint[Any], name: str, what: Any, *, subresource: str = ""
) -> None:
    await shop.admin.patch(
        endpoint.as_dicts(),
        name,
        what,
        patch_type=PatchType.MERGE,
        namespace="shop",
        subresource=subresource,
    )


async def nothing(shop: UpdaterSandbox, name: str) -> None:
    pass


async def is_deleted_and_stays(shop: UpdaterSandbox, name: str) -> None:
    await patch(shop, PODS, name, STAYS)
    await shop.admin.delete(PODS, name, namespace="shop", grace_period_seconds=0)


def is_in_phase(phase: str) -> Deed:
    async def deed(shop: UpdaterSandbox, name: str) -> None:
        for node in shop.cluster.kubelets.nodes:  # or they would put it right
            shop.cluster.kubelets.freeze(node)
        await patch(shop, PODS, name, {"status": {"phase": phase}}, subresource="status")

    return deed


def is_owned_by(*owners: dict[str, Any]) -> Deed:
    async def deed(shop: UpdaterSandbox, name: str) -> None:
        await patch(shop, PODS, name, {"metadata": {"ownerReferences": list(owners)}})

    return deed


async def its_controller_is_being_deleted(shop: UpdaterSandbox, name: str) -> None:
    replica_set = name.rpartition("-")[0]
    await patch(shop, REPLICA_SETS, replica_set, STAYS)
    await shop.admin.delete(REPLICA_SETS, replica_set, namespace="shop")


async def its_deployment_is_paused(shop: UpdaterSandbox, name: str) -> None:
    await patch(shop, DEPLOYMENTS, "web", {"spec": {"paused": True}})


async def its_deployment_is_for_none(shop: UpdaterSandbox, name: str) -> None:
    """The ReplicaSet alone is asked for none, and its pods have yet to go."""
    await patch(shop, PODS, name, STAYS)
    await patch(shop, DEPLOYMENTS, "web", {"spec": {"replicas": 0}})


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    deed: Deed
    want: str


CASES = [
    Case(id="an ordinary one", deed=nothing, want=IN_TURN),
    Case(id="it was asked to go", deed=is_deleted_and_stays, want=NOT_LOOKED_AT),
    Case(id="it has failed", deed=is_in_phase("Failed"), want=NOT_LOOKED_AT),
    Case(id="it has succeeded", deed=is_in_phase("Succeeded"), want=NOT_LOOKED_AT),
    Case(id="its node is lost: it counts as running", deed=is_in_phase("Unknown"), want=IN_TURN),
    Case(id="it is Pending: it costs no budget", deed=is_in_phase("Pending"), want=IN_TURN),
    Case(id="it is a kubelet's mirror", deed=is_owned_by(NODE), want=NOT_LOOKED_AT),
    Case(id="it is nobody's", deed=is_owned_by(), want=NOT_LOOKED_AT),
    Case(
        id="its controller is being deleted",
        deed=its_controller_is_being_deleted,
        want="wait controller_unknown",
    ),
    Case(id="its Deployment is paused", deed=its_deployment_is_paused, want=IN_TURN),
    Case(id="its Deployment is for none", deed=its_deployment_is_for_none, want=NOT_LOOKED_AT),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_how_a_pod_ends(case: Case) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("Recreate", minReplicas=1)
        await shop.recommend("100m")
        pods = {
            pod.metadata.name: pod for pod in (await shop.admin.list(PODS, namespace="shop")).items
        }
        name = min(pods)
        await case.deed(shop, name)
        await asyncio.sleep(1)
        plan = await shop.updater().plan()
        assert isinstance(plan, PassPreview), plan
        decision = plan.decisions.get(pods[name].metadata.uid)
        assert ("" if decision is None else f"{decision.action} {decision.reason}") == case.want

    in_updater_sandbox(test)
