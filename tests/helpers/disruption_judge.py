"""The judge of the proofs: it checks that the updater's calls were allowed.

It shares no code with the updater. It reads a log of the cluster and counts independently.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from disruption_faults import Fault, history
from disruption_log import (
    Call,
    Entry,
    Group,
    PassBegins,
    PodState,
    ProcessBegins,
    Rollout,
    VpaBegins,
    Wanted,
)
from lost_pods import LostPods

_DEFERRED = "Deferred"
_NEVER = datetime.min.replace(tzinfo=UTC)
_BUDGET_LAG = timedelta(seconds=2)  # until a budget's status reflects a pod's deletion


@dataclass(frozen=True, slots=True)
class _View:
    """The pods of a group or of a whole workload at one moment, and its wanted number of pods."""

    there: frozenset[str]
    running: frozenset[str]
    ready: frozenset[str]
    replicas: int
    rollout: Rollout | None  # of a Deployment, while one is in progress


@dataclass(slots=True)
class Judge:
    """A judge that replays a log and reports calls that should not have been sent.

    Other clients can take pods down during a pass, or before a watch reports it. So a call is right
    if it was right in some state of its group since ``lag`` before the pass began. The updater's
    own calls count from the time when they were sent, if they were carried out. A process that was
    killed can't pass its calls on to its successor: after that they count from the time when they
    are carried out (docs/configuration.md: with an interval of a minute nothing is unknown).

    Each group of a direct controller keeps its tolerance, and so does the whole workload, the
    Deployment with all its ReplicaSets. No eviction is sent for a workload with fewer pods than
    its VPA's ``minReplicas``. During a rollout of a Deployment no call takes away an available pod
    beyond its strategy's ``maxUnavailable``. With the strategy Recreate that is any pod, and no
    eviction is sent at all.
    """

    tolerance_fraction: float
    lag: timedelta
    guarded: Mapping[str, int] = field(default_factory=dict)  # by app: minimum of ready pods
    min_replicas: Mapping[str, int] = field(default_factory=dict)  # by app, of its VPA
    counts_lost: bool = False  # a webhook patches new pods, and the updater checks them
    faults: list[Fault] = field(default_factory=list)
    _pods: dict[str, PodState] = field(default_factory=dict)
    _members: dict[Group, set[str]] = field(default_factory=lambda: defaultdict(set))
    _replicas: dict[Group, int] = field(default_factory=dict)
    _owners: dict[Group, Group] = field(default_factory=dict)  # Deployments, by ReplicaSet
    _rollouts: dict[Group, Rollout] = field(default_factory=dict)
    _times: dict[Group, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    _views: dict[Group, list[_View]] = field(default_factory=lambda: defaultdict(list))
    _healthy: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by app
    _waiting: dict[str, datetime] = field(default_factory=dict)  # since when, by UID
    _deferred: dict[str, datetime] = field(default_factory=dict)  # until when, by UID
    _pending: dict[str, datetime] = field(default_factory=dict)  # the same
    _wanted_since: dict[str, datetime] = field(default_factory=dict)
    _gone_since: dict[str, datetime] = field(default_factory=dict)
    _out: dict[str, datetime] = field(default_factory=dict)  # by us; when it was carried out
    _forgotten: dict[str, datetime] = field(default_factory=dict)  # by UID; out at that time
    _lost: LostPods = field(default_factory=LostPods)
    _since: datetime | None = None  # start of the states that the updater may have seen

    def check(self, entries: Iterable[Entry]) -> None:
        """Replay a log.

        Raises:
            AssertionError: calls should not have been sent. The text has a line for each, and the
                log before the first of them.
        """
        entries = list(entries)
        faults = self._replay(entries)
        if faults:
            lines = (f"{len(faults)} should not have been sent:", *map(str, faults[:30]))
            raise AssertionError("\n".join((*lines, *history(entries, faults[0]))))

    def _replay(self, entries: Iterable[Entry]) -> list[Fault]:
        for entry in entries:
            match entry:
                case PassBegins():
                    self._since = entry.at - self.lag
                    for workload in set(map(self._workload, list(self._members))):
                        self._count_lost(workload, entry.at)
                case ProcessBegins():
                    self._forget(entry.at)
                    self._lost.process_begins(entry.at)
                case VpaBegins():
                    self._lost.vpa_begins(entry.group)
                case Wanted():
                    if entry.owner is not None:
                        self._owners[entry.group] = entry.owner
                    self._replicas[entry.group] = entry.replicas
                    self._note(entry.group, entry.at)
                case Rollout():
                    self._replicas[entry.group] = entry.replicas
                    self._rollouts[entry.group] = entry
                    self._note(entry.group, entry.at)
                case PodState():
                    self._see(entry)
                case Call():
                    self._judge(entry)
        if self.counts_lost:
            self.faults.extend(self._lost.faults())
        return self.faults

    def _workload(self, group: Group) -> Group:
        """Return the Deployment of a ReplicaSet, or the group itself."""
        return self._owners.get(group, group)

    def _count_lost(self, workload: Group, now: datetime) -> None:
        self._lost.look(workload, self._members[workload], self._replicas.get(workload, 0), now)

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
        if before is not None and before.pending:
            self._pending[state.uid] = state.at
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
        if before is None and state.group is not None:
            self._lost.created(self._workload(state.group), state)
        for group in self._groups(state) | (set() if before is None else self._groups(before)):
            belongs = state.there and group in self._groups(state)
            (self._members[group].add if belongs else self._members[group].discard)(state.uid)
            self._note(group, state.at)

    def _groups(self, state: PodState) -> set[Group]:
        """Return the group of the pod's controller, and that of the whole workload."""
        return set() if state.group is None else {state.group, self._workload(state.group)}

    def _guard(self, state: PodState) -> None:
        """Check the PodDisruptionBudget of an evicted ready pod.

        A pod that another client took down at the same moment was still counted.
        """
        lately = {
            uid
            for uid, since in self._gone_since.items()
            if state.at - since < _BUDGET_LAG and not self._pods[uid].evicted
        }
        left = (self._healthy[state.app] | lately) - {state.uid}
        left = {uid for uid in left if self._pods[uid].app == state.app}
        if len(left) < self.guarded.get(state.app, 0):
            text = (
                f"eviction of {state.name}: its PodDisruptionBudget keeps "
                f"{self.guarded[state.app]}, and {len(left)} are left"
            )
            self.faults.append(Fault(state.at, state.app, text))

    def _note(self, group: Group, at: datetime) -> None:
        there = frozenset(self._members[group])
        rollout = self._rollouts.get(group)
        self._times[group].append(at)
        self._views[group].append(
            _View(
                there=there,
                running=frozenset(uid for uid in there if self._pods[uid].runs),
                ready=frozenset(uid for uid in there if self._pods[uid].ready),
                replicas=self._replicas.get(group, 0),
                rollout=rollout if rollout is not None and rollout.in_progress else None,
            )
        )
        if self._workload(group) == group:
            self._count_lost(group, at)

    def _judge(self, call: Call) -> None:
        state, since = self._pods.get(call.uid), self._since or call.at
        if state is None:
            return
        wrongs: list[str] = []
        if self._gone_since.get(call.uid, call.at) < since:
            wrongs.append(f"it had gone at {self._gone_since[call.uid]:%H:%M:%S}")
        if call.kind == "resize":
            deferred = state.waits == _DEFERRED or self._deferred.get(call.uid, _NEVER) >= since
            replaces = deferred and call.replaces  # X100
            if self._waiting.get(call.uid, call.at) < since and not replaces:
                wrongs.append(f"it waits for the kubelet, {state.waits}")
            if not call.changes and self._wanted_since.get(call.uid, call.at) < since:
                wrongs.append("nothing is changed by it")
        disrupts = call.kind == "eviction" or call.restarts
        if disrupts and state.group is not None:
            if call.uid not in self._out:
                wrongs += self._wrongs(call, state, since)
            if call.done_at is not None:
                self._carried_out(call, state, self._workload(state.group))
        self.faults += [
            Fault(call.at, state.app, f"{call.kind} of {call.name}: {wrong}") for wrong in wrongs
        ]

    def _carried_out(self, call: Call, state: PodState, workload: Group) -> None:
        assert call.done_at is not None
        if not state.pending:
            self._out.setdefault(call.uid, call.done_at)
        if call.kind == "eviction":
            self._lost.evicted(workload, call)

    def _wrongs(self, call: Call, state: PodState, since: datetime) -> Iterator[str]:
        """Yield the rules that a disruption breaks. A Pending pod is part of no budget."""
        assert state.group is not None
        was_pending = state.pending or self._pending.get(call.uid, _NEVER) >= since
        workload = self._workload(state.group)
        for group in dict.fromkeys((state.group, workload)):
            views = self._seen(group, since)
            whole = group != state.group
            if not was_pending and not any(
                self._tolerates(view, call.uid, whole=whole) for view in views
            ):
                yield f"{group[0]} {group[1]} has {self._counts(views)}"
        views, evicts = self._seen(workload, since), call.kind == "eviction"
        least = self.min_replicas.get(state.app, 0)
        if evicts and all(len(view.there) < least for view in views):
            yield f"minReplicas is {least}, and there are {len(views[-1].there)}"
        if not any(self._leaves_enough(view, call.uid, evicts=evicts) for view in views):
            rollout = views[-1].rollout
            most = "Recreate" if rollout is None else rollout.max_unavailable
            yield (
                f"{workload[0]} {workload[1]} is being rolled out, maxUnavailable {most}, and has "
                f"{len(views[-1].ready)} available, {self._counts(views)}"
            )

    def _seen(self, group: Group, since: datetime) -> list[_View]:
        """Return the states that the updater may have seen."""
        return self._views[group][max(bisect_right(self._times[group], since) - 1, 0) :]

    def _tolerates(self, view: _View, uid: str, *, whole: bool) -> bool:
        """Return whether enough pods run without this one.

        During a rollout of any of its groups only the workload's available pods count (X105).
        """
        if whole and view.rollout is not None and uid not in view.ready:
            return True
        alive = view.running - self._out.keys()
        tolerance = math.trunc(view.replicas * self.tolerance_fraction)
        untouched = tolerance == 0 and len(alive) >= view.replicas
        return untouched or len(alive - {uid}) >= view.replicas - tolerance

    def _leaves_enough(self, view: _View, uid: str, *, evicts: bool) -> bool:
        """Return whether a rollout has enough available pods without this one."""
        rollout = view.rollout
        if rollout is None:
            return True
        if evicts and rollout.max_unavailable is None:
            return False
        left = view.ready - self._out.keys() - {uid}
        least = rollout.replicas - (rollout.max_unavailable or 0)
        return uid not in view.ready or len(left) >= least

    def _counts(self, views: Sequence[_View]) -> str:
        view = views[-1]
        return (
            f"{len(view.running)} of {view.replicas} running, "
            f"{len(view.running & self._out.keys())} of them disrupted by us"
        )
