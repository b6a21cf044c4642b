"""What Prometheus is asked: texts of queries, and the points in time that they are for.

Source: recommender.md 12.5 and 14.2; ``prometheusHistoryProvider``,
vertical-pod-autoscaler/pkg/recommender/input/history/history_provider.go.
"""

import re
from dataclasses import dataclass
from datetime import timedelta

from recommender.model.timestamps import span

_DURATION = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?"
)
_UNITS = (
    *(timedelta(days=365), timedelta(days=7), timedelta(days=1), timedelta(hours=1)),
    *(timedelta(minutes=1), timedelta(seconds=1), timedelta(milliseconds=1)),
)
# A selector and nothing else: a name, matchers, and a range that may be there.
_SELECTOR = re.compile(
    r"""
    \s* ([a-zA-Z_:][\w:]*)? \s*
    (?: \{ ( (?: [^"'`{}] | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*` )* ) \} )? \s*
    (?: \[ [^\[\]:]+ \] )? \s*
    """,
    re.VERBOSE | re.DOTALL,
)
_MOST_STEPS = 10_000  # of one query; a server refuses more than 11,000


def prometheus_duration(text: str) -> timedelta:
    """Parse a duration as Prometheus writes it: ``8d``, ``1w``, ``1h30m``.

    Raises:
        ValueError: it is none, or it isn't positive.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"not a duration such as 8d or 1h30m: {text!r}")
    try:
        found = sum(
            (int(number) * unit for number, unit in zip(match.groups("0"), _UNITS, strict=True)),
            timedelta(),
        )
    except OverflowError as error:
        raise ValueError(f"too long: {text!r}") from error
    if not found:
        raise ValueError(f"must be positive: {text!r}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLabels:
    """The labels that say whose usage a series is."""

    namespace: str = "namespace"
    pod: str = "pod_name"
    container: str = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLabels:
    """The labels that say whose labels a series carries, and what stands before each of them."""

    namespace: str = "kubernetes_namespace"
    pod: str = "kubernetes_pod_name"
    prefix: str = "pod_label_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The texts of the queries; defaults are the flags'.

    The reference asks once for the whole cluster. We ask namespace by namespace, so that no
    answer is larger than one namespace.
    """

    cpu_metric: str = "container_cpu_usage_seconds_total"
    memory_metric: str = "container_memory_working_set_bytes"
    job: str = "kubernetes-cadvisor"  # empty: any
    resolution: str = "1h"
    container: ContainerLabels = ContainerLabels()
    labels_metric: str = 'up{job="kubernetes-pods"}'
    pod: PodLabels = PodLabels()

    def cpu(self, namespace: str) -> str:
        """Cores over the resolution's time."""
        return f"rate({self.cpu_metric}{{{self._selector(namespace)}}}[{self.resolution}])"

    def memory(self, namespace: str) -> str:
        """Bytes."""
        return f"{self.memory_metric}{{{self._selector(namespace)}}}"

    def count(self, namespace: str) -> str:
        """Return how many containers there are: one series."""
        return f"count({self.memory(namespace)})"

    def pod_labels(self, namespace: str) -> str | None:
        """Series with the labels of pods; None where the flag holds more than a selector.

        The reference sends the flag's text as an instant query, so that it must hold a range, and
        answers carry every sample of it (Q14). With or without a range we ask for one point
        per step.
        """
        match = _SELECTOR.fullmatch(self.labels_metric)
        if match is None or not any(match.groups()):
            return None
        name, matchers = match.group(1) or "", (match.group(2) or "").strip().rstrip(",")
        ours = f'{self.pod.namespace}="{namespace}"'
        both = ", ".join(filter(None, (matchers, ours)))
        return f"last_over_time({name}{{{both}}}[{self.resolution}])"

    def _selector(self, namespace: str) -> str:
        job = f'job="{self.job}", ' if self.job else ""
        labels = self.container
        return (
            f'{job}{labels.pod}=~".+", {labels.container}!="POD", {labels.container}!="", '
            f'{labels.namespace}="{namespace}"'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    """How much history, and in which words it is asked for."""

    queries: Queries
    length: timedelta
    resolution: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """Points in time, ``step`` apart, the first and the last included; instants."""

    start: int
    step: int
    count: int

    @property
    def end(self) -> int:
        """Return the last point."""
        return self.start + (self.count - 1) * self.step

    @classmethod
    def until(cls, now: int, *, length: timedelta, resolution: timedelta) -> "TimeRange":
        """Return all the history there is: from ``length`` ago, as the reference asks for it."""
        step = span(resolution)
        return cls(start=now - span(length), step=step, count=span(length) // step + 1)

    def first(self, count: int) -> "TimeRange":
        """Its first points, or all if there are fewer."""
        return TimeRange(start=self.start, step=self.step, count=min(count, self.count))

    def every(self, nth: int) -> "TimeRange":
        """Fewer points over the same time: the first, the one ``nth`` places later, and so on."""
        return TimeRange(
            start=self.start, step=self.step * nth, count=(self.count - 1) // nth + 1
        ).first(_MOST_STEPS)

    def after(self, part: "TimeRange") -> "TimeRange | None":
        """Return what follows ``part``, which begins with it; None if nothing does."""
        left = self.count - part.count
        start = self.start + part.count * self.step
        return TimeRange(start=start, step=self.step, count=left) if left > 0 else None


def chunk(window: TimeRange, *, series: int, points: int) -> TimeRange:
    """Return the beginning of a window: as much as ``points`` points are, of so many series."""
    return window.first(max(1, min(points // max(series, 1), _MOST_STEPS)))
