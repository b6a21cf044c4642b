"""Which container names of a VPA are those of native sidecars.

With the gate NativeSidecar off they get no recommendation, though a checkpoint from a time when it
was on, or Prometheus, may report their usage (X108).
"""

from recommender.model.keys import VpaKey
from recommender.model.matching import Matching

_NONE: frozenset[str] = frozenset()


class Sidecars:
    """The native sidecars of VPAs, from tracked pods and from loaded checkpoints.

    Checkpoints count as long as no pod says otherwise. ``scaled``: the gate is on.
    """

    def __init__(self, *, scaled: bool = False) -> None:
        self.scaled = scaled
        self._marked: dict[VpaKey, set[str]] = {}  # by checkpoints

    def mark(self, key: VpaKey, container: str) -> None:
        """Record that a checkpoint calls the container a native sidecar."""
        self._marked.setdefault(key, set()).add(container)

    def forget(self, key: VpaKey) -> None:
        """Forget what the checkpoints of a VPA said."""
        self._marked.pop(key, None)

    def left_out(self, key: VpaKey, matching: Matching) -> frozenset[str]:
        """Return the names that get no recommendation: none with the gate on."""
        return _NONE if self.scaled else self.of(key, matching)

    def to_mark(self, key: VpaKey, matching: Matching) -> frozenset[str]:
        """Return the names whose checkpoints are to say so.

        With the gate off these are the ones that say so already.
        """
        names = self.of(key, matching)
        return names if self.scaled else names & self._marked.get(key, _NONE)

    def of(self, key: VpaKey, matching: Matching) -> frozenset[str]:
        """Return the VPA's container names that are those of native sidecars.

        A name that a regular container of one of its pods has is none of them.
        """
        label_sets = matching.matched(key)
        names = set(self._marked.get(key, ()))
        for one in label_sets:
            if one.sidecars:
                names.update(+one.sidecars)
        if not names:
            return _NONE
        return frozenset(name for name in names if not any(one.regular[name] for one in label_sets))
