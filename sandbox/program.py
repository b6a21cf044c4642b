"""Common parts of programs that run a cluster: scenario, kubeconfig, run until a signal."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from common.flags import read_flags
from common.runtime.service import serve
from sandbox.kubeconfigs import remove_ours, write_kubeconfig
from sandbox.scenario import Scenario, load_scenario, parse_scenario

T = TypeVar("T")


class Running(Protocol):
    """The interface of a running cluster."""

    @property
    def url(self) -> str: ...

    @property
    def kubeconfig(self) -> str: ...


R = TypeVar("R", bound=Running)


def read_command(settings: type[T], argv: Sequence[str], *, program: str) -> tuple[Scenario, T]:
    """Read ``[SCENARIO] FLAGS``; without a scenario the cluster has a single node.

    Raises:
        ConfigError: a flag is wrong, or the scenario is.
    """
    named = bool(argv) and not argv[0].startswith("-")
    flags = read_flags(settings, argv[1:] if named else argv, program=f"{program} [SCENARIO]")
    return load_scenario(argv[0]) if named else parse_scenario(""), flags


async def run_until_stopped(
    cluster: AbstractAsyncContextManager[R],
    kubeconfig: Path,
    *,
    title: Callable[[R], str],
    nodes: int,
) -> None:
    """Run a cluster until SIGTERM or SIGINT. Write its kubeconfig to a file while it is ready.

    ``title`` returns the first line of the message for the user.

    Raises:
        ConfigError: the file isn't a sandbox's, or can't be written.
    """
    path = _free_place(kubeconfig)

    async def main(stop: asyncio.Event) -> None:
        async with cluster as running:
            write_kubeconfig(path, running.kubeconfig)
            message = ready(title(running), running.url, path, nodes=nodes)
            print(message, flush=True)  # noqa: T201 - output for the user
            await stop.wait()
        remove_ours(path)

    await serve(main)


def _free_place(kubeconfig: Path) -> Path:
    path = kubeconfig.expanduser().absolute()
    remove_ours(path)
    return path


def ready(title: str, url: str, kubeconfig: Path, *, nodes: int) -> str:
    """Return the message for the user, with commands to copy."""
    return (
        f"{title}, {nodes} node{'' if nodes == 1 else 's'}\n"
        f"  server:     {url}\n"
        f"  kubeconfig: {kubeconfig}\n"
        f"\n"
        f"  export KUBECONFIG={kubeconfig}\n"
    )
