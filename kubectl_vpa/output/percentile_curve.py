"""A percentile curve as text: the share of the usage that stays within each amount, with marks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from kubectl_vpa.results.explain import CurvePoint

_HEIGHT = 8  # lines; an eighth of a line is drawn, too
_LABELS = {_HEIGHT: "100%", _HEIGHT // 2: " 50%", 0: "  0%"}
_MARGIN = 6  # cells left of the plot
_LEAST_WIDTH = 20  # cells of the plot
_MOST_WIDTH = 100
_BEYOND = 4.0  # the largest amount on the scale, in units of the largest usage or target
_HEADROOM = 1.02  # room right of the largest amount


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a plot."""

    eighths: str  # from an empty cell to a full one
    axis: str
    corner: str
    line: str
    mark: str  # a vertical line
    pointer: str  # from a label to its mark
    beyond: str  # an amount right of the plot


UNICODE = Glyphs(
    eighths=" ▁▂▃▄▅▆▇█", axis="┤", corner="└", line="─", mark="│", pointer="▲", beyond="▶"
)
ASCII = Glyphs(
    eighths="   ..::##", axis="|", corner="+", line="-", mark="|", pointer="^", beyond=">"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """An amount to mark, with its label and its style on a terminal."""

    label: str
    amount: int
    style: str
    is_scaled: bool = False  # the scale reaches it, however large it is


def draw(
    curve: Sequence[CurvePoint], marks: Sequence[Mark], *, width: int, glyphs: Glyphs
) -> Iterator[Text]:
    """Yield the lines of a plot of this width; the marks have their labels below it.

    Amounts beyond the scale are marked at its right end.
    """
    cells = min(max(width - _MARGIN, _LEAST_WIDTH), _MOST_WIDTH)
    scale = _scale(curve, marks)
    places = [(min(int(each.amount / scale * cells), cells - 1), each) for each in marks]
    at = dict(reversed(places))
    heights = [_fraction(curve, (cell + 1) * scale / cells) * _HEIGHT for cell in range(cells)]
    for line in range(_HEIGHT, 0, -1):
        text = Text(f"{_LABELS.get(line, ''):>4} {glyphs.axis}")
        for cell, height in enumerate(heights):
            if (mark := at.get(cell)) is not None:
                text.append(glyphs.mark, style=mark.style)
            else:
                text.append(glyphs.eighths[round(min(max(height - line + 1, 0), 1) * 8)])
        text.rstrip()
        yield text
    yield Text(f"{_LABELS[0]} {glyphs.corner}{glyphs.line * cells}")
    yield from _labels(places, cells, scale, glyphs)


def _scale(curve: Sequence[CurvePoint], marks: Sequence[Mark]) -> float:
    """Return the amount at the right end."""
    needed = [each.amount for each in marks if each.is_scaled]
    core = max([each.amount for each in curve[-1:]] + needed, default=1)
    near = [each.amount for each in marks if each.amount <= core * _BEYOND]
    return max([core, *near, 1]) * _HEADROOM


def _fraction(curve: Sequence[CurvePoint], amount: float) -> float:
    """Return the fraction of the usage that is at most the amount."""
    return max((each.fraction for each in curve if each.amount <= amount), default=0.0)


def _labels(
    places: Sequence[tuple[int, Mark]], cells: int, scale: float, glyphs: Glyphs
) -> Iterator[Text]:
    """Yield lines with the labels, as few as there can be without an overlap."""
    lines: list[list[tuple[int, Mark, str]]] = []
    for place, mark in sorted(places, key=lambda each: each[0]):
        pointer = glyphs.pointer if mark.amount <= scale else glyphs.beyond
        text, start = f"{pointer} {mark.label}", place
        if start + cell_len(text) > cells:
            text = f"{mark.label} {pointer}"
            start = max(place + 1 - cell_len(text), 0)
        for line in lines:
            last_start, _, last = line[-1]
            if last_start + cell_len(last) + 1 < start:
                line.append((start, mark, text))
                break
        else:
            lines.append([(start, mark, text)])
    for line in lines:
        found = Text(" " * _MARGIN)
        for start, mark, text in line:
            found.append(" " * (start + _MARGIN - cell_len(found.plain)))
            found.append(text, style=mark.style)
        yield found
