"""What the updater asked for and what became of it, in a sandbox.

It knows nothing of the updater: it writes down the calls as they arrive at the API server, and the
pods as they are stored.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from common.quantity import Quantity
from sandbox.apiserver.faults import NOTHING, ApiFault, Calls
from sandbox.apiserver.requests import Place, Request
from sandbox.cluster import Cluster
from sandbox.objects.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from sandbox.objects.store import Change, ChangeType

_CONTROLLERS = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS, "DaemonSet": DAEMON_SETS}
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
    replaces: bool = False  # asks for less of something than the spec, or for what the pod has
    done_at: datetime | None = None  # when the API server carried it out


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many pods a controller asks for, from then on."""

    at: datetime
    group: Group
    replicas: int


@dataclass(frozen=True, slots=True)
class Floor:
    """How many pods a Deployment keeps available, from then on; None: no rollout is in progress."""

    at: datetime
    app: str
    available: int | None


@dataclass(frozen=True, slots=True)
class PassBegins:
    """From here on the updater looks at the cluster."""

    at: datetime


@dataclass(frozen=True, slots=True)
class ProcessBegins:
    """An updater starts, that knows of no call of those before it."""

    at: datetime


# Each request is a task of its own, and the store calls its listeners within the write.
_at_hand: ContextVar[Call | None] = ContextVar("_at_hand", default=None)

Entry = PodState | Call | Wanted | Floor | PassBegins | ProcessBegins


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
        store.subscribe(DEPLOYMENTS, self._rolled)
        for kind, resource in _CONTROLLERS.items():
            store.subscribe(resource, self._follow(kind, resource))
        self.cluster.api.faults.add(ApiFault(calls=_Witness(tell=self._arrived), effect=NOTHING))

    def process_begins(self) -> None:
        self.entries.append(ProcessBegins(self.cluster.clock.now()))

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

    def _rolled(self, change: Change) -> None:
        told = change.stored.object(DEPLOYMENTS)
        self.entries.append(Floor(self.cluster.clock.now(), told["metadata"]["name"], _floor(told)))

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
            new = [one for one in changed if not _has(raw, *one)]
            call.restarts = any(_policy(raw, *one[:3]) == "RestartContainer" for one in new)
            call.replaces = not new or any(_is_less(raw, *one) for one in changed)
        self.entries.append(call)
        _at_hand.set(call)


def _floor(deployment: dict[str, Any]) -> int | None:
    """Of a rolling update with the bounds of default: a quarter may be missing, rounded down."""
    meta, status = deployment["metadata"], deployment.get("status") or {}
    reasons = {one["type"]: one["reason"] for one in status.get("conditions") or ()}
    complete = (
        status.get("observedGeneration", 0) >= meta.get("generation", 0)
        and status.get("updatedReplicas", 0) == status.get("replicas", 0)
        and reasons.get("Progressing") == "NewReplicaSetAvailable"
    )
    replicas: int = deployment["spec"]["replicas"]
    return None if complete else replicas - replicas // 4


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


def _changed(raw: dict[str, Any], operations: list[Any]) -> Iterator[tuple[int, str, str, str]]:
    """Container, part, resource and value of what a patch sets to something else than it is."""
    for operation in operations:
        parts = operation["path"].split("/")  # "", spec, containers, 0, resources, requests, cpu
        if len(parts) == 7 and parts[1:3] == ["spec", "containers"]:
            index, part, name = int(parts[3]), parts[5], parts[6]
            resources = raw["spec"]["containers"][index].get("resources") or {}
            if (resources.get(part) or {}).get(name) != operation["value"]:
                yield index, part, name, operation["value"]


def _has(raw: dict[str, Any], index: int, part: str, resource: str, value: str) -> bool:
    """Whether the container has this already, by the kubelet's report."""
    name = raw["spec"]["containers"][index]["name"]
    for one in (raw.get("status") or {}).get("containerStatuses") or ():
        reported = (one.get("resources") or {}).get(part) or {}
        if one["name"] == name and resource in reported:
            return Quantity.from_json(reported[resource]) == Quantity.from_json(value)
    return False


def _is_less(raw: dict[str, Any], index: int, part: str, resource: str, value: str) -> bool:
    """Whether this is less than the spec requests."""
    resources = raw["spec"]["containers"][index].get("resources") or {}
    asked = (resources.get("requests") or {}).get(resource)
    less = asked is not None and Quantity.from_json(value) < Quantity.from_json(asked)
    return part == "requests" and less


def _policy(raw: dict[str, Any], index: int, _part: str, resource: str) -> str:
    policies = raw["spec"]["containers"][index].get("resizePolicy") or ()
    found = [one["restartPolicy"] for one in policies if one["resourceName"] == resource]
    return found[0] if found else "NotRequired"
