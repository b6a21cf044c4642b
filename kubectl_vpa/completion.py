"""Completion of the command line: the candidates, and the scripts of shells that ask for them.

The scripts call ``kubectl-vpa __complete WORD…``, whose last word is the one to complete. So they
need no change when a command or an option is added.
"""

import argparse
import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


class Shell(enum.StrEnum):
    """A shell, or kubectl, which completes its plugins by a program of its own."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


ASK = "__complete"
"""The first argument of the program that asks for candidates."""

_SCRIPTS = {
    Shell.BASH: """\
_kubectl_vpa() {
    local IFS=$'\\n'
    COMPREPLY=($(kubectl-vpa __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -F _kubectl_vpa kubectl-vpa
""",
    Shell.ZSH: """\
#compdef kubectl-vpa
_kubectl_vpa() {
    local -a found
    found=("${(@f)$(kubectl-vpa __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -a found
}
compdef _kubectl_vpa kubectl-vpa
""",
    Shell.FISH: """\
complete --command kubectl-vpa --no-files --arguments \\
    '(kubectl-vpa __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
    Shell.KUBECTL: """\
#!/bin/sh
kubectl-vpa __complete "$@" 2>/dev/null
echo :4 # no file names
""",
}


class Wanted(enum.StrEnum):
    """A value that only the cluster knows."""

    NAMESPACE = "namespace"
    SUBJECT = "subject"  # the name of a VPA


@dataclass(frozen=True, slots=True)
class Candidates:
    """Texts that may follow, or what has to be read to know them."""

    texts: tuple[str, ...] = ()
    wanted: Wanted | None = None
    arguments: tuple[str, ...] = ()  # that choose the cluster and the namespace


def script(shell: Shell) -> str:
    """Return the script of a shell."""
    return _SCRIPTS[shell]


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> Candidates:
    """Return the candidates for the last of the words, which may be empty."""
    *before, last = words or ("",)
    name, command = _command(parser, before)
    if command is None:
        return _starting(last, (*_commands(parser), *_options(parser)))
    after = before[before.index(name) + 1 :]
    option = _option(command, after[-1]) if after else None
    if option is not None and option.nargs != 0:
        return _values(option, last, after)
    if last.startswith("-"):
        return _starting(last, _options(command))
    positional = next((each for each in command._actions if not each.option_strings), None)  # noqa: SLF001 - argparse has no public way
    if positional is None:
        return _starting(last, _options(command))
    return _values(positional, last, after)


def _values(action: argparse.Action, last: str, after: Sequence[str]) -> Candidates:
    """Return the values of an option or a positional argument."""
    if action.choices is not None:
        return _starting(last, map(str, action.choices))
    if action.dest in tuple(Wanted):
        return Candidates(wanted=Wanted(action.dest), arguments=tuple(_scope(after)))
    return Candidates()


def _scope(after: Sequence[str]) -> Iterator[str]:
    """Yield the options that choose the cluster and the namespace, with their values."""
    for place, word in enumerate(after[:-1]):
        if word in ("-n", "--namespace", "--context", "--kubeconfig"):
            yield from (word, after[place + 1])


def _starting(last: str, texts: Iterator[str] | Sequence[str]) -> Candidates:
    return Candidates(tuple(each for each in texts if each.startswith(last)))


def _subparsers(
    parser: argparse.ArgumentParser,
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    return next(
        action
        for action in parser._actions  # noqa: SLF001 - argparse has no public way
        if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - same
    )


def _commands(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    return tuple(_subparsers(parser).choices)


def _command(
    parser: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[str, argparse.ArgumentParser | None]:
    choices = _subparsers(parser).choices
    return next(((word, choices[word]) for word in words if word in choices), ("", None))


def _options(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """Return the long names of all options."""
    return tuple(
        text
        for action in parser._actions  # noqa: SLF001 - argparse has no public way
        for text in action.option_strings
        if text.startswith("--")
    )


def _option(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    return next(
        (action for action in parser._actions if word in action.option_strings),  # noqa: SLF001 - same
        None,
    )
