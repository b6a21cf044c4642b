"""How a pass decides on pods in unusual states, and on pods without a controller.

Each case changes one of three pods that are all to be evicted, and has the expected decision.
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
NOT_EVALUATED = ""

Change = Callable[[UpdaterSandbox, str], Awaitable[None]]


async def patch(
    sandbox: UpdaterSandbox, endpoint: Endpoint[Any], name: str, what: Any, *, subresource: str = ""
) -> None:
    await sandbox.admin.patch(
        endpoint.as_dicts(),
        name,
        what,
        patch_type=PatchType.MERGE,
        namespace="shop",
        subresource=subresource,
    )


async def keep(sandbox: UpdaterSandbox, name: str) -> None:
    pass


async def mark_as_deleted(sandbox: UpdaterSandbox, name: str) -> None:
    await patch(sandbox, PODS, name, STAYS)
    await sandbox.admin.delete(PODS, name, namespace="shop", grace_period_seconds=0)


def set_phase(phase: str) -> Change:
    async def change(sandbox: UpdaterSandbox, name: str) -> None:
        for node in sandbox.cluster.kubelets.nodes:  # controllers would repair it
            sandbox.cluster.kubelets.freeze(node)
        await patch(sandbox, PODS, name, {"status": {"phase": phase}}, subresource="status")

    return change


def set_owner(*owners: dict[str, Any]) -> Change:
    async def change(sandbox: UpdaterSandbox, name: str) -> None:
        await patch(sandbox, PODS, name, {"metadata": {"ownerReferences": list(owners)}})

    return change


async def delete_controller(sandbox: UpdaterSandbox, name: str) -> None:
    replica_set = name.rpartition("-")[0]
    await patch(sandbox, REPLICA_SETS, replica_set, STAYS)
    await sandbox.admin.delete(REPLICA_SETS, replica_set, namespace="shop")


async def pause_deployment(sandbox: UpdaterSandbox, name: str) -> None:
    await patch(sandbox, DEPLOYMENTS, "web", {"spec": {"paused": True}})


async def scale_replica_set_to_zero(sandbox: UpdaterSandbox, name: str) -> None:
    """Scale only the ReplicaSet to zero, while its pods still exist."""
    await patch(sandbox, PODS, name, STAYS)
    await patch(sandbox, DEPLOYMENTS, "web", {"spec": {"replicas": 0}})


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    change: Change
    want: str


CASES = [
    Case(id="a running pod", change=keep, want=IN_TURN),
    Case(id="a pod that is being deleted", change=mark_as_deleted, want=NOT_EVALUATED),
    Case(id="a failed pod", change=set_phase("Failed"), want=NOT_EVALUATED),
    Case(id="a succeeded pod", change=set_phase("Succeeded"), want=NOT_EVALUATED),
    Case(id="a pod on a lost node counts as running", change=set_phase("Unknown"), want=IN_TURN),
    Case(id="a Pending pod uses no budget", change=set_phase("Pending"), want=IN_TURN),
    Case(id="a mirror pod", change=set_owner(NODE), want=NOT_EVALUATED),
    Case(id="a pod without an owner", change=set_owner(), want=NOT_EVALUATED),
    Case(
        id="its controller is being deleted",
        change=delete_controller,
        want="wait controller_unknown",
    ),
    Case(id="its Deployment is paused", change=pause_deployment, want=IN_TURN),
    Case(id="its ReplicaSet wants no pods", change=scale_replica_set_to_zero, want=NOT_EVALUATED),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_decision_on_a_pod(case: Case) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("Recreate", minReplicas=1)
        await sandbox.recommend("100m")
        pods = {
            pod.metadata.name: pod
            for pod in (await sandbox.admin.list(PODS, namespace="shop")).items
        }
        name = min(pods)
        await case.change(sandbox, name)
        await asyncio.sleep(1)
        plan = await sandbox.updater().plan()
        assert isinstance(plan, PassPreview), plan
        decision = plan.decisions.get(pods[name].metadata.uid)
        assert ("" if decision is None else f"{decision.action} {decision.reason}") == case.want

    in_updater_sandbox(test)
