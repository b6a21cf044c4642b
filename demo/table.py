"""The demo's output: a table that is redrawn on a terminal, or plain lines in a pipe."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TextIO

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.workloads import WORKLOADS, Progress, Verdict, WorkloadState, given_back, show

_COLOUR = {Verdict.WAITING: "yellow", Verdict.REACHED: "green", Verdict.FAILED: "red"}
_MARK = {Verdict.WAITING: "...", Verdict.REACHED: "ok", Verdict.FAILED: "FAILED"}
_COUNTS = ("evicted", "resized", "restarts", "OOM")


class View(Protocol):
    """An output for the state of the demo."""

    def say(self, text: str) -> None: ...

    def update(
        self, elapsed: float, states: Mapping[str, WorkloadState], progress: Mapping[str, Progress]
    ) -> None: ...

    def close(self) -> None: ...


class LiveTable:
    """A table that is redrawn in place; for a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def update(
        self, elapsed: float, states: Mapping[str, WorkloadState], progress: Mapping[str, Progress]
    ) -> None:
        rows = [
            (workload.name, show(states[workload.name].request), show(states[workload.name].target))
            for workload in WORKLOADS
        ]
        table = _table(("workload", "request", "target"), rows, states)
        drawn = Group(Text(f"{elapsed:.0f} s"), table, _notes(progress))
        if self._live is None:
            self._live = Live(drawn, console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(drawn, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class PlainLines:
    """An output with a line for each change of a workload; for pipes and logs."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._last: dict[str, str] = {}

    def say(self, text: str) -> None:
        print(text, file=self._output, flush=True)

    def update(
        self, elapsed: float, states: Mapping[str, WorkloadState], progress: Mapping[str, Progress]
    ) -> None:
        for workload in WORKLOADS:
            state = states[workload.name]
            counts = zip(_COUNTS, _counts(state), strict=True)
            line = (
                f"{workload.name:<16} request {show(state.request):<14} "
                f"target {show(state.target):<14} "
                f"{'  '.join(f'{name} {count}' for name, count in counts)}  "
                f"{progress[workload.name].note}"
            )
            if self._last.get(workload.name) != line:
                self._last[workload.name] = line
                self.say(f"{elapsed:5.1f}s  {line}")

    def close(self) -> None:
        self._output.flush()


def summary(
    start: Mapping[str, WorkloadState],
    end: Mapping[str, WorkloadState],
    progress: Mapping[str, Progress],
) -> Group:
    """Return the summary: requests before and after, notes, and sums of changes."""
    rows = [
        (workload.name, show(start[workload.name].request), show(end[workload.name].request))
        for workload in WORKLOADS
        if workload.name in start
    ]
    freed, added = given_back(start, end)
    return Group(
        Text("\nRequests of each pod, before and after"),
        _table(("workload", "before", "after"), rows, end),
        _notes(progress),
        Text(f"\nRequests decreased by {show(freed)}, and increased by {show(added)}, in total."),
    )


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], states: Mapping[str, WorkloadState]
) -> Table:
    """Return a table of ``rows``, whose first column is the workload, and of its counts."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for heading in _COUNTS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row, *_counts(states[row[0]]))
    return table


def _notes(progress: Mapping[str, Progress]) -> Text:
    """Return a line for each workload with its mode and progress."""
    text = Text()
    for workload in WORKLOADS:
        judged = progress[workload.name]
        text.append(f"{_MARK[judged.verdict]:<7}", style=_COLOUR[judged.verdict])
        text.append(f"{workload.name} ({workload.mode}): {judged.note}\n")
    text.rstrip()
    return text


def _counts(state: WorkloadState) -> tuple[str, ...]:
    counts = (state.evictions, state.resizes, state.restarts, state.oom_kills)
    return tuple(str(count) for count in counts)
