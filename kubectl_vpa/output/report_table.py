"""The tables of a report: workloads and sums, on the screen, in Markdown and in HTML."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from common.resources import CPU, MEMORY
from kubectl_vpa.output import report_text as text
from kubectl_vpa.output.screen import Column, Screen
from kubectl_vpa.results.report import Report, ReportTotal, WorkloadReport

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&])")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, and the rows of their cells."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


def show(report: Report, screen: Screen, *, wide: bool, headings: bool) -> None:
    """Print both tables as they fit the screen."""
    fits = wide or screen.is_wide
    if report.items:
        _show(
            workloads(report, wide=wide) if fits else _narrow_workloads(report),
            screen,
            headings=headings,
        )
        screen.text("")
    sums = _padded(totals(report)) if fits else _narrow_totals(report)
    _show(sums, screen, headings=headings)
    if sentence := text.unchanged(report.total):
        screen.paragraph(sentence)


def as_markdown(report: Report) -> str:
    """Return both tables in Markdown, with the time and what could not be seen."""
    parts = [
        "# Requests and recommendations",
        f"{report.time:%Y-%m-%d %H:%M} UTC",
        _markdown(totals(report)),
        text.unchanged(report.total),
        _markdown(workloads(report)) if report.items else "",
        _escaped(text.costs(report.prices)),
        "\n".join(f"- not seen: {_escaped(note)}" for note in report.notes),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def workloads(report: Report, *, wide: bool = False) -> Table:
    """Return the table of workloads; with ``wide`` it also has the requests of all pods."""
    rows = [_cells(each, report, wide=wide) for each in report.items]
    return Table(tuple(_columns(report, wide=wide)), rows)


def totals(report: Report) -> Table:
    """Return the table of sums: a row for each namespace, if there are several, and the total."""
    columns = (
        Column(_heading(report)),
        *(Column("Workloads", right=True), Column("Pods", right=True)),
        *(Column("CPU"), Column("Memory"), Column("Given back"), Column("Lacking")),
        *_cost_columns(report),
    )
    return Table(columns, [_total_cells(each, report) for each in _sums(report)])


def _columns(report: Report, *, wide: bool) -> Iterator[Column]:
    if text.has_contexts(report):
        yield Column("Context")
    if text.has_namespaces(report):
        yield Column("Namespace")
    yield from (Column("Workload"), Column("Pods", right=True), Column("CPU"), Column("Memory"))
    if wide:
        yield from (Column("CPU of all"), Column("Memory of all"))
    yield from (Column("Given back"), Column("Lacking"))
    yield from _cost_columns(report)
    yield Column("Recommended by")


def _cost_columns(report: Report) -> Iterator[Column]:
    if report.prices is not None:
        yield Column(text.cost_heading(report.prices), right=True)


def _cells(workload: WorkloadReport, report: Report, *, wide: bool) -> tuple[str, ...]:
    return (
        *((workload.context,) if text.has_contexts(report) else ()),
        *((workload.namespace,) if text.has_namespaces(report) else ()),
        text.workload_of(workload),
        str(workload.pods),
        *(text.per_pod(CPU, workload.cpu), text.per_pod(MEMORY, workload.memory)),
        *(
            (text.all_pods(CPU, workload.cpu), text.all_pods(MEMORY, workload.memory))
            if wide
            else ()
        ),
        *(text.given_back(workload), text.lacking(workload)),
        *((text.cost_change(workload.cost),) if report.prices is not None else ()),
        text.basis(workload),
    )


def _total_cells(total: ReportTotal, report: Report) -> tuple[str, ...]:
    return (
        place_of(total, report),
        *(str(total.workloads), str(total.pods)),
        *(text.sums(CPU, total.cpu), text.sums(MEMORY, total.memory)),
        *(text.given_back(total), text.lacking(total)),
        *((text.cost_change(total.cost),) if report.prices is not None else ()),
    )


def _narrow_workloads(report: Report) -> Table:
    """Return name and amounts; effect and basis follow below."""
    columns = (
        *(Column("Workload"), Column("Pods", right=True), Column("CPU"), Column("Memory")),
        *_cost_columns(report),
        Column(""),
    )
    return Table(columns, [_narrow_cells(each, report) for each in report.items])


def _narrow_cells(workload: WorkloadReport, report: Report) -> tuple[str, ...]:
    place = (
        *((workload.context,) if text.has_contexts(report) else ()),
        *((workload.namespace,) if text.has_namespaces(report) else ()),
        workload.name,
    )
    return (
        "/".join(place),
        str(workload.pods),
        *(text.per_pod(CPU, workload.cpu), text.per_pod(MEMORY, workload.memory)),
        *((text.cost_change(workload.cost),) if report.prices is not None else ()),
        f"{workload.kind}: {text.below(workload)}",
    )


def _narrow_totals(report: Report) -> Table:
    columns = (
        *(Column(_heading(report)), Column("Pods", right=True), Column("CPU"), Column("Memory")),
        Column(""),
    )
    rows = [
        (
            *(place_of(each, report), str(each.pods)),
            *(text.sums(CPU, each.cpu), text.sums(MEMORY, each.memory)),
            text.effect(each, report.prices),
        )
        for each in _sums(report)
    ]
    return Table(columns, rows)


def _show(table: Table, screen: Screen, *, headings: bool) -> None:
    columns = [replace(each, heading=each.heading.upper()) for each in table.columns]
    screen.table(columns, table.rows, headings=headings)


def _padded(table: Table) -> Table:
    """Return the table with an empty last column, because the screen breaks a long last cell."""
    return Table((*table.columns, Column("")), [(*row, "") for row in table.rows])


def _heading(report: Report) -> str:
    return "Namespace" if text.has_namespaces(report) else ""


def place_of(total: ReportTotal, report: Report) -> str:
    """Return the namespace of a sum, with its context if there are several."""
    if total.namespace is None:
        return "TOTAL"
    several = text.has_contexts(report)
    return f"{total.context}/{total.namespace}" if several else total.namespace


def _sums(report: Report) -> Sequence[ReportTotal]:
    return (*(report.totals if text.has_namespaces(report) else ()), report.total)


def _markdown(table: Table) -> str:
    titles = [_escaped(column.heading) for column in table.columns]
    rules = ["---:" if column.right else "---" for column in table.columns]
    rows = [[_escaped(cell) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rules, *rows))


def _escaped(cell: str) -> str:
    """Return a text without a meaning in Markdown; it is in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(cell.split()))
