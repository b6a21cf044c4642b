"""The part of the cluster's state that a review depends on, from watch caches.

Source: ``matcher.GetMatchingVPA``,
vertical-pod-autoscaler/pkg/admission-controller/resource/vpa/matcher.go; admission.md 4.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from admission.pod_reviews import LookupFailedError, MatchReason, TargetingVpa, VpaMatch
from admission.vpa_index import VpaIndex
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec
from common.api.meta import ObjectMeta
from common.kube.cache import Cache
from common.kube.client import KubeClient
from common.kube.endpoints import LIMIT_RANGES, VPAS
from common.kube.targets import ControllerCaches, TargetError, Targets
from common.labels import Selector
from common.target.controlling import SelectedVpa, can_control_pods, controlling
from common.target.owners import Controller, OwnerProblem, controller_of

logger = logging.getLogger(__name__)

# Seconds between look-ups of a missing owner. The first pods of a ReplicaSet are created within
# milliseconds of it, and its watch event may arrive later. Without retries these pods would start
# with the wrong size.
_RETRY_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2)


class TargetLookup(Protocol):
    """Look-ups of selectors and owners, as in ``common.kube.targets.Targets``."""

    async def selector(self, vpa: VerticalPodAutoscaler) -> Selector:
        """Return the selector of the pods that the VPA's target controls; raise TargetError."""
        ...

    async def topmost(self, controller: Controller) -> Controller | None:
        """Return the topmost well-known or scalable controller; raise TargetError."""
        ...


class VpaMatcher:
    """Finds the VPA of a new pod in an index."""

    def __init__(self, vpas: VpaIndex, targets: TargetLookup) -> None:
        self._vpas = vpas
        self._targets = targets

    async def match(self, pod: ObjectMeta) -> VpaMatch:
        """Return the VPA that applies to the pod, whose ``namespace`` must be set.

        The oldest VPA that selects the pod wins. VPAs of mode Off are skipped first, so that they
        don't shadow active ones. So are VPAs whose selector can't be resolved.

        Raises:
            LookupFailedError: the pod's owners can't be looked up.
        """
        controller = controller_of(pod)
        if controller is None:
            return VpaMatch(reason=MatchReason.NO_CONTROLLER)
        if not self._vpas.has_any(pod.namespace):
            return VpaMatch(reason=MatchReason.NO_VPA_IN_NAMESPACE)
        top = await self._topmost(controller)
        if top is None:
            return VpaMatch(reason=MatchReason.NO_SCALABLE_OWNER)
        targeting = tuple(self._vpas.targeting(top.key))  # a copy: the index changes during await
        candidates = tuple([await self._candidate(vpa) for vpa in targeting])
        found = controlling(
            pod,
            top,
            [
                SelectedVpa(each.vpa, each.selector)
                for each in candidates
                if each.selector is not None
            ],
        )
        if found is not None:
            return VpaMatch(found.vpa, topmost=top, candidates=candidates)
        return VpaMatch(
            off=any(not can_control_pods(vpa) for vpa in targeting),
            reason=MatchReason.NONE_APPLIES if targeting else MatchReason.NOT_TARGETED,
            topmost=top,
            candidates=candidates,
        )

    async def _topmost(self, controller: Controller) -> Controller | None:
        for pause in _RETRY_PAUSES:
            try:
                return await self._targets.topmost(controller)
            except TargetError as error:
                if error.problem is OwnerProblem.NODE:
                    return None
                if error.problem is not OwnerProblem.MISSING:
                    raise LookupFailedError(str(error)) from error
            await asyncio.sleep(pause)
        try:
            return await self._targets.topmost(controller)
        except TargetError as error:
            raise LookupFailedError(str(error)) from error

    async def _candidate(self, vpa: VerticalPodAutoscaler) -> TargetingVpa:
        """Return a VPA with its selector. A VPA of mode Off doesn't need one."""
        if not can_control_pods(vpa):
            return TargetingVpa(vpa)
        try:
            return TargetingVpa(vpa, await self._targets.selector(vpa))
        except TargetError as error:
            named = {"namespace": vpa.metadata.namespace, "vpa": vpa.metadata.name}
            logger.debug("VPA without selector", extra=named | {"error": str(error)})
            return TargetingVpa(vpa, problem=str(error))


class CachedCluster:
    """The state of the cluster in watch caches. The caller runs the caches."""

    def __init__(self, client: KubeClient, *, namespace: str = "") -> None:
        """Create the caches for ``namespace``; empty means all namespaces."""
        index = VpaIndex()
        self._vpas = Cache(client, VPAS, namespace=namespace, on_change=index.apply)
        self._limit_ranges = Cache(client, LIMIT_RANGES, namespace=namespace)
        self._controllers = ControllerCaches.create(client, namespace=namespace, only_owners=True)
        self._synced = False
        self._matcher = VpaMatcher(index, Targets(client, self._controllers, ahead=True))

    @property
    def caches(self) -> tuple[Cache[Any], ...]:
        """Return all caches."""
        return (self._vpas, self._limit_ranges, *self._controllers.all())

    @property
    def synced(self) -> bool:
        if not self._synced:  # never becomes False again
            self._synced = all(cache.synced for cache in self.caches)
        return self._synced

    async def wait_synced(self) -> None:
        """Wait until every cache has listed its objects once."""
        for cache in self.caches:
            await cache.wait_synced()

    async def match(self, pod: ObjectMeta) -> VpaMatch:
        return await self._matcher.match(pod)

    def limit_ranges(self, namespace: str) -> Sequence[LimitRangeSpec]:
        return tuple(found.spec for found in self._limit_ranges.in_namespace(namespace))
