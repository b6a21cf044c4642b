"""Many simulated kubelets behind one client of the API server."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NoReturn, Protocol, TypeAlias

import msgspec

from common.errors import (
    ConflictError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from common.kube.cache import Cache, Change
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import EVENTS, LEASES, NODES, Endpoint
from common.runtime.clock import Clock
from sandbox.kubelet.addresses import Addresses
from sandbox.kubelet.node import Node, NodeShape, node_object, node_status
from sandbox.kubelet.plan_clock import PlanClock
from sandbox.kubelet.pod_lifecycle import PodRun, Simulation
from sandbox.kubelet.status import event, status_patch
from sandbox.kubelet.usages import PodUsage, pod_usages
from sandbox.kubelet.wire import RunnablePod
from sandbox.times import micro_time
from sandbox.work_queue import WorkQueue

logger = logging.getLogger(__name__)

RUNNABLE_PODS = Endpoint("", "v1", "pods", "Pod", RunnablePod)

_LEASE_NAMESPACE = "kube-node-lease"
_NO_ENDPOINT = 10250  # the usual port; no server listens on it
_WORKERS = 16  # pods that are written at the same time
_RETRY = 1.0  # seconds after which a write that failed is tried again
_SHORTEST = 0.001  # seconds; a timer may expire slightly early
_PASSING = (UnreachableError, TooManyRequestsError, ServerError)


Observation: TypeAlias = Callable[[PodRun, datetime], None]
"""A change of the pod's state by a container that isn't simulated."""
OnObservation: TypeAlias = Callable[[str, Observation], None]
"""Receives the UID of a pod and an observation."""


class Processes(Protocol):
    """Runs the containers that aren't simulated: those whose image the simulation names."""

    addresses: Addresses  # of the pods that have one of these containers

    def report_to(self, report: OnObservation) -> None:
        """Set the function that receives each observation. Called once, before all others."""

    def follow(self, pod: PodRun) -> None:
        """Start and stop processes to match the state of the pod."""

    def forget(self, uid: str) -> None:
        """Kill the remaining processes of a deleted pod."""


