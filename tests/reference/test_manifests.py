"""From the reference's manifests to ours and back, with the commands of docs/migration.md."""

import json
from dataclasses import dataclass
from typing import Any

import pytest_asyncio

from common.kube.endpoints import RESOURCE_QUOTAS
from e2e.pods import Object
from page_commands import find_block
from reference import swaps
from reference.cluster import Cluster
from reference.installation import NAMESPACE, ROLLOUTS
from reference.page import PAGE
from reference.programs import OUR_REGISTRY, THEIR_REGISTRY

_OUR_MANIFESTS = "kubectl apply -k deploy/\nkubectl -n kube-system rollout status"
_NAMESPACED = "deployments,services,serviceaccounts,secrets,pdb,roles,rolebindings,leases"
_WINDOWS, _TARGET = "vpa-recommender/memory-windows", "vpa-recommender/target"


@dataclass(frozen=True)
class Installed:
    """What an installation consists of."""

    names: set[str]
    deployments: dict[str, Object]  # spec by name
    secret: Object
    webhook: Object


async def _installed(cluster: Cluster) -> Installed:
    shell = cluster.operator.shell

    async def read(target: str) -> Any:
        return json.loads(await shell(f"kubectl -n {NAMESPACE} get {target} -o json"))

    deployments = (await read("deployments"))["items"]
    return Installed(
        names=set(
            (await shell(f"kubectl -n {NAMESPACE} get {_NAMESPACED} -o name")).split()
            + (await shell("kubectl -n default get roles,rolebindings -o name")).split()
            + (await shell("kubectl get clusterroles,clusterrolebindings -o name")).split()
        ),
        deployments={one["metadata"]["name"]: one["spec"] for one in deployments},
        secret=(await read("secret vpa-tls-certs"))["data"],
        webhook=await cluster.webhook(),
    )


async def _wait_until_as_before(cluster: Cluster, installed: Installed) -> None:
    """Wait until the installation is the reference's own again, and its webhook works."""

    async def registered() -> bool:
        return await cluster.webhook() == installed.webhook

    await cluster.wait_for(registered, "the webhook of the reference")
    assert await _installed(cluster) == installed


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def installed(cluster: Cluster) -> Installed:
    """Return the reference's installation before the first swap."""
    return await _installed(cluster)


async def test_the_page_recognizes_the_installation(cluster: Cluster) -> None:
    command, *shown = find_block(PAGE, "$ kubectl get deployments -A").splitlines()
    printed = await cluster.operator.shell(command.removeprefix("$ "))
    assert [line.split()[:5] for line in printed.splitlines()] == [
        line.split()[:5] for line in shown
    ]


async def test_images_under_the_references_manifests(
    cluster: Cluster, installed: Installed
) -> None:
    follow = cluster.operator.follow
    await follow("kubectl get vpa,vpacheckpoint -A -o json > vpas.json")
    async with swaps.swap_to(OUR_REGISTRY, cluster, denied=swaps.OLDER_ROLES):
        await follow("kubectl -n kube-system set image")
        await cluster.operator.shell(ROLLOUTS)
    assert await follow("kubectl get vpa -A -o json > after.json") == ""

    calls = cluster.calls()
    await follow("kubectl apply -k deploy/rbac")

    async def allowed() -> bool:
        listed = calls.of_components(verb="list", resource=RESOURCE_QUOTAS.resource)
        return any(entry.code == 200 for entry in listed)

    await cluster.wait_for(allowed, "the updater lists quotas")

    async with swaps.swap_to(THEIR_REGISTRY, cluster):
        await follow("kubectl apply -f vpa-rbac.yaml")
        await cluster.operator.shell(ROLLOUTS)
    await follow("kubectl -n kube-system delete --ignore-not-found pdb")
    await _wait_until_as_before(cluster, installed)


async def test_our_manifests_and_the_overlay_for_the_way_back(
    cluster: Cluster, installed: Installed
) -> None:
    follow = cluster.operator.follow
    async with swaps.swap_to(OUR_REGISTRY, cluster):
        await follow(_OUR_MANIFESTS)
    assert (await _installed(cluster)).secret == installed.secret

    async def windows() -> bool:
        found = (await cluster.history()).annotations.values()
        return all(_WINDOWS in one for one in found)

    await cluster.wait_for(windows, "checkpoints with memory windows")
    before = await cluster.history()
    assert all("LowConfidence" in found for found in before.conditions.values())

    assert await follow("kubectl get vpa -A -o json | jq -r '.items[] |") == ""
    async with swaps.swap_to(THEIR_REGISTRY, cluster):
        await follow("kubectl apply -k deploy/overlays/reference-images")
        await cluster.operator.shell(ROLLOUTS)
    after = await cluster.history()
    assert after.conditions == before.conditions
    assert all(_TARGET in one for one in after.annotations.values())
    assert "notAfter=" in await follow("kubectl -n kube-system get secret vpa-tls-certs")


async def test_our_manifests_and_the_references_for_the_way_back(
    cluster: Cluster, installed: Installed
) -> None:
    follow = cluster.operator.follow
    async with swaps.swap_to(OUR_REGISTRY, cluster):
        await follow(_OUR_MANIFESTS)

    async with swaps.swap_to(THEIR_REGISTRY, cluster):
        await follow("kubectl apply -f vpa-rbac.yaml")
        await cluster.operator.shell(ROLLOUTS)
    await follow("kubectl -n kube-system delete --ignore-not-found pdb")
    await _wait_until_as_before(cluster, installed)
