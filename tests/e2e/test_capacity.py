"""Room for replacements: requested from an autoscaler before the eviction, or awaited after it."""

from capacity_definitions import BUFFERS
from common.kube.endpoints import POD_TEMPLATES
from e2e.cluster import Case
from e2e.installation import UPDATER
from e2e.recreation import Site, site
from updater.capacity.request_objects import MANAGED_BY

_DELAY = 4.0  # seconds until a node is Ready
_BRIEF = 2.0  # seconds that a recreated pod may be Pending where its node exists
_MANAGED = f"{MANAGED_BY}={UPDATER}"


async def requested(case: Case) -> list[str]:
    """Return the names of the buffers and PodTemplates of the updater."""
    return [
        each["metadata"]["name"]
        for endpoint in (BUFFERS, POD_TEMPLATES.as_dicts())
        for each in (
            await case.cluster.client.list(
                endpoint, namespace=case.namespace, label_selector=_MANAGED
            )
        ).items
    ]


async def wait_until_nothing_is_requested(case: Case) -> None:
    async def nothing() -> bool:
        return not await requested(case)

    await case.cluster.wait_for(nothing, "no buffer and no PodTemplate is left")


async def events(here: Site, reason: str) -> list[str]:
    return [each["message"] for each in await here.case.events(reason)]


async def test_with_requests_recreated_pods_are_pending_for_at_most_two_seconds(
    case: Case,
) -> None:
    async with site(case, "--capacity-check=provision", replicas=4, delay=_DELAY) as here:
        await here.recommend()
        await here.wait_until_recreated()
        waits = await here.pending_seconds()
        assert waits[-1] <= _BRIEF, f"Pending for {waits}"
        await wait_until_nothing_is_requested(case)
        assert here.autoscaler.added <= 4, "a node for each replacement: no buffer is refilled"


async def test_without_requests_they_wait_for_their_nodes(case: Case) -> None:
    async with site(case, "--capacity-check=off", replicas=4, delay=_DELAY) as here:
        await here.recommend()
        await here.wait_until_recreated()
        waits = await here.pending_seconds()
        assert waits[1] > _BRIEF, f"Pending for {waits}"
        assert waits[-1] >= _DELAY
        assert not await requested(case)


async def test_requests_without_effect_are_withdrawn_and_no_pod_is_evicted(case: Case) -> None:
    arguments = ("--capacity-check=provision", "--capacity-timeout=5s")
    async with site(case, *arguments, replicas=4, delay=600) as here:
        before = await case.uids("web")
        await here.recommend()

        async def is_requested() -> list[str]:
            return await requested(case)

        await case.cluster.wait_for(is_requested, "room is requested")
        await wait_until_nothing_is_requested(case)

        async def reported() -> list[str]:
            return [each for each in await events(here, "EvictionSkipped") if "refused" in each]

        await case.cluster.wait_for(reported, "an Event about the request")
        assert await case.uids("web") == before
        assert not case.evictions()


async def test_the_next_updater_deletes_the_requests_of_the_one_before(case: Case) -> None:
    cluster = case.cluster
    async with site(case, "--capacity-check=provision", replicas=4, delay=600) as here:
        await here.recommend()

        async def is_requested() -> list[str]:
            return await requested(case)

        await cluster.wait_for(is_requested, "room is requested")
        async with cluster.installation.scaled_to_zero(UPDATER):
            assert await requested(case)
            await here.recommend(cpu="450m")
        await wait_until_nothing_is_requested(case)
