"""The command line: its parser, and one run of a command."""

import argparse
import asyncio
import gc
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from common.errors import VpaError
from common.version import version
from kubectl_vpa import completion as candidates_of
from kubectl_vpa.arguments import ExitCode
from kubectl_vpa.commands import completion
from kubectl_vpa.commands.session import PROGRAM, first_error
from kubectl_vpa.output.screen import Screen

_GARBAGE = 50_000  # objects; the default of 700 doubles the CPU time of large lists
_INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended


COMMANDS: Mapping[str, str] = {
    "status": "Print one line for each VPA: request and target, state and reason, the worst first.",
    "why": "Explain the state of a VPA, a pod or a workload, and what would change it.",
    "plan": "Print what the next pass of the updater would do with each pod, and why.",
    "history": "Print what the updater did with pods, the newest first, and the usage of a VPA.",
    "top": "Print what pods use now, beside their requests, targets and bounds.",
    "explain": "Explain how each number of a recommendation is computed, with percentile curves.",
    "simulate": "Print what recommendations would be with other settings, from the stored history.",
    "report": "Compare requests of all workloads, with or without a VPA, with recommendations.",
    "create": "Print VPAs for all workloads that have none, to review them, or create them.",
    "export": "Print VPAs and checkpoints to apply them again, or recommendations for GitOps.",
    "doctor": "Check the installation and all VPAs; the exit code says the worst finding.",
    "completion": "Print the script that completes the command line in a shell.",
}
"""What each command does; its module in ``kubectl_vpa.commands`` has its name."""


class Command(Protocol):
    """A module of ``kubectl_vpa.commands``."""

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None: ...

    async def run(self, arguments: argparse.Namespace, screen: Screen, /) -> int: ...


def new_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the arguments of one command, or of all.

    Only this command is imported: some need the recommender's model, which takes time and memory.
    """
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Show what VPAs recommend and do, and why.",
        epilog="kubectl runs it as `kubectl vpa`.",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        made = commands.add_parser(name, help=text, description=text)
        if command in (None, name):
            module = _module(name)
            module.add_arguments(made)
            made.set_defaults(run=module.run)
    return parser


def _module(command: str) -> Command:
    return cast("Command", importlib.import_module(f"kubectl_vpa.commands.{command}"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    logging.getLogger().addHandler(logging.NullHandler())  # objects that are skipped become notes
    gc.set_threshold(_GARBAGE)
    words = list(sys.argv[1:] if argv is None else argv)
    screen = Screen()
    if words[:1] == [candidates_of.ASK]:
        return _complete(words[1:], screen)
    arguments = new_parser(words[0] if words else "").parse_args(words)
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
    found = candidates_of.candidates(new_parser(words[0] if words else ""), words)
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