class Kubelets:
    """Registers nodes and runs the pods that are bound to them; ``run`` is endless.

    Containers whose image ``simulation.images`` names are run by ``processes``; all others are
    simulated. ``port`` is the port of the kubelets' own endpoint.
    """

    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        *,
        shapes: Iterable[NodeShape],
        simulation: Simulation,
        processes: Processes | None = None,
    ) -> None:
        self.simulation = simulation
        self.port = _NO_ENDPOINT
        self.nodes = {shape.name: Node(shape, simulation) for shape in shapes}
        self._client = client
        self._clock = clock
        self._plans = PlanClock(clock, self.nodes)
        self._homes: dict[str, Node] = {}  # by pod UID
        self._written: dict[str, int] = {}  # hash of the last status, by pod UID
        self._queue = WorkQueue()
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._event_number = 0
        self._addresses = Addresses()
        self._processes = processes
        if processes is not None:
            processes.report_to(self._observed)
        self._began = clock.now()
        self._registered = asyncio.Event()
        self._cache = Cache(
            client,
            RUNNABLE_PODS,
            field_selector="spec.nodeName!=",
            on_change=self._changed,
        )

    async def run(self) -> NoReturn:
        """Register the nodes, then follow their pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            await self._register()
            group.create_task(self._cache.run())
            for _ in range(_WORKERS):
                group.create_task(self._work())
            group.create_task(self._send_events())
            group.create_task(self._beat())
            group.create_task(self._enforce_memory_limits())
            group.create_task(self._retry_deferred())
        raise RuntimeError("a kubelet's task ended")

    async def wait_ready(self) -> None:
        """Wait until all nodes are registered and all pods are listed."""
        await self._registered.wait()
        await self._cache.wait_synced()

    # Nodes

    async def _register(self) -> None:
        for node in self.nodes.values():
            while True:
                try:
                    await self._register_one(node)
                except _PASSING as error:
                    logger.warning("node not registered yet", extra={"error": str(error)})
                    await asyncio.sleep(_RETRY)
                else:
                    break
        self._registered.set()

    async def _register_one(self, node: Node) -> None:
        try:
            await self._client.create(NODES, node_object(node.shape))
        except ConflictError:
            logger.debug("node is there already", extra={"node": node.name})
        await self._write_node(node)
        await self._renew(node)

    async def _write_node(self, node: Node) -> None:
        status = node_status(
            node.shape,
            minor=self.simulation.minor,
            ready=True,
            since=self._began,
            now=self._clock.now(),
            port=self.port,
        )
        await self._patch(NODES.object(node.name, subresource="status"), {"status": status})

    async def _renew(self, node: Node) -> None:
        """Renew the Lease of the node, which is its heartbeat."""
        renewed = {"renewTime": micro_time(self._clock.now())}
        path = LEASES.object(node.name, _LEASE_NAMESPACE)
        try:
            await self._patch(path, {"spec": renewed}, PatchType.MERGE)
        except NotFoundError:
            lease = {
                "metadata": {"name": node.name, "namespace": _LEASE_NAMESPACE},
                "spec": {"holderIdentity": node.name, "leaseDurationSeconds": 40, **renewed},
            }
            await self._client.create(LEASES.as_dicts(), lease, namespace=_LEASE_NAMESPACE)

    async def _beat(self) -> NoReturn:
        timing = self.simulation.timing
        loop = asyncio.get_running_loop()
        write_again = loop.time() + timing.node_status
        while True:
            await asyncio.sleep(timing.heartbeat)
            whole = loop.time() >= write_again
            if whole:
                write_again = loop.time() + timing.node_status
            for node in tuple(self.nodes.values()):  # one may be added meanwhile
                if node.frozen:
                    continue
                try:
                    await self._renew(node)
                    if whole:
                        await self._write_node(node)
                except KubeError as error:
                    logger.warning(
                        "heartbeat failed", extra={"node": node.name, "error": str(error)}
                    )

    def freeze(self, name: str) -> None:
        """Stop a kubelet: no heartbeat, no status, no metrics."""
        self.nodes[name].freeze()

    def thaw(self, name: str) -> None:
        """Start a kubelet again."""
        self.nodes[name].thaw(self._plans.now())
        self._enqueue(self.nodes[name])

    async def add(self, shape: NodeShape) -> None:
        """Register another node, which is Ready at once."""
        node = self.nodes[shape.name] = Node(shape, self.simulation)
        await self._register_one(node)

    async def reshape(self, shape: NodeShape) -> None:
        """Change the size of a node. Its pods run on, even if they don't fit."""
        self.nodes[shape.name].shape = shape
        await self._write_node(self.nodes[shape.name])

    # Pods

    def _changed(self, change: Change[RunnablePod]) -> None:
        now = self._plans.now()
        old, new = change.old, change.new
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old.metadata.uid)
        node = None if new is None else self.nodes.get(new.spec.node_name)
        if new is None or node is None:
            return
        uid = new.metadata.uid
        addresses = self._addresses_of(new)
        address = "" if uid in self._homes else addresses.take()
        self._homes[uid] = node
        node.observe(new, now, new_ip=address)
        if address:
            addresses.keep(address, node.pods[uid].ip)
        self._enqueue(node)

    def _addresses_of(self, pod: RunnablePod) -> Addresses:
        containers = (*(pod.spec.init_containers or ()), *pod.spec.containers)
        if self._processes and any(map(self.simulation.is_local, containers)):
            return self._processes.addresses
        return self._addresses

    def _observed(self, uid: str, observation: Observation) -> None:
        """Apply an observation of a process to its pod."""
        node = self._homes.get(uid)
        if node is not None and uid in node.pods:
            observation(node.pods[uid], self._plans.now())
            self._queue.add(uid)

    def _forget(self, uid: str) -> None:
        node = self._homes.pop(uid, None)
        self._written.pop(uid, None)
        self._queue.cancel_timer(uid)
        if node is None:
            return
        pod = node.pods.get(uid)
        if pod is not None:
            self._addresses_of(pod.object).release(pod.ip)
            if self._processes is not None:
                self._processes.forget(uid)
        node.forget(uid, self._plans.now())
        self._enqueue(node)

    def _enqueue(self, node: Node) -> None:
        for uid in node.touched:
            self._queue.add(uid)
        node.touched.clear()

    async def _work(self) -> NoReturn:
        while True:
            uid = await self._queue.get()
            try:
                await self._sync(uid)
            except _PASSING as error:
                logger.debug("pod not written", extra={"error": str(error)})
                self._queue.add_later(uid, _RETRY)
            finally:
                self._queue.done(uid)

    async def _sync(self, uid: str) -> None:
        """Advance a pod, write its changes, and plan the next time."""
        node = self._homes.get(uid)
        if node is None or node.frozen:
            return
        now = self._plans.now()
        node.advance(uid, now)
        node.touched.discard(uid)
        self._enqueue(node)
        pod = node.pods.get(uid)
        if pod is None:
            return
        due = pod.due(now)
        if due is not None:
            delay = max(_SHORTEST, (due - now) / timedelta(seconds=1))
            self._queue.add_later(uid, delay)
        if self._processes is not None and pod.is_observed:
            self._processes.follow(pod)
        self._collect(pod, node)
        await self._write(pod, node)
        if pod.ended:
            await self._delete(pod)

    def _collect(self, pod: PodRun, node: Node) -> None:
        for notice in pod.notices:
            self._event_number += 1
            number, now = self._event_number, self._plans.now()
            self._events.put_nowait(event(pod, notice, node=node.name, number=number, now=now))
        pod.notices.clear()

    async def _write(self, pod: PodRun, node: Node) -> None:
        """Patch the status if it has changed."""
        patch = status_patch(pod, host_ip=node.shape.address, now=self._plans.now())
        body = msgspec.json.encode(patch)
        if self._written.get(pod.uid) == hash(body):
            return
        meta = pod.object.metadata
        try:
            await self._patch(RUNNABLE_PODS.object(meta.name, meta.namespace, "status"), body)
        except (NotFoundError, ConflictError) as error:
            logger.debug("pod is another one now", extra={"error": str(error)})
        except _PASSING:
            raise
        except KubeError as error:
            logger.warning(
                "status refused",
                extra={"pod": f"{meta.namespace}/{meta.name}", "error": str(error)},
            )
        if pod.uid in self._homes:
            self._written[pod.uid] = hash(body)

    async def _delete(self, pod: PodRun) -> None:
        meta = pod.object.metadata
        try:
            await self._client.delete(
                RUNNABLE_PODS,
                meta.name,
                namespace=meta.namespace,
                grace_period_seconds=0,
                uid=meta.uid,
            )
        except (NotFoundError, ConflictError):
            logger.debug("pod was gone already", extra={"pod": meta.name})

    async def _send_events(self) -> NoReturn:
        """Write Events. A refused one is lost, like a kubelet's."""
        while True:
            body = await self._events.get()
            try:
                await self._client.request(
                    "POST", EVENTS.collection(body["metadata"]["namespace"]), body=body
                )
            except KubeError as error:
                logger.debug("event lost", extra={"error": str(error)})

    async def _enforce_memory_limits(self) -> NoReturn:
        while True:
            await asyncio.sleep(self.simulation.timing.memory_check)
            now = self._plans.now()
            for node in self.nodes.values():
                node.enforce_memory_limits(now)
                self._enqueue(node)

    async def _retry_deferred(self) -> NoReturn:
        while True:
            await asyncio.sleep(self.simulation.timing.retry_deferred)
            now = self._plans.now()
            for node in self.nodes.values():
                node.retry(now)
                self._enqueue(node)

    async def _patch(
        self, path: str, body: Any, patch_type: PatchType = PatchType.STRATEGIC
    ) -> None:
        await self._client.request("PATCH", path, body=body, content_type=patch_type.value)

    # Usage

    def pod_usages(self, *, window: float) -> Iterator[PodUsage]:
        """Return the usage of pods over the last ``window`` seconds."""
        now = self._clock.now()
        for node in self.nodes.values():
            yield from pod_usages(node, now=now, window=window)
