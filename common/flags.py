"""Command lines from settings classes: one declaration defines parser, ``--help`` and docs.

The syntax of the command line is the reference's (:mod:`common.flag_syntax`): two dashes,
underscores count as dashes, Booleans are ``--x``, ``--x=true`` or ``--x=false``. So are durations.
"""

import argparse
import dataclasses
import enum
import functools
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from common import flag_syntax
from common.errors import ConfigError
from common.version import version

T = TypeVar("T")
N = TypeVar("N", int, float)
Choice = TypeVar("Choice", bound=enum.StrEnum)

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(rf"[+-]?(0|({_PART.pattern})+)")
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|nan)", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)  # no more than an int64 holds
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_IGNORED = "ignored_arguments"


def flag(
    name: str,
    *,
    default: Any,
    parse: Callable[[str], Any],
    group: str,
    help: str,
    metavar: str = "",
    short: str = "",
    env: str = "",
    alias: str = "",
    is_repeated: bool = False,
) -> Any:
    """Declare a dataclass field that the flag ``name`` sets.

    ``parse`` turns the text into the value and raises ValueError on bad text; with
    :func:`boolean` the flag may be used without a value. ``group`` is the title under which
    ``--help`` and the documentation list the flag. ``metavar`` names the value (``BYTES``);
    the parsers of this module define a default name. ``short`` is a second name (``-v``).
    Without the flag, the environment variable ``env`` applies if it is set and not
    empty. ``alias`` is another name of the flag; both may be given if they agree. A flag that
    ``is_repeated`` has a tuple of values, one for each time that it is given.
    """
    metadata = {
        "flag": name,
        "parse": parse,
        "group": group,
        "help": help,
        "metavar": metavar or _METAVARS.get(parse, ""),
        "short": short,
        "env": env,
        "alias": alias,
        "is_repeated": is_repeated,
    }
    return dataclasses.field(default=default, metadata=metadata)


def duration(text: str) -> timedelta:
    """Parse a Go duration: ``1h30m``, ``250ms``, ``-1.5h``, ``0``.

    Round to a microsecond, the resolution of ``timedelta``.
    """
    if _DURATION.fullmatch(text) is None:
        raise ValueError(f"not a duration such as 1h30m or 250ms: {text!r}")
    total = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return timedelta(seconds=-total if text.startswith("-") else total)


def positive_duration(text: str) -> timedelta:
    """Parse a Go duration above zero."""
    found = duration(text)
    if found <= timedelta():
        raise ValueError(f"must be positive: {text!r}")
    return found


def number(*, least: float = -math.inf, most: float = math.inf) -> Callable[[str], float]:
    """Return a parser of finite numbers from ``least`` to ``most``."""

    def parse(text: str) -> float:
        if _NUMBER.fullmatch(text) is None:
            raise ValueError(f"not a number: {text!r}")
        return _within(float(text), text, least, most)

    return parse


def whole(*, least: float = -math.inf, most: float = math.inf) -> Callable[[str], int]:
    """Return a parser of whole numbers from ``least`` to ``most``."""

    def parse(text: str) -> int:
        if _WHOLE.fullmatch(text) is None:
            raise ValueError(f"not a whole number of up to 18 digits: {text!r}")
        return _within(int(text), text, least, most)

    return parse


def _within(value: N, text: str, least: float, most: float) -> N:
    if not (least <= value <= most and math.isfinite(value)):
        ends = (f"from {show(least)}" * (least > -math.inf), f"to {show(most)}" * (most < math.inf))
        raise ValueError(f"must be {' '.join(filter(None, ends)) or 'finite'}: {text!r}")
    return value


def one_of(choices: type[Choice]) -> Callable[[str], Choice]:
    """Return a parser of the values of an enumeration."""

    def parse(text: str) -> Choice:
        if text not in list(choices):
            raise ValueError(f"not one of {', '.join(choices)}: {text!r}")
        return choices(text)

    return parse


