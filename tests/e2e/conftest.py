"""One cluster and one event loop for the whole session, one namespace for each case."""

import inspect
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from e2e import concurrent_cases
from e2e.cluster import Case, Cluster, installed_cluster, new_case
from e2e.control_plane import WEBHOOK_PORT, SingleTaskContext, port_error

_HERE = Path(__file__).parent
_TIMEOUT = 300  # seconds; the first case includes the start of the cluster
_FAILED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: a case about the whole run")
    config.addinivalue_line(
        "markers",
        "concurrent: a case that changes no component and fills no node, and runs beside others",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all cases in the session's event loop, which the cluster's kubelets need all the time."""
    for item in items:
        if _HERE not in item.path.parents:
            continue
        if inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        item.add_marker(pytest.mark.timeout(_TIMEOUT))
        marks = {mark.name for mark in item.iter_markers()}
        if isinstance(item, pytest.Function) and "concurrent" in marks and "skip" not in marks:
            concurrent_cases.make_concurrent(item)
    items.sort(key=_position)


def _position(item: pytest.Item) -> int:
    """Order concurrent cases before those that change components or fill nodes."""
    if item.get_closest_marker("last"):
        return 2
    return 0 if concurrent_cases.is_concurrent(item) else 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and (seconds := concurrent_cases.seconds(item)):
        report.duration = seconds
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    return report


@pytest.fixture(scope="session")
def interrupt_on_sigterm() -> Iterator[None]:
    """Handle SIGTERM as Ctrl-C, so that the processes of the run are stopped.

    A shell starts background commands with SIGINT ignored, so install Python's handler.
    """
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    terminate = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    yield
    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGINT, interrupt)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(
    tmp_path_factory: pytest.TempPathFactory, interrupt_on_sigterm: None
) -> AsyncIterator[Cluster]:
    if reason := port_error(WEBHOOK_PORT):
        pytest.exit(reason, returncode=2)
    folder: Path = tmp_path_factory.mktemp("controlplane")
    context = SingleTaskContext(lambda: installed_cluster(folder))
    try:
        yield await context.enter()
    finally:
        await context.exit()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def concurrent_tasks(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Start the concurrent cases of the session."""
    async with concurrent_cases.running(request.session.items, partial(new_case, cluster)):
        yield


@pytest_asyncio.fixture(loop_scope="session")
async def case(
    cluster: Cluster, concurrent_tasks: None, request: pytest.FixtureRequest
) -> AsyncIterator[Case | None]:
    """Create the namespace of a case; None for a concurrent case, which has one already."""
    if concurrent_cases.is_concurrent(request.node):
        yield None
        return
    async with new_case(cluster, request.node) as case:
        yield case
        if request.node.stash.get(_FAILED, False):
            print(await case.cluster.describe(case.namespace))  # noqa: T201 - shown when a test fails
