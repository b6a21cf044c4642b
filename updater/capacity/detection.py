"""What the cluster does for pods without room, which ``--capacity-check=auto`` depends on."""

import asyncio
import enum
import logging
from dataclasses import dataclass, field
from datetime import timedelta

from common.errors import DecodeError, ForbiddenError, KubeError
from common.kube.client import KubeClient
from common.kube.node_autoscalers import (
    STATUS_NAME,
    STATUS_NAMESPACE,
    cluster_autoscaler_is_visible,
    karpenter_is_visible,
)
from updater.capacity.capacity_requests import CapacityMode
from updater.capacity.request_apis import RESOURCES, discover

logger = logging.getLogger(__name__)

REFRESH = timedelta(minutes=5)
LONGEST_WAIT = timedelta(minutes=5)
"""For a first answer of the API server; also how long nodes count that can't be read any more."""

_SECONDS = 10.0  # for all requests of one detection


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """The APIs and autoscalers of a cluster."""

    requests: tuple[str, ...] = ()  # resources by which capacity can be requested
    autoscaler: str = ""  # one that acts on Pending pods; empty: none is visible
    unreadable: str = ""  # what the updater has no right to read, or gets no answer about


@dataclass(frozen=True, slots=True)
class EffectiveMode:
    """The mode of passes, never AUTO, and the cause, which is logged."""

    mode: CapacityMode
    cause: str
    awaits_nodes: bool = False  # they aren't listed yet, so evictions that need room wait
    awaits_answer: bool = False  # of the API server, what it serves
    # Of workloads for which no capacity can be requested.
    fallback: CapacityMode = field(default=CapacityMode.WAIT, compare=False)

    @property
    def knows_demands(self) -> bool:
        """Return whether a pass of this mode finds all demands for capacity."""
        return not self.awaits_nodes and not self.awaits_answer


class NodeView(enum.Enum):
    """What the updater knows about the nodes."""

    KNOWN = enum.auto()
    AWAITED = enum.auto()  # not listed yet
    UNREADABLE = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityView:
    """What the updater knows about the nodes, and about requests for capacity."""

    sees_all_pods: bool = True  # False: those of one namespace alone
    nodes: NodeView = NodeView.KNOWN
    requests: str | None = ""  # why none can be made now; empty: they can; None: never


def effective_mode(
    wanted: CapacityMode, detected: Detected | None, view: CapacityView
) -> EffectiveMode:
    """Return the mode of passes.

    Mode ``provision`` needs an API by which capacity can be requested; without one it acts as
    ``auto``. ``auto`` is ``off`` where an autoscaler acts on Pending pods, or may do so, because
    no node would be added for a pod that isn't evicted. ``detected`` is None if it isn't needed, or
    the API server hasn't answered yet.
    """
    if wanted is CapacityMode.OFF:
        return EffectiveMode(CapacityMode.OFF, "configured")
    if not view.sees_all_pods:
        cause = "the pods of other namespaces are unknown (--vpa-object-namespace)"
        return EffectiveMode(CapacityMode.OFF, cause)
    if view.nodes is NodeView.UNREADABLE:
        return EffectiveMode(CapacityMode.OFF, "nodes can't be read")
    if view.nodes is NodeView.AWAITED:
        return EffectiveMode(CapacityMode.WAIT, "nodes aren't listed yet", awaits_nodes=True)
    if wanted is CapacityMode.WAIT:
        return EffectiveMode(CapacityMode.WAIT, "configured")
    if detected is None:
        cause = "the API server fails to answer what it serves"
        return EffectiveMode(CapacityMode.WAIT, cause, awaits_answer=True)
    without = _without_requests(detected, view)
    if detected.requests and view.requests == "":
        served = " and ".join(detected.requests)
        cause = f"the cluster serves {served}"
        return EffectiveMode(CapacityMode.PROVISION, cause, fallback=without.mode)
    return without


