"""Outages of the API server: the components continue without a restart."""

from collections.abc import Awaitable, Callable

import pytest

from controlplane.cluster import ControlPlane
from e2e.cluster import Case
from e2e.installation import COMPONENTS, UPDATER
from e2e.pods import LARGE

# After failed requests, Kubernetes' own controllers back off for up to a minute, and evicted
# pods have no replacement meanwhile.
_TIMEOUT = 80  # seconds


async def _restart_api_server(control_plane: ControlPlane) -> None:
    await control_plane.restart_api_server()


async def _stop_and_start_api_server(control_plane: ControlPlane) -> None:
    await control_plane.stop_api_server()
    await control_plane.start_api_server()


async def _forget_history(control_plane: ControlPlane) -> None:
    await control_plane.forget_history()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(_restart_api_server, id="a restart of the API server during a cycle"),
        pytest.param(_stop_and_start_api_server, id="an outage of the API server"),
        pytest.param(_forget_history, id="the loss of the watch history"),
    ],
)
async def test_no_component_restarts_and_evictions_continue_after(
    case: Case, fault: Callable[[ControlPlane], Awaitable[None]]
) -> None:
    cluster = case.cluster
    await case.deploy("web", replicas=4, requests=LARGE)
    await case.wait_until_measured("web", replicas=4)
    restart_counts = await cluster.restart_counts()
    await case.create_vpa("web", "Recreate")

    async def evicting() -> list[str]:
        return case.evictions()

    await cluster.wait_for(evicting, "the first eviction")
    await fault(cluster.control_plane)
    await case.wait_until_applied("web", replicas=4, seconds=_TIMEOUT)
    await case.deploy("late", requests=LARGE)
    await case.wait_until_measured("late")
    await case.create_vpa("late", "Recreate")
    await case.wait_until_applied("late", seconds=_TIMEOUT)
    assert await cluster.restart_counts() == restart_counts


async def test_informers_list_again_when_the_watch_history_is_gone(case: Case) -> None:
    cluster = case.cluster
    listed = {name: len(cluster.audited_calls(name, verb="list")) for name in COMPONENTS}
    await cluster.control_plane.forget_history()
    await case.deploy("web", requests=LARGE)  # the next change ends watches or continues them
    await case.wait_until_measured("web")
    await case.create_vpa("web", "Recreate")
    await case.wait_until_applied("web", seconds=_TIMEOUT)

    async def listed_again() -> bool:
        return all(
            len(cluster.audited_calls(name, verb="list")) > listed[name] for name in COMPONENTS
        )

    await cluster.wait_for(listed_again, "every component lists again")
    await cluster.wait_for_cycles(UPDATER)
