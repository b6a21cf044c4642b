"""The format of log lines, and texts that are escaped, cut or redacted in them."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from common.runtime.logs import JsonFormatter, TextFormatter, configure, level_of


def record(message: str, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("updater.cycle", level, "/src/updater/cycle.py", 17, message, (), None)
    made.created, made.process = 1767366245.000123, 4711
    vars(made).update(extra)
    return made


@pytest.fixture
def _root_logger() -> Iterator[None]:
    """Restore the root logger."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("aiohttp", "asyncio", "uvicorn", "kubernetes_asyncio"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_the_text_format_is_that_of_klog() -> None:
    line = TextFormatter().format(
        record("pod evicted", pod="shop/web-0", count=3, dry=False, age=timedelta(minutes=1))
    )
    assert line == (
        "I0102 15:04:05.000123    4711 cycle.py:17] pod evicted"
        ' pod="shop/web-0" count=3 dry=false age="1m0s"'
    )


@pytest.mark.parametrize(
    ("level", "letter"),
    [
        (logging.DEBUG, "I"),
        (logging.INFO, "I"),
        (logging.WARNING, "W"),
        (logging.ERROR, "E"),
        (logging.CRITICAL, "E"),
    ],
)
def test_the_first_letter_is_the_level(level: int, letter: str) -> None:
    assert TextFormatter().format(record("x", level))[0] == letter


def test_a_line_break_cannot_forge_a_line() -> None:
    line = TextFormatter().format(record("a\nI0102 forged", pod="x\ny"))
    assert "\n" not in line
    assert line.endswith('a\\nI0102 forged pod="x\\ny"')


ESCAPED = {
    "escape sequence": ("\x1b[2Jx", "\\u001b[2Jx"),
    "NUL": ("\x00", "\\u0000"),
    "DEL": ("\x7f", "\\u007f"),
    "C1 escape sequence": ("\x9b2J", "\\u009b2J"),
    "next line": ("a\x85b", "a\\u0085b"),
    "line separator": ("a\u2028b", "a\\u2028b"),
    "right to left": ("\u202egnp.exe", "\\u202egnp.exe"),
    "right-to-left mark": ("a\u200fb", "a\\u200fb"),
    "left-to-right mark": ("a\u200eb", "a\\u200eb"),
    "Arabic letter mark": ("a\u061cb", "a\\u061cb"),
    "lone surrogate": ("\ud800", "\\ud800"),
    "tab": ("a\tb", "a\\tb"),
}


@pytest.mark.parametrize(("value", "shown"), ESCAPED.values(), ids=ESCAPED.keys())
def test_control_characters_are_escaped(value: str, shown: str) -> None:
    line = TextFormatter().format(record(f"of {value}", pod=value))
    assert line.endswith(f'of {shown} pod="{shown}"')
    entry = JsonFormatter().format(record("x", pod=value))
    assert shown in entry
    assert json.loads(entry)["pod"] == value


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_long_texts_are_cut(formatter: logging.Formatter) -> None:
    line = formatter.format(record("m" * 2049, pod="x" * 4_000_000, uid="y" * 2048))
    assert "m" * 2048 + "… (1 more characters)" in line
    assert "x" * 2048 + "… (3997952 more characters)" in line
    assert "y" * 2048 + '"' in line
    assert len(line) < 7000


CUT = {
    "escapes at the limit": ("\x01" * 341 + "mm", "\\u0001" * 341 + "mm"),
    "escapes beyond the limit": (
        "\x01" * 341 + "mmm",
        "\\u0001" * 341 + "mm… (1 more characters)",
    ),
    "an escape that ends at the limit": ("mm" + "\x01" * 341, "mm" + "\\u0001" * 341),
    "an escape that the limit divides": (
        "mmm" + "\x01" * 341,
        "mmm" + "\\u0001" * 340 + "… (1 more characters)",
    ),
    "short escapes at the limit": ("\n" * 1024, "\\n" * 1024),
    "short escapes beyond the limit": (
        "\n" * 1025,
        "\\n" * 1024 + "… (1 more characters)",
    ),
    "escapes only": ("\x01" * 5000, "\\u0001" * 341 + "… (4659 more characters)"),
}


@pytest.mark.parametrize(("value", "shown"), CUT.values(), ids=CUT.keys())
def test_escapes_count_before_the_cut_and_stay_whole(value: str, shown: str) -> None:
    line = TextFormatter().format(record(value, pod=value))
    assert line.endswith(f'] {shown} pod="{shown}"')
    entry = JsonFormatter().format(record(value, pod=value))
    assert f'"msg":"{shown}"' in entry.replace(": ", ":")
    assert f'"pod":"{shown}"' in entry.replace(": ", ":")


def test_an_escaped_quote_counts_as_two_characters() -> None:
    line = TextFormatter().format(record("x", few='"' * 1024, many='"' * 1025))
    some = '\\"' * 1024
    assert line.endswith(f'few="{some}" many="{some}… (1 more characters)"')


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_escapes_in_a_traceback_count_before_the_cut(formatter: logging.Formatter) -> None:
    made = record("failed")
    made.stack_info = "\x01" * 20_000
    line = formatter.format(made)
    assert 16_000 < len(line) < 16_700
    assert "u0001… (" in line


def test_a_traceback_keeps_its_line_breaks_and_no_other_control_character() -> None:
    made = record("failed")
    try:
        raise ValueError("\x1b[31m" + "z" * 20_000)  # noqa: TRY301 - its traceback is tested
    except ValueError:
        made.exc_info = sys.exc_info()
    text = TextFormatter().format(made)
    assert "\nValueError: \\u001b[31mzzz" in text
    assert len(text) < 17_000


def test_a_json_entry_is_one_object_on_one_line() -> None:
    entry = json.loads(JsonFormatter().format(record("pod\nevicted", pod="web", count=3, msg_=1)))
    assert entry == {
        "ts": "2026-01-02T15:04:05.000123Z",
        "level": "info",
        "caller": "cycle.py:17",
        "msg": "pod\nevicted",
        "pod": "web",
        "count": 3,
        "msg_": 1,
    }


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_tokens_are_redacted(formatter: logging.Formatter) -> None:
    line = formatter.format(record("sent Bearer eyJhbGciOi.J9-x_y", header="Basic bWU6c2VjcmV0"))
    assert "eyJ" not in line
    assert "bWU6" not in line
    assert line.count("<redacted>") == 2


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_traceback_is_kept(formatter: logging.Formatter) -> None:
    made = record("failed")
    try:
        raise ValueError("boom")  # noqa: TRY301 - a traceback is what the test needs
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: boom" in formatter.format(made)


@pytest.mark.parametrize(
    ("verbosity", "want"),
    [
        (-1, logging.WARNING),
        (0, logging.WARNING),
        (1, logging.INFO),
        (4, logging.INFO),
        (5, logging.DEBUG),
    ],
)
def test_levels_by_verbosity(verbosity: int, want: int) -> None:
    assert level_of(verbosity) == want


@pytest.mark.usefixtures("_root_logger")
def test_configure_sets_the_level_by_verbosity() -> None:
    stream = io.StringIO()
    configure(1, "json", stream=stream)
    configure(1, "text", stream=stream)  # the second call replaces the first
    logging.getLogger("updater").info("shown")
    logging.getLogger("updater").debug("hidden")
    logging.getLogger("uvicorn.error").info("hidden")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("] shown")
