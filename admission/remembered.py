"""Patches that need not be computed again: pods come in bursts of the same template.

A patch is a function of the pod's containers, status and annotations, of its VPA and of the
LimitRanges of its namespace. A roll-out asks the same question once for each pod, until the
recommender writes the VPA again.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from admission.pods import admit_pod
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.features import FeatureGates
from common.patches import Operation
from common.quantity import Quantity

_LARGEST_SHAPE: Final = 16 * 1024  # bytes of one pod's
_BUDGET: Final = 8 * 1024 * 1024  # bytes of all
_OVERHEAD: Final = 3 * 1024  # bytes that a patch takes beside its pod's shape, about

_encoder = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A patch, and the very objects that it was computed from."""

    vpa: VerticalPodAutoscaler
    limit_ranges: tuple[LimitRangeSpec, ...]
    patches: tuple[Operation, ...]
    size: int  # bytes


class PatchMemory:
    """Computes patches, and remembers a few thousand of them; features and bounds are fixed.

    Objects in caches never change, they are replaced: an answer is good as long as the VPA is the
    same object and the LimitRanges are equal. What was used last is kept longest, in 8 MiB.
    """

    def __init__(self, *, features: FeatureGates, most_boost: Quantity) -> None:
        self._features = features
        self._most_boost = most_boost
        self._known: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._known)

    def admit(
        self, pod: Pod, vpa: VerticalPodAutoscaler, limit_ranges: Sequence[LimitRangeSpec]
    ) -> tuple[Operation, ...]:
        """What :func:`admission.pods.admit_pod` says, with its errors, which are not remembered."""
        ranges = tuple(limit_ranges)
        key = _shape(pod, vpa)
        known = self._known.get(key)
        if known is not None and known.vpa is vpa and known.limit_ranges == ranges:
            self._known.move_to_end(key)
            return known.patches
        patches = admit_pod(pod, vpa, ranges, features=self._features, most_boost=self._most_boost)
        if key and len(key) <= _LARGEST_SHAPE:
            self._remember(key, _Remembered(vpa, ranges, patches, len(key) + _OVERHEAD))
        return patches

    def _remember(self, key: bytes, new: _Remembered) -> None:
        old = self._known.pop(key, None)
        self._size += new.size - (old.size if old is not None else 0)
        self._known[key] = new
        while self._size > _BUDGET:
            _, dropped = self._known.popitem(last=False)
            self._size -= dropped.size


def _shape(pod: Pod, vpa: VerticalPodAutoscaler) -> bytes:
    """What the patch depends on; empty if the pod has numbers beyond what can be encoded."""
    meta = vpa.metadata
    try:
        return _encoder.encode(
            (meta.namespace, meta.name, pod.metadata.annotations, pod.spec, pod.status)
        )
    except OverflowError:  # a request of thirty digits without quotes is a quantity, too
        return b""
