"""Closed lists of codes, each with its meaning."""

import enum
from typing import Self


class Code(enum.StrEnum):
    """A code of a closed list, such as the value of a label; ``meaning`` describes it.

    Members are written as ``NAME = "code", "What it means."``.
    """

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> Self:
        """Return the member for a code; its meaning is kept beside the value."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.meaning = meaning
        return made
