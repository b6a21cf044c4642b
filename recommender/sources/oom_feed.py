"""The queue of OOM kills from the caches for the cycle."""

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

_MOST = 50_000  # bounds the memory of a standby replica, which takes nothing
_MOST_POSTPONED = 10_000
_GONE = 2_000  # deleted pods that are kept; an Event may arrive seconds later


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOomEvent:
    """A kill with the facts about its pod, which may be gone when the cycle processes it."""

    kill: OomEvent
    pod: PodFacts | None  # None: from an Event, about a pod that exists or is unknown
    waited: int = 0  # cycles, for an unknown pod


class OomFeed:
    """OOM kills from changes of the caches, until ``take`` removes them.

    Each kill is returned once, even if the API server reports it again. A kill is initial if it
    may have been recorded before a restart: until ``go_live`` all kills are, and later those in the
    first version of a pod.
    """

    def __init__(self) -> None:
        self._known = SeenOomEvents()
        self._waiting: deque[PendingOomEvent] = deque()
        self._postponed: list[PendingOomEvent] = []  # sorted by the times of the kills
        self._gone: dict[str, Pod] = {}  # by uid, in the order of deletion
        self._initial = True
        self._dropped = 0

    def go_live(self) -> None:
        """Treat further kills as new, because the caches have listed."""
        self._initial = False

    def on_pod(self, change: Change[Pod]) -> None:
        """Process each version of a pod, including the last one before its deletion."""
        before = change.old
        for version in (change.last, change.new):
            if version is None:
                continue
            if before is not None and before.metadata.uid != version.metadata.uid:
                self._leave(before)
                before = None
            self._process(before, version)
            before = version
        if change.new is None and before is not None:
            self._leave(before)

    def on_event(self, change: Change[Event]) -> None:
        """Process an added Event; a changed one has no other kills."""
        if change.new is None:
            if change.old is not None:
                self._known.leave(change.old.metadata.uid)
        elif change.old is None:
            self._put(kills_of_eviction(change.new, initial=self._initial), None)

    def take(
        self, chosen: Callable[[OomEvent], bool] = lambda _: True
    ) -> tuple[tuple[PendingOomEvent, ...], int]:
        """Remove and return the chosen kills, oldest first, and the number of dropped ones."""
        taken, dropped = [one for one in self._waiting if chosen(one.kill)], self._dropped
        self._waiting = deque(one for one in self._waiting if not chosen(one.kill))
        self._dropped = 0
        return tuple(map(self._with_pod, taken)), dropped

    def append(self, observation: PendingOomEvent) -> None:
        """Queue a kill, also again while its pod isn't known."""
        if len(self._waiting) >= _MOST:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(observation)

    def postpone(self, observation: PendingOomEvent) -> PendingOomEvent | None:
        """Keep a kill with a future timestamp until :meth:`due` returns it.

        If there are too many, drop and return the kill that is furthest ahead.
        """
        insort(self._postponed, observation, key=_time)
        return self._postponed.pop() if len(self._postponed) > _MOST_POSTPONED else None

    def due(self, latest: datetime) -> tuple[PendingOomEvent, ...]:
        """Remove and return the postponed kills up to this time, in order."""
        count = bisect_right(self._postponed, latest, key=_time)
        found, self._postponed = self._postponed[:count], self._postponed[count:]
        return tuple(map(self._with_pod, found))

    @property
    def postponed(self) -> int:
        """Return the number of postponed kills."""
        return len(self._postponed)

    def _process(self, old: Pod | None, new: Pod) -> None:
        """Queue the kills in ``new``; ``old`` is the previous version of the pod."""
        # The update shows the request at the time of the kill, so it comes first. The status of
        # the new version has kills that a gap in the watch hid.
        kills = kills_between(old, new, initial=self._initial) if old is not None else ()
        initial = self._initial or old is None
        self._put((*kills, *kills_in(new, initial=initial)), new)

    def _put(self, kills: tuple[OomEvent, ...], pod: Pod | None) -> None:
        for kill in kills:
            if self._known.is_new(kill):
                facts = None if pod is None else pod_facts(pod)
                self.append(PendingOomEvent(kill=kill, pod=facts))

    def _leave(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._known.leave(uid)
        self._gone.pop(uid, None)
        self._gone[uid] = pod
        if len(self._gone) > _GONE:
            del self._gone[next(iter(self._gone))]

    def _with_pod(self, observation: PendingOomEvent) -> PendingOomEvent:
        """Add the pod to a kill from an Event that arrived after the pod's deletion."""
        gone = self._gone.get(observation.kill.pod_uid)
        if observation.pod is not None or gone is None:
            return observation
        return replace(observation, pod=pod_facts(gone))


def _time(observation: PendingOomEvent) -> datetime:
    return observation.kill.at
