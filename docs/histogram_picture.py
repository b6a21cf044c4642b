"""Draw docs/histogram.svg: a week of CPU usage in the recommender's own histogram.

``python -P docs/histogram_picture.py`` writes the file, with ``PYTHONPATH=.``.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from recommender.model.aggregates import Aggregates, HalfLives, History
from recommender.model.histograms import Histograms
from recommender.model.timestamps import instant

PICTURE = Path(__file__).with_name("histogram.svg")
END = datetime(2026, 1, 8, 12, tzinfo=UTC)
DAYS = 7
PERCENTILES = ((0.5, "lower bound"), (0.9, "target"), (0.95, "upper bound"))
PEAKS = (300, 310, 320, 340, 330, 350, 380)  # MiB, the highest memory usage of each day

_WIDTH, _HEIGHT = 760, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 20, 84, 56
_MINUTE = timedelta(minutes=1)


def usage(at: datetime) -> int:
    """Return millicores: 150 at night and 450 in the afternoon (UTC)."""
    hours = at.hour + at.minute / 60
    return round(300 + 150 * math.cos(math.tau * (hours - 14) / 24))


def history(end: datetime = END) -> History:
    """Return a week with a CPU sample a minute and a memory sample a day, the last at ``end``.

    The usage at ``end`` is that of ``END``.
    """
    table = Aggregates(HalfLives())
    minutes = range(-DAYS * 24 * 60, 1)
    times = np.array([instant(end + minute * _MINUTE) for minute in minutes])
    rows = np.full(len(times), table.new())
    table.add_cpu(rows, times, np.array([usage(END + minute * _MINUTE) for minute in minutes]))
    days = np.array([instant(end - timedelta(days=day)) for day in reversed(range(DAYS))])
    peaks = np.array([peak * 2**20 for peak in PEAKS])
    table.memory.add(rows[:DAYS], peaks, days, 1.0)
    return table.save(rows[:1])[0]


def picture() -> str:
    """Return the picture as SVG."""
    histograms = _histograms()
    row = np.array([0])
    low, high = int(histograms.low(row)[0]), int(histograms.high[0])
    first, last = low - 2, high + 2
    step = (_WIDTH - _LEFT - _RIGHT) / (last - first + 1)
    heaviest = float(histograms.weights[0].max())
    ground = _HEIGHT - _BOTTOM

    def bars() -> Iterator[str]:
        for bucket in range(low, high + 1):
            height = float(histograms.weights[0, bucket]) / heaviest * (ground - _TOP)
            yield (
                f'<rect x="{_LEFT + (bucket - first) * step + 1:.1f}" y="{ground - height:.1f}" '
                f'width="{step - 2:.1f}" height="{height:.1f}" fill="#5c6bc0"/>'
            )

    def edges() -> Iterator[str]:
        for bucket in range(first, last + 1, 2):
            at = _LEFT + (bucket - first + 1) * step
            label = f"{int(histograms.buckets.percentiles[bucket])}m"
            yield f'<line x1="{at:.1f}" y1="{ground}" x2="{at:.1f}" y2="{ground + 5}" {_LINE}/>'
            yield _text(at, ground + 20, label)

    def percentiles() -> Iterator[str]:
        stops = histograms.stops(row, tuple(fraction for fraction, _ in PERCENTILES))[0].tolist()
        for number, ((fraction, amount), stop) in enumerate(zip(PERCENTILES, stops, strict=True)):
            at, top = _LEFT + (stop - first + 1) * step, 78 - 18 * number
            value = int(histograms.buckets.percentiles[stop])
            yield (
                f'<line x1="{at:.1f}" y1="{top + 4}" x2="{at:.1f}" y2="{ground}" '
                f'stroke="#c62828" stroke-width="2" stroke-dasharray="5 3"/>'
            )
            label = f"{fraction:.0%} of the weight: {value}m ({amount})"
            yield _text(at, top, label, anchor="end")

    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    attributes = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
            _text(middle, 20, "CPU usage of one container in a week: weight of each bucket"),
            *bars(),
            f'<line x1="{_LEFT}" y1="{ground}" x2="{_WIDTH - _RIGHT}" y2="{ground}" {_LINE}/>',
            *edges(),
            *percentiles(),
            _text(middle, _HEIGHT - 12, "end of the bucket; each bucket is 5% wider than the last"),
            "</svg>\n",
        )
    )


_LINE = 'stroke="#333333"'


def _histograms() -> Histograms:
    table = Aggregates(HalfLives())
    table.load(table.new(), history())
    table.cpu.tighten(np.array([0]))
    return table.cpu


def _text(at: float, down: float, text: str, *, anchor: str = "middle") -> str:
    return f'<text x="{at:.1f}" y="{down}" text-anchor="{anchor}" fill="#222222">{text}</text>'


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
