"""What the demo shows: a table that redraws on a terminal, plain lines in a pipe."""

from collections.abc import Mapping
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.story import CHAPTERS, Progress, Verdict, WorkloadState, given_back, show

_COLOUR = {Verdict.WAITING: "yellow", Verdict.REACHED: "green", Verdict.SPOILED: "red"}
_HEADINGS = ("workload", "mode", "request", "target", "evicted", "resized", "restarts", "OOM", "")


class View(Protocol):
    """Takes the state of the story from time to time."""

    def say(self, text: str) -> None: ...

    def update(
        self, elapsed: float, states: Mapping[str, WorkloadState], progress: Mapping[str, Progress]
    ) -> None: ...

    def close(self) -> None: ...


class LiveTable:
    """Redraws one table in place; for a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def update(
        self, elapsed: float, states: Mapping[str, WorkloadState], progress: Mapping[str, Progress]
    ) -> None:
        table = _table(states, progress, title=f"{elapsed:4.0f} s", colour=True)
        if self._live is None:
            self._live = Live(table, console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(table, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class PlainLines:
    """Prints a line when something about a workload has changed; for pipes and logs."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._last: dict[str, tuple[str, ...]] = {}

    def say(self, text: str) -> None:
        print(text, file=self._output, flush=True)

    def update(
        self, elapsed: float, states: Mapping[str, WorkloadState], progress: Mapping[str, Progress]
    ) -> None:
        for chapter in CHAPTERS:
            row = _row(states[chapter.name], progress[chapter.name])
            if self._last.get(chapter.name) == row:
                continue
            self._last[chapter.name] = row
            request, target, evicted, resized, restarts, kills, note = row
            self.say(
                f"{elapsed:5.1f}s  {chapter.name:<16} request {request:<15} target {target:<15} "
                f"evicted {evicted}  resized {resized}  restarts {restarts}  OOM {kills}  {note}"
            )

    def close(self) -> None:
        self._output.flush()


def summary(
    start: Mapping[str, WorkloadState],
    end: Mapping[str, WorkloadState],
    progress: Mapping[str, Progress],
) -> Table:
    """What has become of each workload, and what the cluster got back."""
    table = Table(title="What became of the workloads", title_justify="left")
    headings = ("workload", "mode", "before", "after", *_HEADINGS[4:8], "end")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in _HEADINGS[4:8] else "left")
    for chapter in CHAPTERS:
        before, after = start[chapter.name], end[chapter.name]
        judged = progress[chapter.name]
        _, _, *counts, _ = _row(after, judged)
        mark = "ok" if judged.verdict is Verdict.REACHED else "NOT REACHED"
        table.add_row(
            chapter.name,
            chapter.mode,
            show(before.request),
            show(after.request),
            *counts,
            f"{mark}: {judged.note}",
        )
    freed, added = given_back(start, end)
    table.caption = f"given back: {show(freed)}; given to workloads that lacked it: {show(added)}"
    table.caption_justify = "left"
    return table


def _row(state: WorkloadState, progress: Progress) -> tuple[str, ...]:
    return (
        show(state.request),
        show(state.target),
        str(state.evictions),
        str(state.resizes),
        str(state.restarts),
        str(state.oom_kills),
        progress.note,
    )


def _table(
    states: Mapping[str, WorkloadState],
    progress: Mapping[str, Progress],
    *,
    title: str,
    colour: bool,
) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right" if heading in _HEADINGS[4:8] else "left")
    for chapter in CHAPTERS:
        judged = progress[chapter.name]
        *cells, note = _row(states[chapter.name], judged)
        styled = f"[{_COLOUR[judged.verdict]}]{note}[/]" if colour else note
        table.add_row(chapter.name, chapter.mode, *cells, styled)
    return table
