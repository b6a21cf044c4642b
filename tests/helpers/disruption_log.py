"""A log of the updater's calls and of their effects in a sandbox.

It shares no code with the updater. It records calls as they arrive at the API server, and pods as
they are stored.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from common.annotations import OBSERVED_CONTAINERS
from common.quantity import Quantity
from sandbox.apiserver.faults import NOTHING, ApiFault, Calls
from sandbox.apiserver.requests import Place, Request
from sandbox.cluster import Cluster
from sandbox.controllers.rollout import resolved
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

_VPAS = Resource(
    group="autoscaling.k8s.io", plural="verticalpodautoscalers", kind="VerticalPodAutoscaler"
)

Group = tuple[str, str]
"""Kind and name of a pod's controller, or of the workload above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod as it was stored at one moment."""

    at: datetime
    uid: str
    name: str
    group: Group | None
    app: str  # its label
    pending: bool
    there: bool  # not being deleted, not deleted, and not ended
    ready: bool
    evicted: bool  # by the eviction API
    waits: str  # the state of an unfinished resize: deferred, in progress, error, or unknown
    restarts: bool  # an unfinished resize is going to restart a container
    wanted: Mapping[str, Any]  # the resources of its spec, by container
    patched: bool = False  # has the annotation of our webhook

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
    restarts: bool = False  # restarts a container
    changes: bool = True  # differs from the spec
    replaces: bool = False  # requests less than the spec, or what the pod has
    done_at: datetime | None = None  # when the API server carried it out


@dataclass(frozen=True, slots=True)
class Wanted:
    """The number of pods that a controller wants from then on."""

    at: datetime
    group: Group
    replicas: int
    owner: Group | None = None  # the Deployment of a ReplicaSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The wanted pods of a Deployment from then on, and whether a rollout is in progress.

    A rollout begins with a change of the template. It ends when the newest ReplicaSet is complete:
    all replicas are available, and no old pod is left. A later loss of a pod is no new rollout.
    """

    at: datetime
    group: Group
    replicas: int
    max_unavailable: int | None  # pods; None: the strategy is Recreate
    in_progress: bool


@dataclass(frozen=True, slots=True)
class VpaBegins:
    """The creation of a VPA for this workload."""

    at: datetime
    group: Group


@dataclass(frozen=True, slots=True)
class PassBegins:
    """The start of a pass, when the updater reads the cluster."""

    at: datetime


@dataclass(frozen=True, slots=True)
class ProcessBegins:
    """The start of an updater that has no record of earlier calls."""

    at: datetime


# Each request is a separate task, and the store calls its listeners within the write.
_at_hand: ContextVar[Call | None] = ContextVar("_at_hand", default=None)

Entry = PodState | Call | Wanted | Rollout | VpaBegins | PassBegins | ProcessBegins


@dataclass(frozen=True, slots=True, kw_only=True)
class _Witness(Calls):
    """A rule of the API server's faults that has no effect but records every arriving call."""

    record: Callable[[Request, Place, str], None]

    def include(self, request: Request, place: Place, verb: str) -> bool:
        self.record(request, place, verb)
        return False


