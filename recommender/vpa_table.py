"""The VPAs of the last cycle, as rows of the read API."""

from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from common.read_model.recommender import VpaSummary
from recommender.model.keys import VpaKey

_ITSELF = ("",)  # a VPA is one row

Summarize = Callable[[VpaKey], VpaSummary]


class VpaTable:
    """The VPAs that a cycle handled; each is summarized when it is sent."""

    def __init__(self, number: int, vpas: Sequence[VpaKey], summarize: Summarize) -> None:
        self.number = number
        self._vpas = vpas
        self._summarize = summarize

    @cached_property
    def keys(self) -> Sequence[VpaKey]:
        """Return the VPAs, sorted."""
        return sorted(self._vpas)

    @property
    def ends(self) -> Sequence[int]:
        """Return the number of rows up to each VPA."""
        return range(1, len(self.keys) + 1)

    def rows(self, key: tuple[str, str]) -> "VpaRow":
        """Return the row of one VPA."""
        return VpaRow(VpaKey(*key), self._summarize)


class VpaRow:
    """One VPA."""

    names: Sequence[str] = _ITSELF

    def __init__(self, key: VpaKey, summarize: Summarize) -> None:
        self._key = key
        self._summarize = summarize

    def body(self, _index: int) -> bytes:
        """Return a ``VpaSummary`` as JSON."""
        return msgspec.json.encode(self._summarize(self._key))

    def item(self, bodies: Sequence[bytes]) -> bytes:
        """Return the same as an item."""
        return b"".join(bodies)
