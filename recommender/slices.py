"""Slices of long sequences, after each of which other tasks may run."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_slices(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the things in slices of this size; the last one may be shorter."""
    for start in range(0, len(things), size):
        yield things[start : start + size]


def in_slices_by_weight(
    things: Sequence[T], size: int, *, weight: Callable[[T], int], most: int
) -> Iterator[Sequence[T]]:
    """Yield the things in slices; one that weighs more than ``most`` holds a single thing."""
    begin, total = 0, 0
    for end, thing in enumerate(things):
        own = weight(thing)
        if end > begin and (end - begin == size or total + own > most):
            yield things[begin:end]
            begin, total = end, 0
        total += own
    if begin < len(things):
        yield things[begin:]