def boolean(text: str) -> bool:
    """Parse a Boolean as Go's ``strconv.ParseBool`` does."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"not true or false: {text!r}")


def names(text: str) -> tuple[str, ...]:
    """Split a comma-separated list; the empty text is the empty list."""
    return tuple(text.split(",")) if text else ()


def namespace(text: str) -> str:
    """Parse the name of a namespace; it may be empty.

    Source: RFC 1123 labels, k8s.io/apimachinery ``IsDNS1123Label``.
    """
    if text and _NAMESPACE.fullmatch(text) is None:
        raise ValueError(
            "must be lower-case letters, digits and '-', at most 63, and begin and end with a "
            f"letter or digit: {text!r}"
        )
    return text


def namespaces(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of namespaces; the empty text is the empty list."""
    return tuple(map(namespace, names(text)))


port_number = whole(least=0, most=65535)
"""Parse a TCP port; 0 means any free one."""

_METAVARS: Mapping[Callable[[str], Any], str] = {
    boolean: "BOOL",
    duration: "DURATION",
    names: "NAMES",
    namespace: "NAMESPACE",
    namespaces: "NAMESPACES",
    port_number: "PORT",
    positive_duration: "DURATION",
}


def show(value: object) -> str:
    """Return the text that a flag would parse to this value, as ``--help`` prints it.

    Durations have Go's notation: ``1m0s``, ``24h0m0s``, ``250ms``.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return _show_duration(value)
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _show_duration(value: timedelta) -> str:
    sign = "-" if value < timedelta() else ""
    micros = abs(value) // timedelta(microseconds=1)
    if micros < 1_000_000:
        if micros == 0:
            return "0s"
        amount, unit = (micros, "µs") if micros < 1000 else (micros / 1000, "ms")
        return f"{sign}{amount:g}{unit}"
    minutes, rest = divmod(micros, 60_000_000)
    seconds = f"{rest / 1_000_000:.6f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def declared(settings: type) -> Iterator[dataclasses.Field[Any]]:
    """Yield the fields of a settings class that flags set, in order of declaration."""
    for field in dataclasses.fields(settings):
        if "flag" in field.metadata:
            yield field


def groups(settings: type) -> dict[str, list[dataclasses.Field[Any]]]:
    """Return the flags by the title of their group.

    Groups and flags are in order of declaration, those of a class before those of its bases.
    """
    fields = {field.name: field for field in declared(settings)}
    order = dict.fromkeys(name for cls in settings.__mro__ for name in inspect.get_annotations(cls))
    found: dict[str, list[dataclasses.Field[Any]]] = {}
    for name in order:
        if name in fields:
            found.setdefault(fields[name].metadata["group"], []).append(fields[name])
    return found


def meaning(field: dataclasses.Field[Any]) -> str:
    """Return the help text of a flag, with its default."""
    default = show(field.default)
    text: str = field.metadata["help"]
    return f"{text} (default: {default})" if default else text


def read_flags(
    settings: type[T],
    argv: Sequence[str],
    *,
    program: str = "",
    environ: Mapping[str, str] | None = None,
) -> T:
    """Build ``settings`` from the command line (without the program's name).

    ``--help`` prints every flag with its default, ``--version`` the version; both exit with
    code 0. Flags in ``settings.accepted_without_effect``, by the reference's default, are parsed
    and dropped. Positional arguments go into the field ``ignored_arguments``, if there is one.

    Raises:
        ConfigError: a flag is unknown, its value can't be parsed, a value is missing, a flag
            and its alias have different values, or an argument is positional and there is no
            field for it.
    """
    without_effect: Mapping[str, str] = getattr(settings, "accepted_without_effect", {})
    line = flag_syntax.split(argv, _bare(settings, without_effect))
    parser = _FlagParser(
        prog=program or None,
        usage="%(prog)s [flags]",
        description=(settings.__doc__ or "").strip().partition("\n")[0],
        allow_abbrev=False,
        formatter_class=functools.partial(_Formatter, max_help_position=4, width=100),
    )
    # The first word: arguments such as SCENARIO follow the name in the usage.
    name = parser.prog.partition(" ")[0]
    parser.add_argument("--version", action="version", version=f"{name} {version()}")
    for title, fields in groups(settings).items():
        group = parser.add_argument_group(title)
        for field in fields:
            _add(group, field, environ or {})
    if without_effect:
        parser.epilog = (
            "Accepted for compatibility with the reference's manifests, without effect: "
            f"{', '.join(without_effect)}."
        )
    for flag_name in without_effect:
        parser.add_argument(flag_name, dest=argparse.SUPPRESS, help=argparse.SUPPRESS)
    values = vars(parser.parse_args(line.flags))
    values.pop(argparse.SUPPRESS, None)
    if line.positional:
        if not hasattr(settings, _IGNORED):
            raise ConfigError(f"unexpected argument: {line.positional[0]!r}")
        values[_IGNORED] = tuple(line.positional)
    return settings(**values)


def _bare(settings: type, without_effect: Mapping[str, str]) -> dict[str, bool]:
    """Return the names of all flags, and whether each may be used without a value."""
    found = {name.lstrip("-"): text in ("true", "false") for name, text in without_effect.items()}
    for field in declared(settings):
        for name in filter(None, (field.metadata[key] for key in ("flag", "short", "alias"))):
            found[name.lstrip("-")] = field.metadata["parse"] is boolean
    return found


class _Formatter(argparse.HelpFormatter):
    """A formatter that breaks no line at the dash of a flag or value."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return textwrap.indent("\n".join(self._split_lines(text, width)), indent)


class _Aliased(argparse.Action):
    """An action that stores the value of a flag with an alias, and refuses different values."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._given: dict[str, Any] = {}  # by the name on the command line

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        self._given[option_string or self.dest] = values
        if len(set(self._given.values())) > 1:
            given = " and ".join(f"{name}={show(value)}" for name, value in self._given.items())
            parser.error(f"{given} are two names of one flag with different values")
        setattr(namespace, self.dest, values)


class _Repeated(argparse.Action):
    """An action that collects the values of a flag in a tuple."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        _option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        given = () if before is self.default else before
        setattr(namespace, self.dest, (*given, values))


class _FlagParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def _add(
    group: argparse._ArgumentGroup, field: dataclasses.Field[Any], environ: Mapping[str, str]
) -> None:
    env, default = field.metadata["env"], field.default
    if env and environ.get(env):
        parse = field.metadata["parse"]
        default = argument_type(parse, f"environment variable {env}")(environ[env])
    add_flag(group, field, default=default, help=meaning(field))


def add_flag(
    group: argparse._ArgumentGroup, field: dataclasses.Field[Any], *, default: Any, help: str
) -> None:
    """Add the flag of a settings class to a parser, with this default and help text."""
    name, parse, metavar, short, alias = (
        field.metadata[key] for key in ("flag", "parse", "metavar", "short", "alias")
    )
    bare: dict[str, Any] = {"nargs": "?", "const": True} if parse is boolean else {}
    if alias:
        bare["action"] = _Aliased
    if field.metadata["is_repeated"]:
        bare["action"] = _Repeated
    group.add_argument(
        *filter(None, (short, name, alias)),
        dest=field.name,
        type=argument_type(parse),
        default=default,
        metavar=metavar,
        help=help.replace("%", "%%"),
        **bare,
    )


def argument_type(parse: Callable[[str], Any], place: str = "") -> Callable[[str], Any]:
    """Return a parser for argparse whose errors have the message of ``parse``.

    With a ``place`` it raises ConfigError instead, with a message that names the place.
    """

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            if place:
                raise ConfigError(f"{place}: {error}") from error
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert
