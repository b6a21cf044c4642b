"""What the updater asked for and what became of it, in a sandbox; and whether that was allowed.

The judge of the proofs. It knows nothing of the updater: it reads the calls as they arrive at the
API server, the pods as they are stored, and counts for itself.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from sandbox.apiserver.faults import NOTHING, ApiFault, Calls
from sandbox.apiserver.requests import Place, Request
from sandbox.cluster import Cluster
from sandbox.objects.resources import DAEMON_SETS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from sandbox.objects.store import Change, ChangeType

_CONTROLLERS = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS, "DaemonSet": DAEMON_SETS}
_BUDGET_LAG = timedelta(seconds=2)  # until a budget's status tells of a pod that has gone
_PENDING, _IN_PROGRESS = "PodResizePending", "PodResizeInProgress"

Group = tuple[str, str]
"""Kind and name of a pod's controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod as it was stored at one moment."""

    at: datetime
    uid: str
    name: str
    group: Group | None
    app: str  # its label
    pending: bool
    there: bool  # neither asked to go, nor gone, nor ended
    ready: bool
    evicted: bool  # by the eviction API
    waits: str  # for the kubelet: deferred, in progress, error, or for an unknown reason
    restarts: bool  # an unfinished resize is going to restart a container
    wanted: Mapping[str, Any]  # the resources of its spec, by container

    @property
    def runs(self) -> bool:
        return self.there and not self.pending


@dataclass(slots=True, kw_only=True)
class Call:
    """An eviction or a resize, as it arrived."""

    at: datetime
    kind: str  # the subresource: eviction, resize
    uid: str
    name: str
    restarts: bool = False  # asks for what restarts a container
    changes: bool = True  # asks for something else than what the spec says already
    done_at: datetime | None = None  # when the API server carried it out


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many pods a controller asks for, from then on."""

    at: datetime
    group: Group
    replicas: int


@dataclass(frozen=True, slots=True)
class PassBegins:
    """From here on the updater looks at the cluster."""

    at: datetime


# Each request is a task of its own, and the store calls its listeners within the write.
_at_hand: ContextVar[Call | None] = ContextVar("_at_hand", default=None)

Entry = PodState | Call | Wanted | PassBegins


@dataclass(frozen=True, slots=True, kw_only=True)
class _Witness(Calls):
    """A rule of the API server's faults that hits nothing, but sees every call as it arrives."""

    tell: Callable[[Request, Place, str], None]

    def include(self, request: Request, place: Place, verb: str) -> bool:
        self.tell(request, place, verb)
        return False


@dataclass(slots=True)
class DisruptionLog:
    """Everything in the order in which it happened."""

    cluster: Cluster
    agent: str  # the updater's
    entries: list[Entry] = field(default_factory=list)
    others: list[tuple[str, str]] = field(default_factory=list)  # verb and resource
    _pods: dict[str, PodState] = field(default_factory=dict)

    def begin(self) -> None:
        """Follow the cluster from now on."""
        store = self.cluster.api.store
        store.subscribe(PODS, self._pod_changed)
        for kind, resource in _CONTROLLERS.items():
            store.subscribe(resource, self._follow(kind, resource))
        self.cluster.api.faults.add(ApiFault(calls=_Witness(tell=self._arrived), effect=NOTHING))

    def pass_begins(self) -> None:
        self.entries.append(PassBegins(self.cluster.clock.now()))

    @property
    def calls(self) -> list[Call]:
        return [entry for entry in self.entries if isinstance(entry, Call)]

    @property
    def pods(self) -> list[PodState]:
        """Those that are there, with a controller."""
        return [state for state in self._pods.values() if state.there and state.group is not None]

    def _follow(self, kind: str, resource: Resource) -> Callable[[Change], None]:
        def changed(change: Change) -> None:
            told = change.stored.object(resource)
            replicas = told["spec"].get("replicas", 1)
            if kind == "DaemonSet":
                replicas = told.get("status", {}).get("desiredNumberScheduled", 0)
            group = (kind, told["metadata"]["name"])
            self.entries.append(Wanted(self.cluster.clock.now(), group, replicas))

        return changed

    def _pod_changed(self, change: Change) -> None:
        raw = change.stored.object(PODS)
        state = _state(raw, self.cluster.clock.now(), gone=change.type is ChangeType.DELETED)
        before = self._pods.get(state.uid)
        if before is not None and replace(before, at=state.at) == state:
            return
        self._pods[state.uid] = state
        self.entries.append(state)
        call = _at_hand.get()
        if call is not None and call.uid == state.uid and call.done_at is None:
            call.done_at = state.at

    def _arrived(self, request: Request, place: Place, verb: str) -> None:
        if not request.user_agent.startswith(self.agent) or verb in ("get", "list", "watch"):
            return
        if place.plural != "pods" or place.subresource not in ("eviction", "resize"):
            self.others.append((verb, place.plural))
            return
        body = msgspec.json.decode(request.body)
        stored = self.cluster.api.store.get(PODS, place.namespace, place.name)
        raw = None if stored is None else stored.object(PODS)
        uid = "" if raw is None else raw["metadata"]["uid"]
        call = Call(at=self.cluster.clock.now(), kind=place.subresource, uid=uid, name=place.name)
        if place.subresource == "eviction":
            call.uid = body.get("deleteOptions", {}).get("preconditions", {}).get("uid", uid)
        elif raw is not None:
            changed = list(_changed(raw, body))
            call.changes = bool(changed)
            call.restarts = any(_policy(raw, *one) == "RestartContainer" for one in changed)
        self.entries.append(call)
        _at_hand.set(call)


