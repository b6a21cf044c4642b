"""What the components live through: nobody restarts, and work goes on."""

from collections.abc import Awaitable, Callable

import pytest

from controlplane.cluster import ControlPlane
from e2e.installation import COMPONENTS, UPDATER
from e2e.pods import LARGE
from e2e.world import Case

# Kubernetes' own controllers, which met some dead API servers in a row, wait up to a minute before
# they look for pods again, and meanwhile no evicted pod has a successor.
_PATIENCE = 80  # seconds


async def _dies(cluster: ControlPlane) -> None:
    await cluster.restart_api_server()


async def _is_away(cluster: ControlPlane) -> None:
    await cluster.stop_api_server()
    await cluster.start_api_server()


async def _forgets(cluster: ControlPlane) -> None:
    await cluster.forget_history()


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(_dies, id="the API server dies in mid-cycle"),
        pytest.param(_is_away, id="the API server is away"),
        pytest.param(_forgets, id="the watch history is gone"),
    ],
)
async def test_work_goes_on_and_nobody_restarts_when(
    case: Case, trouble: Callable[[ControlPlane], Awaitable[None]]
) -> None:
    world = case.world
    await case.deploy("web", replicas=4, requests=LARGE)
    await case.running("web", replicas=4)
    runs = await world.runs()
    await case.autoscale("web", "Recreate")

    async def evicting() -> list[str]:
        return case.evictions()

    await world.until(evicting, "the first eviction")
    await trouble(world.cluster)
    await case.fits("web", replicas=4, seconds=_PATIENCE)
    await case.deploy("late", requests=LARGE)
    await case.running("late")
    await case.autoscale("late", "Recreate")
    await case.fits("late", seconds=_PATIENCE)
    assert await world.runs() == runs


async def test_caches_list_again_when_the_watch_history_is_gone(case: Case) -> None:
    world = case.world
    listed = {name: len(world.done(name, verb="list")) for name in COMPONENTS}
    await world.cluster.forget_history()
    await case.deploy("web", requests=LARGE)  # watches end, or go on, with what comes next
    await case.running("web")
    await case.autoscale("web", "Recreate")
    await case.fits("web", seconds=_PATIENCE)

    async def listed_again() -> bool:
        return all(len(world.done(name, verb="list")) > listed[name] for name in COMPONENTS)

    await world.until(listed_again, "every component lists again")
    await world.passes(UPDATER)
