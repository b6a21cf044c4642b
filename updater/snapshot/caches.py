"""The watch caches that snapshots are taken from."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRange, Pod, ResourceQuota
from common.errors import KubeError
from common.features import FeatureGates
from common.kube.cache import Cache, Change
from common.kube.client import KubeClient
from common.kube.endpoints import LIMIT_RANGES, NODES, RESOURCE_QUOTAS, VPAS, Endpoint
from common.kube.targets import ControllerCaches
from updater.snapshot.live_node import LiveNode
from updater.snapshot.live_pod import LivePod, LivePodWithSidecars
from updater.snapshot.live_vpa import LiveVpa

LIVE_PODS = Endpoint("", "v1", "pods", "Pod", LivePod)
LIVE_NODES = Endpoint("", "v1", NODES.resource, NODES.kind, LiveNode, namespaced=False)
_LIVE_PODS_WITH_SIDECARS: Endpoint[LivePod] = Endpoint("", "v1", "pods", "Pod", LivePodWithSidecars)
LIVE_VPAS = Endpoint(VPAS.group, VPAS.version, VPAS.resource, VPAS.kind, LiveVpa)
_PODS_ON_NODES = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_CHECK_SECONDS = 5.0
_NO_GATES = FeatureGates()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """The watch caches that a snapshot is taken from."""

    client: KubeClient
    vpas: Cache[LiveVpa]
    pods: Cache[LivePod]
    limit_ranges: Cache[LimitRange]
    quotas: Cache[ResourceQuota]
    controllers: ControllerCaches
    nodes: Cache[LiveNode]  # optional (X103)

    @classmethod
    def following(
        cls,
        client: KubeClient,
        *,
        namespace: str = "",
        features: FeatureGates = _NO_GATES,
        on_vpa: Callable[[Change[LiveVpa]], None] | None = None,
        on_pod: Callable[[Change[LivePod]], None] | None = None,
        on_node: Callable[[Change[LiveNode]], None] | None = None,
    ) -> Self:
        """Return caches of one namespace or, by default, of all; the caller runs them.

        Pods without a node and finished pods are left out. ``on_vpa``, ``on_pod`` and ``on_node``
        are called with every change.
        """
        return cls(
            client=client,
            vpas=Cache(client, LIVE_VPAS, namespace=namespace, on_change=on_vpa),
            pods=Cache(
                client,
                _LIVE_PODS_WITH_SIDECARS if features.native_sidecar else LIVE_PODS,
                namespace=namespace,
                field_selector=_PODS_ON_NODES,
                on_change=on_pod,
            ),
            limit_ranges=Cache(client, LIMIT_RANGES, namespace=namespace),
            quotas=Cache(client, RESOURCE_QUOTAS, namespace=namespace),
            controllers=ControllerCaches.create(client, namespace=namespace),
            nodes=Cache(client, LIVE_NODES, on_change=on_node),
        )

    def all(self) -> tuple[Cache[Any], ...]:
        """Return every cache that passes need.

        ``nodes`` and ``quotas`` are optional: passes run without the right to read them.
        """
        return (self.vpas, self.pods, self.limit_ranges, *self.controllers.all())

    def followed(self) -> tuple[Cache[Any], ...]:
        """Return every cache, the optional ones included."""
        return (*self.all(), self.nodes, self.quotas)

    def quotas_by_namespace(self) -> Mapping[str, Sequence[ResourceQuota]]:
        """Return the ResourceQuotas; empty while their cache isn't fresh."""
        if not self.quotas.fresh:
            return {}
        return {
            namespace: tuple(found.values())
            for namespace, found in self.quotas.snapshot.by_namespace().items()
        }

    @property
    def fresh(self) -> bool:
        """Return whether all needed caches follow the API server, which each update requires."""
        now = asyncio.get_running_loop().time()
        return self.client.reachable and all(each.fresh_from <= now for each in self.all())

    async def check(self) -> bool:
        """Return ``fresh``, after another request if the last one had no answer.

        Open watches don't show that the API server is reachable: they may be idle for minutes.
        """
        if not self.client.reachable:
            with contextlib.suppress(KubeError):  # any answer will do
                await self.client.request("GET", "/version", retry=False, seconds=_CHECK_SECONDS)
        return self.fresh

    def has_pod(self, pod: Pod) -> bool:
        """Return whether the pod exists with the same owners and isn't terminating."""
        found = self.pods.get(pod.metadata.namespace, pod.metadata.name)
        return (
            found is not None
            and found.metadata.uid == pod.metadata.uid
            and found.metadata.deletion_timestamp is None
            and found.metadata.owner_references == pod.metadata.owner_references
        )

    def has_vpa(self, vpa: VerticalPodAutoscaler) -> bool:
        """Return whether the VPA exists with the same spec; its recommendation may be newer."""
        found = self.vpas.get(vpa.metadata.namespace, vpa.metadata.name)
        return found is not None and found.spec == vpa.spec
