"""The evicted pods that were lost: no pod replaced them, or one without the recommendation.

It shares no code with the updater. It counts calls and stored pods.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from disruption_faults import Fault
from disruption_log import Call, Group, PodState

MOST_LOST = 3
PROBE_PAUSE = timedelta(hours=1)  # docs/troubleshooting.md: after that, one probe is evicted
_SLACK = timedelta(minutes=2)  # between a decision and the answer to its call
_CREATION = timedelta(minutes=3)  # until a missing replacement counts; includes termination


@dataclass(slots=True, kw_only=True)
class _Eviction:
    uid: str
    name: str
    at: datetime
    done_at: datetime
    rights: int  # right pods of the workload before that
    known: bool = True  # the running updater sent it


@dataclass(slots=True)
class LostPods:
    """Counts the lost pods of each workload since its last right pod.

    A new pod replaces the oldest evicted pod that has no replacement. If it lacks the webhook's
    patch, the evicted pod is lost. It is also lost if the workload still has too few pods three
    minutes after the eviction. Up to three may be lost, and then one an hour. If a workload has all
    its pods, nothing is missing: it was scaled down, or a rollout is in progress.
    """

    _unanswered: dict[Group, list[_Eviction]] = field(default_factory=lambda: defaultdict(list))
    _rights: Counter[Group] = field(default_factory=Counter)
    _lost: dict[tuple[Group, int], list[_Eviction]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def evicted(self, workload: Group, call: Call) -> None:
        """Record an eviction by the updater that the API server carried out."""
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
        """Record that evictions from now on were sent by an updater that has been killed."""
        for evictions in self._unanswered.values():
            for one in evictions:
                one.known &= one.done_at <= now

    def vpa_begins(self, workload: Group) -> None:
        """Record a new VPA. Results of evictions for the old one don't count for it."""
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
        """Compare the workload's pods with the number that it wants."""
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
        """Yield the evictions that should not have been sent, because too many pods were lost."""
        for (workload, _), lost in self._lost.items():
            ordered = sorted(lost, key=lambda one: one.at)
            for place, one in enumerate(ordered[MOST_LOST:], start=MOST_LOST):
                if one.at - ordered[place - 1].at < PROBE_PAUSE - _SLACK:
                    before = ", ".join(
                        f"{each.name} {each.at:%H:%M:%S}" for each in ordered[:place]
                    )
                    text = (
                        f"eviction of {one.name}: {workload[0]} {workload[1]} had lost {before} "
                        "without a right pod since"
                    )
                    yield Fault(one.at, workload[1], text)
