"""Replace programs, and compare what is before and after."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from common.kube.endpoints import PODS
from e2e import created_pods
from e2e.created_pods import Creations
from reference import history, workloads
from reference.cluster import Cluster
from reference.programs import OUR_REGISTRY, THEIR_REGISTRY

# What the reference's roles lack for our programs: in "Older roles" of docs/upgrade.md.
OLDER_ROLES = {
    ("vpa-recommender", "list", "resourcequotas"),
    ("vpa-recommender", "list", "nodepools"),
    ("vpa-recommender", "get", "configmaps"),
    ("vpa-updater", "list", "resourcequotas"),
    ("vpa-updater", "get", "configmaps"),
    ("vpa-updater", "list", "podtemplates"),
}

_PATCHED_IN_A_ROW = 10
_RECOMMENDERS = {OUR_REGISTRY: "vpa-recommender", THEIR_REGISTRY: "recommender"}  # user agents
_REGISTRATION = ("admission-controller", "mutatingwebhookconfigurations")


@asynccontextmanager
async def creating_pods(cluster: Cluster) -> AsyncIterator[Creations]:
    """Create pods while the context is entered. None may be refused."""
    client, namespace = cluster.client, workloads.NAMESPACE
    pod = await workloads.new_pod(client)
    async with created_pods.creating_pods(client, pod, namespace=namespace) as creations:
        yield creations
    assert creations.refused == []


async def wait_until_patched(cluster: Cluster, creations: Creations) -> None:
    """Wait until one pod after the other gets its recommendation."""
    creations.patched_in_a_row = 0

    async def patched() -> bool:
        return creations.patched_in_a_row >= _PATCHED_IN_A_ROW

    await cluster.wait_for(patched, "new pods are patched")


@asynccontextmanager
async def swap_to(
    registry: str,
    cluster: Cluster,
    *,
    denied: Collection[tuple[str, str, str]] = (),
    registers: bool = True,
) -> AsyncIterator[None]:
    """Replace all programs in the block; then compare what is stored, and what was called.

    There is no new usage meanwhile, so every recommendation must stay the same. Calls other than
    ``denied`` must be allowed; the updater makes some of those only in its passes. ``registers``:
    the reference's admission writes the webhook configuration itself.
    """
    calls = cluster.calls()

    async def registered() -> bool:
        return bool(calls.of_components(verb="create", resource=_REGISTRATION[1]))

    async with cluster.without_usage():
        # Our recommender doesn't write differences of less than one percent at once.
        before, _ = await cluster.recompute()
        async with creating_pods(cluster) as creations:
            yield
            await cluster.wait_until_only(registry)
            replaced = registers and registry == THEIR_REGISTRY
            if replaced:
                # It waits for ten seconds, deletes the configuration and creates it again.
                await cluster.wait_for(registered, "the reference has registered its webhook")
            await wait_until_patched(cluster, creations)
        after, writers = await cluster.recompute()
    assert writers == {_RECOMMENDERS[registry]}
    assert history.differences(before, after) == []
    assert history.lost(before, after) == []
    assert calls.denied() - set(denied) == set()
    for verb, subresource in (("create", "eviction"), ("patch", "resize")):
        assert calls.of_components(verb=verb, resource=PODS.resource, subresource=subresource) == []
    assert set(calls.deleted()) == ({_REGISTRATION} if replaced else set())
    continued = await cluster.wait_for_more_history()
    assert history.lost(before, continued) == []
