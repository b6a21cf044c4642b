"""When the checkpoints of which VPA are due, and in which order they are written.

Source: recommender.md 11.2; docs/deviations.md X81 and X124.
"""

from collections.abc import Collection
from datetime import timedelta

from common.runtime.clock import Clock
from recommender.checkpoints.codec import LONGEST_LAG, lag
from recommender.model.aggregates import History
from recommender.model.keys import VpaKey
from recommender.model.timestamps import NEVER, instant, span

_AT_ONCE = NEVER - 1  # sorts before what was never written


class CheckpointSchedule:
    """When the checkpoints of each VPA are to be written; those of one that is new are due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[VpaKey, int] = {}  # instants

    def loaded(self, key: VpaKey, history: History) -> None:
        """Plan the next write of what was just read: after a while, and not all of it at once."""
        due = instant(self._clock.now() + lag(history) * key.phase)
        self._due[key] = min(due, self._due.get(key, due))

    def at_once(self, key: VpaKey) -> None:
        """Make a VPA's checkpoints due, before those of all others."""
        self._due[key] = _AT_ONCE

    def written(self, key: VpaKey, after: timedelta) -> None:
        """All checkpoints of a VPA were written: they are due again ``after`` this time."""
        self._due[key] = instant(self._clock.now() + after)

    def in_order(self, keys: Collection[VpaKey], *, all_of_them: bool = False) -> list[VpaKey]:
        """Return the VPAs that are due, most important first, and forget all but ``keys``.

        First those that :meth:`at_once` names, then those that were never written, then what has
        waited longest. ``all_of_them``: also those that are not due yet.
        """
        self._due = {key: self._due.get(key, NEVER) for key in keys}
        now = instant(self._clock.now())
        beyond = now + span(LONGEST_LAG)  # so a clock said that was put back since
        due = ((at, key) for key, at in self._due.items() if all_of_them or not now < at <= beyond)
        return [key for _, key in sorted(due)]
