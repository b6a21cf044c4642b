"""Prometheus' text form, as far as kubelets write it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+))?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value; ``at`` is None where the line has no time."""

    name: str
    labels: Mapping[str, str]
    value: float
    at: datetime | None


def samples(text: str) -> Iterator[Sample]:
    """The values of an exposition; a line that can't be read is passed over."""
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        at = datetime.fromtimestamp(int(match[4]) / 1000, UTC) if match[4] else None
        labels = {label[1]: label[2] for label in _LABEL.finditer(match[2] or "")}
        yield Sample(name=match[1], labels=labels, value=value, at=at)
