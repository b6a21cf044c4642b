"""The recommender's informers."""

import asyncio
import logging
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
from recommender.sources.static_pods import StaticPods

logger = logging.getLogger(__name__)

NODES = Endpoint(
    "", "v1", endpoints.NODES.resource, endpoints.NODES.kind, CachedNode, namespaced=False
)

_NO_GATES = FeatureGates()
_NO_NODES: Mapping[str, CachedNode] = {}
_ANSWERS_SECONDS = 60.0
_HOLD = 600.0  # seconds for which nodes and quotas count that can't be read any more


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
        self._static_pods = StaticPods()
        kept = CachedPodWithSidecars if features.native_sidecar else CachedPod
        pods: Endpoint[Pod] = replace(endpoints.PODS, type=kept)
        self.vpas: Cache[VerticalPodAutoscaler] = Cache(client, endpoints.VPAS, namespace=namespace)
        # A pending pod has no usage.
        self.pods: Cache[Pod] = Cache(
            client,
            pods,
            namespace=namespace,
            field_selector="status.phase!=Pending",
            on_change=with_boundary(self._on_pod, pods, errors),
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
        return (*self._caches, self._checkpoints, self.nodes, *self._optional_quotas)

    def quotas_by_namespace(self) -> Mapping[str, Mapping[str, ResourceQuota]]:
        """Return the ResourceQuotas by namespace and name; an unchanged namespace is the same.

        Without the permission to read them there are none.
        """
        quotas = self.quotas
        return quotas.snapshot.by_namespace() if quotas is not None and _holds(quotas) else {}

    @property
    def synced(self) -> bool:
        """Return True if all caches have listed once."""
        return all(cache.synced for cache in self._caches)

    @property
    def fresh(self) -> bool:
        """Return True if the API server is reachable, and all caches are up to date."""
        return self.client.reachable and all(cache.fresh for cache in self._caches)

    async def wait_synced(self) -> None:
        """Wait until all caches have listed; from then on OOM kills count as new."""
        for cache in self._caches:
            await cache.wait_synced()
        await self._wait_answered()
        self.ooms.go_live()

    async def _wait_answered(self) -> None:
        """Wait until nodes, autoscalers and quotas are returned or refused, a minute at most.

        Otherwise the first cycle would publish targets without the caps of the next ones.
        """
        caches: tuple[Cache[Any], ...] = (self.nodes, *self._optional_quotas)
        try:
            async with asyncio.timeout(_ANSWERS_SECONDS):
                for cache in caches:
                    await cache.wait_answered()
                await self._autoscalers.wait_answered()
        except TimeoutError:
            unknown = {each.endpoint.resource for each in caches if not each.answered}
            extra = {"resources": sorted(unknown | self._autoscalers.unanswered)}
            logger.warning("the first cycle starts without these resources", extra=extra)

    async def wait_targets(self) -> None:
        """Wait until the caches of VPAs and controllers have listed."""
        for cache in (self.vpas, *self._controllers.all()):
            await cache.wait_synced()

    def node_facts(self) -> NodeFacts:
        """Return what is known about nodes, which are those of the whole cluster."""
        nodes = None
        if self.nodes.synced and _holds(self.nodes):
            nodes = self.nodes.snapshot.by_namespace().get("", _NO_NODES)
        return NodeFacts(
            nodes=nodes,
            static_pods=self._static_pods.taken,
            daemon_sets=tuple(self._controllers.daemon_sets.snapshot.items()),
            autoscalers=self._autoscalers.known,
        )

    def take_deleted(self) -> frozenset[tuple[str, str]]:
        """Return namespaces and names of checkpoints that were deleted since the last call."""
        found, self._deleted = frozenset(self._deleted), set()
        return found

    def _on_pod(self, change: Change[Pod]) -> None:
        self._static_pods.on_pod(change)
        self.ooms.on_pod(change)

    def _note_deleted(self, change: Change[OwnedObject]) -> None:
        if change.new is None and change.old is not None:
            meta = change.old.metadata
            self._deleted.add((meta.namespace, meta.name))

    @property
    def _optional_quotas(self) -> tuple[Cache[ResourceQuota], ...]:
        return () if self.quotas is None else (self.quotas,)

    @property
    def _caches(self) -> tuple[Cache[Any], ...]:
        return (self.vpas, self.pods, self._evictions, *self._controllers.all())


def _holds(cache: Cache[Any]) -> bool:
    """Return True if the objects of a cache count.

    While the cache fails, they count for ten minutes: otherwise targets would grow in an
    interruption that lasts seconds.
    """
    return cache.fresh or cache.age() < _HOLD
