"""One cluster and one event loop for the whole session, one namespace for each case."""

import inspect
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from e2e import concurrent_cases
from e2e.clusters import WEBHOOK_PORT, Kept, why_no_port
from e2e.world import Case, World, case_of, installed

_HERE = Path(__file__).parent
_TIMEOUT = 180  # seconds, for a case with the start of the cluster before it
_FAILED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: a case about the whole run")
    config.addinivalue_line(
        "markers", "concurrent: a case that leaves the components alone, and runs beside others"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One loop for all: the cluster's kubelets run on it, so it must never stand still."""
    for item in items:
        if _HERE not in item.path.parents:
            continue
        if inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        item.add_marker(pytest.mark.timeout(_TIMEOUT))
        marks = {mark.name for mark in item.iter_markers()}
        if isinstance(item, pytest.Function) and "concurrent" in marks and "skip" not in marks:
            concurrent_cases.put_off(item)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Cases that run beside others come first: then nobody takes a component from them."""
    if item.get_closest_marker("last"):
        return 2
    return 0 if concurrent_cases.is_put_off(item) else 1


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
def ends_in_order() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: with the processes that it started.

    A shell starts what runs in the background with Ctrl-C ignored, and then that would be, too.
    """
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    terminate = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    yield
    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGINT, interrupt)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(
    tmp_path_factory: pytest.TempPathFactory, ends_in_order: None
) -> AsyncIterator[World]:
    if reason := why_no_port(WEBHOOK_PORT):
        pytest.exit(reason, returncode=2)
    folder: Path = tmp_path_factory.mktemp("controlplane")
    kept = Kept(lambda: installed(folder))
    try:
        yield await kept.entered()
    finally:
        await kept.leave()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def begun(world: World, request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """The cases that run beside others, until they have ended."""
    async with concurrent_cases.begun(request.session.items, partial(case_of, world)):
        yield


@pytest_asyncio.fixture(loop_scope="session")
async def case(
    world: World, begun: None, request: pytest.FixtureRequest
) -> AsyncIterator[Case | None]:
    """A namespace for a case; None for one that was begun before and has its own."""
    if concurrent_cases.is_put_off(request.node):
        yield None
        return
    async with case_of(world, request.node) as made:
        yield made
        if request.node.stash.get(_FAILED, False):
            print(await made.world.describe(made.namespace))  # noqa: T201 - shown when a test fails
