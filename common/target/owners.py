"""Owner chains: the topmost controller above a pod or a target.

The walk is pure. It calls a lookup for one object at a time. If the lookup returns ``Unknown``, the
walk stops and returns ``NeedsLookup``, so that the caller can fetch the object and retry.

Source: recommender.md 10.2, updater.md section 4; ``FindTopMostWellKnownOrScalable``,
vertical-pod-autoscaler/pkg/target/controller_fetcher/controller_fetcher.go.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from common.api.meta import ObjectMeta, OwnedMeta, Owner

WELL_KNOWN_KINDS = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Job",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
    }
)

TargetKey: TypeAlias = tuple[str, str, str]
"""Namespace, kind and name, by which a VPA identifies its target."""


@dataclass(frozen=True, slots=True)
class Controller:
    """An object that controls pods, or other controllers, of its namespace."""

    namespace: str
    kind: str
    name: str
    api_version: str = ""

    @property
    def key(self) -> TargetKey:
        """Return the key that VPAs use to identify a target; it doesn't include the API group."""
        return (self.namespace, self.kind, self.name)

    @property
    def is_well_known(self) -> bool:
        """Return True if the object is in a cache; of other kinds the scale is read.

        A custom resource named Job or Deployment is a different kind (Q18).
        """
        return self.kind in WELL_KNOWN_KINDS and not _custom_group(self.api_version)


def _custom_group(api_version: str) -> str:
    """Return the group of custom resources; empty for built-in ones, whose group has no dot."""
    group = api_version.rpartition("/")[0]
    return group if "." in group else ""


@dataclass(frozen=True, slots=True)
class Found:
    """The object, or its scale subresource, exists."""

    owner_references: tuple[Owner, ...] | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The object does not exist; for a kind that isn't well-known: it has no scale."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The API server's answer to the last attempt was an error."""

    text: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The lookup has no answer yet."""


Answer: TypeAlias = Found | Absent | Failed | Unknown


@dataclass(frozen=True, slots=True)
class Topmost:
    """The last controller of the chain that is well-known or scalable; None: there is none."""

    controller: Controller | None


class OwnerProblem(enum.StrEnum):
    """The reason why a walk failed."""

    MISSING = "missing"
    CYCLE = "cycle"
    NODE = "node"  # no error for a pod: it has no controller
    UNHANDLED = "unhandled"  # may be temporary: the API server refused, or lacks the kind


@dataclass(frozen=True, slots=True)
class OwnerError:
    """The failure of a walk; ``text`` is the message in a VPA's condition."""

    text: str
    problem: OwnerProblem = OwnerProblem.UNHANDLED


@dataclass(frozen=True, slots=True)
class NeedsLookup:
    """The object has to be fetched before the walk can continue."""

    controller: Controller


def controller_of(meta: ObjectMeta | OwnedMeta) -> Controller | None:
    """Return the controller of an object, the last owner with that mark; None without one."""
    return _controlling_owner(meta.namespace, (meta.owner_references or ())[::-1])


def topmost(
    start: Controller, lookup: Callable[[Controller], Answer]
) -> Topmost | OwnerError | NeedsLookup:
    """Return the last controller above ``start`` that is well-known or scalable.

    A missing well-known object is an error. An object of another kind without a scale subresource
    ends the chain. Nodes are never looked up.
    """
    found: Controller | None = None
    visited: list[Controller] = []  # a few at most
    current: Controller | None = start
    while current is not None:
        if current in visited:
            return OwnerError("cycle detected in ownership chain", OwnerProblem.CYCLE)
        visited.append(current)
        if current.kind == "Node":
            return _unhandled(current, "node is not a valid owner", OwnerProblem.NODE)
        answer = lookup(current)
        if isinstance(answer, Unknown):
            return NeedsLookup(current)
        if isinstance(answer, Failed):
            return _unhandled(current, answer.text, OwnerProblem.UNHANDLED)
        if isinstance(answer, Absent):
            return _missing(current) if current.is_well_known else Topmost(found)
        found = current
        current = _controlling_owner(current.namespace, answer.owner_references or ())
    return Topmost(found)


def _controlling_owner(namespace: str, owners: tuple[Owner, ...]) -> Controller | None:
    for owner in owners:
        if owner.controller:
            return Controller(namespace, owner.kind, owner.name, owner.api_version)
    return None


def _missing(controller: Controller) -> OwnerError:
    named = f"{controller.kind} {controller.namespace}/{controller.name}"
    return OwnerError(f"{named} does not exist", OwnerProblem.MISSING)


def _unhandled(controller: Controller, error: str, problem: OwnerProblem) -> OwnerError:
    named = f"{controller.api_version} / {controller.kind} / {controller.name}"
    return OwnerError(f"unhandled targetRef {named}, last error {error}", problem)
