"""A report as one HTML page that needs no other file and no JavaScript.

Every text of the cluster is escaped. The page is well-formed XML, so that other programs can read
it. The plots are SVG with the colours of the page, light or dark; the tables have the same numbers.
"""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.resources import CPU, MEMORY
from kubectl_vpa.judge.report_totals import nanos
from kubectl_vpa.output import report_table
from kubectl_vpa.output import report_text as text
from kubectl_vpa.output.amounts import short
from kubectl_vpa.output.report_table import Table
from kubectl_vpa.output.screen import Column
from kubectl_vpa.results.report import Report

_MOST_BARS = 20
_LABEL_LENGTH = 27  # characters
_WIDTH, _LABELS, _VALUES = 640, 210, 70  # of a plot, in its own units, and so is the rest
_ROW, _BAR, _GAP = 40, 13, 2

_NOTHING_ELSE = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """\
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1a1f26; --soft: #57606a; --line: #d5dae0; --panel: #f5f7f9;
  --requested: #8c96a3; --recommended: #0a69c7; --back: #136f35; --lack: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161b; --text: #e4e8ed; --soft: #a0a9b4; --line: #333b45; --panel: #1b2129;
    --requested: #76808d; --recommended: #5aa9f5; --back: #57c279; --lack: #ff8a80;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.5rem; max-width: 90rem; background: var(--page);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif;
}
h1 { margin: 0; font-size: 1.6rem; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.15rem; }
p { margin: .25rem 0; max-width: 48rem; }
.soft { color: var(--soft); }
.back { color: var(--back); }
.lack { color: var(--lack); }
dl { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.5rem 0 .5rem; }
dl div {
  flex: 1 1 11rem; padding: .75rem 1rem; border: 1px solid var(--line); border-radius: .5rem;
  background: var(--panel);
}
dt { color: var(--soft); font-size: .85rem; }
dd { margin: 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
dd:first-of-type { font-size: 1.25rem; white-space: nowrap; }
.plots {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 2rem;
}
figure { margin: 0; }
figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--text); font-size: 13px; font-variant-numeric: tabular-nums; }
.requested { fill: var(--requested); background: var(--requested); }
.recommended { fill: var(--recommended); background: var(--recommended); }
.legend { margin-left: .75rem; white-space: nowrap; }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .25rem; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); }
th, td, caption { text-align: left; vertical-align: top; }
caption { padding-bottom: .5rem; font-size: .9rem; }
th { font-weight: 600; }
thead th { color: var(--soft); font-size: .85rem; white-space: nowrap; }
.whole { white-space: nowrap; }
.right { padding-right: 1.5rem; text-align: right; white-space: nowrap; }
tr.total > * { border-top: 2px solid var(--line); font-weight: 600; }
footer { margin-top: 2.5rem; font-size: .85rem; }
@media print {
  :root {
    color-scheme: light;
    --page: #ffffff; --text: #000000; --soft: #444444; --line: #bbbbbb; --panel: #ffffff;
    --requested: #8c96a3; --recommended: #0a69c7; --back: #136f35; --lack: #b3261e;
  }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { max-width: none; padding: 0; font-size: 11px; }
  .scroll { overflow: visible; }
  thead { display: table-header-group; }
  tr, figure, dl div { break-inside: avoid; }
}
"""

_EXPLANATION = (
    "Requests are given back if less is recommended than requested, and lacking if more is. What "
    "one container lacks is not offset by what another gives back."
)


@dataclass(frozen=True, slots=True)
class _Bars:
    """The requests of one namespace or workload."""

    label: str
    request: float
    request_text: str
    recommended: float
    recommended_text: str

    @property
    def larger(self) -> float:
        """Return the larger of both."""
        return max(self.request, self.recommended)


