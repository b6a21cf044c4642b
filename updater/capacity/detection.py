"""What the cluster does for pods without room, which ``--capacity-check=auto`` depends on."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta

from common.errors import DecodeError, KubeError
from common.kube.client import KubeClient
from common.kube.discovery import served_resources, served_versions
from common.kube.node_autoscalers import (
    STATUS_NAME,
    STATUS_NAMESPACE,
    cluster_autoscaler_is_visible,
    karpenter_is_visible,
)
from updater.capacity.capacity_requests import CapacityMode

logger = logging.getLogger(__name__)

GROUP = "autoscaling.x-k8s.io"
REQUEST_RESOURCES = ("capacitybuffers", "provisioningrequests")

REFRESH = timedelta(minutes=5)
STALE_NODES = timedelta(minutes=5)
_SECONDS = 10.0  # for all requests of one detection


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """The APIs and autoscalers of a cluster."""

    requests: tuple[str, ...] = ()  # resources by which capacity can be requested
    autoscaler: str = ""  # one that acts on Pending pods; empty: none is visible
    unreadable: str = ""  # what the updater has no right to read, or had no answer about


@dataclass(frozen=True, slots=True)
class EffectiveMode:
    """The mode of passes, never AUTO, and the cause, which is logged."""

    mode: CapacityMode
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityView:
    """What the updater knows about the nodes, and about requests for capacity."""

    sees_all_pods: bool = True  # False: those of one namespace alone
    knows_nodes: bool = True
    requests: str | None = ""  # why none can be made now; empty: they can; None: never


def effective_mode(
    wanted: CapacityMode, detected: Detected | None, view: CapacityView
) -> EffectiveMode:
    """Return the mode of passes.

    Mode ``provision`` needs an API by which capacity can be requested; without one it acts as
    ``auto``. ``auto`` is ``off`` where an autoscaler acts on Pending pods, or may do so, because
    no node would be added for a pod that isn't evicted. ``detected`` is None if it isn't needed.
    """
    if wanted is CapacityMode.OFF:
        return EffectiveMode(CapacityMode.OFF, "configured")
    if not view.sees_all_pods:
        cause = "the pods of other namespaces are unknown (--vpa-object-namespace)"
        return EffectiveMode(CapacityMode.OFF, cause)
    if not view.knows_nodes:
        return EffectiveMode(CapacityMode.OFF, "nodes can't be read")
    if wanted is CapacityMode.WAIT or detected is None:
        return EffectiveMode(CapacityMode.WAIT, "configured")
    if detected.requests and view.requests == "":
        served = " and ".join(detected.requests)
        return EffectiveMode(CapacityMode.PROVISION, f"the cluster serves {served}")
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
        self._due = 0.0  # on the event loop's clock
        self._nodes_at: float | None = None  # when the cache of nodes was fresh
        self._effective: EffectiveMode | None = None

    async def refresh(self, *, nodes_fresh: bool, requests: str | None) -> CapacityMode:
        """Return the mode of the next pass.

        Nodes that can't be read any more count as known for five minutes. For ``requests`` see
        ``CapacityView``.
        """
        now = asyncio.get_running_loop().time()
        if nodes_fresh:
            self._nodes_at = now
        known = self._nodes_at is not None and now - self._nodes_at < STALE_NODES.total_seconds()
        view = CapacityView(sees_all_pods=self._sees_all_pods, knows_nodes=known, requests=requests)
        asks = self._wanted in (CapacityMode.AUTO, CapacityMode.PROVISION)
        if asks and self._sees_all_pods and now >= self._due:
            self._detected = await self._detect()
            self._due = now + REFRESH.total_seconds()
        found = effective_mode(self._wanted, self._detected, view)
        if found != self._effective:
            level = logging.INFO
            if found.mode is CapacityMode.OFF and self._wanted is not CapacityMode.OFF:
                level = logging.WARNING
            extra = {"mode": found.mode.value, "cause": found.cause}
            logger.log(level, "check of room before evictions", extra=extra)
            self._effective = found
        return found.mode

    async def _detect(self) -> Detected:
        """Return what is served; what has no answer counts as unreadable."""
        try:
            async with asyncio.timeout(_SECONDS):
                return Detected(
                    requests=await self._requests(),
                    **await self._autoscaler(),
                )
        except TimeoutError:
            return self._detected or Detected(unreadable="the API server's discovery")

    async def _requests(self) -> tuple[str, ...]:
        try:
            served = await self._served()
        except (KubeError, DecodeError):
            return () if self._detected is None else self._detected.requests
        return tuple(each for each in REQUEST_RESOURCES if each in served)

    async def _autoscaler(self) -> dict[str, str]:
        unreadable = []
        try:
            if await karpenter_is_visible(self._client):
                return {"autoscaler": "Karpenter"}
        except (KubeError, DecodeError):
            unreadable.append("NodePools of Karpenter")
        try:
            if await cluster_autoscaler_is_visible(self._client):
                return {"autoscaler": "cluster autoscaler"}
        except (KubeError, DecodeError):
            unreadable.append(f"ConfigMap {STATUS_NAMESPACE}/{STATUS_NAME}")
        return {"unreadable": " and ".join(unreadable)}

    async def _served(self) -> set[str]:
        found: set[str] = set()
        for version in await served_versions(self._client, GROUP):
            found.update(await served_resources(self._client, GROUP, version))
        return found
