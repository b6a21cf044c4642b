"""Which evicted pods were lost: nothing came in their place, or a pod without the recommendation.

Knows nothing of the updater: it counts calls and pods as they were stored.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from disruption_faults import Fault
from disruption_log import Call, Group, PodState

MOST_LOST = 3
PROBE_PAUSE = timedelta(hours=1)  # docs/operations.md: then one more is tried
_SLACK = timedelta(minutes=2)  # between a decision, the call and its answer
_CREATION = timedelta(minutes=3)  # until a missing replacement counts; includes the old pod's end


@dataclass(slots=True, kw_only=True)
class _Eviction:
    uid: str
    name: str
    at: datetime
    done_at: datetime
    rights: int  # right pods of the workload until then
    known: bool = True  # to the updater that runs


@dataclass(slots=True)
class LostPods:
    """Counts lost pods of each workload since its last right pod.

    A new pod answers the oldest eviction without an answer. One without our webhook's patch means
    that the evicted pod is lost, and so does a workload that still has fewer pods than it wants
    three minutes after the eviction. Up to three may be lost, and then one an hour. A workload
    that has all its pods owes no more answers: it was scaled down, or a rollout goes on.
    """

    _unanswered: dict[Group, list[_Eviction]] = field(default_factory=lambda: defaultdict(list))
    _rights: Counter[Group] = field(default_factory=Counter)
    _lost: dict[tuple[Group, int], list[_Eviction]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def evicted(self, workload: Group, call: Call) -> None:
        """An eviction of ours that the API server carried out."""
        assert call.done_at is not None
        self._unanswered[workload].append(
            _Eviction(
                uid=call.uid,
                name=call.name,
                at=call.at,
                done_at=call.done_at,
                rights=self._rights[workload],
            )
        )

    def process_begins(self, now: datetime) -> None:
        """What is carried out from now on was asked for by an updater that has died."""
        for evictions in self._unanswered.values():
            for one in evictions:
                one.known &= one.done_at <= now

    def vpa_begins(self, workload: Group) -> None:
        """A new VPA: what came of evictions for another one says nothing about it."""
        self._unanswered.pop(workload, None)
        self._rights[workload] += 1

    def created(self, workload: Group, pod: PodState) -> None:
        waiting = self._unanswered[workload]
        answered = next((one for one in waiting if one.done_at <= pod.at), None)
        if answered is not None:
            waiting.remove(answered)
            if not pod.patched:
                self._lose(workload, answered)
        if pod.patched:
            self._rights[workload] += 1

    def look(self, workload: Group, there: Collection[str], wanted: int, now: datetime) -> None:
        """The workload has these pods, and wants so many."""
        if len(there) >= wanted:
            left = [one for one in self._unanswered[workload] if one.uid in there]
            self._unanswered[workload] = left
        for one in list(self._unanswered[workload]):
            if one.uid not in there and now - one.done_at >= _CREATION:
                self._unanswered[workload].remove(one)
                self._lose(workload, one)

    def _lose(self, workload: Group, eviction: _Eviction) -> None:
        if eviction.known:
            self._lost[workload, eviction.rights].append(eviction)

    def faults(self) -> Iterator[Fault]:
        """Those that should not have been evicted, as too many had been lost before."""
        for (workload, _), lost in self._lost.items():
            ordered = sorted(lost, key=lambda one: one.at)
            for place, one in enumerate(ordered[MOST_LOST:], start=MOST_LOST):
                if one.at - ordered[place - 1].at < PROBE_PAUSE - _SLACK:
                    before = ", ".join(
                        f"{each.name} {each.at:%H:%M:%S}" for each in ordered[:place]
                    )
                    told = (
                        f"eviction of {one.name}: {workload[0]} {workload[1]} had lost {before} "
                        "without a right pod since"
                    )
                    yield Fault(one.at, workload[1], told)