def as_html(report: Report) -> str:
    """Return the page."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en" xmlns="http://www.w3.org/1999/xhtml">',
        "<head>",
        '<meta charset="utf-8" />',
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_ELSE}" />',
        '<meta name="viewport" content="width=device-width, initial-scale=1" />',
        '<meta name="generator" content="kubectl vpa report" />',
        "<title>Requests and recommendations</title>",
        f"<style>\n{_STYLE}</style>",
        "</head>",
        "<body>",
        *_header(report),
        "<main>",
        *_notes(report),
        *_plots(report),
        *_sums(report),
        *_workloads(report),
        "</main>",
        f"<footer class='soft'><p>{_EXPLANATION} {_safe(text.costs(report.prices))}</p></footer>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _header(report: Report) -> Iterator[str]:
    total = report.total
    contexts = ", ".join(filter(None, report.contexts))
    yield "<header>"
    yield "<h1>Requests and recommendations</h1>"
    about = f"{report.time:%Y-%m-%d %H:%M} UTC" + (f", {contexts}" if contexts else "")
    yield f"<p class='soft'>{_safe(about)}</p>"
    yield "<dl>"
    for name, resource, amounts in (("CPU", CPU, total.cpu), ("Memory", MEMORY, total.memory)):
        back, lack = short(resource, amounts.given_back), short(resource, amounts.lacking)
        yield (
            f"<div><dt>{name} of all pods</dt><dd>{_safe(text.sums(resource, amounts))}</dd>"
            f"<dd><span class='back'>{_safe(back)} given back</span>, "
            f"<span class='lack'>{_safe(lack)} lacking</span></dd></div>"
        )
    if report.prices is not None and total.cost is not None:
        cost, currency = total.cost, report.prices.currency
        now, then = text.money(cost.request), text.money(cost.recommended)
        change = text.money(cost.change, sign=True)
        yield (
            f"<div><dt>Cost per month</dt><dd>{_safe(f'{now} → {then} {currency}')}</dd>"
            f"<dd>{_safe(f'{change} {currency}')}</dd></div>"
        )
    yield (f"<div><dt>Workloads</dt><dd>{total.workloads:,}</dd><dd>{total.pods:,} pods</dd></div>")
    yield "</dl>"
    if sentence := text.unchanged(total):
        yield f"<p class='soft'>{_safe(sentence)}</p>"
    yield "</header>"


def _plots(report: Report) -> Iterator[str]:
    several = text.has_namespaces(report)
    what = "namespaces" if several else "workloads"
    yield "<section>"
    yield "<h2>Requested and recommended</h2>"
    yield (
        "<p class='soft'>All pods together. "
        "<span class='legend'><span class='key requested'></span>requested</span> "
        "<span class='legend'><span class='key recommended'></span>recommended</span></p>"
    )
    yield "<div class='plots'>"
    for name, resource in (("CPU", CPU), ("Memory", MEMORY)):
        found = _of_namespaces(report, resource) if several else _of_workloads(report, resource)
        bars = sorted((each for each in found if each.larger), key=lambda each: -each.larger)
        shown = bars[:_MOST_BARS]
        rest = f", the {len(shown)} largest of {len(bars)} {what}" if len(bars) > len(shown) else ""
        yield "<figure>"
        yield f"<figcaption>{name}{rest}</figcaption>"
        yield from _plot(name, what, shown)
        yield "</figure>"
    yield "</div>"
    yield "</section>"


def _plot(name: str, what: str, bars: Sequence[_Bars]) -> Iterator[str]:
    height = max(_ROW * len(bars), _ROW)
    largest = max((each.larger for each in bars), default=1.0)
    room = _WIDTH - _LABELS - _VALUES
    spoken = f"{name}, requested and recommended, of {what}. The tables have the same numbers."
    yield f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_safe(spoken)}">'
    for place, each in enumerate(bars):
        top = place * _ROW + (_ROW - 2 * _BAR - _GAP) // 2
        label = each.label
        if len(label) > _LABEL_LENGTH:
            label = f"{label[: _LABEL_LENGTH - 1]}…"
        numbers = (
            f"{each.label}: {each.request_text} requested, {each.recommended_text} recommended"
        )
        yield f"<g><title>{_safe(numbers)}</title>"
        yield (
            f'<text x="{_LABELS - 8}" y="{top + _BAR + 5}" text-anchor="end">{_safe(label)}</text>'
        )
        for kind, amount, words, y in (
            ("requested", each.request, each.request_text, top),
            ("recommended", each.recommended, each.recommended_text, top + _BAR + _GAP),
        ):
            width = room * amount / largest
            yield (
                f'<rect class="{kind}" x="{_LABELS}" y="{y}" width="{width:.1f}" '
                f'height="{_BAR}" rx="2" />'
            )
            yield f'<text x="{_LABELS + width + 6:.1f}" y="{y + _BAR - 2}">{_safe(words)}</text>'
        yield "</g>"
    yield "</svg>"


def _of_namespaces(report: Report, resource: str) -> Iterator[_Bars]:
    for each in report.totals:
        amounts = each.cpu if resource == CPU else each.memory
        label = report_table.place_of(each, report)
        yield _bars(resource, label, amounts.request, amounts.recommended)


def _of_workloads(report: Report, resource: str) -> Iterator[_Bars]:
    for each in report.items:
        amounts = each.cpu if resource == CPU else each.memory
        label = text.workload_of(each)
        yield _bars(resource, label, amounts.total_request, amounts.total_recommended)


def _bars(resource: str, label: str, request: str, recommended: str) -> _Bars:
    return _Bars(
        label=label,
        request=float(nanos(request)),
        request_text=short(resource, request),
        recommended=float(nanos(recommended)),
        recommended_text=short(resource, recommended),
    )


def _sums(report: Report) -> Iterator[str]:
    """Yield the sums of the namespaces; those of a single one are in the header."""
    if not text.has_namespaces(report):
        return
    yield "<section>"
    yield "<h2>Namespaces</h2>"
    yield from _table(report_table.totals(report), "All amounts are of all pods.", totals=1)
    yield "</section>"


def _workloads(report: Report) -> Iterator[str]:
    if not report.items:
        return
    yield "<section>"
    yield "<h2>Workloads</h2>"
    caption = (
        "CPU and memory are of one pod; given back and lacking are of all pods. The workload with "
        "the largest effect is first."
    )
    yield from _table(report_table.workloads(report), caption)
    yield "</section>"


def _table(table: Table, caption: str, *, totals: int = 0) -> Iterator[str]:
    """Yield a table; the last ``totals`` rows are sums of the others."""
    yield "<div class='scroll'>"
    yield "<table>"
    yield f"<caption class='soft'>{_safe(caption)}</caption>"
    titles = (
        f'<th scope="col"{_class(column)}>{_safe(column.heading)}</th>' for column in table.columns
    )
    yield f"<thead><tr>{''.join(titles)}</tr></thead>"
    yield "<tbody>"
    for number, row in enumerate(table.rows):
        is_total = number >= len(table.rows) - totals
        kind = ' class="total"' if is_total else ""
        yield f"<tr{kind}>{''.join(_row(table, row))}</tr>"
    yield "</tbody>"
    yield "</table>"
    yield "</div>"


def _row(table: Table, row: Sequence[str]) -> Iterator[str]:
    for place, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
        element, scope = ("td", "") if place else ("th", ' scope="row"')
        kind = _class(column)
        yield f"<{element}{scope}{kind}>{_safe(cell)}</{element}>"


def _class(column: Column) -> str:
    if column.right:
        return ' class="right"'
    return ' class="whole"' if column.heading in _WHOLE else ""


_WHOLE = frozenset({"Context", "CPU", "Memory", "Given back", "Lacking"})
"""Columns whose cells are not broken into lines."""


def _notes(report: Report) -> Iterator[str]:
    if report.notes:
        yield "<section>"
        yield "<h2>Not seen</h2>"
        yield "<ul>"
        yield from (f"<li>{_safe(note)}</li>" for note in report.notes)
        yield "</ul>"
        yield "</section>"


def _safe(content: str) -> str:
    """Return a text escaped for HTML and XML, without control characters."""
    return html.escape("".join(each for each in content if each.isprintable()))
