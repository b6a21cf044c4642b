"""The marks of all tests here: one event loop, and a reason to skip them."""

import inspect
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from e2e.control_plane import SingleTaskContext
from reference import service_proxy
from reference.cluster import Cluster, running_cluster
from reference.installation import MANIFESTS, Installation
from reference.programs import problem

pytest.register_assert_rewrite("reference.swaps")

_HERE = Path(__file__).parent
_TIMEOUT = 300  # seconds; the first test of a module includes the start of its cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests in the session's event loop, which the cluster's kubelets need all the time."""
    reason = problem() or service_proxy.problem()
    for item in items:
        if _HERE not in item.path.parents:
            continue
        if inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        item.add_marker(pytest.mark.timeout(_TIMEOUT))
        item.add_marker(pytest.mark.reference)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def description(request: pytest.FixtureRequest, cluster: Cluster) -> AsyncIterator[None]:
    """Print the state of the cluster when a test fails."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        print(await cluster.describe())  # noqa: T201 - shown with the failure


@pytest.fixture(scope="module")
def installation() -> Installation:
    """Return how the reference is installed in the cluster; a module may replace this."""
    return MANIFESTS


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(
    installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cluster]:
    """Run a cluster in which the reference is installed, and has recommended."""
    folder: Path = tmp_path_factory.mktemp("reference")
    context = SingleTaskContext(lambda: running_cluster(folder, namespace=installation.namespace))
    try:
        cluster = await context.enter()
        await installation.install(cluster)
        await cluster.learn()
        yield cluster
    finally:
        await context.exit()
