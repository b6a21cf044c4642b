"""A simulated autoscaler: it adds nodes for Pending pods and for CapacityBuffers.

It does what the cluster autoscaler and Karpenter do with them: chunks of buffers are pods that
exist in its memory alone, real pods take their places, and what fits on no node for three seconds
makes it add one after a delay. It handles CPU only, and the nodes and pods of one pool.
"""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from capacity_definitions import BUFFERS, capacity_definition
from common.errors import KubeError, NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import NODES, POD_TEMPLATES, PODS, Endpoint
from common.quantity import parse_milli
from e2e.waiting import wait_for
from sandbox.kubelet.node import NodeShape
from sandbox.kubelet.pod_resources import Totals
from workloads import DEFINITIONS

POOL = "example.com/pool"
_LOOP = 0.5  # seconds
_LOOPS = 6  # that see a shortage before it counts; the cluster autoscaler looks every ten seconds
_MEMORY = 64 << 30
_Object = dict[str, Any]

AddNode = Callable[[NodeShape], Awaitable[None]]


@dataclass
class SimulatedAutoscaler:
    """Watches the pods and buffers of one namespace, and adds nodes to one pool.

    ``cpu`` are the millicores of a node that it adds, and ``delay`` the seconds until it is Ready.
    ``refuses`` is the message with which it rejects buffers; empty: it accepts them.
    """

    client: KubeClient
    add_node: AddNode
    namespace: str
    cpu: int
    delay: float
    refuses: str = ""
    added: int = 0
    _starting: int = 0  # nodes that are added, and not Ready yet
    _numbers: Iterable[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def pool(self) -> str:
        """Return the value of the label of the pool's nodes."""
        return self.namespace

    async def start_node(self, *, cpu: int | None = None) -> None:
        """Add a node at once, with other millicores if they are given."""
        name = f"{self.namespace[:40].strip('-')}-{next(iter(self._numbers))}"
        await self.add_node(
            NodeShape(
                name=name,
                capacity=Totals(cpu or self.cpu, _MEMORY),
                labels={POOL: self.pool},
                address="127.0.0.1",
            )
        )

    async def run(self) -> None:
        """Run until cancelled."""
        seen = deque([0], maxlen=_LOOPS)  # shortages, as numbers of nodes
        async with asyncio.TaskGroup() as group:
            while True:
                with contextlib.suppress(KubeError):  # the next loop tries again
                    seen.append(await self._missing())
                missing = min(seen)
                if missing:
                    seen.append(0)  # nodes that start count as free
                self.added += missing
                self._starting += missing
                for _ in range(missing):
                    group.create_task(self._start_later())
                await asyncio.sleep(_LOOP)

    async def _start_later(self) -> None:
        await asyncio.sleep(self.delay)
        await self.start_node()
        self._starting -= 1

    async def _missing(self) -> int:
        """Return how many nodes to add for pods and chunks that fit nowhere."""
        free = await self._free_cpu() + [self.cpu] * self._starting
        pods = (await self.client.list(PODS.as_dicts(), namespace=self.namespace)).items
        pending = [_cpu(each["spec"]) for each in pods if not each["spec"].get("nodeName")]
        before = len(free)
        for need in (*pending, *await self._chunks()):
            place = next((index for index, cpu in enumerate(free) if cpu >= need), None)
            if place is None:
                place = len(free)
                free.append(self.cpu)
            free[place] -= need
        return len(free) - before

    async def _free_cpu(self) -> list[int]:
        nodes = (await self.client.list(NODES)).items
        free = {
            each["metadata"]["name"]: _allocatable_cpu(each)
            for each in nodes
            if each["metadata"]["labels"].get(POOL) == self.pool
        }
        for pod in (await self.client.list(PODS.as_dicts())).items:
            node = pod["spec"].get("nodeName", "")
            if node in free and "deletionTimestamp" not in pod["metadata"]:
                free[node] -= _cpu(pod["spec"])
        return list(free.values())

    async def _chunks(self) -> list[int]:
        """Return the CPU of each chunk, and set the conditions of the buffers."""
        try:
            buffers = (await self.client.list(BUFFERS, namespace=self.namespace)).items
        except NotFoundError:
            return []
        found: list[int] = []
        for buffer in buffers:
            if self.refuses:
                await self._report(buffer, "ReadyForProvisioning", "False", self.refuses)
                continue
            name = buffer["spec"]["podTemplateRef"]["name"]
            template = await self.client.get(
                POD_TEMPLATES.as_dicts(), name, namespace=self.namespace
            )
            found += [_cpu(template["template"]["spec"])] * buffer["spec"]["replicas"]
            await self._report(buffer, "ReadyForProvisioning", "True", "ready")
            await self._report(buffer, "Provisioning", "True", "")
        return found

    async def _report(self, buffer: _Object, kind: str, status: str, message: str) -> None:
        """Set a condition, unless it is set."""
        held = buffer.setdefault("status", {}).setdefault("conditions", [])
        if any(each["type"] == kind and each["status"] == status for each in held):
            return
        held.append(
            {
                "type": kind,
                "status": status,
                "reason": "Simulated",
                "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        )
        await self.client.patch(
            BUFFERS,
            buffer["metadata"]["name"],
            {"status": {"conditions": held}},
            patch_type=PatchType.MERGE,
            namespace=self.namespace,
            subresource="status",
        )


@asynccontextmanager
async def running(autoscaler: SimulatedAutoscaler) -> AsyncIterator[SimulatedAutoscaler]:
    """Run the autoscaler beside a block."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(autoscaler.run())
        try:
            yield autoscaler
        finally:
            task.cancel()


@asynccontextmanager
async def served(client: KubeClient, kind: Endpoint[_Object]) -> AsyncIterator[None]:
    """Serve a kind of requests during a block."""
    definition = capacity_definition(kind)
    name = definition["metadata"]["name"]

    async def is_served() -> bool:
        await client.list(kind)
        return True

    async def is_gone() -> bool:
        try:
            await client.get(DEFINITIONS, name)
        except NotFoundError:
            return True
        return False

    await client.create(DEFINITIONS, definition)
    try:
        await wait_for(is_served, f"{kind.resource} are served")
        yield
    finally:
        await client.delete(DEFINITIONS, name)
        await wait_for(is_gone, f"{kind.resource} aren't served any more")


def _allocatable_cpu(node: _Object) -> int:
    """Return the millicores of a node; 0 before its kubelet has reported them."""
    return parse_milli(node.get("status", {}).get("allocatable", {}).get("cpu", "0"))


def _cpu(spec: _Object) -> int:
    """Return the millicores of all containers."""
    amounts = (
        each.get("resources", {}).get("requests", {}).get("cpu", "0") for each in spec["containers"]
    )
    return sum(map(parse_milli, amounts))
