"""The bounds of VPAs by the ResourceQuotas of their namespaces, in each cycle."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from recommender.sources.informers import Informers
from recommender.sources.target_resolution import LoadedVpa

_SLICE = 500  # pods and VPAs before other tasks run
_NONE: tuple[QuotaBound, ...] = ()

Bounds = Mapping[VpaKey, tuple[QuotaBound, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The bounds in a namespace, and the objects that they were computed from."""

    sources: Sequence[object]
    bounds: Bounds

    def holds(self, sources: Sequence[object]) -> bool:
        return len(sources) == len(self.sources) and all(map(_is_same, sources, self.sources))


class QuotaLimits:
    """The bounds by ResourceQuotas; it computes those of namespaces in which something changed."""

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
        self._known: dict[str, _Known] = {}  # by namespace

    def of(self, key: VpaKey) -> tuple[QuotaBound, ...]:
        """Return the bounds of a VPA, as of the start of the cycle."""
        known = self._known.get(key.namespace)
        return _NONE if known is None else known.bounds.get(key, _NONE)

    async def begin_cycle(self, loaded: Mapping[VpaKey, LoadedVpa]) -> None:
        """Compute the bounds in all namespaces that have quotas; others cost nothing."""
        quotas = self._informers.quotas_by_namespace()
        before, self._known = self._known, {}
        if not quotas:
            return
        by_namespace: dict[str, list[VpaKey]] = {}
        for number, key in enumerate(loaded):
            if key.namespace in quotas:
                by_namespace.setdefault(key.namespace, []).append(key)
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        pods = self._informers.pods.snapshot.by_namespace()
        for namespace, keys in by_namespace.items():
            there = pods.get(namespace, {})
            controllers = [self._controller(loaded[key]) for key in keys]
            sources: list[object] = [quotas[namespace], there]
            for key, controller in zip(keys, controllers, strict=True):
                one = loaded[key]
                rules = self._usage.autoscalers[key].rules
                sources += [one.vpa, one.controlled_by, one.resolution.template, controller, rules]
            known = before.get(namespace)
            if known is None or not known.holds(sources):
                workloads = await self._workloads(there, loaded, keys, controllers)
                bounds = quota_bounds(quotas[namespace].values(), workloads)
                known = _Known(sources, _with_controlled(bounds, loaded, keys))
            self._known[namespace] = known
            await asyncio.sleep(0)

    async def _workloads(
        self,
        pods: Mapping[str, Pod],
        loaded: Mapping[VpaKey, LoadedVpa],
        keys: Sequence[VpaKey],
        controllers: Sequence[object],
    ) -> Mapping[VpaKey, QuotaWorkload]:
        matched = await self._matched(pods, loaded, keys)
        found: dict[VpaKey, QuotaWorkload] = {}
        for number, (key, controller) in enumerate(zip(keys, controllers, strict=True)):
            workload = None
            # The loader has logged an amount in the policy that can't be read.
            with (
                self._errors.around("quota", VPAS.kind, *key),
                contextlib.suppress(QuantityError),
            ):
                workload = quota_workload(
                    loaded[key],
                    matched[key],
                    pod_counts(controller),
                    rules=self._usage.autoscalers[key].rules,
                    settings=self._settings,
                    scales_sidecars=self._usage.sidecars.scaled,
                )
            if workload is not None:
                found[key] = workload
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        return found

    async def _matched(
        self, pods: Mapping[str, Pod], loaded: Mapping[VpaKey, LoadedVpa], keys: Sequence[VpaKey]
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
