"""A cache of patches for pods of the same template.

A patch is a function of the pod's spec, status and annotations, of its VPA and of the LimitRanges
of its namespace. A rollout creates many equal pods before the recommender updates the VPA.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from admission.pod_patch import PodPatch, pod_patch
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.features import FeatureGates
from common.quantity import Quantity
from common.recommendation.pod_level import PodLevelMode

_LARGEST_KEY: Final = 16 * 1024  # bytes of pod and LimitRanges; patches of more are not cached
_BUDGET: Final = 8 * 1024 * 1024  # bytes of all entries
_OVERHEAD: Final = 1024  # approximate bytes of an entry besides key and patch
_OPERATION: Final = 300  # approximate bytes of one operation of a patch

_encoder = msgspec.msgpack.Encoder()


class PatchCache:
    """A cache that computes missing patches, of at most 8 MiB, with least-recently-used eviction.

    Its keys contain the VPA's resource version instead of the VPA, which can be many MiB large.
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
        self._patches: OrderedDict[bytes, PodPatch] = OrderedDict()
        self._size = 0  # bytes

    def __len__(self) -> int:
        return len(self._patches)

    def admit(
        self, pod: Pod, vpa: VerticalPodAutoscaler, limit_ranges: Sequence[LimitRangeSpec]
    ) -> PodPatch:
        """Return the patch of :func:`~admission.pod_patch.pod_patch`; errors are not cached."""
        key = _key(pod, vpa, limit_ranges)
        cached = self._patches.get(key)
        if cached is not None:
            self._patches.move_to_end(key)
            return cached
        patch = pod_patch(
            pod,
            vpa,
            limit_ranges,
            features=self._features,
            most_boost=self._most_boost,
            pod_level=self._pod_level,
        )
        if 0 < len(key) <= _LARGEST_KEY:
            self._patches[key] = patch
            self._size += _size(key, patch)
            while self._size > _BUDGET:
                self._size -= _size(*self._patches.popitem(last=False))
        return patch


def _key(pod: Pod, vpa: VerticalPodAutoscaler, limit_ranges: Sequence[LimitRangeSpec]) -> bytes:
    """Return the input of a patch; empty if it can't be encoded, or the VPA has no version."""
    meta = vpa.metadata
    if not meta.resource_version:
        return b""
    place = (meta.namespace, meta.name, meta.resource_version)
    try:
        return _encoder.encode(
            (place, limit_ranges, pod.metadata.annotations, pod.spec, pod.status)
        )
    except OverflowError:  # a number of thirty digits is a valid quantity
        return b""


def _size(key: bytes, patch: PodPatch) -> int:
    return len(key) + len(patch.operations) * _OPERATION + _OVERHEAD
