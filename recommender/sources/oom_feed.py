"""Collects OOM kills from what the caches report, until the cycle takes them."""

from collections import deque
from dataclasses import dataclass

from common.api.core import Event, Pod
from common.kube.cache import Change
from recommender.model.pods import PodFacts
from recommender.oom import KnownKills, OomKill, kills_between, kills_in, kills_of_eviction
from recommender.sources.facts import pod_facts

_MOST = 50_000  # a standby replica takes nothing, and must not grow


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A kill, and what is known of its pod: that may be gone when the cycle looks for it."""

    kill: OomKill
    pod: PodFacts | None  # None: an Event told


class OomFeed:
    """Fed by the caches' changes; ``take`` empties it.

    Each kill comes out once, however often the API server tells of it. Until ``go_live``
    whatever is seen counts as initial: it may have been learnt before a restart.
    """

    def __init__(self) -> None:
        self._known = KnownKills()
        self._waiting: deque[Observation] = deque()
        self._initial = True
        self._dropped = 0

    def go_live(self) -> None:
        """The caches have listed; what comes now is new."""
        self._initial = False

    def on_pod(self, change: Change[Pod]) -> None:
        """Look at every version of a pod, its last one included; then forget its kills."""
        old, new = change.old, change.new
        if new is None:
            self._look(old, change.last)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._known.forget(old.metadata.uid)
            old = None
        self._look(old, new)

    def on_event(self, change: Change[Event]) -> None:
        """Look at an added Event; changed ones tell nothing new."""
        if change.new is None:
            if change.old is not None:
                self._known.forget(change.old.metadata.uid)
        elif change.old is None:
            self._put(kills_of_eviction(change.new, initial=self._initial), None)

    def take(self) -> tuple[tuple[Observation, ...], int]:
        """All that waits, oldest first, and how many had to be dropped since the last time."""
        taken, dropped = tuple(self._waiting), self._dropped
        self._waiting.clear()
        self._dropped = 0
        return taken, dropped

    def _look(self, old: Pod | None, new: Pod | None) -> None:
        """Take the kills that ``new`` tells of; ``old`` is the same pod before."""
        if new is None:
            return
        # The update tells best which request counts; what a gap in the watch swallowed is
        # still remembered by the pod itself.
        kills = kills_between(old, new, initial=self._initial) if old is not None else ()
        self._put((*kills, *kills_in(new, initial=self._initial)), new)

    def _put(self, kills: tuple[OomKill, ...], pod: Pod | None) -> None:
        for kill in kills:
            if not self._known.is_new(kill):
                continue
            if len(self._waiting) >= _MOST:
                self._waiting.popleft()
                self._dropped += 1
            facts = None if pod is None else pod_facts(pod)
            self._waiting.append(Observation(kill=kill, pod=facts))
