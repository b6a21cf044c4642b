"""What docs/operations.md promises about the manifests."""

from e2e.installation import DEPLOY, OVERLAY
from e2e.world import World


async def test_applying_the_manifests_again_changes_nothing(world: World) -> None:
    lines = await world.installation.apply()
    assert [line for line in lines if not line.endswith(" unchanged")] == []


async def test_kubectl_finds_no_difference_between_manifests_and_cluster(world: World) -> None:
    code, printed = await world.kubectl.try_("diff", "-k", str(OVERLAY))
    assert (code, printed) == (0, "")


async def test_the_api_server_would_take_the_manifests_as_they_are_shipped(world: World) -> None:
    printed = await world.kubectl("apply", "-k", str(DEPLOY), "--dry-run=server")
    assert all(line.endswith("(server dry run)") for line in printed.splitlines())
