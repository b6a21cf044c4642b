"""Slices of long sequences, so that other tasks run between them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_slices_by_weight(
    things: Sequence[T], size: int, *, weight: Callable[[T], int], most: int
) -> Iterator[Sequence[T]]:
    """Yield slices of at most ``size`` things with a total weight of at most ``most``.

    A thing that is heavier than ``most`` has its own slice.
    """
    begin, total = 0, 0
    for end, thing in enumerate(things):
        own = weight(thing)
        if end > begin and (end - begin == size or total + own > most):
            yield things[begin:end]
            begin, total = end, 0
        total += own
    if begin < len(things):
        yield things[begin:]
