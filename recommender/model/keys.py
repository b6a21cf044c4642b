"""The keys of pods, VPAs and aggregates; tuples, because millions of look-ups use them."""

import zlib
from typing import NamedTuple


class PodKey(NamedTuple):
    """A pod's name; what carries it may change, see ``TrackedPod.uid``."""

    namespace: str
    name: str


class VpaKey(NamedTuple):
    """A VPA's name."""

    namespace: str
    name: str

    @property
    def phase(self) -> float:
        """Return a number from 0 to 1 that spreads the VPAs over a period of time."""
        return zlib.crc32("/".join(self).encode()) / 2**32


class AggregateKey(NamedTuple):
    """Containers that share their history: recommender.md 5.1."""

    namespace: str
    container: str
    labels: str  # the pod's labels in canonical text


Place = tuple[VpaKey, str]
"""A VPA's container: what a checkpoint is about."""
