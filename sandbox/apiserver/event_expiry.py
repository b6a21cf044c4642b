"""Removal of Events after an hour, so that a simulated week fits into memory.

Source: kube-apiserver's ``--event-ttl``; every write of an event starts its hour again.
"""

from datetime import datetime, timedelta

from common.runtime.clock import Clock
from sandbox.objects.resources import EVENTS, Resource
from sandbox.objects.store import Store, Stored

TIME_TO_LIVE = timedelta(hours=1)


class EventExpiry:
    """Removes expired Events whenever an Event is written."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._written: dict[tuple[str, str], datetime] = {}  # oldest first

    def written(self, resource: Resource, stored: Stored) -> None:
        """Record the write of an Event, and remove expired ones."""
        if resource is not EVENTS:
            return
        key, now = (stored.namespace, stored.name), self._clock.now()
        self._written.pop(key, None)
        self._written[key] = now
        while self._written:
            old, when = next(iter(self._written.items()))
            if when + TIME_TO_LIVE > now:
                return
            del self._written[old]
            if self._store.get(EVENTS, *old) is not None:
                self._store.delete(EVENTS, *old)
