"""The scheduler: binds each pending pod to the emptiest node that has room for it.

Source: k8s.io/kubernetes pkg/scheduler; a pod takes max(spec, actual, allocated) of its node
(kubernetes-resize.md section 4), so a deferred resize keeps new pods away.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from common.api.base import QuantityJson, Wire
from common.api.core import ContainerStatus, ObjectReference, PodCondition, ResourceRequirements
from common.api.meta import ObjectMeta
from common.errors import ConflictError, DecodeError, KubeError, NotFoundError
from common.kube.cache import Cache, Change
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import NODES, PODS, Endpoint
from common.kube.events import NORMAL, WARNING, EventRecorder
from common.quantity import Quantity
from common.runtime.clock import Clock
from sandbox.controllers.loop import Loop
from sandbox.controllers.placement import Ledger, Obstacle, node_obstacle
from sandbox.objects.pod_resources import pod_requests
from sandbox.times import rfc3339

logger = logging.getLogger(__name__)

NAME = "default-scheduler"


class SchedulableContainer(Wire, frozen=True, kw_only=True):
    """What placement reads of a container."""

    name: str
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None


class SchedulableSpec(Wire, frozen=True, kw_only=True):
    """What placement reads of a pod's spec."""

    containers: tuple[SchedulableContainer, ...] = ()
    init_containers: tuple[SchedulableContainer, ...] | None = None
    node_name: str = ""
    scheduler_name: str = NAME
    node_selector: Mapping[str, str] | None = None
    affinity: dict[str, Any] | None = None
    tolerations: tuple[dict[str, Any], ...] | None = None
    scheduling_gates: tuple[dict[str, Any], ...] | None = None
    overhead: Mapping[str, QuantityJson] | None = None
    resources: ResourceRequirements | None = None
    priority: int | None = None


