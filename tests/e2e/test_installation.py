"""The manifests: they are idempotent, and the API server accepts them."""

from e2e.cluster import Cluster
from e2e.installation import DEPLOY, OVERLAY


async def test_applying_the_manifests_again_changes_nothing(cluster: Cluster) -> None:
    lines = await cluster.installation.apply()
    assert [line for line in lines if not line.endswith(" unchanged")] == []


async def test_kubectl_finds_no_difference_between_manifests_and_cluster(cluster: Cluster) -> None:
    code, printed = await cluster.kubectl.run("diff", "-k", str(OVERLAY))
    assert (code, printed) == (0, "")


async def test_the_api_server_would_take_the_manifests_as_they_are_shipped(
    cluster: Cluster,
) -> None:
    printed = await cluster.kubectl("apply", "-k", str(DEPLOY), "--dry-run=server")
    assert all(line.endswith("(server dry run)") for line in printed.splitlines())
