"""Leases: the webhook's sign of life, and who leads."""

import pytest

from e2e.installation import ADMISSION, RECOMMENDER, SYSTEM, UPDATER
from e2e.pods import LARGE
from e2e.world import Case, World

_ELECTION = (
    "--leader-elect",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)
_NAMED = "--leader-elect-resource-name={}"


async def test_the_webhook_renews_its_status_lease(world: World) -> None:
    before = await world.lease(ADMISSION)

    async def renewed() -> bool:
        return bool((await world.lease(ADMISSION))["renewTime"] > before["renewTime"])

    await world.until(renewed, "the Lease is renewed", seconds=20)


@pytest.mark.parametrize(
    ("component", "lease", "flags"),
    [
        pytest.param(RECOMMENDER, "vpa-recommender-lease", (), id="recommender"),
        pytest.param(UPDATER, "vpa-updater", (), id="updater"),
        # An installation by the Helm chart has these names, and the roles hold them, too.
        pytest.param(RECOMMENDER, "vpa-recommender", (_NAMED,), id="recommender of the chart"),
        pytest.param(UPDATER, "vpa-updater-lease", (_NAMED,), id="updater of the chart"),
    ],
)
async def test_a_standby_takes_over_when_the_leaders_pod_is_deleted(
    case: Case, component: str, lease: str, flags: tuple[str, ...]
) -> None:
    world = case.world

    async def holder() -> str:
        return str((await world.lease(lease)).get("holderIdentity") or "")

    async def leader() -> str:
        """The pod whose log names the Lease's holder as its own identity."""
        identity = await holder()
        for pod in await world.component_pods(component):
            name: str = pod["metadata"]["name"]
            log = await world.kubectl("logs", name, namespace=SYSTEM)
            if identity and any(
                "became the leader" in line and identity in line for line in log.splitlines()
            ):
                return name
        return ""

    arguments = (*_ELECTION, *(flag.format(lease) for flag in flags))
    async with world.installation.changed(component, *arguments, replicas=2):
        name = await world.until(leader, "one of two leads")
        first = await holder()
        await world.kubectl("delete", "pod", name, "--wait=false", namespace=SYSTEM)

        async def other() -> str:
            identity = await holder()
            return identity if identity != first else ""

        await world.until(other, "another one leads")
        await case.deploy("web", requests=LARGE)
        await case.running("web")
        await case.autoscale("web", "Recreate")
        await case.fits("web")
