"""Pods in groups that are alike, so that a large cluster is judged group by group.

Replicas share everything that matters for a recommendation. A group keeps one of its pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from common.annotations import OBSERVED_CONTAINERS
from common.api.base import QuantityJson
from common.api.core import Container, ContainerStatus, Pod, ResourceRequirements
from common.api.meta import OwnedObject
from common.target.owners import Controller, TargetKey, controller_of
from updater.evaluate.quick_oom_kills import is_oom_kill
from updater.resize.resize_status import ResizeStatus, resize_status

_Amounts: TypeAlias = tuple[tuple[str, QuantityJson], ...]
_Signature: TypeAlias = tuple[object, ...]
_ENDED = ("Succeeded", "Failed")

BARE = "Pod"
"""The kind of the group of a pod without a controller."""


@dataclass(slots=True)
class PodGroup:
    """Pods of one controller with the same requests and the same state of a resize."""

    pod: Pod  # one of them
    controller: Controller
    resize: ResizeStatus
    live: int = 0  # that run
    oldest_start: datetime | None = None
    names: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return the number of pods."""
        return len(self.names)

    def add(self, pod: Pod) -> None:
        """Count a pod that is like the others."""
        self.names.append(pod.metadata.name)
        self.live += pod.status.phase == "Running"
        start = pod.status.start_time
        if start is not None and (self.oldest_start is None or start < self.oldest_start):
            self.oldest_start = start


@dataclass(slots=True)
class PodGroups:
    """All pods that were read, in groups by their direct controller.

    With ``keeps_bare`` a pod without a controller is a group of its own, of the kind Pod.
    """

    keeps_bare: bool = False
    groups: dict[tuple[TargetKey, _Signature], PodGroup] = field(default_factory=dict)
    without_controller: list[tuple[str, str]] = field(default_factory=list)  # namespace, name
    pods: int = 0

    def add(self, pods: Iterable[Pod]) -> None:
        """Add pods; those that have ended or are being deleted don't count."""
        for pod in pods:
            meta = pod.metadata
            if pod.status.phase in _ENDED or meta.deletion_timestamp is not None:
                continue
            self.pods += 1
            controller = controller_of(meta)
            if controller is None:
                self.without_controller.append((meta.namespace, meta.name))
                if not self.keeps_bare:
                    continue
                controller = Controller(meta.namespace, BARE, meta.name)
            resize = resize_status(pod)
            key = (controller.key, _signature(pod, resize))
            group = self.groups.get(key)
            if group is None:
                group = self.groups[key] = PodGroup(pod=pod, controller=controller, resize=resize)
            group.add(pod)

    def by_target(self, owners: "Owners") -> Mapping[TargetKey, Sequence[PodGroup]]:
        """Return the groups by the topmost known owner of their pods."""
        found: dict[TargetKey, list[PodGroup]] = {}
        for group in self.groups.values():
            found.setdefault(owners.above(group.controller).key, []).append(group)
        return found


class Owners:
    """The controllers of the controllers that were read."""

    def __init__(self) -> None:
        self._controllers: dict[TargetKey, Controller] = {}

    def add(self, kind: str, objects: Iterable[OwnedObject]) -> None:
        """Add the controllers of objects of one kind."""
        for each in objects:
            controller = controller_of(each.metadata)
            if controller is not None:
                key = (each.metadata.namespace, kind, each.metadata.name)
                self._controllers[key] = controller

    def topmost(self, key: TargetKey) -> TargetKey:
        """Return the key of the last owner above an object."""
        return self.above(Controller(*key)).key

    def above(self, controller: Controller) -> Controller:
        """Return the last owner above a controller, or itself; a cycle ends the walk."""
        visited = {controller.key}
        while (owner := self._controllers.get(controller.key)) and owner.key not in visited:
            visited.add(owner.key)
            controller = owner
        return controller


def _signature(pod: Pod, resize: ResizeStatus) -> _Signature:
    """Return what decides about the recommendation of a pod."""
    return (
        tuple(map(_spec_part, pod.spec.containers)),
        tuple(map(_spec_part, pod.spec.init_containers or ())),
        tuple(map(_status_part, pod.status.container_statuses or ())),
        _resources(pod.spec.resources),
        (pod.metadata.annotations or {}).get(OBSERVED_CONTAINERS),
        resize,
    )


def _spec_part(container: Container) -> tuple[object, ...]:
    return (container.name, container.restart_policy, *_resources(container.resources))


def _status_part(status: ContainerStatus) -> tuple[object, ...]:
    ended = None if status.last_state is None else status.last_state.terminated
    return (
        status.name,
        ended is not None and is_oom_kill(ended),
        *_resources(status.resources),
    )


def _resources(resources: ResourceRequirements | None) -> tuple[_Amounts | None, _Amounts | None]:
    if resources is None:
        return (None, None)
    return (_amounts(resources.requests), _amounts(resources.limits))


def _amounts(raw: Mapping[str, QuantityJson] | None) -> _Amounts | None:
    return None if raw is None else tuple(raw.items())
