"""One cluster and one event loop for the whole session, one namespace for each case."""

import inspect
import os
import re
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from common.kube.endpoints import NAMESPACES
from e2e.clusters import (
    CONTROL_PLANE,
    METRICS_PORT,
    SANDBOX,
    WEBHOOK_PORT,
    Kept,
    running,
    why_no_port,
)
from e2e.installation import Installation
from e2e.kubectl import Kubectl
from e2e.world import Case, World

_HERE = Path(__file__).parent
_TIMEOUT = 180  # seconds, for a case with the start of the cluster before it
_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cluster",
        choices=(CONTROL_PLANE, SANDBOX),
        default=CONTROL_PLANE,
        help="what the end-to-end suite runs on",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "only_on(cluster, reason): a case that the other cluster can't run, and why"
    )
    config.addinivalue_line("markers", "last: a case about the whole run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One loop for all: the cluster's kubelets run on it, so it must never stand still."""
    cluster = config.getoption("--cluster", default=CONTROL_PLANE)
    for item in items:
        if _HERE not in item.path.parents:
            continue
        if inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
        item.add_marker(pytest.mark.timeout(_TIMEOUT))
        for mark in item.iter_markers("only_on"):
            if mark.args[0] != cluster:
                item.add_marker(pytest.mark.skip(reason=mark.kwargs["reason"]))
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
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
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    ends_in_order: None,
) -> AsyncIterator[World]:
    for port in (WEBHOOK_PORT, METRICS_PORT):
        if reason := why_no_port(port):
            pytest.exit(reason, returncode=2)
    kind: str = pytestconfig.getoption("--cluster", default=CONTROL_PLANE)
    folder: Path = tmp_path_factory.mktemp(kind)
    kept = Kept(lambda: running(kind, folder / "cluster"))
    try:
        cluster = await kept.entered()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(cluster.kubeconfig)
        kubectl = Kubectl(kubeconfig)
        async with cluster.client("e2e") as client:
            made = World(kind, cluster, client, kubectl, Installation(kubectl))
            try:
                await made.installation.install()
            except BaseException:
                print(await made.describe("default"))  # noqa: T201 - shown when a test fails
                raise
            yield made
    finally:
        await kept.leave()


@pytest_asyncio.fixture(loop_scope="session")
async def case(world: World, request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    namespace = f"{name[:50].strip('-')}-{os.urandom(3).hex()}"
    await world.client.create(NAMESPACES.as_dicts(), {"metadata": {"name": namespace}})
    yield Case(world, namespace)
    if request.node.stash.get(_FAILED, False):
        print(await world.describe(namespace))  # noqa: T201 - shown when a test fails
    world.note_calls()
    # It takes a real cluster ten seconds, and nobody else knows the name: no need to wait.
    await world.client.delete(NAMESPACES, namespace)
