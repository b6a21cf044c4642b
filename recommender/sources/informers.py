"""The recommender's informers."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Event, Pod, ResourceQuota
from common.api.meta import OwnedObject
from common.features import FeatureGates
from common.kube import endpoints
from common.kube.cache import Cache, Change, with_boundary
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from common.kube.targets import ControllerCaches, Targets
from common.runtime.object_errors import ObjectErrors
from common.runtime.service import Background
from recommender.checkpoints.stored_checkpoint import NAMED
from recommender.nodes.cached_node import CachedNode
from recommender.nodes.node_facts import NodeFacts
from recommender.sources.autoscaler_reader import AutoscalerReader
from recommender.sources.cached_pod import CachedPod, CachedPodWithSidecars
from recommender.sources.oom_feed import OomFeed

NODES = Endpoint(
    "", "v1", endpoints.NODES.resource, endpoints.NODES.kind, CachedNode, namespaced=False
)

_NO_GATES = FeatureGates()
_NO_NODES: Mapping[str, CachedNode] = {}
_NODES_SECONDS = 5.0  # to wait for a list of nodes after the list of pods, which takes longer
_QUOTAS_HOLD = 600.0  # seconds


class Informers:
    """Watches of VPAs, pods, controllers and evictions, of one namespace or of all."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        errors: ObjectErrors,
        features: FeatureGates = _NO_GATES,
        with_quotas: bool = False,
    ) -> None:
        self.client = client
        self.ooms = OomFeed()
        kept = CachedPodWithSidecars if features.native_sidecar else CachedPod
        pods: Endpoint[Pod] = replace(endpoints.PODS, type=kept)
        self.vpas: Cache[VerticalPodAutoscaler] = Cache(client, endpoints.VPAS, namespace=namespace)
        # A pending pod has no usage.
        self.pods: Cache[Pod] = Cache(
            client,
            pods,
            namespace=namespace,
            field_selector="status.phase!=Pending",
            on_change=with_boundary(self.ooms.on_pod, pods, errors),
        )
        self._evictions: Cache[Event] = Cache(
            client,
            endpoints.EVENTS,
            namespace=namespace,
            field_selector="reason=Evicted",
            on_change=with_boundary(self.ooms.on_event, endpoints.EVENTS, errors),
        )
        self._checkpoints: Cache[OwnedObject] = Cache(
            client, NAMED, namespace=namespace, on_change=self._note_deleted
        )
        self.nodes: Cache[CachedNode] = Cache(client, NODES)
        self._autoscalers = AutoscalerReader(client)
        self.quotas: Cache[ResourceQuota] | None = None
        if with_quotas:
            self.quotas = Cache(client, endpoints.RESOURCE_QUOTAS, namespace=namespace)
        self._deleted: set[tuple[str, str]] = set()
        self._controllers = ControllerCaches.create(client, namespace=namespace)
        self.targets = Targets(client, self._controllers)

    @property
    def controllers(self) -> tuple[Cache[Any], ...]:
        """Return the caches of the seven well-known kinds of controllers."""
        return self._controllers.all()

    @property
    def background(self) -> tuple[Background, ...]:
        """Return the tasks that update the caches.

        Cycles don't need the caches of checkpoints, nodes and quotas: the permission to watch them
        may be missing.
        """
        return (*(cache.run for cache in self.all()), self._autoscalers.run)

    def all(self) -> tuple[Cache[Any], ...]:
        """Return every cache, also those that cycles don't need."""
        quotas = () if self.quotas is None else (self.quotas,)
        return (*self._caches, self._checkpoints, self.nodes, *quotas)

    def quotas_by_namespace(self) -> Mapping[str, Mapping[str, ResourceQuota]]:
        """Return the ResourceQuotas by namespace and name; an unchanged namespace is the same.

        While their cache fails, the last ones hold for ten minutes: otherwise targets would grow
        in an interruption that lasts seconds. Without the permission to read them there are none.
        """
        quotas = self.quotas
        if quotas is None or not (quotas.fresh or quotas.age() < _QUOTAS_HOLD):
            return {}
        return quotas.snapshot.by_namespace()

    @property
    def synced(self) -> bool:
        """Return True if all caches have listed once."""
        return all(cache.synced for cache in self._caches)

    @property
    def fresh(self) -> bool:
        """Return True if the API server is reachable, and all caches are up to date."""
        return self.client.reachable and all(cache.fresh for cache in self._caches)

    async def wait_synced(self) -> None:
        """Wait until all caches have listed; from then on OOM kills count as new.

        Wait for a short time for nodes, so that the first cycle caps to them as the next ones do.
        """
        for cache in self._caches:
            await cache.wait_synced()
        if self.quotas is not None:
            await self.quotas.wait_answered()  # the first cycle must not publish targets without it
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NODES_SECONDS):
                await self.nodes.wait_answered()
                await self._autoscalers.wait_read()
        self.ooms.go_live()

    async def wait_targets(self) -> None:
        """Wait until the caches of VPAs and controllers have listed."""
        for cache in (self.vpas, *self._controllers.all()):
            await cache.wait_synced()

    def node_facts(self) -> NodeFacts:
        """Return what is known about nodes, which are those of the whole cluster."""
        nodes = None
        if self.nodes.synced:
            nodes = self.nodes.snapshot.by_namespace().get("", _NO_NODES)
        return NodeFacts(
            nodes=nodes,
            daemon_sets=tuple(self._controllers.daemon_sets.snapshot.items()),
            autoscalers=self._autoscalers.known,
        )

    def take_deleted(self) -> frozenset[tuple[str, str]]:
        """Return namespaces and names of checkpoints that were deleted since the last call."""
        found, self._deleted = frozenset(self._deleted), set()
        return found

    def _note_deleted(self, change: Change[OwnedObject]) -> None:
        if change.new is None and change.old is not None:
            meta = change.old.metadata
            self._deleted.add((meta.namespace, meta.name))

    @property
    def _caches(self) -> tuple[Cache[Any], ...]:
        return (self.vpas, self.pods, self._evictions, *self._controllers.all())
