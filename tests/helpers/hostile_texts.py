"""A generator of texts, amounts and times that an attacker could write."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

NEIGHBOURS: Mapping[str, str] = {
    "control character": "x\x01y",
    "escape sequence": "x\x1b[2Jy",
    "line break": "x\r\nI0102 15:04:05.000000 forged.go:1] y",
    "NUL": "x\x00y",
    "DEL": "x\x7fy",
    "C1": "x\x9b2Jy",
    "next line": "x\x85y",
    "query": "x?watch=1&y=z",
    "fragment": "x#y",
    "escaped slash": "x%2fy",
    "escaped line break": "x%0d%0ay",
    "dot": ".",
    "dots": "..",
    "steps": "../../../api/v1/secrets",
    "slash": "x/y",
    "slash at the start": "/x",
    "slash at the end": "x/",
    "two slashes": "x//y",
    "backslash": "x\\..\\y",
    "quotes": "x\"y'z",
    "new series": 'x"} 1\nforged{y="z',
    "unicode": "\u00fcn\u00efc\u00f6d\u00e9 \u6f22\u5b57 \U0001f600",
    "right to left": "\u202egnp.exe\u2066\u200f",
    "combining characters": "a" + "\u0301\u0489" * 20,
    "line separator": "x\u2028y\u2029z",
    "replacement character": "x\ufffdy\ufeff",
    "space": " x y ",
    "format": "%s %(name)s {0} {x!r}",
    "250 characters": "a" * 250,
    "254 characters": "a" * 254,
}
"""One text of each kind that is dangerous if it is interpreted, for example by a terminal."""

LONG = 100 * 1024  # characters
TIMES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "1969-12-31T23:59:59Z",
    "2026-01-01T00:00:00.123456789Z",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-12:00",
)
QUANTITIES: tuple[str | int, ...] = (
    *("0", "-0", "1", "-1", "1n", "100m", "64Mi", "7E", "999E", "8Ei", "-8Ei", ".5", "5."),
    *("1e3", "1e-9", "1e100", "1e-100", "+1", "1E", "0.1e1", 0, -1, 2**31, 2**63 - 1),
)
"""Amounts that every component of a cluster can parse."""
ODD_QUANTITIES = (
    *QUANTITIES,
    *("1e300", "1e-300", "1e999999999", "9" * 300, "0." + "0" * 300 + "1", "9" * 5000),
)
"""Amounts that are stored, and that some components of a cluster can't parse."""
COUNTS = (-(2**31), -1, 0, 1, 2, 2**31 - 1)
WEIGHTS: tuple[Any, ...] = (0, -1, 1, 10_000, 2**31, 2**53, 2**62, 0.5, 1e308, -1e308, 1e-320)
MODES = ("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto")


@dataclass(slots=True, kw_only=True)
class HostileTexts:
    """A generator of texts and values; the same random generator yields the same ones."""

    random: Random

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def text(self) -> str:
        """Return a text that an attacker could write."""
        pick = self.random.random()
        if pick < 0.6:
            return self.random.choice(tuple(NEIGHBOURS.values()))
        if pick < 0.8:
            some = self.random.choices(tuple(NEIGHBOURS.values()), k=self.random.randint(2, 4))
            return self.random.choice(("", "/", ".", " ")).join(some)
        if pick < 0.9995:
            return "".join(self.character() for _ in range(self.random.randint(0, 40)))
        return self.random.choice(("\x01", "a", "\u202e", "a/", "?")) * LONG

    def character(self) -> str:
        """Return any character except surrogates, which no API server stores."""
        highest = self.random.choice((0x20, 0x7F, 0xA0, 0x2FFF, 0x10FFFF))
        code = self.random.randint(0, highest)
        return "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code)

    def or_text(self, usual: str, chance: float = 0.4) -> str:
        """Return the usual value or a hostile text."""
        return self.text() if self.often(chance) else usual

    def any_of(self, *usual: str, chance: float = 0.4) -> str:
        return self.or_text(self.random.choice(usual), chance)

    def api_version(self, usual: str) -> str:
        if self.often(0.4):
            return usual
        text = self.text()
        forms = (text, f"{text}/v1", f"apps/{text}", f"apps/v1/{text}", f"{text}/{text}")
        return self.random.choice((*forms, f"{'a' * 250}/v1", f"x.{'b' * 250}/v1", ""))

    def time(self) -> str:
        return self.random.choice(TIMES)

    def amounts(self, *, odd: bool = True) -> dict[str, Any]:
        """Return amounts of resources. The sandbox itself can parse those that aren't ``odd``."""
        names = (self.any_of("cpu", "memory", chance=0.2 if odd else 0.02) for _ in range(2))
        return {name: self.random.choice(ODD_QUANTITIES if odd else QUANTITIES) for name in names}

    def decent(self) -> dict[str, Any]:
        """Return amounts that an API server accepts for a pod."""
        return {
            "cpu": self.random.choice(("0", "1n", "100m", ".5", "1e-9", "1e9", 1)),
            "memory": self.random.choice(("0", "1m", "64Mi", "1e3", "1e9", "9Ti")),
        }
