"""The container names of a VPA that belong to native sidecars.

With the gate NativeSidecar off they get no recommendation, although Prometheus or a checkpoint from
before may report their usage (X108).
"""

from recommender.model.keys import VpaKey
from recommender.model.matching import Matching

_NONE: frozenset[str] = frozenset()


class Sidecars:
    """The native sidecars of VPAs, from tracked pods and from loaded checkpoints.

    A checkpoint counts unless a pod has a regular container with the name. ``scaled`` means that
    the gate is on.
    """

    def __init__(self, *, scaled: bool = False) -> None:
        self.scaled = scaled
        self._marked: dict[VpaKey, set[str]] = {}  # by checkpoints

    def mark(self, key: VpaKey, container: str) -> None:
        """Record that a checkpoint marks the container as a native sidecar."""
        self._marked.setdefault(key, set()).add(container)

    def forget(self, key: VpaKey) -> None:
        """Drop the marks of a VPA's checkpoints."""
        self._marked.pop(key, None)

    def left_out(self, key: VpaKey, matching: Matching) -> frozenset[str]:
        """Return the names that get no recommendation; empty with the gate on."""
        return _NONE if self.scaled else self.of(key, matching)

    def to_mark(self, key: VpaKey, matching: Matching) -> frozenset[str]:
        """Return the names whose checkpoints get the mark.

        With the gate off these are the names whose loaded checkpoints have it.
        """
        names = self.of(key, matching)
        return names if self.scaled else names & self._marked.get(key, _NONE)

    def of(self, key: VpaKey, matching: Matching) -> frozenset[str]:
        """Return the names of the VPA's native sidecars.

        A name that is also that of a regular container in one of its pods is left out.
        """
        label_sets = matching.matched(key)
        names = set(self._marked.get(key, ()))
        for one in label_sets:
            if one.sidecars:
                names.update(+one.sidecars)
        if not names:
            return _NONE
        return frozenset(name for name in names if not any(one.regular[name] for one in label_sets))
