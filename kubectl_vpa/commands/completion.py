"""``kubectl vpa completion``: scripts for shells, and the candidates that only a cluster knows."""

import argparse
import asyncio
from collections.abc import Sequence

from common.errors import VpaError
from common.kube.endpoints import NAMESPACES, VPAS
from kubectl_vpa.arguments import ExitCode, add_connection, one_of
from kubectl_vpa.commands.session import connected
from kubectl_vpa.completion import Shell, Wanted, script
from kubectl_vpa.output.screen import Screen

_SECONDS = 3.0  # a person waits for the answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "shell",
        metavar="SHELL",
        type=one_of(Shell),
        choices=tuple(Shell),
        help="Print the script for bash, zsh or fish; or for kubectl, which calls it for "
        "`kubectl vpa`: save it as kubectl_complete-vpa on the PATH.",
    )


async def run(arguments: argparse.Namespace, screen: Screen) -> int:
    """Print the script."""
    screen.raw(script(arguments.shell))
    return ExitCode.OK


async def names(wanted: Wanted, options: Sequence[str], screen: Screen) -> Sequence[str]:
    """Return the namespaces, or the VPAs of a namespace; none if they can't be read in time."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-n", "--namespace", default="")
    add_connection(parser)
    arguments = parser.parse_args(options)
    try:
        async with asyncio.timeout(_SECONDS), connected(arguments, screen) as session:
            if wanted is Wanted.NAMESPACE:
                found = await session.client.list(NAMESPACES)
                return sorted(each.metadata.name for each in found.items)
            vpas = await session.client.list(VPAS, namespace=session.namespace)
            return sorted(each.metadata.name for each in vpas.items)
    except (VpaError, TimeoutError):
        return ()
