"""Components that run beside an API server, in the sandbox or on a real control plane."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from typing import NoReturn

from common.errors import ConflictError
from common.kube.client import KubeClient
from common.kube.endpoints import NAMESPACES
from sandbox.kubelet.pod_lifecycle import Simulation
from sandbox.scenario import Scenario
from sandbox.version import KubernetesVersion

Component = Callable[[], Awaitable[None]]


def simulation_of(
    scenario: Scenario,
    version: KubernetesVersion,
    *,
    images: Collection[str] = (),
    pullable: Collection[str] | None = None,
) -> Simulation:
    """Return the simulation of a scenario's kubelets, on an API server of this version.

    Containers of these ``images`` are not simulated. With ``pullable``, containers with another
    image, tag included, don't start.
    """
    return Simulation(
        minor=version.minor,
        timing=scenario.timing,
        usage=scenario.usage,
        images=images,
        pullable=pullable,
    )


async def create_namespaces(client: KubeClient, names: Iterable[str]) -> None:
    """Create the namespaces that don't exist yet."""
    for name in names:
        with contextlib.suppress(ConflictError):
            await client.create(NAMESPACES.as_dicts(), {"metadata": {"name": name}})


@contextlib.asynccontextmanager
async def running_components(components: Iterable[Component]) -> AsyncIterator[None]:
    """Run components while the context is entered.

    An error of the context's body is raised as it is, and the components are cancelled.

    Raises:
        ExceptionGroup: a component failed, or returned.
    """
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_endless(run)) for run in components]
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised again, outside of the group
            failure = error
        for task in tasks:
            task.cancel()
    if failure is not None:
        raise failure


async def _endless(run: Component) -> NoReturn:
    """Run a component. Raise an error when it returns, because the cluster would stand still."""
    await run()
    raise RuntimeError(f"component ended: {run!r}")
