"""The scheduler's filters: suitable nodes for a pod, and their room.

Node selectors, the node names of DaemonSet pods, ``unschedulable``, readiness and resources count.
Other taints, affinities, preferences and topology don't.

Source: k8s.io/kubernetes pkg/scheduler/framework/plugins; k8s.io/component-helpers
scheduling/corev1.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from common.quantity import ZERO, Quantity
from common.resources import parse_quantities

Json = Mapping[str, Any]

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_NOT_READY = "node.kubernetes.io/not-ready"
_MANY = Quantity.from_value(10**6)


class Obstacle(enum.StrEnum):
    """The reason why a pod can't be placed on a node; the value is the scheduler's text."""

    UNSCHEDULABLE = "node(s) were unschedulable"
    NOT_READY = "node(s) had untolerated taint {node.kubernetes.io/not-ready: }"
    AFFINITY = "node(s) didn't match Pod's node affinity/selector"
    PODS = "Too many pods"
    CPU = "Insufficient cpu"
    MEMORY = "Insufficient memory"
    OTHER = "Insufficient other resources"


_SHORT = {"cpu": Obstacle.CPU, "memory": Obstacle.MEMORY}


@dataclass(slots=True, kw_only=True)
class Room:
    """The allocatable resources of a node, and those that its pods use."""

    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    used: dict[str, Quantity] = field(default_factory=dict)
    pods: int = 0

    def take(self, requests: Mapping[str, Quantity]) -> None:
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, ZERO) + amount
        self.pods += 1

    def free(self, requests: Mapping[str, Quantity]) -> None:
        for name, amount in requests.items():
            self.used[name] -= amount
        self.pods -= 1

    def obstacle(self, requests: Mapping[str, Quantity]) -> Obstacle | None:
        """Return a resource that is insufficient. Only requested resources count."""
        if self.pods + 1 > self.allocatable.get("pods", _MANY).value:
            return Obstacle.PODS
        for name, amount in requests.items():
            free = self.allocatable.get(name, ZERO) - self.used.get(name, ZERO)
            if amount.sign > 0 and amount > free:
                return _SHORT.get(name, Obstacle.OTHER)
        return None

    def score(self, requests: Mapping[str, Quantity]) -> float:
        """Return the free share of the node after placement; 1 is empty."""
        shares = []
        for name in ("cpu", "memory"):
            total = self.allocatable.get(name, ZERO).nanos
            taken = self.used.get(name, ZERO).nanos + requests.get(name, ZERO).nanos
            shares.append((total - taken) / total if total else 0.0)
        return sum(shares) / len(shares)


class Placements:
    """The nodes and requests of all pods, updated with each change."""

    def __init__(self) -> None:
        self._rooms: dict[str, Room] = {}
        self._placed: dict[str, tuple[str, Mapping[str, Quantity]]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._placed

    def room(self, node: str) -> Room:
        """Return the node's room. An unknown node has no capacity."""
        return self._rooms.setdefault(node, Room())

    def describe(self, node: Json) -> None:
        """Update the node's allocatable resources."""
        allocatable = parse_quantities((node.get("status") or {}).get("allocatable"))
        self.room(node["metadata"]["name"]).allocatable = allocatable

    def place(self, uid: str, node: str, requests: Mapping[str, Quantity]) -> bool:
        """Count a pod on a node. Return True if it uses less than before."""
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
        """Stop counting a pod. Return False if it wasn't counted."""
        before = self._placed.pop(uid, None)
        if before is None:
            return False
        self.room(before[0]).free(before[1])
        return True


def node_obstacle(spec: Json, node: Json) -> Obstacle | None:
    """Return why a pod with this spec may not run on ``node``, apart from room."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    unready = any(one["type"] == "Ready" and one["status"] != "True" for one in conditions)
    for key, holds, obstacle in (
        (_UNSCHEDULABLE, (node.get("spec") or {}).get("unschedulable"), Obstacle.UNSCHEDULABLE),
        (_NOT_READY, unready, Obstacle.NOT_READY),
    ):
        if holds and not any(_tolerates(one, key) for one in spec.get("tolerations") or ()):
            return obstacle
    return None if _matches(spec, node) else Obstacle.AFFINITY


def _tolerates(toleration: Json, key: str) -> bool:
    """Return True if a toleration covers a NoSchedule taint of this key."""
    effect, wanted = toleration.get("effect"), toleration.get("key")
    if effect not in (None, "", "NoSchedule"):
        return False
    return wanted == key or (toleration.get("operator") == "Exists" and not wanted)


def _matches(spec: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = [
        field
        for term in required.get("nodeSelectorTerms") or ()
        for field in term.get("matchFields") or ()
    ]
    return not fields or any(node["metadata"]["name"] in field["values"] for field in fields)
