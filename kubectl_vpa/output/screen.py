"""Standard output and standard error: colours, width, tables, progress and notes."""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")  # all but the line feed
_GAP = "  "
_INDENT = 2  # of a line that continues a row
_LEAST_WIDTH = 20  # cells; a narrower text has words in pieces
_LEAST_WIDE = 120  # cells; see ``is_wide``
_LEAST_LAST_COLUMN = 40  # cells; a narrower last column gets lines of its own


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; its cells are texts, which ``style`` may colour."""

    heading: str
    right: bool = False
    styles: Mapping[str, str] | None = None  # by the text of a cell


class Screen:
    """Where a command prints.

    Colours are used on a terminal without NO_COLOR. A line is as long as it has to be where the
    output is no terminal, so that other programs can read it; COLUMNS limits it there, too.
    """

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # an arrow must not end the program
        self._out = Console(highlight=False, markup=False, soft_wrap=True)
        self._err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        limited = self._out.is_terminal or os.environ.get("COLUMNS", "").isdecimal()
        self.width: int | None = self._out.width if limited else None
        self.height: int | None = self._out.height if self._out.is_terminal else None
        self._reading = ""

    def text(self, content: str) -> None:
        """Print text as it is."""
        self._out.out(content, highlight=False)

    def paragraph(self, content: str, *, style: str = "") -> None:
        """Print words in lines that fit."""
        for line in _wrapped(self._out, Text(printable(content), style=style), self.width):
            self._out.print(line)

    def clear(self) -> None:
        """Remove everything from a terminal."""
        self._out.clear()

    @property
    def is_unicode(self) -> bool:
        """Return True if the output's encoding has more than ASCII."""
        return not self._out.options.ascii_only

    def lines(self, content: Iterable[Text]) -> None:
        """Print lines with their styles."""
        for line in content:
            self._out.print(line)

    def raw(self, content: str) -> None:
        """Write text without a new line at its end."""
        sys.stdout.write(content)

    @property
    def is_wide(self) -> bool:
        """Return True if there is room for all columns; a narrow terminal gets fewer of them."""
        return self.width is None or self.width >= _LEAST_WIDE

    def rows(
        self, rows: Sequence[Mapping[str, str]], columns: Iterable[Column] = (), *, headings: bool
    ) -> None:
        """Print rows of cells by heading, all with the same headings, as a table.

        ``columns`` describes those that aren't plain and on the left.
        """
        described = {column.heading: column for column in columns}
        self.table(
            [described.get(each, Column(each)) for each in (rows[0] if rows else ())],
            [tuple(row.values()) for row in rows],
            headings=headings,
        )

    def table(
        self, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, headings: bool
    ) -> None:
        """Print a table; where the last column has no room, it follows on lines of its own."""
        cells = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
        titles = [column.heading for column in columns]
        shown = [titles, *cells] if headings else cells
        widths = [
            max((cell_len(row[place]) for row in shown), default=0)
            for place in range(len(columns) - 1)
        ]
        left = sum(widths) + len(_GAP) * len(widths)
        below = self.width is not None and self.width - left < _LEAST_LAST_COLUMN
        if headings:
            self._row(columns, titles, widths, below=False, style="bold")
        for row in cells:
            self._row(columns, row, widths, below=below, style="")

    def _row(
        self,
        columns: Sequence[Column],
        row: Sequence[str],
        widths: Sequence[int],
        *,
        below: bool,
        style: str,
    ) -> None:
        line = Text(style=style)
        for column, cell, width in zip(columns, row, widths, strict=False):
            padding = " " * (width - cell_len(cell))
            shown = Text(cell, style=(column.styles or {}).get(cell, "") if not style else "")
            line.append_text(Text(padding) + shown if column.right else shown + Text(padding))
            line.append(_GAP)
        last = Text(row[-1], style="dim" if below else "")
        if not below:
            indent = cell_len(line.plain)
            first, *others = _wrapped(self._out, last, self._room(indent)) or [Text()]
            line.append_text(first)
            line.rstrip()
            self._out.print(line)
        else:
            line.rstrip()
            self._out.print(line)
            indent = _INDENT
            others = _wrapped(self._out, last, self._room(indent))
        for each in others:
            self._out.print(Text(" " * indent) + each)

    def _room(self, indent: int) -> int | None:
        """Return the width beside ``indent`` cells; None: it is unlimited."""
        return None if self.width is None else self.width - indent

    def notes(self, notes: Iterable[str], *, about: str = "not seen") -> None:
        """Print what could not be seen, or other remarks, on standard error."""
        self.finish_progress()
        for note in notes:
            self._err.print(printable(f"{about}: {note}"), style="yellow")

    def error(self, message: str) -> None:
        """Print an error, on standard error."""
        self.finish_progress()
        self._err.print(printable(f"error: {message}"))

    def progress(self, resource: str, count: int) -> None:
        """Show what is being read, on a terminal only."""
        if self._err.is_terminal:
            self._reading = f"reading {resource}: {count}"
            self._err.file.write(f"\r\x1b[K{self._reading}")
            self._err.file.flush()

    def finish_progress(self) -> None:
        """Remove the line of ``progress``."""
        if self._reading:
            self._reading = ""
            self._err.file.write("\r\x1b[K")
            self._err.file.flush()


def printable(text: str) -> str:
    """Return a text without characters that change a terminal; Events may contain any."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _wrapped(console: Console, text: Text, width: int | None) -> list[Text]:
    """Return the lines of a text; without a width it is one."""
    if not text.plain:
        return []
    if width is None:
        return [text]
    lines = list(text.wrap(console, max(width, _LEAST_WIDTH)))
    for line in lines:
        line.rstrip()
    return lines
