"""Log lines on standard error: klog's text, or one JSON object per line."""

import functools
import json
import logging
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO

from common.flags import show

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
_LETTERS = {logging.DEBUG: "I", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E"}
_SECRET = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_encode = json.JSONEncoder(ensure_ascii=False).encode
# Characters that terminals and viewers interpret instead of showing: controls, DEL, C1, line and
# paragraph separators, text directions, and surrogates, which UTF-8 can't encode.
_UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONGEST = 2048  # characters of a message or a value, escapes included
_LONGEST_TRACE = 16 * 1024
_LONGEST_ESCAPE = 7  # characters: \\u0001, in a traceback in JSON
_QUIET = ("aiohttp", "asyncio", "uvicorn", "kubernetes_asyncio")


def configure(verbosity: int, format: str, *, stream: TextIO | None = None) -> None:
    """Set up logging for the process.

    ``verbosity`` is that of klog's ``-v``: 0 shows warnings, 1 to 4 information, 5 and more
    debug messages. ``format`` is ``text`` or ``json``; ``stream`` is standard error unless given.
    """
    logging.logThreads = logging.logMultiprocessing = False  # not part of any line
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level_of(verbosity))
    for name in _QUIET:  # their messages only help to debug these libraries
        logging.getLogger(name).setLevel(logging.WARNING if verbosity < 8 else level_of(verbosity))


def level_of(verbosity: int) -> int:
    """Return the logging level for klog's verbosity."""
    if verbosity >= 5:
        return logging.DEBUG
    return logging.INFO if verbosity >= 1 else logging.WARNING


class TextFormatter(logging.Formatter):
    """``I0102 15:04:05.000000    4711 cycle.py:17] message key="value" count=3``.

    The keys are those of ``extra``, in their order. Control characters in a message or a value
    are escaped, so that neither can forge a line or control a terminal. Both are cut at 2,048
    characters, counted after escaping, because any user of the cluster can write texts that are
    logged.
    """

    def format(self, record: logging.LogRecord) -> str:
        letter = _LETTERS.get(record.levelno, "E")
        seconds, micros = divmod(round(record.created * 1e6), 1_000_000)
        head = (
            f"{letter}{_second(seconds)}.{micros:06d} {record.process:7d} "
            f"{record.filename}:{record.lineno}] {_escaped(_cut(record.getMessage(), _escaped))}"
        )
        pairs = "".join(f" {key}={_text(value)}" for key, value in _extras(record))
        trace = _escaped_lines(_cut(_trace(self, record), _escaped_lines, _LONGEST_TRACE))
        return _redacted(head + pairs + (f"\n{trace}" if trace else ""))


class JsonFormatter(logging.Formatter):
    """``{"ts": …, "level": …, "caller": "cycle.py:17", "msg": …}`` and the keys of ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC)
        entry: dict[str, Any] = {
            "ts": when.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": _cut(record.getMessage(), _in_json),
        }
        for key, value in _extras(record):
            entry[f"{key}_" if key in entry else key] = _json(value)
        trace = _trace(self, record)
        if trace:
            cut = _cut(trace, lambda text: _in_json(_escaped_lines(text)), _LONGEST_TRACE)
            entry["stacktrace"] = _escaped_lines(cut)
        return _redacted(_encoded(entry))


@functools.lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    """Format a second; cached, because a busy process logs thousands of lines in a second."""
    return f"{datetime.fromtimestamp(seconds, UTC):%m%d %H:%M:%S}"


def _redacted(line: str) -> str:
    if "Bearer" not in line and "Basic" not in line:
        return line
    return _SECRET.sub(r"\1 <redacted>", line)


def _extras(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for key, value in vars(record).items():
        if key not in _STANDARD:
            yield key, value


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def _cut(text: str, escape: Callable[[str], str], longest: int = _LONGEST) -> str:
    """Return the longest start of a text that has at most ``longest`` characters once escaped.

    The start is returned unescaped, so no escape is cut in two. ``escape`` must treat each
    character on its own.
    """
    if len(text) * _LONGEST_ESCAPE <= longest:
        return text
    ends = range(1, min(len(text), longest) + 1)
    end = bisect_right(ends, longest, key=lambda end: len(escape(text[:end])))
    return text if end == len(text) else f"{text[:end]}… ({len(text) - end} more characters)"


def _escaped(text: str) -> str:
    return _UNSHOWN.sub(_escape, text)


def _escaped_lines(text: str) -> str:
    return "\n".join(map(_escaped, text.split("\n")))


def _in_json(text: str) -> str:
    """Return the text between the quotes of a JSON string."""
    return _encoded(text)[1:-1]


def _escape(found: re.Match[str]) -> str:
    return _NAMED.get(found[0]) or f"\\u{ord(found[0]):04x}"


def _encoded(value: Any) -> str:
    """Encode a value as JSON, and escape characters that viewers don't show."""
    return _escaped(_encode(value))


def _json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return show(value) if isinstance(value, timedelta) else _cut(str(value), _in_json)


def _text(value: Any) -> str:
    """Return numbers and Booleans unchanged, and other values as a quoted text."""
    return _encoded(_json(value))
