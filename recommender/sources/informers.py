"""The parts of the cluster that the recommender follows: its caches, and what they feed."""

from collections.abc import Awaitable, Callable
from typing import Any

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Event, Pod
from common.api.meta import OwnedObject
from common.features import FeatureGates
from common.kube import endpoints
from common.kube.cache import Cache, Change, apart
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from common.kube.targets import ControllerCaches, Targets
from common.runtime.object_errors import ObjectErrors
from recommender.checkpoints.stored import NAMED
from recommender.sources.cached_pod import CachedPod, CachedPodWithSidecars
from recommender.sources.oom_feed import OomFeed

_NO_GATES = FeatureGates()


class Informers:
    """Watches of VPAs, pods, controllers and evictions, of one namespace or of all."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        errors: ObjectErrors,
        features: FeatureGates = _NO_GATES,
    ) -> None:
        self.client = client
        self.ooms = OomFeed()
        pods = _pods(features)
        self.vpas: Cache[VerticalPodAutoscaler] = Cache(client, endpoints.VPAS, namespace=namespace)
        # A pending pod uses nothing; the watch reports it as deleted, or not at all.
        self.pods: Cache[Pod] = Cache(
            client,
            pods,
            namespace=namespace,
            field_selector="status.phase!=Pending",
            on_change=apart(self.ooms.on_pod, pods, errors),
        )
        self._evictions: Cache[Event] = Cache(
            client,
            endpoints.EVENTS,
            namespace=namespace,
            field_selector="reason=Evicted",
            on_change=apart(self.ooms.on_event, endpoints.EVENTS, errors),
        )
        self._checkpoints: Cache[OwnedObject] = Cache(
            client, NAMED, namespace=namespace, on_change=self._note_deleted
        )
        self._deleted: set[tuple[str, str]] = set()
        self._controllers = ControllerCaches.following(client, namespace=namespace)
        self.targets = Targets(client, self._controllers)

    @property
    def background(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """Return the endless tasks behind the caches.

        Nothing waits for the names of checkpoints: the right to watch them may be missing.
        """
        return tuple(cache.run for cache in (*self._caches, self._checkpoints))

    @property
    def synced(self) -> bool:
        """Return whether every cache has listed once."""
        return all(cache.synced for cache in self._caches)

    @property
    def fresh(self) -> bool:
        """Return whether the API server answers, and every cache follows it."""
        return self.client.reachable and all(cache.fresh for cache in self._caches)

    async def wait_synced(self) -> None:
        """Wait until every cache has listed; from then on OOM kills count as new."""
        for cache in self._caches:
            await cache.wait_synced()
        self.ooms.go_live()

    async def wait_targets(self) -> None:
        """Wait until the VPAs have listed, and all that they can target."""
        for cache in (self.vpas, *self._controllers.all()):
            await cache.wait_synced()

    def take_deleted(self) -> frozenset[tuple[str, str]]:
        """Return namespaces and names of checkpoints that were deleted since the last time."""
        found, self._deleted = frozenset(self._deleted), set()
        return found

    def _note_deleted(self, change: Change[OwnedObject]) -> None:
        if change.new is None and change.old is not None:
            meta = change.old.metadata
            self._deleted.add((meta.namespace, meta.name))

    @property
    def _caches(self) -> tuple[Cache[Any], ...]:
        return (self.vpas, self.pods, self._evictions, *self._controllers.all())


def _pods(features: FeatureGates) -> Endpoint[Pod]:
    pods = endpoints.PODS
    kept = CachedPodWithSidecars if features.native_sidecar else CachedPod
    return Endpoint(pods.group, pods.version, pods.resource, pods.kind, kept)
