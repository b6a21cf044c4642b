"""The manifests: they are idempotent, and the API server accepts them."""

from e2e.cluster import BUDGETS, Cluster
from e2e.installation import DEPLOY, OVERLAY, SYSTEM


async def test_applying_the_manifests_again_changes_nothing(cluster: Cluster) -> None:
    before = await _budget_versions(cluster)
    assert await cluster.installation.apply_again() == []
    assert await _budget_versions(cluster) == before


async def _budget_versions(cluster: Cluster) -> dict[str, int]:
    """Return how often the spec of each of our budgets has changed."""
    found = await cluster.client.list(BUDGETS, namespace=SYSTEM)
    return {one["metadata"]["name"]: one["metadata"]["generation"] for one in found.items}


async def test_kubectl_finds_no_difference_between_manifests_and_cluster(cluster: Cluster) -> None:
    code, printed = await cluster.kubectl.run("diff", "-k", str(OVERLAY))
    assert (code, printed) == (0, "")


async def test_the_api_server_would_take_the_manifests_as_they_are_shipped(
    cluster: Cluster,
) -> None:
    printed = await cluster.kubectl("apply", "-k", str(DEPLOY), "--dry-run=server")
    assert all(line.endswith("(server dry run)") for line in printed.splitlines())
