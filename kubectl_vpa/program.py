"""The command line: its parser, and one run of a command."""

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from common.errors import VpaError
from common.version import version
from kubectl_vpa import completion as candidates_of
from kubectl_vpa.arguments import ExitCode
from kubectl_vpa.commands import (
    completion,
    create,
    doctor,
    explain,
    export,
    history,
    plan,
    report,
    simulate,
    status,
    top,
    why,
)
from kubectl_vpa.commands.session import PROGRAM, first_error
from kubectl_vpa.output.screen import Screen

_GARBAGE = 50_000  # objects; the default of 700 doubles the CPU time of large lists
_INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended


class Command(Protocol):
    """A module of ``kubectl_vpa.commands``."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None: ...

    async def run(self, arguments: argparse.Namespace, screen: Screen, /) -> int: ...


COMMANDS: tuple[Command, ...] = (
    status,
    why,
    plan,
    history,
    top,
    explain,
    simulate,
    report,
    create,
    export,
    doctor,
    completion,
)


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Show what VPAs recommend and do, and why.",
        epilog="kubectl runs it as `kubectl vpa`.",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for each in COMMANDS:
        made = commands.add_parser(each.NAME, help=each.HELP, description=each.HELP)
        each.add_arguments(made)
        made.set_defaults(run=each.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    logging.getLogger().addHandler(logging.NullHandler())  # objects that are skipped become notes
    gc.set_threshold(_GARBAGE)
    words = list(sys.argv[1:] if argv is None else argv)
    screen = Screen()
    if words[:1] == [candidates_of.ASK]:
        return _complete(words[1:], screen)
    arguments = new_parser().parse_args(words)
    try:
        return int(asyncio.run(arguments.run(arguments, screen)))
    except VpaError as error:
        return _failed(screen, error)
    except BaseExceptionGroup as group:
        if (expected := group.subgroup(VpaError)) is None:
            raise
        return _failed(screen, first_error(expected))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of the output has ended, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains
        return ExitCode.FAILED


def _complete(words: Sequence[str], screen: Screen) -> ExitCode:
    """Print the candidates for the last word, one in each line."""
    found = candidates_of.candidates(new_parser(), words)
    texts: Sequence[str] = found.texts
    if found.wanted is not None:
        last = words[-1] if words else ""
        read = asyncio.run(completion.names(found.wanted, found.arguments, screen))
        texts = [each for each in read if each.startswith(last)]
    for text in texts:
        screen.text(text)
    return ExitCode.OK


def _failed(screen: Screen, error: BaseException) -> ExitCode:
    screen.error(str(error))
    return ExitCode.FAILED