class SchedulableStatus(Wire, frozen=True, kw_only=True):
    """What placement reads of a pod's status."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class SchedulablePod(Wire, frozen=True, kw_only=True):
    """A pod as the scheduler sees it."""

    metadata: ObjectMeta
    spec: SchedulableSpec = SchedulableSpec()
    status: SchedulableStatus = SchedulableStatus()


SCHEDULABLE_PODS = Endpoint("", "v1", "pods", "Pod", SchedulablePod)

Requests = Mapping[str, Quantity]


class Scheduler:
    """Places pods one at a time; ``run`` is endless.

    A binding counts at once, before the watch reports it. Pods that find no place wait
    until a node changes or a pod gives room back.
    """

    def __init__(self, client: KubeClient, clock: Clock, recorder: EventRecorder) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._loop = Loop("scheduler", self._schedule, workers=1, settle=0)
        self._ledger = Ledger()
        self._waiting: set[tuple[str, str]] = set()
        self._pods = Cache(client, SCHEDULABLE_PODS, on_change=self._pod_changed)
        self._nodes = Cache(client, NODES.as_dicts(), on_change=self._node_changed)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._nodes.run())
            await self._pods.wait_synced()
            await self._nodes.wait_synced()
            group.create_task(self._loop.run())

    @property
    def synced(self) -> bool:
        """Whether pods and nodes have been listed once."""
        return self._pods.synced and self._nodes.synced

    def _pod_changed(self, change: Change[SchedulablePod]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._release(old.metadata.uid)
        if new is None:
            return
        uid = new.metadata.uid
        if new.status.phase in ("Succeeded", "Failed"):
            self._release(uid)
        elif new.spec.node_name:
            if self._ledger.place(uid, new.spec.node_name, _requests(new)):
                self._wake()
        elif _is_ours(new):
            self._loop.add(new.metadata.namespace, new.metadata.name)

    def _node_changed(self, change: Change[dict[str, Any]]) -> None:
        if change.new is not None:
            self._ledger.describe(change.new)
            self._wake()

    def _release(self, uid: str) -> None:
        if self._ledger.release(uid):
            self._wake()

    def _wake(self) -> None:
        """Try all waiting pods again."""
        for key in self._waiting:
            self._loop.add(*key)
        self._waiting.clear()

    async def _schedule(self, namespace: str, name: str) -> float | None:
        pod = self._pods.get(namespace, name)
        if pod is None or pod.spec.node_name or pod.metadata.uid in self._ledger:
            return None
        if pod.metadata.deletion_timestamp is not None or not _is_ours(pod):
            return None
        requests = _requests(pod)
        spec = msgspec.to_builtins(pod.spec)
        node, obstacles = self._choose(spec, requests)
        if not node:
            self._waiting.add((namespace, name))
            await self._record_unschedulable(pod, obstacles)
            return None
        self._ledger.place(pod.metadata.uid, node, requests)
        try:
            await self._bind(pod, node)
        except (ConflictError, NotFoundError):
            self._ledger.release(pod.metadata.uid)  # gone, or bound by another client
        except (KubeError, DecodeError):
            self._ledger.release(pod.metadata.uid)
            raise
        return None

    def _choose(self, spec: dict[str, Any], requests: Requests) -> tuple[str, Counter[Obstacle]]:
        """The best node; empty with the obstacles of all nodes when there is none."""
        best, best_score = "", -1.0
        obstacles: Counter[Obstacle] = Counter()
        for node in sorted(self._nodes.snapshot.items(), key=_name_of):
            room = self._ledger.room(_name_of(node))
            obstacle = node_obstacle(spec, node) or room.obstacle(requests)
            if obstacle is not None:
                obstacles[obstacle] += 1
                continue
            score = room.score(requests)
            if score > best_score:
                best, best_score = _name_of(node), score
        return best, obstacles

    async def _bind(self, pod: SchedulablePod, node: str) -> None:
        meta = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.request(
            "POST", PODS.object(meta.name, meta.namespace, "binding"), body=binding
        )
        text = f"Successfully assigned {meta.namespace}/{meta.name} to {node}"
        self._recorder.event(_reference(pod), NORMAL, "Scheduled", text)

    async def _record_unschedulable(
        self, pod: SchedulablePod, obstacles: Counter[Obstacle]
    ) -> None:
        """Say in the pod's status, and by an Event, why it has to wait."""
        message = unschedulable_message(obstacles)
        if any(
            one.type == "PodScheduled" and one.message == message
            for one in pod.status.conditions or ()
        ):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": rfc3339(self._clock.now()),
            "reason": "Unschedulable",
            "message": message,
        }
        self._recorder.event(_reference(pod), WARNING, "FailedScheduling", message)
        try:
            await self._client.patch(
                PODS.as_dicts(),
                pod.metadata.name,
                {"status": {"conditions": [condition]}},
                patch_type=PatchType.STRATEGIC,
                namespace=pod.metadata.namespace,
                subresource="status",
            )
        except NotFoundError:
            logger.debug("pod is gone", extra={"pod": pod.metadata.name})


def unschedulable_message(obstacles: Mapping[Obstacle, int]) -> str:
    """What the scheduler says: ``0/2 nodes are available: 2 Insufficient cpu.``."""
    total = sum(obstacles.values())
    if not total:
        return "no nodes available to schedule pods"
    reasons = sorted(f"{count} {obstacle.value}" for obstacle, count in obstacles.items())
    return f"0/{total} nodes are available: {', '.join(reasons)}."


def _is_ours(pod: SchedulablePod) -> bool:
    return pod.spec.scheduler_name == NAME and not pod.spec.scheduling_gates


def _requests(pod: SchedulablePod) -> Requests:
    return pod_requests(msgspec.to_builtins(pod), with_status=True)


def _name_of(node: dict[str, Any]) -> str:
    name: str = node["metadata"]["name"]
    return name


def _reference(pod: SchedulablePod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(
        api_version="v1",
        kind="Pod",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