def _state(raw: dict[str, Any], now: datetime, *, gone: bool) -> PodState:
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    controllers = [owner for owner in meta.get("ownerReferences") or () if owner.get("controller")]
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    wanted = {one["name"]: one.get("resources") or {} for one in spec["containers"]}
    reported = {one["name"]: one.get("resources") for one in status.get("containerStatuses") or ()}
    unfinished = {
        (index, part, name)
        for index, one in enumerate(spec["containers"])
        if reported.get(one["name"]) is not None
        for part in ("requests", "limits")
        for name, amount in (wanted[one["name"]].get(part) or {}).items()
        if (reported[one["name"]] or {}).get(part, {}).get(name) != amount
    }
    infeasible = _is_true(conditions, _PENDING) and conditions[_PENDING]["reason"] == "Infeasible"
    return PodState(
        at=now,
        uid=meta["uid"],
        name=meta["name"],
        group=(controllers[0]["kind"], controllers[0]["name"]) if controllers else None,
        app=(meta.get("labels") or {}).get("app", ""),
        pending=status.get("phase", "Pending") == "Pending",
        there=not gone
        and "deletionTimestamp" not in meta
        and status.get("phase") not in ("Succeeded", "Failed"),
        ready=_is_true(conditions, "Ready"),
        evicted=conditions.get("DisruptionTarget", {}).get("reason") == "EvictionByEvictionAPI",
        waits=_waits(conditions),
        restarts=not infeasible
        and any(_policy(raw, *one) == "RestartContainer" for one in unfinished),
        wanted=wanted,
    )


def _is_true(conditions: Mapping[str, Any], name: str) -> bool:
    return bool(conditions.get(name, {}).get("status") == "True")


def _waits(conditions: Mapping[str, Any]) -> str:
    if _is_true(conditions, _PENDING):
        reason = str(conditions[_PENDING].get("reason"))
        return "" if reason == "Infeasible" else reason
    if _is_true(conditions, _IN_PROGRESS):
        return str(conditions[_IN_PROGRESS].get("reason") or "InProgress")
    return ""


def _changed(raw: dict[str, Any], operations: list[Any]) -> Iterator[tuple[int, str, str]]:
    """Container, part and resource of what a patch sets to something else than it is."""
    for operation in operations:
        parts = operation["path"].split("/")  # "", spec, containers, 0, resources, requests, cpu
        if len(parts) == 7 and parts[1:3] == ["spec", "containers"]:
            index, part, name = int(parts[3]), parts[5], parts[6]
            resources = raw["spec"]["containers"][index].get("resources") or {}
            if (resources.get(part) or {}).get(name) != operation["value"]:
                yield index, part, name


def _policy(raw: dict[str, Any], index: int, _part: str, resource: str) -> str:
    policies = raw["spec"]["containers"][index].get("resizePolicy") or ()
    found = [one["restartPolicy"] for one in policies if one["resourceName"] == resource]
    return found[0] if found else "NotRequired"


@dataclass(frozen=True, slots=True)
class _View:
    """Which pods of a group ran, and how many it wants."""

    running: frozenset[str]
    replicas: int


@dataclass(slots=True)
class Judge:
    """Replays a log, and says what should not have been sent.

    Somebody else may take pods down while a pass is under way, or before the watch tells of it.
    So a call is right if it was so in some state of its group since ``lag`` before the pass began.
    What the updater itself has asked for counts from the moment at which it was asked for, if it
    was carried out sooner or later.
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
    _waiting: dict[str, datetime] = field(default_factory=dict)  # since when, by UID
    _wanted_since: dict[str, datetime] = field(default_factory=dict)
    _gone_since: dict[str, datetime] = field(default_factory=dict)
    _out: dict[str, datetime] = field(default_factory=dict)  # by us; when it was carried out
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
                case Wanted():
                    self._replicas[entry.group] = entry.replicas
                    self._note(entry.group, entry.at)
                case PodState():
                    self._see(entry)
                case Call():
                    self._judge(entry)
        return self.faults

    def _see(self, state: PodState) -> None:
        before = self._pods.get(state.uid)
        self._pods[state.uid] = state
        if state.evicted and before is not None and not before.evicted and before.ready:
            self._guard(state)
        if state.waits:
            self._waiting.setdefault(state.uid, state.at)
        else:
            self._waiting.pop(state.uid, None)
        if before is None or before.wanted != state.wanted:
            self._wanted_since[state.uid] = state.at
        if not state.there:
            self._gone_since.setdefault(state.uid, state.at)
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

    def _judge(self, call: Call) -> None:
        state, since = self._pods.get(call.uid), self._since or call.at
        told = f"{call.at:%d %H:%M:%S} {call.kind} of {call.name}"
        if state is None:
            return
        if self._gone_since.get(call.uid, call.at) < since:
            self.faults.append(f"{told}: it had gone at {self._gone_since[call.uid]:%H:%M:%S}")
        if call.kind == "resize":
            if self._waiting.get(call.uid, call.at) < since:
                self.faults.append(f"{told}: it waits for the kubelet, {state.waits}")
            if not call.changes and self._wanted_since.get(call.uid, call.at) < since:
                self.faults.append(f"{told}: nothing is changed by it")
        disrupts = call.kind == "eviction" or call.restarts
        if disrupts and not state.pending and state.group is not None:
            wrong = (
                "" if call.uid in self._out else self._beyond(state.group, call.uid, since, call.at)
            )
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
