"""Draw the diagrams of the pages as SVG: ``python -P docs/diagrams.py`` writes the files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
_LINE = 20  # height of a line of text
_ARROWHEAD = (
    '<marker id="head" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0L10 5L0 10z" fill="#333333"/></marker>'
)


@dataclass(frozen=True, slots=True)
class Box:
    """A box with lines of text; ``x`` and ``y`` are its center."""

    x: int
    y: int
    text: tuple[str, ...]
    width: int = 130
    fill: str = "#e8eaf6"

    def svg(self) -> Iterator[str]:
        height = _LINE * len(self.text) + 16
        yield (
            f'<rect x="{self.x - self.width // 2}" y="{self.y - height // 2}" rx="6" '
            f'width="{self.width}" height="{height}" fill="{self.fill}" stroke="#5c6bc0"/>'
        )
        first = self.y - _LINE * (len(self.text) - 1) // 2 + 5
        for number, line in enumerate(self.text):
            yield _text(self.x, first + _LINE * number, line)


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow along points, with a label at a place of its own."""

    points: tuple[tuple[int, int], ...]
    label: str = ""
    at: tuple[int, int] = (0, 0)

    def svg(self) -> Iterator[str]:
        points = " ".join(f"{x},{y}" for x, y in self.points)
        yield (
            f'<polyline points="{points}" fill="none" stroke="#333333" marker-end="url(#head)"/>'
        )
        if self.label:
            yield _text(*self.at, self.label)


def drawing(width: int, height: int, title: str, parts: tuple[Box | Arrow, ...]) -> str:
    """Return a diagram as SVG."""
    attributes = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {attributes} role="img">',
            f"<title>{title}</title>",
            f"<defs>{_ARROWHEAD}</defs>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *(line for part in parts for line in part.svg()),
            "</svg>\n",
        )
    )


def _text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" fill="#222222">{text}</text>'


COMPONENTS = drawing(
    *(790, 220),
    "The recommender reads usage, and updater and admission apply its recommendation",
    (
        Box(70, 110, ("Pods",), 100, "#fff8e1"),
        Box(250, 110, ("recommender",), 120),
        Box(520, 110, ("VPA status",), 110, "#fff8e1"),
        Box(710, 40, ("updater",)),
        Box(710, 180, ("admission",)),
        Arrow(((120, 110), (190, 110)), "usage", (155, 102)),
        Arrow(((310, 110), (465, 110)), "recommendation", (387, 102)),
        Arrow(((575, 100), (660, 58))),
        Arrow(((575, 120), (660, 162))),
        Arrow(((645, 40), (70, 40), (70, 92)), "resize or evict", (330, 32)),
        Arrow(((645, 180), (70, 180), (70, 128)), "requests of new pods", (330, 200)),
    ),
)

_MODE = "#e8f5e9"
MODES = drawing(
    *(740, 470),
    "Which mode to choose",
    (
        Box(250, 40, ("A new VPA has mode Off:", "read the recommendations"), 240),
        Box(250, 130, ("May running pods change?",), 240, "#fff8e1"),
        Box(
            *(250, 230),
            ("Kubernetes 1.33 or newer, and the application", "uses a new size without a restart?"),
            *(360, "#fff8e1"),
        ),
        Box(250, 340, ("May a pod be evicted", "if its resize fails?"), 240, "#fff8e1"),
        Box(250, 435, ("InPlaceOrRecreate",), 150, _MODE),
        Box(620, 130, ("Initial",), 150, _MODE),
        Box(620, 230, ("Recreate",), 150, _MODE),
        Box(620, 340, ("InPlace",), 150, _MODE),
        Arrow(((250, 68), (250, 112))),
        Arrow(((250, 148), (250, 202)), "yes", (272, 180)),
        Arrow(((250, 258), (250, 312)), "yes", (272, 290)),
        Arrow(((250, 368), (250, 417)), "yes", (272, 398)),
        Arrow(((370, 130), (545, 130)), "no", (480, 122)),
        Arrow(((430, 230), (545, 230)), "no", (480, 222)),
        Arrow(((370, 340), (545, 340)), "no", (480, 332)),
    ),
)
DIAGRAMS = {"components.svg": COMPONENTS, "modes.svg": MODES}

if __name__ == "__main__":
    for name, content in DIAGRAMS.items():
        (FOLDER / name).write_text(content, encoding="utf-8")
