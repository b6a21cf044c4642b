"""The judge of the proofs: whether what the updater asked for was allowed.

It knows nothing of the updater: it reads a log of the cluster, and counts for itself.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from disruption_log import Call, Entry, Floor, Group, PassBegins, PodState, ProcessBegins, Wanted

_DEFERRED = "Deferred"
_NEVER = datetime.min.replace(tzinfo=UTC)
_BUDGET_LAG = timedelta(seconds=2)  # until a budget's status tells of a pod that has gone


@dataclass(frozen=True, slots=True)
class _View:
    """Which pods of a group ran, and how many it wants."""

    running: frozenset[str]
    replicas: int


@dataclass(frozen=True, slots=True)
class _Rolled:
    """Which pods of a Deployment were available, and how many its rollout keeps."""

    available: frozenset[str]
    floor: int | None


@dataclass(slots=True)
class Judge:
    """Replays a log, and says what should not have been sent.

    Somebody else may take pods down while a pass is under way, or before the watch tells of it.
    So a call is right if it was so in some state of its group since ``lag`` before the pass began.
    What the updater itself has asked for counts from the moment at which it was asked for, if it
    was carried out sooner or later. A process that died meanwhile can tell its successor nothing:
    from then on the call counts when it is carried out (docs/operations.md: an interval of a minute
    leaves nothing unknown).
    """

    tolerance_fraction: float
    lag: timedelta
    guarded: Mapping[str, int] = field(default_factory=dict)  # by app: pods that are to be kept
    faults: list[str] = field(default_factory=list)
    _pods: dict[str, PodState] = field(default_factory=dict)
    _members: dict[Group, set[str]] = field(default_factory=lambda: defaultdict(set))
    _replicas: dict[Group, int] = field(default_factory=dict)
    _times: dict[Group, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    _views: dict[Group, list[_View]] = field(default_factory=lambda: defaultdict(list))
    _healthy: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by app
    _floors: dict[str, int | None] = field(default_factory=dict)  # by app
    _rolled_at: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    _rolled: dict[str, list[_Rolled]] = field(default_factory=lambda: defaultdict(list))
    _waiting: dict[str, datetime] = field(default_factory=dict)  # since when, by UID
    _deferred: dict[str, datetime] = field(default_factory=dict)  # until when, by UID
    _wanted_since: dict[str, datetime] = field(default_factory=dict)
    _gone_since: dict[str, datetime] = field(default_factory=dict)
    _out: dict[str, datetime] = field(default_factory=dict)  # by us; when it was carried out
    _forgotten: dict[str, datetime] = field(default_factory=dict)  # will be out at that time
    _since: datetime | None = None  # from when on a state may have been what the updater saw

    def check(self, entries: Iterable[Entry]) -> None:
        """Replay a log.

        Raises:
            AssertionError: something should not have been sent; a line for each.
        """
        faults = self._replay(entries)
        assert not faults, "\n".join((f"{len(faults)} should not have been sent:", *faults[:30]))

    def _replay(self, entries: Iterable[Entry]) -> list[str]:
        for entry in entries:
            match entry:
                case PassBegins():
                    self._since = entry.at - self.lag
                case ProcessBegins():
                    self._forget(entry.at)
                case Wanted():
                    self._replicas[entry.group] = entry.replicas
                    self._note(entry.group, entry.at)
                case Floor():
                    self._floors[entry.app] = entry.available
                    self._note_rollout(entry.app, entry.at)
                case PodState():
                    self._see(entry)
                    self._note_rollout(entry.app, entry.at)
                case Call():
                    self._judge(entry)
        return self.faults

    def _forget(self, now: datetime) -> None:
        late = {uid: done_at for uid, done_at in self._out.items() if done_at > now}
        for uid in late:
            del self._out[uid]
        self._forgotten |= late

    def _see(self, state: PodState) -> None:
        before = self._pods.get(state.uid)
        self._pods[state.uid] = state
        if state.evicted and before is not None and not before.evicted and before.ready:
            self._guard(state)
        if state.waits:
            self._waiting.setdefault(state.uid, state.at)
        else:
            self._waiting.pop(state.uid, None)
        if before is not None and before.waits == _DEFERRED:
            self._deferred[state.uid] = state.at
        if before is None or before.wanted != state.wanted:
            self._wanted_since[state.uid] = state.at
        if not state.there:
            self._gone_since.setdefault(state.uid, state.at)
        late = self._forgotten.get(state.uid)
        if late is not None and state.at >= late:
            self._out.setdefault(state.uid, self._forgotten.pop(state.uid))
        done_at = self._out.get(state.uid)
        back = state.there and not state.evicted and not state.restarts
        if done_at is not None and state.at >= done_at and back:
            del self._out[state.uid]
        healthy = self._healthy[state.app]
        (healthy.add if state.there and state.ready else healthy.discard)(state.uid)
        for group in {state.group, None if before is None else before.group} - {None}:
            if group is not None:
                (
                    self._members[group].add
                    if state.group == group and state.there
                    else (self._members[group].discard)
                )(state.uid)
                self._note(group, state.at)

    def _guard(self, state: PodState) -> None:
        """A ready pod was evicted: its PodDisruptionBudget has to be kept.

        A pod that somebody else took down in this very moment was still counted.
        """
        lately = {
            uid
            for uid, since in self._gone_since.items()
            if state.at - since < _BUDGET_LAG and not self._pods[uid].evicted
        }
        left = (self._healthy[state.app] | lately) - {state.uid}
        left = {uid for uid in left if self._pods[uid].app == state.app}
        if len(left) < self.guarded.get(state.app, 0):
            self.faults.append(
                f"{state.at:%d %H:%M:%S} eviction of {state.name}: its PodDisruptionBudget keeps "
                f"{self.guarded[state.app]}, and {len(left)} are left"
            )

    def _note(self, group: Group, at: datetime) -> None:
        running = frozenset(uid for uid in self._members[group] if self._pods[uid].runs)
        self._times[group].append(at)
        self._views[group].append(_View(running, self._replicas.get(group, 0)))

    def _note_rollout(self, app: str, at: datetime) -> None:
        if app in self._floors:
            self._rolled_at[app].append(at)
            view = _Rolled(frozenset(self._healthy[app]), self._floors[app])
            self._rolled[app].append(view)

    def _judge(self, call: Call) -> None:
        state, since = self._pods.get(call.uid), self._since or call.at
        told = f"{call.at:%d %H:%M:%S} {call.kind} of {call.name}"
        if state is None:
            return
        if self._gone_since.get(call.uid, call.at) < since:
            self.faults.append(f"{told}: it had gone at {self._gone_since[call.uid]:%H:%M:%S}")
        if call.kind == "resize":
            deferred = state.waits == _DEFERRED or self._deferred.get(call.uid, _NEVER) >= since
            replaces = deferred and call.replaces  # X100
            if self._waiting.get(call.uid, call.at) < since and not replaces:
                self.faults.append(f"{told}: it waits for the kubelet, {state.waits}")
            if not call.changes and self._wanted_since.get(call.uid, call.at) < since:
                self.faults.append(f"{told}: nothing is changed by it")
        disrupts = call.kind == "eviction" or call.restarts
        if disrupts and not state.pending and state.group is not None:
            wrong = (
                "" if call.uid in self._out else self._beyond(state.group, call.uid, since, call.at)
            )
            if not wrong and call.uid not in self._out:
                wrong = self._below_floor(state.app, call.uid, since)
            if wrong:
                self.faults.append(f"{told}: {wrong}")
            if call.done_at is not None:
                self._out.setdefault(call.uid, call.done_at)

    def _beyond(self, group: Group, uid: str, since: datetime, now: datetime) -> str:
        """How the budget is broken; empty where it holds in one of the states."""
        first = max(bisect_right(self._times[group], since) - 1, 0)
        wrong = "its group is not known"
        for view in self._views[group][first:]:
            alive = view.running - self._out.keys()
            tolerance = math.trunc(view.replicas * self.tolerance_fraction)
            if len(alive - {uid}) >= view.replicas - tolerance:
                return ""
            if tolerance == 0 and len(alive) >= view.replicas:
                return ""
            wrong = (
                f"{group[0]} {group[1]} has {len(view.running)} of {view.replicas} running, "
                f"{len(view.running & self._out.keys())} of them disrupted by us"
            )
        return wrong

    def _below_floor(self, app: str, uid: str, since: datetime) -> str:
        """How a rollout's own promise is broken; empty where it is kept in one of the states."""
        first = max(bisect_right(self._rolled_at[app], since) - 1, 0)
        wrong = ""
        for view in self._rolled[app][first:]:
            available = view.available - self._out.keys()
            if view.floor is None or uid not in available or len(available) > view.floor:
                return ""
            wrong = (
                f"Deployment {app} has {len(available)} pods available, and its rollout keeps "
                f"{view.floor}"
            )
        return wrong
