"""The syntax of command lines, which is that of the reference: Go's pflag.

Source: ``FlagSet.parseArgs`` of github.com/spf13/pflag 1.0.10. The reference adds its Go flags to
pflag, so the flag whose name is one letter is also the shorthand ``-v``.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from common.errors import ConfigError

_HELP, _VERSION = "help", "version"


class CommandLine(NamedTuple):
    """A command line with one spelling for each flag."""

    flags: list[str]  # "--name=value"; "--help" and "--version" are the last ones
    positional: list[str]  # arguments that are neither flags nor values of flags


def split(argv: Sequence[str], bare: Mapping[str, bool]) -> CommandLine:
    """Separate flags from positional arguments.

    ``bare`` has the name of each flag without its dashes, and whether the flag may be used without
    a value, which means ``true``. Its value follows an equals sign only: the second word of
    ``--leader-elect false`` is a positional argument. Any other flag takes the next word as its
    value, even one that begins with a dash.

    Raises:
        ConfigError: a flag is unknown or malformed, or a value is missing.
    """
    words = deque(argv)
    found = CommandLine([], [])
    while words:
        word = words.popleft()
        if word == "--":
            found.positional.extend(words)
            break
        if len(word) < 2 or word[0] != "-":
            found.positional.append(word)
            continue
        name, value = _long(word) if word[1] == "-" else _short(word, bare)
        if name in (_HELP, _VERSION):
            found.flags.append(f"--{name}")
            break
        if name not in bare:
            raise ConfigError(f"unknown flag: {_without_value(word)}")
        if value is None and bare[name]:
            value = "true"
        elif value is None and words:
            value = words.popleft()
        elif value is None:
            raise ConfigError(f"--{name} needs a value")
        found.flags.append(f"--{name}={value}")
    return found


def _long(word: str) -> tuple[str, str | None]:
    """Return the name and the value of ``--name`` or ``--name=value``."""
    name, equals, value = word[2:].partition("=")
    if not name or name[0] == "-":
        raise ConfigError(f"not a flag: {word!r}")
    return name.replace("_", "-"), value if equals else None


def _short(word: str, known: Mapping[str, bool]) -> tuple[str, str | None]:
    """Return the name and the value of ``-v``, ``-v4`` or ``-v=4``.

    The equals sign of ``-v=`` is the value, as in pflag.
    """
    name, value = word[1], word[2:]
    if name not in known:
        if name == _HELP[0]:
            return _HELP, None
        raise ConfigError(
            f"unknown shorthand -{name} in {_without_value(word)}: names of flags follow two dashes"
        )
    if len(value) > 1:
        value = value.removeprefix("=")
    return name, value or None


def _without_value(word: str) -> str:
    """Return the word without its value, which may be a secret."""
    return word.partition("=")[0]
