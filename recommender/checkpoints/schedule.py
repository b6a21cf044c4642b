"""The schedule of checkpoint writes, by VPA.

Source: recommender.md 11.2; docs/deviations.md X81 and X124.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from common.runtime.clock import Clock
from recommender.checkpoints.codec import LONGEST_LAG, lag
from recommender.model.aggregates import History
from recommender.model.keys import VpaKey
from recommender.model.timestamps import NEVER, instant, span

_AT_ONCE = NEVER - 1  # sorts before VPAs that were never written


class CheckpointSchedule:
    """The time of the next write of each VPA's checkpoints; new VPAs are due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[VpaKey, int] = {}  # instants
        self._stored: dict[VpaKey, datetime] = {}

    def stored_at(self, key: VpaKey) -> datetime | None:
        """Return when the oldest checkpoint of a VPA was written or found unchanged, if ever."""
        return self._stored.get(key)

    def loaded(self, key: VpaKey, history: History, stored: datetime | None = None) -> None:
        """Schedule the next write of a loaded checkpoint, at a different time for each VPA."""
        due = instant(self._clock.now() + lag(history) * key.phase)
        self._due[key] = min(due, self._due.get(key, due))
        if stored is not None:
            self._stored[key] = min(stored, self._stored.get(key, stored))

    def at_once(self, key: VpaKey) -> None:
        """Make a VPA's checkpoints due, before those of all others."""
        self._due[key] = _AT_ONCE

    def written(self, key: VpaKey, after: timedelta) -> None:
        """Schedule the next write of a VPA whose checkpoints were all written."""
        now = self._clock.now()
        self._due[key] = instant(now + after)
        self._stored[key] = now

    def in_order(self, keys: Collection[VpaKey], *, all_of_them: bool = False) -> list[VpaKey]:
        """Return the VPAs that are due, most important first, and forget all but ``keys``.

        The order is: :meth:`at_once`, never written, longest due. ``all_of_them`` includes VPAs
        that are not due yet.
        """
        self._due = {key: self._due.get(key, NEVER) for key in keys}
        if len(self._stored) > len(self._due):
            self._stored = {key: at for key, at in self._stored.items() if key in self._due}
        now = instant(self._clock.now())
        beyond = now + span(LONGEST_LAG)  # a later time means that the clock moved backwards
        due = ((at, key) for key, at in self._due.items() if all_of_them or not now < at <= beyond)
        return [key for _, key in sorted(due)]