def _without_requests(detected: Detected, view: CapacityView) -> EffectiveMode:
    refusal = f"; capacity can't be requested: {view.requests}" if view.requests else ""
    if detected.autoscaler:
        cause = f"{detected.autoscaler} adds nodes for Pending pods{refusal}"
        return EffectiveMode(CapacityMode.OFF, cause)
    if detected.unreadable:
        cause = f"an autoscaler may exist, {detected.unreadable} can't be read{refusal}"
        return EffectiveMode(CapacityMode.OFF, cause)
    return EffectiveMode(CapacityMode.WAIT, f"no autoscaler is visible{refusal}")


class CapacityDetection:
    """Detects the mode of passes, every few minutes, and logs its changes."""

    def __init__(self, client: KubeClient, wanted: CapacityMode, *, sees_all_pods: bool) -> None:
        self._client = client
        self._wanted = wanted
        self._sees_all_pods = sees_all_pods
        self._detected: Detected | None = None
        # On the event loop's clock:
        self._began: float | None = None
        self._due = 0.0
        self._nodes_at: float | None = None  # when the cache of nodes was fresh
        self._effective: EffectiveMode | None = None

    async def refresh(
        self, *, nodes_fresh: bool, requests: str | None, may_list_nodes: bool = True
    ) -> EffectiveMode:
        """Return the mode of the next pass.

        Nodes that can't be read any more count as known for five minutes, and those that are not
        listed yet are awaited for as long, unless they may not be listed. For ``requests`` see
        ``CapacityView``.
        """
        now = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = now
        if nodes_fresh:
            self._nodes_at = now
        nodes = self._view_of_nodes(now, may_list=may_list_nodes)
        view = CapacityView(sees_all_pods=self._sees_all_pods, nodes=nodes, requests=requests)
        if self._wanted.may_request and self._sees_all_pods and now >= self._due:
            await self._detect(now)
        found = effective_mode(self._wanted, self._detected, view)
        if found != self._effective:
            level = logging.INFO
            if found.mode is CapacityMode.OFF and self._wanted is not CapacityMode.OFF:
                level = logging.WARNING
            extra = {"mode": found.mode.value, "cause": found.cause}
            logger.log(level, "check of room before evictions", extra=extra)
            self._effective = found
        return found

    def _view_of_nodes(self, now: float, *, may_list: bool) -> NodeView:
        if self._nodes_at is None and not may_list:
            return NodeView.UNREADABLE
        since = self._began if self._nodes_at is None else self._nodes_at
        if since is not None and now - since >= LONGEST_WAIT.total_seconds():
            return NodeView.UNREADABLE
        return NodeView.AWAITED if self._nodes_at is None else NodeView.KNOWN

    async def _detect(self, now: float) -> None:
        """Look up what is served, and keep it until the next look.

        After a failure the last result counts, and the next pass tries again. Without any result
        for five minutes what is served counts as unreadable.
        """
        try:
            async with asyncio.timeout(_SECONDS):
                self._detected = Detected(
                    requests=await self._requests(), **await self._autoscaler()
                )
        except (KubeError, DecodeError, TimeoutError):
            waited = 0.0 if self._began is None else now - self._began
            if self._detected is None and waited >= LONGEST_WAIT.total_seconds():
                self._detected = Detected(unreadable="what the API server serves")
        else:
            self._due = now + REFRESH.total_seconds()

    async def _requests(self) -> tuple[str, ...]:
        try:
            apis = await discover(self._client)
        except ForbiddenError:
            return ()
        return tuple(resource for kind, resource in RESOURCES.items() if kind in apis)

    async def _autoscaler(self) -> dict[str, str]:
        unreadable = []
        try:
            if await karpenter_is_visible(self._client):
                return {"autoscaler": "Karpenter"}
        except ForbiddenError:
            unreadable.append("NodePools of Karpenter")
        try:
            if await cluster_autoscaler_is_visible(self._client):
                return {"autoscaler": "cluster autoscaler"}
        except ForbiddenError:
            unreadable.append(f"ConfigMap {STATUS_NAMESPACE}/{STATUS_NAME}")
        return {"unreadable": " and ".join(unreadable)}
