"""Collects OOM kills from what the caches report, until the cycle takes them."""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from common.api.core import Event, Pod
from common.kube.cache import Change
from recommender.model.pods import PodFacts
from recommender.sources.conversion import pod_facts
from recommender.sources.oom_kills import (
    OomEvent,
    SeenOomEvents,
    kills_between,
    kills_in,
    kills_of_eviction,
)

_MOST = 50_000  # a standby replica takes nothing, and must not grow
_MOST_POSTPONED = 10_000
_GONE = 2_000  # pods that went and are remembered; an Event comes seconds later, if at all


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOomEvent:
    """A kill, and what is known of its pod: that may be gone when the cycle looks for it."""

    kill: OomEvent
    pod: PodFacts | None  # None: from an Event, about a pod that exists or is unknown
    waited: int = 0  # cycles, for a pod that isn't known


class OomFeed:
    """Fed by the caches' changes; ``take`` empties it.

    Each kill is returned once, however often the API server reports it. It is initial if it may
    have been learnt before a restart: until ``go_live`` all are, and later those that a pod
    shows when it is seen for the first time.
    """

    def __init__(self) -> None:
        self._known = SeenOomEvents()
        self._waiting: deque[PendingOomEvent] = deque()
        self._postponed: list[PendingOomEvent] = []  # sorted by the times of the kills
        self._gone: dict[str, Pod] = {}  # by uid, in the order in which they went
        self._initial = True
        self._dropped = 0

    def go_live(self) -> None:
        """The caches have listed; what comes now is new."""
        self._initial = False

    def on_pod(self, change: Change[Pod]) -> None:
        """Look at every version of a pod, its last one included."""
        before = change.old
        for version in (change.last, change.new):
            if version is None:
                continue
            if before is not None and before.metadata.uid != version.metadata.uid:
                self._leave(before)
                before = None
            self._look(before, version)
            before = version
        if change.new is None and before is not None:
            self._leave(before)

    def on_event(self, change: Change[Event]) -> None:
        """Process an added Event; a changed one holds no other kills."""
        if change.new is None:
            if change.old is not None:
                self._known.leave(change.old.metadata.uid)
        elif change.old is None:
            self._put(kills_of_eviction(change.new, initial=self._initial), None)

    def take(
        self, chosen: Callable[[OomEvent], bool] = lambda _: True
    ) -> tuple[tuple[PendingOomEvent, ...], int]:
        """Return those that wait and are chosen, oldest first, and how many had to be dropped."""
        taken, dropped = [one for one in self._waiting if chosen(one.kill)], self._dropped
        self._waiting = deque(one for one in self._waiting if not chosen(one.kill))
        self._dropped = 0
        return tuple(map(self._with_pod, taken)), dropped

    def put_back(self, observation: PendingOomEvent) -> None:
        """Let a kill wait for its pod, which isn't known yet."""
        self._append(observation)

    def postpone(self, observation: PendingOomEvent) -> PendingOomEvent | None:
        """Keep a kill with a future timestamp until :meth:`due` returns it.

        Returns the kill that is furthest ahead if there are too many by now; it is dropped.
        """
        insort(self._postponed, observation, key=_time)
        return self._postponed.pop() if len(self._postponed) > _MOST_POSTPONED else None

    def due(self, latest: datetime) -> tuple[PendingOomEvent, ...]:
        """Take the postponed kills up to this time, in the order of their times."""
        count = bisect_right(self._postponed, latest, key=_time)
        found, self._postponed = self._postponed[:count], self._postponed[count:]
        return tuple(map(self._with_pod, found))

    @property
    def postponed(self) -> int:
        """Return how many kills are postponed."""
        return len(self._postponed)

    def _look(self, old: Pod | None, new: Pod) -> None:
        """Take the kills that ``new`` shows; ``old`` is the same pod before."""
        # The update shows best which request counts; what a gap in the watch hid is
        # still remembered by the pod itself.
        kills = kills_between(old, new, initial=self._initial) if old is not None else ()
        initial = self._initial or old is None
        self._put((*kills, *kills_in(new, initial=initial)), new)

    def _put(self, kills: tuple[OomEvent, ...], pod: Pod | None) -> None:
        for kill in kills:
            if self._known.is_new(kill):
                facts = None if pod is None else pod_facts(pod)
                self._append(PendingOomEvent(kill=kill, pod=facts))

    def _append(self, observation: PendingOomEvent) -> None:
        if len(self._waiting) >= _MOST:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(observation)

    def _leave(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._known.leave(uid)
        self._gone.pop(uid, None)
        self._gone[uid] = pod
        if len(self._gone) > _GONE:
            del self._gone[next(iter(self._gone))]

    def _with_pod(self, observation: PendingOomEvent) -> PendingOomEvent:
        """Return the Event with its pod, if known; it may arrive after the pod is gone."""
        gone = self._gone.get(observation.kill.pod_uid)
        if observation.pod is not None or gone is None:
            return observation
        return replace(observation, pod=pod_facts(gone))


def _time(observation: PendingOomEvent) -> datetime:
    return observation.kill.at
