"""A cache of patches: pods come in bursts of the same template.

A patch is a function of the pod's containers, status and annotations, of its VPA and of the
LimitRanges of its namespace. A rollout creates many equal pods before the
recommender writes the VPA again.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from admission.pod_patch import PodPatch, pod_patch
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.features import FeatureGates
from common.quantity import Quantity
from common.recommendation.pod_level import PodLevelMode

_LARGEST_SHAPE: Final = 16 * 1024  # bytes of one pod's
_BUDGET: Final = 8 * 1024 * 1024  # bytes of all
_OVERHEAD: Final = 1024  # bytes that an entry takes beside shape and patch, about
_OPERATION: Final = 300  # bytes that an operation of a patch takes, about

_encoder = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class _CachedPatch:
    """A patch, and the LimitRanges that it was computed from."""

    vpa: "_CachedVpa"
    limit_ranges: tuple[LimitRangeSpec, ...]
    patch: PodPatch
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class _CachedVpa:
    """A VPA at its last use, and the shapes of pods that are kept for it."""

    vpa: VerticalPodAutoscaler
    shapes: set[bytes] = field(default_factory=set)


class PatchCache:
    """Computes patches, and keeps a few thousand of them; features and bounds are fixed.

    Objects in watch caches never change, they are replaced: a patch is good while the VPA is the
    same object and the LimitRanges are equal. What was used last is kept longest, in 8 MiB; a VPA
    that was written again is dropped with all its patches, for it may be of many MiB itself.
    """

    def __init__(
        self,
        *,
        features: FeatureGates,
        most_boost: Quantity,
        pod_level: PodLevelMode = PodLevelMode.KEEP,
    ) -> None:
        self._features = features
        self._most_boost = most_boost
        self._pod_level = pod_level
        self._known: OrderedDict[bytes, _CachedPatch] = OrderedDict()  # by shape
        self._vpas: dict[tuple[str, str], _CachedVpa] = {}  # by namespace and name
        self._size = 0

    def __len__(self) -> int:
        return len(self._known)

    def admit(
        self, pod: Pod, vpa: VerticalPodAutoscaler, limit_ranges: Sequence[LimitRangeSpec]
    ) -> PodPatch:
        """Return what :func:`~admission.pod_patch.pod_patch` does; its errors are not kept."""
        ranges = tuple(limit_ranges)
        key = _shape(pod, vpa)
        known = self._known.get(key)
        if known is not None and known.vpa.vpa is vpa and known.limit_ranges == ranges:
            self._known.move_to_end(key)
            return known.patch
        patch = pod_patch(
            pod,
            vpa,
            ranges,
            features=self._features,
            most_boost=self._most_boost,
            pod_level=self._pod_level,
        )
        if key and len(key) <= _LARGEST_SHAPE:
            size = len(key) + len(patch.operations) * _OPERATION + _OVERHEAD
            self._put(key, _CachedPatch(self._written(vpa), ranges, patch, size))
        return patch

    def _written(self, vpa: VerticalPodAutoscaler) -> _CachedVpa:
        name = (vpa.metadata.namespace, vpa.metadata.name)
        there = self._vpas.get(name)
        if there is None or there.vpa is not vpa:
            for shape in tuple(there.shapes) if there is not None else ():
                self._drop(shape)
            there = self._vpas[name] = _CachedVpa(vpa)
        return there

    def _put(self, key: bytes, new: _CachedPatch) -> None:
        new.vpa.shapes.add(key)
        self._size += new.size - (self._known[key].size if key in self._known else 0)
        self._known[key] = new
        self._known.move_to_end(key)
        while self._size > _BUDGET:
            self._drop(next(iter(self._known)))

    def _drop(self, key: bytes) -> None:
        dropped = self._known.pop(key)
        self._size -= dropped.size
        shapes, meta = dropped.vpa.shapes, dropped.vpa.vpa.metadata
        shapes.remove(key)
        if not shapes:
            del self._vpas[meta.namespace, meta.name]


def _shape(pod: Pod, vpa: VerticalPodAutoscaler) -> bytes:
    """Return what the patch depends on; empty if the pod has numbers beyond what can be encoded."""
    meta = vpa.metadata
    try:
        return _encoder.encode(
            (meta.namespace, meta.name, pod.metadata.annotations, pod.spec, pod.status)
        )
    except OverflowError:  # a request of thirty digits without quotes is a quantity, too
        return b""
