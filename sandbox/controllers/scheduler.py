"""The scheduler, which binds each pending pod to the emptiest node with enough room.

Source: k8s.io/kubernetes pkg/scheduler; a pod takes max(spec, actual, allocated) of its node
(kubernetes-resize.md section 4), so a deferred resize keeps new pods away.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from common.api.core import ObjectReference
from common.errors import ConflictError, DecodeError, KubeError, NotFoundError
from common.kube.cache import Cache, Change
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import NODES, PODS
from common.kube.events import NORMAL, WARNING, EventRecorder
from common.quantity import Quantity
from common.runtime.clock import Clock
from sandbox.controllers.loop import Loop
from sandbox.controllers.placement import Obstacle, Placements, node_obstacle
from sandbox.objects.pod_resources import pod_requests
from sandbox.times import rfc3339

logger = logging.getLogger(__name__)

NAME = "default-scheduler"


Json = dict[str, Any]
Requests = Mapping[str, Quantity]


class Scheduler:
    """Places pods one at a time; ``run`` is endless.

    A binding counts at once, before the watch reports it. Pods without a suitable node wait until a
    node changes or a pod frees room.
    """

    def __init__(self, client: KubeClient, clock: Clock, recorder: EventRecorder) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._loop = Loop("scheduler", self._schedule, workers=1, settle=0)
        self._placements = Placements()
        self._waiting: set[tuple[str, str]] = set()
        self._pods = Cache(client, PODS.as_dicts(), on_change=self._pod_changed)
        self._nodes = Cache(client, NODES.as_dicts(), on_change=self._node_changed)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._nodes.run())
            await self._pods.wait_synced()
            await self._nodes.wait_synced()
            group.create_task(self._loop.run())

    def _pod_changed(self, change: Change[Json]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or _uid(new) != _uid(old)):
            self._release(_uid(old))
        if new is None:
            return
        if (new.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self._release(_uid(new))
        elif _node_of(new):
            if self._placements.place(_uid(new), _node_of(new), _requests(new)):
                self._retry_waiting()
        elif _is_ours(new):
            self._loop.add(new["metadata"]["namespace"], _name_of(new))

    def _node_changed(self, change: Change[Json]) -> None:
        if change.new is not None:
            self._placements.describe(change.new)
            self._retry_waiting()

    def _release(self, uid: str) -> None:
        if self._placements.release(uid):
            self._retry_waiting()

    def _retry_waiting(self) -> None:
        """Queue all waiting pods again."""
        for key in self._waiting:
            self._loop.add(*key)
        self._waiting.clear()

    async def _schedule(self, namespace: str, name: str) -> float | None:
        pod = self._pods.get(namespace, name)
        if pod is None or _node_of(pod) or _uid(pod) in self._placements:
            return None
        if "deletionTimestamp" in pod["metadata"] or not _is_ours(pod):
            return None
        requests = _requests(pod)
        node, obstacles = self._choose(pod["spec"], requests)
        if not node:
            self._waiting.add((namespace, name))
            await self._record_unschedulable(pod, obstacles)
            return None
        self._placements.place(_uid(pod), node, requests)
        try:
            await self._bind(pod, node)
        except (ConflictError, NotFoundError):
            self._placements.release(_uid(pod))  # gone, or bound by another client
        except (KubeError, DecodeError):
            self._placements.release(_uid(pod))
            raise
        return None

    def _choose(self, spec: Json, requests: Requests) -> tuple[str, Counter[Obstacle]]:
        """Return the best node; if there is none, an empty name and the obstacles of all nodes."""
        best, best_score = "", -1.0
        obstacles: Counter[Obstacle] = Counter()
        for node in sorted(self._nodes.snapshot.items(), key=_name_of):
            room = self._placements.room(_name_of(node))
            obstacle = node_obstacle(spec, node) or room.obstacle(requests)
            if obstacle is not None:
                obstacles[obstacle] += 1
                continue
            score = room.score(requests)
            if score > best_score:
                best, best_score = _name_of(node), score
        return best, obstacles

    async def _bind(self, pod: Json, node: str) -> None:
        name, namespace = _name_of(pod), pod["metadata"]["namespace"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": _uid(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.request("POST", PODS.object(name, namespace, "binding"), body=binding)
        text = f"Successfully assigned {namespace}/{name} to {node}"
        self._recorder.event(_reference(pod), NORMAL, "Scheduled", text)

    async def _record_unschedulable(self, pod: Json, obstacles: Counter[Obstacle]) -> None:
        """Record in the pod's status, and by an Event, why it waits."""
        message = unschedulable_message(obstacles)
        if any(
            one["type"] == "PodScheduled" and one.get("message") == message
            for one in (pod.get("status") or {}).get("conditions") or ()
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
                _name_of(pod),
                {"status": {"conditions": [condition]}},
                patch_type=PatchType.STRATEGIC,
                namespace=pod["metadata"]["namespace"],
                subresource="status",
            )
        except NotFoundError:
            logger.debug("pod is gone", extra={"pod": _name_of(pod)})


def unschedulable_message(obstacles: Mapping[Obstacle, int]) -> str:
    """Return the scheduler's message: ``0/2 nodes are available: 2 Insufficient cpu.``."""
    total = sum(obstacles.values())
    if not total:
        return "no nodes available to schedule pods"
    reasons = sorted(f"{count} {obstacle.value}" for obstacle, count in obstacles.items())
    return f"0/{total} nodes are available: {', '.join(reasons)}."


def _is_ours(pod: Json) -> bool:
    spec = pod["spec"]
    return spec.get("schedulerName", NAME) == NAME and not spec.get("schedulingGates")


def _requests(pod: Json) -> Requests:
    return pod_requests(pod, with_status=True)


def _name_of(obj: Json) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _node_of(pod: Json) -> str:
    name: str = pod["spec"].get("nodeName", "")
    return name


def _uid(pod: Json) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def _reference(pod: Json) -> ObjectReference:
    meta = pod["metadata"]
    return ObjectReference(
        api_version="v1",
        kind="Pod",
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
    )
