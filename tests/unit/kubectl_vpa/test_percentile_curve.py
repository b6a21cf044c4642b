"""The percentile curve of ``kubectl vpa explain``."""

import pytest
from rich.cells import cell_len

from kubectl_vpa.output.percentile_curve import ASCII, UNICODE, Glyphs, Mark, draw
from kubectl_vpa.results.explain import CurvePoint

EVEN = [CurvePoint(fraction=percent / 100, amount=10 * percent) for percent in range(101)]
TARGET = Mark("target", 500, "green", is_scaled=True)


def lines(*marks: Mark, width: int = 80, glyphs: Glyphs = ASCII) -> list[str]:
    return [line.plain for line in draw(EVEN, marks, width=width, glyphs=glyphs)]


def place_of(mark: str, plot: list[str]) -> int:
    """Return the cell of the pointer to a mark, which is at one end of its label."""
    (line,) = (line for line in plot[9:] if mark in line)
    before, after = line.index(mark) - 2, line.index(mark) + len(mark) + 1
    return before if line[before] in "^>" else after


def test_half_of_an_even_usage_is_within_half_of_the_amount() -> None:
    plot = lines(TARGET, width=66)
    assert [line[:4].strip() for line in plot[:9]] == ["100%", "", "", "", "50%", "", "", "", "0%"]
    assert place_of("target", plot) == pytest.approx(6 + 60 / 2, abs=1)
    assert {line[place_of("target", plot)] for line in plot[:8]} == {"|"}
    heights = [
        sum(len(line) > cell and line[cell] == "#" for line in plot[:8])
        for cell in (10, 20, 40, 60)
    ]
    assert heights == sorted(heights)
    assert heights[0] < heights[-1]


@pytest.mark.parametrize("width", [10, 26, 80, 106, 160, 400])
@pytest.mark.parametrize("glyphs", [ASCII, UNICODE], ids=["ascii", "unicode"])
def test_no_line_is_longer_than_the_screen(width: int, glyphs: Glyphs) -> None:
    marks = [TARGET, Mark("upper bound 1Gi", 10**9, ""), Mark("request 1m", 1, "")]
    plot = lines(*marks, width=width, glyphs=glyphs)
    assert max(map(cell_len, plot)) <= min(max(width, 26), 106)


@pytest.mark.parametrize(
    ("amount", "pointer"),
    [
        pytest.param(0, "^", id="nothing"),
        pytest.param(999, "^", id="within the usage"),
        pytest.param(4000, "^", id="four times as much"),
        pytest.param(4001, ">", id="more"),
    ],
)
def test_the_scale_ends_at_four_times_the_usage(amount: int, pointer: str) -> None:
    plot = lines(TARGET, Mark("other", amount, ""))
    assert any(f"{pointer} other" in line or f"other {pointer}" in line for line in plot)


def test_the_scale_reaches_every_target() -> None:
    plot = lines(Mark("target", 100_000, "", is_scaled=True))
    assert any("target ^" in line for line in plot)


def test_labels_that_would_overlap_have_lines_of_their_own() -> None:
    plot = lines(TARGET, Mark("lower bound", 490, ""), Mark("request", 20, ""))
    assert [line.split() for line in plot[9:]] == [
        ["^", "request", "^", "lower", "bound"],
        ["^", "target"],
    ]


def test_of_two_marks_in_one_cell_the_first_has_its_style() -> None:
    drawn = list(draw(EVEN, [TARGET, Mark("other", 501, "red")], width=40, glyphs=UNICODE))
    assert {span.style for line in drawn[:8] for span in line.spans} == {"green"}


def test_a_curve_without_usage_is_empty() -> None:
    drawn = [line.plain for line in draw([], [TARGET], width=40, glyphs=UNICODE)]
    assert "█" not in "".join(drawn)
