"""The recorded results of the reference: reading and comparing with a tolerance."""

import gzip
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "golden" / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recorded case; ``departure`` is the rule by which our result differs."""

    id: str
    input: dict[str, Any]
    expected: Any
    departure: str = ""


def rows(name: str) -> Iterator[Row]:
    """Yield the rows of ``<name>.jsonl.gz`` in order."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            raw = json.loads(line)
            yield Row(
                id=raw["id"],
                input=raw["input"],
                expected=raw["expected"],
                departure=raw.get("departure", ""),
            )


def lists(name: str) -> Any:
    """Return the content of ``<name>.json``."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def close(left: float, right: float, *, relative: float = 1e-9) -> bool:
    """Return whether both are equal within the tolerance of the golden data."""
    return math.isclose(left, right, rel_tol=relative, abs_tol=0.0)


@dataclass(slots=True)
class Differences:
    """A collection of differences, so that one failure shows their number and the first ones."""

    found: list[str] = field(default_factory=list)
    checked: int = 0

    def check(self, row: str, what: str, got: object, want: object) -> None:
        self.checked += 1
        if got != want:
            self.found.append(f"{row}: {what}: got {got!r}, want {want!r}")

    def none_in(self, least: int) -> None:
        """Fail if anything differed, or if fewer than ``least`` checks were made."""
        shown = "\n".join(self.found[:20])
        assert not self.found, f"{len(self.found)} of {self.checked} checks differ:\n{shown}"
        assert self.checked >= least, f"only {self.checked} checks were made"
