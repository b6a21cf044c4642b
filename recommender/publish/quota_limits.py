"""The bounds of VPAs by the ResourceQuotas of their namespaces, in each cycle."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from common.api.core import Pod
from common.kube.endpoints import VPAS
from common.quantity import QuantityError
from common.runtime.object_errors import ObjectErrors
from common.target.owners import Controller
from common.target.pod_counts import pod_counts
from recommender.estimate.quota_bounds import QuotaBound, QuotaWorkload, quota_bounds
from recommender.model.keys import PodKey, VpaKey
from recommender.model.usage import Usage
from recommender.publish.quota_workloads import quota_workload
from recommender.publish.status_decision import PublishingSettings
from recommender.sources.cached_pod import CachedPod
from recommender.sources.conversion import vpa_key
from recommender.sources.informers import Informers
from recommender.sources.target_resolution import LoadedVpa

T = TypeVar("T")

_SLICE = 1000  # pods that are matched before other tasks run
_COMPUTED = 20  # workloads that are computed before other tasks run
_NONE: tuple[QuotaBound, ...] = ()

Bounds = Mapping[VpaKey, tuple[QuotaBound, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class _Computed(Generic[T]):
    """A result, and the objects that it was computed from."""

    sources: Sequence[object]
    result: T

    def holds(self, sources: Sequence[object]) -> bool:
        """Return True if the sources are the same; objects of caches are replaced, not changed."""
        return len(sources) == len(self.sources) and all(map(_is_same, sources, self.sources))


class QuotaLimits:
    """The bounds by ResourceQuotas.

    In namespaces with quotas, a cycle computes only what depends on a changed object.
    """

    def __init__(
        self,
        informers: Informers,
        usage: Usage,
        *,
        settings: PublishingSettings,
        errors: ObjectErrors,
    ) -> None:
        self._informers = informers
        self._usage = usage
        self._settings = settings
        self._errors = errors
        self._known: dict[str, _Computed[Bounds]] = {}  # by namespace
        self._workloads: dict[VpaKey, _Computed[QuotaWorkload | None]] = {}

    def of(self, key: VpaKey) -> tuple[QuotaBound, ...]:
        """Return the bounds of a VPA, as of the start of the cycle."""
        known = self._known.get(key.namespace)
        return _NONE if known is None else known.result.get(key, _NONE)

    async def begin_cycle(self, loaded: Mapping[VpaKey, LoadedVpa]) -> None:
        """Compute the bounds in all namespaces that have quotas; others cost nothing."""
        quotas = self._informers.quotas_by_namespace()
        before, self._known = self._known, {}
        by_namespace: dict[str, list[VpaKey]] = {}
        for key in loaded if quotas else ():
            if key.namespace in quotas:
                by_namespace.setdefault(key.namespace, []).append(key)
        for key in list(self._workloads):
            if key not in loaded or key.namespace not in by_namespace:
                del self._workloads[key]
        pods = self._informers.pods.snapshot.by_namespace()
        for namespace, keys in by_namespace.items():
            there = pods.get(namespace, {})
            own = {key: self._sources(loaded[key]) for key in keys}
            sources = [quotas[namespace], there, *chain.from_iterable(own.values())]
            known = before.get(namespace)
            if known is None or not known.holds(sources):
                workloads = await self._current_workloads(there, loaded, own)
                bounds = quota_bounds(quotas[namespace].values(), workloads)
                known = _Computed(sources, _with_controlled(bounds, loaded, keys))
            self._known[namespace] = known
            await asyncio.sleep(0)

    def _sources(self, loaded: LoadedVpa) -> tuple[object, ...]:
        """Return the objects, besides pods, that a VPA's workload is computed from."""
        rules = self._usage.autoscalers[vpa_key(loaded.vpa)].rules
        template, controller = loaded.resolution.template, self._controller(loaded)
        return loaded.vpa, loaded.controlled_by, template, controller, rules

    async def _current_workloads(
        self,
        pods: Mapping[str, Pod],
        loaded: Mapping[VpaKey, LoadedVpa],
        own: Mapping[VpaKey, Sequence[object]],
    ) -> Mapping[VpaKey, QuotaWorkload]:
        """Return the workloads of a namespace, of which only changed ones are computed."""
        matched = await self._matched(pods, loaded, own.keys())
        found: dict[VpaKey, QuotaWorkload] = {}
        computed = 0
        for key, mine in matched.items():
            sources, known = (*own[key], *mine), self._workloads.get(key)
            if known is None or not known.holds(sources):
                known = _Computed(sources, self._workload(loaded[key], mine))
                self._workloads[key] = known
                computed += 1
                if computed % _COMPUTED == 0:
                    await asyncio.sleep(0)
            if known.result is not None:
                found[key] = known.result
        return found

    def _workload(self, loaded: LoadedVpa, pods: Sequence[CachedPod]) -> QuotaWorkload | None:
        key = vpa_key(loaded.vpa)
        # The loader has logged an amount in the policy that can't be read.
        with self._errors.around("quota", VPAS.kind, *key), contextlib.suppress(QuantityError):
            return quota_workload(
                loaded,
                pods,
                pod_counts(self._controller(loaded)),
                rules=self._usage.autoscalers[key].rules,
                settings=self._settings,
                scales_sidecars=self._usage.sidecars.scaled,
            )
        return None

    async def _matched(
        self, pods: Mapping[str, Pod], loaded: Mapping[VpaKey, LoadedVpa], keys: Iterable[VpaKey]
    ) -> Mapping[VpaKey, Sequence[CachedPod]]:
        """Return the pods of a namespace by VPA.

        No pod counts twice. If several VPAs match it, it counts for the first by name of those that
        no other VPA controls.
        """
        found: dict[VpaKey, list[CachedPod]] = {key: [] for key in keys}
        for number, (name, pod) in enumerate(pods.items()):
            tracked = self._usage.pods.get(PodKey(pod.metadata.namespace, name))
            if tracked is not None and isinstance(pod, CachedPod):
                candidates = tracked.label_set.autoscalers & found.keys()
                if candidates:
                    owner = min(
                        candidates, key=lambda each: (bool(loaded[each].controlled_by), each)
                    )
                    found[owner].append(pod)
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        return found

    def _controller(self, loaded: LoadedVpa) -> object:
        ref, namespace = loaded.vpa.spec.target_ref, loaded.vpa.metadata.namespace
        if ref is None:
            return None
        return self._informers.targets.controller(
            Controller(namespace, ref.kind, ref.name, ref.api_version)
        )


def _with_controlled(
    bounds: Mapping[VpaKey, tuple[QuotaBound, ...]],
    loaded: Mapping[VpaKey, LoadedVpa],
    keys: Sequence[VpaKey],
) -> Bounds:
    """Return the bounds, with those of the VPA that controls the same pods where one does."""
    found = dict(bounds)
    for key in keys:
        by = loaded[key].controlled_by
        if by and VpaKey(key.namespace, by) in bounds:
            found[key] = bounds[VpaKey(key.namespace, by)]
    return found


def _is_same(one: object, other: object) -> bool:
    """Return True for the same object; equal texts and rules are the same, too."""
    return one is other or (isinstance(one, str | tuple) and one == other)
