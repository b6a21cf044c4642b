"""The keys of pods and VPAs, as tuples, because millions of look-ups use them."""

import zlib
from typing import NamedTuple


class PodKey(NamedTuple):
    """A pod's name; another pod may get it, see ``TrackedPod.uid``."""

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


Place = tuple[VpaKey, str]
"""A VPA and a container name; each pair has one checkpoint."""


class Requests(NamedTuple):
    """The requests of a container; 0: none."""

    cpu: int = 0  # millicores
    memory: int = 0  # bytes


NO_REQUESTS = Requests()
