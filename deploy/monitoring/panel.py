"""The parts of a dashboard, and expressions that several rows use."""

from collections.abc import Sequence
from dataclasses import dataclass

COMPONENTS = "vpa_(recommender|updater|admission_controller)"
OURS = f'and on (job) {{__name__=~"{COMPONENTS}_build_info"}}'
"""Keeps the series of this VPA's jobs; other components expose ``rest_client_*``, too."""

RATE = "[$__rate_interval]"


@dataclass(frozen=True, kw_only=True)
class Query:
    """An expression, and the legend of its series."""

    expr: str
    legend: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel with its queries."""

    title: str
    queries: Sequence[Query]
    about: str = ""
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8


@dataclass(frozen=True, kw_only=True)
class Row:
    """Panels under a title."""

    title: str
    panels: Sequence[Panel]


def one(expr: str, legend: str) -> tuple[Query]:
    """Return a single query."""
    return (Query(expr=expr, legend=legend),)
