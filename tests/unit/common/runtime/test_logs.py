"""What log lines look like, and what never gets into them."""

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
    """Put the root logger back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("aiohttp", "asyncio", "uvicorn", "kubernetes_asyncio"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_text_is_klogs() -> None:
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


def test_json_is_one_object_a_line() -> None:
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
def test_tokens_are_blotted_out(formatter: logging.Formatter) -> None:
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
def test_verbosity_counts_as_klogs(verbosity: int, want: int) -> None:
    assert level_of(verbosity) == want


@pytest.mark.usefixtures("_root_logger")
def test_configure_shows_what_the_verbosity_asks_for() -> None:
    stream = io.StringIO()
    configure(1, "json", stream=stream)
    configure(1, "text", stream=stream)  # the second time replaces the first
    logging.getLogger("updater").info("shown")
    logging.getLogger("updater").debug("hidden")
    logging.getLogger("uvicorn.error").info("hidden")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("] shown")
