"""The Leases of the webhook's status and of leader election."""

import pytest

from common.kube.endpoints import LEASES
from e2e.cluster import Case, Cluster
from e2e.installation import ADMISSION, RECOMMENDER, SYSTEM, UPDATER
from e2e.pods import LARGE

_ELECTION = (
    "--leader-elect",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)
_NAMED = "--leader-elect-resource-name={}"


async def test_the_webhook_renews_its_status_lease(cluster: Cluster) -> None:
    before = await cluster.lease_spec(ADMISSION)

    async def renewed() -> bool:
        return bool((await cluster.lease_spec(ADMISSION))["renewTime"] > before["renewTime"])

    await cluster.wait_for(renewed, "the Lease is renewed", seconds=20)


async def test_a_deleted_status_lease_is_created_again(cluster: Cluster) -> None:
    """The manifests contain an empty one, but don't restore it."""
    await cluster.client.delete(LEASES, ADMISSION, namespace=SYSTEM)

    async def held() -> bool:
        return bool((await cluster.lease_spec(ADMISSION))["holderIdentity"])

    await cluster.wait_for(held, "the Lease is there again", seconds=20)
    await cluster.installation.apply()  # kubectl adds its annotation again


@pytest.mark.parametrize(
    ("component", "lease", "flags"),
    [
        pytest.param(RECOMMENDER, "vpa-recommender-lease", (), id="recommender"),
        pytest.param(UPDATER, "vpa-updater", (), id="updater"),
        # The Helm chart uses these names, and the roles allow them, too.
        pytest.param(RECOMMENDER, "vpa-recommender", (_NAMED,), id="recommender of the chart"),
        pytest.param(UPDATER, "vpa-updater-lease", (_NAMED,), id="updater of the chart"),
    ],
)
async def test_a_standby_takes_over_when_the_leaders_pod_is_deleted(
    case: Case, component: str, lease: str, flags: tuple[str, ...]
) -> None:
    cluster = case.cluster

    async def holder() -> str:
        return str((await cluster.lease_spec(lease)).get("holderIdentity") or "")

    async def leader() -> str:
        """Return the pod whose log contains the Lease's holder as its own identity."""
        identity = await holder()
        for pod in await cluster.component_pods(component):
            name: str = pod["metadata"]["name"]
            log = await cluster.kubectl("logs", name, namespace=SYSTEM)
            if identity and any(
                "became the leader" in line and identity in line for line in log.splitlines()
            ):
                return name
        return ""

    arguments = (*_ELECTION, *(flag.format(lease) for flag in flags))
    async with cluster.installation.with_arguments(component, *arguments, replicas=2):
        name = await cluster.wait_for(leader, "one of two leads")
        first = await holder()
        await cluster.kubectl("delete", "pod", name, "--wait=false", namespace=SYSTEM)

        async def other() -> str:
            identity = await holder()
            return identity if identity != first else ""

        await cluster.wait_for(other, "another one leads")
        await case.deploy("web", requests=LARGE)
        await case.wait_until_measured("web")
        await case.create_vpa("web", "Recreate")
        await case.wait_until_applied("web")