@dataclass(slots=True)
class DisruptionLog:
    """All entries in chronological order."""

    cluster: Cluster
    agent: str  # user agent of the updater
    entries: list[Entry] = field(default_factory=list)
    others: list[tuple[str, str]] = field(default_factory=list)  # verb and resource
    _pods: dict[str, PodState] = field(default_factory=dict)
    _templates: dict[str, Any] = field(default_factory=dict)  # by Deployment
    _rolling: set[str] = field(default_factory=set)  # Deployments
    _rollouts: dict[str, Rollout] = field(default_factory=dict)  # the last one by Deployment

    def begin(self) -> None:
        """Follow the cluster from now on."""
        store = self.cluster.api.store
        store.subscribe(PODS, self._pod_changed)
        for kind, resource in _CONTROLLERS.items():
            store.subscribe(resource, self._follow(kind, resource))
        store.subscribe(DEPLOYMENTS, self._deployment_changed)
        store.subscribe(_VPAS, self._vpa_changed)
        self.cluster.api.faults.add(ApiFault(calls=_Witness(record=self._arrived), effect=NOTHING))

    def process_begins(self) -> None:
        self.entries.append(ProcessBegins(self.cluster.clock.now()))

    def pass_begins(self) -> None:
        self.entries.append(PassBegins(self.cluster.clock.now()))

    @property
    def calls(self) -> list[Call]:
        return [entry for entry in self.entries if isinstance(entry, Call)]

    @property
    def pods(self) -> list[PodState]:
        """Return the existing pods that have a controller."""
        return [state for state in self._pods.values() if state.there and state.group is not None]

    def _follow(self, kind: str, resource: Resource) -> Callable[[Change], None]:
        def changed(change: Change) -> None:
            stored = change.stored.object(resource)
            replicas = stored["spec"].get("replicas", 1)
            if kind == "DaemonSet":
                replicas = stored.get("status", {}).get("desiredNumberScheduled", 0)
            group = (kind, stored["metadata"]["name"])
            now = self.cluster.clock.now()
            self.entries.append(Wanted(now, group, replicas, _controller(stored["metadata"])))

        return changed

    def _deployment_changed(self, change: Change) -> None:
        raw = change.stored.object(DEPLOYMENTS)
        name, spec = raw["metadata"]["name"], raw["spec"]
        if self._templates.get(name) != spec["template"]:
            self._templates[name] = spec["template"]
            self._rolling.add(name)
        if _is_complete(raw):
            self._rolling.discard(name)
        found = Rollout(
            at=self.cluster.clock.now(),
            group=("Deployment", name),
            replicas=spec["replicas"],
            max_unavailable=_max_unavailable(spec.get("strategy") or {}, spec["replicas"]),
            in_progress=name in self._rolling,
        )
        before = self._rollouts.get(name)
        if before is None or replace(before, at=found.at) != found:
            self._rollouts[name] = found
            self.entries.append(found)

    def _vpa_changed(self, change: Change) -> None:
        if change.type is ChangeType.ADDED:
            target = change.stored.object(_VPAS)["spec"]["targetRef"]
            group = (target["kind"], target["name"])
            self.entries.append(VpaBegins(self.cluster.clock.now(), group))

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


def _state(raw: dict[str, Any], now: datetime, *, gone: bool) -> PodState:
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
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
        group=_controller(meta),
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
        patched=OBSERVED_CONTAINERS in (meta.get("annotations") or {}),
    )


def _controller(meta: Mapping[str, Any]) -> Group | None:
    owners = meta.get("ownerReferences") or ()
    found = (one for one in owners if one.get("controller"))
    return next(((one["kind"], one["name"]) for one in found), None)


def _is_complete(deployment: Mapping[str, Any]) -> bool:
    """Return whether the newest template runs in all replicas, and no other does.

    Source: ``DeploymentComplete``, k8s.io/kubernetes pkg/controller/deployment/util.
    """
    status, wanted = deployment.get("status") or {}, deployment["spec"]["replicas"]
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return observed and all(status.get(name, 0) == wanted for name in counts)


def _max_unavailable(strategy: Mapping[str, Any], replicas: int) -> int | None:
    """Return ``maxUnavailable``, rounded down; one if neither it nor ``maxSurge`` allows a pod."""
    if strategy.get("type") == "Recreate":
        return None
    bounds = strategy.get("rollingUpdate") or {}
    most = resolved(bounds.get("maxUnavailable", "25%"), replicas, up=False)
    surge = resolved(bounds.get("maxSurge", "25%"), replicas, up=True)
    return most if most or surge else 1


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
    """Yield container, part, resource and value of each change in a patch."""
    for operation in operations:
        parts = operation["path"].split("/")  # "", spec, containers, 0, resources, requests, cpu
        if len(parts) == 7 and parts[1:3] == ["spec", "containers"]:
            index, part, name = int(parts[3]), parts[5], parts[6]
            resources = raw["spec"]["containers"][index].get("resources") or {}
            if (resources.get(part) or {}).get(name) != operation["value"]:
                yield index, part, name, operation["value"]


def _has(raw: dict[str, Any], index: int, part: str, resource: str, value: str) -> bool:
    """Return whether the container already has this value, as the kubelet reports."""
    name = raw["spec"]["containers"][index]["name"]
    for one in (raw.get("status") or {}).get("containerStatuses") or ():
        reported = (one.get("resources") or {}).get(part) or {}
        if one["name"] == name and resource in reported:
            return Quantity.from_json(reported[resource]) == Quantity.from_json(value)
    return False


def _is_less(raw: dict[str, Any], index: int, part: str, resource: str, value: str) -> bool:
    """Return whether this is less than the spec requests."""
    resources = raw["spec"]["containers"][index].get("resources") or {}
    asked = (resources.get("requests") or {}).get(resource)
    less = asked is not None and Quantity.from_json(value) < Quantity.from_json(asked)
    return part == "requests" and less


def _policy(raw: dict[str, Any], index: int, _part: str, resource: str) -> str:
    policies = raw["spec"]["containers"][index].get("resizePolicy") or ()
    found = [one["restartPolicy"] for one in policies if one["resourceName"] == resource]
    return found[0] if found else "NotRequired"
