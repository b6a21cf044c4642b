"""Which nodes a pod may run on, and whether there is room: the scheduler's filters.

Node selectors, required node affinity, taints, ``unschedulable`` and resources are looked at;
preferences, topology and affinity between pods are not.

Source: k8s.io/kubernetes pkg/scheduler/framework/plugins; k8s.io/component-helpers
scheduling/corev1.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.quantity import ZERO, Quantity
from common.resources import parse_quantities

Json = Mapping[str, Any]

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_NOT_READY = "node.kubernetes.io/not-ready"
_MANY = Quantity.from_value(10**6)


class Obstacle(enum.StrEnum):
    """Why a pod can't be placed on a node; the value is the scheduler's text."""

    UNSCHEDULABLE = "node(s) were unschedulable"
    NOT_READY = "node(s) had untolerated taint {node.kubernetes.io/not-ready: }"
    TAINT = "node(s) had untolerated taint(s)"
    AFFINITY = "node(s) didn't match Pod's node affinity/selector"
    PODS = "Too many pods"
    CPU = "Insufficient cpu"
    MEMORY = "Insufficient memory"
    OTHER = "Insufficient other resources"


_SHORT = {"cpu": Obstacle.CPU, "memory": Obstacle.MEMORY}


@dataclass(slots=True, kw_only=True)
class Room:
    """What a node offers, and what its pods take of it."""

    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    used: dict[str, Quantity] = field(default_factory=dict)
    pods: int = 0

    def take(self, requests: Mapping[str, Quantity]) -> None:
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, ZERO) + amount
        self.pods += 1

    def give_back(self, requests: Mapping[str, Quantity]) -> None:
        for name, amount in requests.items():
            self.used[name] -= amount
        self.pods -= 1

    def obstacle(self, requests: Mapping[str, Quantity]) -> Obstacle | None:
        """What there is too little of; a resource that isn't requested can't be short."""
        if self.pods + 1 > self.allocatable.get("pods", _MANY).value:
            return Obstacle.PODS
        for name, amount in requests.items():
            free = self.allocatable.get(name, ZERO) - self.used.get(name, ZERO)
            if amount.sign > 0 and amount > free:
                return _SHORT.get(name, Obstacle.OTHER)
        return None

    def score(self, requests: Mapping[str, Quantity]) -> float:
        """How empty the node would stay, 1 is empty: the pod goes where most is left."""
        shares = []
        for name in ("cpu", "memory"):
            total = self.allocatable.get(name, ZERO).nanos
            taken = self.used.get(name, ZERO).nanos + requests.get(name, ZERO).nanos
            shares.append((total - taken) / total if total else 0.0)
        return sum(shares) / len(shares)


class Ledger:
    """Which pod is where and takes how much; kept up to date change by change."""

    def __init__(self) -> None:
        self._rooms: dict[str, Room] = {}
        self._placed: dict[str, tuple[str, Mapping[str, Quantity]]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._placed

    def room(self, node: str) -> Room:
        """The node's room; empty and without capacity for a node that nobody has described."""
        return self._rooms.setdefault(node, Room())

    def describe(self, node: Json) -> None:
        """Take over the node's allocatable resources."""
        allocatable = parse_quantities((node.get("status") or {}).get("allocatable"))
        self.room(node["metadata"]["name"]).allocatable = allocatable

    def place(self, uid: str, node: str, requests: Mapping[str, Quantity]) -> bool:
        """Count a pod on a node; whether it takes less than before."""
        before = self._placed.get(uid)
        if before == (node, requests):
            return False
        self.release(uid)
        self._placed[uid] = (node, requests)
        self.room(node).take(requests)
        return before is not None and any(
            requests.get(name, ZERO) < amount for name, amount in before[1].items()
        )

    def release(self, uid: str) -> bool:
        """Stop counting a pod; False if it wasn't counted."""
        before = self._placed.pop(uid, None)
        if before is None:
            return False
        self.room(before[0]).give_back(before[1])
        return True


def node_obstacle(spec: Json, node: Json) -> Obstacle | None:
    """Why a pod with this spec may not run on ``node``, room aside."""
    tolerations = spec.get("tolerations") or ()
    for taint in taints_of(node):
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            if taint["key"] == _UNSCHEDULABLE:
                return Obstacle.UNSCHEDULABLE
            return Obstacle.NOT_READY if taint["key"] == _NOT_READY else Obstacle.TAINT
    return None if _matches(spec, node) else Obstacle.AFFINITY


def taints_of(node: Json) -> list[Json]:
    """The taints that keep pods away, with those that the node's state implies."""
    spec = node.get("spec") or {}
    taints = [
        one for one in spec.get("taints") or () if one.get("effect") in ("NoSchedule", "NoExecute")
    ]
    if spec.get("unschedulable"):
        taints.append({"key": _UNSCHEDULABLE, "effect": "NoSchedule"})
    conditions = (node.get("status") or {}).get("conditions") or ()
    if any(one["type"] == "Ready" and one["status"] != "True" for one in conditions):
        taints.append({"key": _NOT_READY, "effect": "NoSchedule"})
    return taints


def tolerates(toleration: Json, taint: Json) -> bool:
    """Whether one toleration makes one taint harmless."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key = toleration.get("key")
    if toleration.get("operator") == "Exists":
        return key in (None, "", taint["key"])
    same_value = toleration.get("value", "") == taint.get("value", "")
    return bool(key == taint["key"] and same_value)


def _matches(spec: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    name = {"metadata.name": node["metadata"]["name"]}
    return any(
        bool(term.get("matchExpressions") or term.get("matchFields"))
        and _all(term.get("matchExpressions"), labels)
        and _all(term.get("matchFields"), name)
        for term in required.get("nodeSelectorTerms") or ()
    )


def _all(requirements: Iterable[Json] | None, values: Mapping[str, str]) -> bool:
    return all(_fulfils(one, values.get(one["key"])) for one in requirements or ())


def _fulfils(requirement: Json, value: str | None) -> bool:
    operator = requirement["operator"]
    wanted: Sequence[str] = requirement.get("values") or ()
    match operator:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or not all(map(_is_integer, (value, *wanted))) or not wanted:
                return False
            difference = int(value) - int(wanted[0])
            return difference > 0 if operator == "Gt" else difference < 0
        case _:
            return False


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
