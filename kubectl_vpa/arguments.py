"""The arguments that all commands have in common."""

import argparse
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from common.vpa_creation.policy import Setting

E = TypeVar("E", bound=enum.StrEnum)


class Format(enum.StrEnum):
    """The value of ``--output``."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"
    MARKDOWN = "markdown"
    HTML = "html"


_LIST_FORMATS = (Format.TABLE, Format.WIDE, Format.JSON, Format.YAML, Format.CSV, Format.NAME)


TEXT = "text"
"""The value of ``--output`` for sentences."""


class ExitCode(enum.IntEnum):
    """The exit code of a command."""

    OK = 0
    FAILED = 1  # or an error was found
    USAGE = 2
    WARNING = 3  # the worst finding is a warning


def one_of(values: Iterable[E]) -> Callable[[str], E]:
    """Return a parser for argparse whose error names the values.

    Give them to argparse as ``choices``, too, for completion.
    """
    by_text = {str(each): each for each in values}

    def parse(text: str) -> E:
        if text not in by_text:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(by_text)}")
        return by_text[text]

    return parse


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose the cluster."""
    group = parser.add_argument_group("cluster")
    group.add_argument("--kubeconfig", metavar="FILE", default="", help="Use this kubeconfig.")
    group.add_argument(
        "--context", metavar="NAME", default="", help="Use this context of the kubeconfig."
    )


def add_namespace(parser: argparse._ActionsContainer) -> None:
    """Add the argument that chooses one namespace."""
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        default="",
        help="Use this namespace. Default: that of the context, else default.",
    )


def add_text_output(parser: argparse.ArgumentParser) -> None:
    """Add the argument that chooses the form of an explanation; the default is text."""
    choices = (TEXT, str(Format.JSON), str(Format.YAML))
    parser.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        choices=choices,
        default=TEXT,
        help=f"Print {', '.join(choices)}. Default: {TEXT}.",
    )


def add_scope(parser: argparse.ArgumentParser, *, selects: str = "Use VPAs") -> None:
    """Add the arguments that choose namespaces and, by labels, what ``selects`` names."""
    group = parser.add_argument_group("scope")
    which = group.add_mutually_exclusive_group()
    add_namespace(which)
    which.add_argument("-A", "--all-namespaces", action="store_true", help="Use all namespaces.")
    group.add_argument(
        "-l", "--selector", metavar="SELECTOR", default="", help=f"{selects} with these labels."
    )


def add_vpa(parser: argparse.ArgumentParser) -> None:
    """Add the name of a VPA, which may be missing."""
    parser.add_argument(
        "subject", metavar="NAME", nargs="?", default="", help="Use the VPA with this name alone."
    )


def add_output(
    parser: argparse.ArgumentParser,
    formats: tuple[Format, ...] = _LIST_FORMATS,
    *,
    tables: bool = True,
) -> None:
    """Add the arguments that choose the form of the output; the first format is the default.

    ``tables``: some format has headings.
    """
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="FORMAT",
        type=one_of(formats),
        choices=formats,
        default=formats[0],
        help=f"Print {', '.join(formats)}. Default: {formats[0]}.",
    )
    if tables:
        group.add_argument("--no-headers", action="store_true", help="Print no headings.")


def add_bounds(group: argparse._ArgumentGroup) -> None:
    """Add the settings of policies that ``create`` and ``simulate`` have in common."""
    group.add_argument(
        f"--{Setting.MIN_ALLOWED}",
        metavar="AMOUNTS",
        help="Recommend at least this for each container, as in cpu=50m,memory=100Mi.",
    )
    group.add_argument(
        f"--{Setting.MAX_ALLOWED}",
        metavar="AMOUNTS",
        help="Recommend at most this for each container, as in cpu=2,memory=4Gi.",
    )
    group.add_argument(
        f"--{Setting.CONTROLLED_RESOURCES}",
        metavar="RESOURCES",
        help="Recommend only these: cpu, memory, or both as cpu,memory.",
    )


def given_settings(arguments: argparse.Namespace) -> Mapping[str, str]:
    """Return the settings of policies on the command line, by name."""
    found = {each.value: getattr(arguments, each.replace("-", "_"), None) for each in Setting}
    return {name: text for name, text in found.items() if text is not None}
