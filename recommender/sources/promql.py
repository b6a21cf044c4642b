"""The queries to Prometheus, and their time ranges.

Source: recommender.md 12.5 and 14.2; ``prometheusHistoryProvider``,
vertical-pod-autoscaler/pkg/recommender/input/history/history_provider.go.
"""

import re
from dataclasses import dataclass
from datetime import timedelta

from recommender.model.timestamps import span
from recommender.sources.usage_source_settings import UsageSourceSettings

# Exactly one selector: a name, matchers, and an optional range.
_SELECTOR = re.compile(
    r"""
    \s* ([a-zA-Z_:][\w:]*)? \s*
    (?: \{ ( (?: [^"'`{}] | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*` )* ) \} )? \s*
    (?: \[ [^\[\]:]+ \] )? \s*
    """,
    re.VERBOSE | re.DOTALL,
)
_MOST_STEPS = 10_000  # of one query; a server refuses more than 11,000


class Queries:
    """The texts of the queries.

    The reference has one query for the whole cluster. Here each query is for one namespace, which
    bounds the size of a response.
    """

    def __init__(self, settings: UsageSourceSettings) -> None:
        self._settings = settings

    def cpu(self, namespace: str) -> str:
        """Return the query for CPU usage in cores, averaged over the resolution."""
        metric, resolution = self._settings.history_cpu_metric, self._settings.history_resolution
        return f"rate({metric}{{{self._selector(namespace)}}}[{resolution}])"

    def memory(self, namespace: str) -> str:
        """Return the query for memory usage in bytes."""
        return f"{self._settings.history_memory_metric}{{{self._selector(namespace)}}}"

    def count(self, namespace: str) -> str:
        """Return the query for the number of containers, as one series."""
        return f"count({self.memory(namespace)})"

    def pod_labels(self, namespace: str) -> str | None:
        """Return the query for the labels of pods; None if the flag isn't a plain selector.

        The reference sends the flag's text as an instant query, so it must have a range, and the
        response has each sample in it (Q14). This query has one point per step, with or without a
        range in the flag.
        """
        settings = self._settings
        match = _SELECTOR.fullmatch(settings.metric_for_pod_labels)
        if match is None or not any(match.groups()):
            return None
        name, matchers = match.group(1) or "", (match.group(2) or "").strip().rstrip(",")
        ours = f'{settings.pod_namespace_label}="{namespace}"'
        both = ", ".join(filter(None, (matchers, ours)))
        return f"last_over_time({name}{{{both}}}[{settings.history_resolution}])"

    def _selector(self, namespace: str) -> str:
        settings = self._settings
        job, container = settings.prometheus_cadvisor_job_name, settings.container_name_label
        job_matcher = f'job="{job}", ' if job else ""
        return (
            f'{job_matcher}{settings.container_pod_name_label}=~".+", {container}!="POD", '
            f'{container}!="", {settings.container_namespace_label}="{namespace}"'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """``count`` instants from ``start``, ``step`` apart."""

    start: int
    step: int
    count: int

    @property
    def end(self) -> int:
        """Return the last instant."""
        return self.start + (self.count - 1) * self.step

    @classmethod
    def until(cls, now: int, *, length: timedelta, resolution: timedelta) -> "TimeRange":
        """Return the range of the whole history: from ``length`` before ``now``."""
        step = span(resolution)
        return cls(start=now - span(length), step=step, count=span(length) // step + 1)

    def first(self, count: int) -> "TimeRange":
        """Return the first ``count`` points, or all if there are fewer."""
        return TimeRange(start=self.start, step=self.step, count=min(count, self.count))

    def every(self, nth: int) -> "TimeRange":
        """Return every ``nth`` point."""
        return TimeRange(
            start=self.start, step=self.step * nth, count=(self.count - 1) // nth + 1
        ).first(_MOST_STEPS)

    def after(self, part: "TimeRange") -> "TimeRange | None":
        """Return the points after ``part``, a beginning of this range; None if there are none."""
        left = self.count - part.count
        start = self.start + part.count * self.step
        return TimeRange(start=start, step=self.step, count=left) if left > 0 else None


def chunk(window: TimeRange, *, series: int, points: int) -> TimeRange:
    """Return the beginning of a window, with at most ``points`` points in all ``series``."""
    return window.first(max(1, min(points // max(series, 1), _MOST_STEPS)))
