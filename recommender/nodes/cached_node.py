"""Nodes in the recommender's cache: labels, lasting taints, and the room of an empty node."""

import sys
from collections.abc import Mapping

from msgspec.structs import force_setattr

from common.api.base import QuantityJson, Wire
from common.api.intern_pool import InternPool
from common.api.meta import ObjectMeta
from common.api.scheduling import Taint
from common.quantity import QuantityError
from common.scheduling.eligibility import NodeTraits
from common.scheduling.room import Room, room_on

_POOL = 1 << 12  # values of a kind; far more than there are kinds of nodes
_STEP = 16 << 20  # bytes
_COUNTED = ("cpu", "memory", "pods")

_keys = InternPool[tuple[str, ...]](_POOL)
_taints = InternPool[tuple[Taint, ...]](_POOL)
_rooms = InternPool[Room](_POOL)


_LEAVING = (
    "node.kubernetes.io/unschedulable",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",  # before Karpenter 1.0
    "ToBeDeletedByClusterAutoscaler",
)
"""Taints of nodes that take no new pods, because they are about to be drained or deleted."""


class CachedNodeSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a node: its taints."""

    taints: tuple[Taint, ...] | None = None
    unschedulable: bool = False


class CachedNodeStatus(Wire, frozen=True, kw_only=True):
    """The part of ``status`` that limits the requests of pods."""

    allocatable: Mapping[str, QuantityJson] | None = None


class CachedNode(Wire, frozen=True, kw_only=True):
    """A node, in about a kilobyte.

    Taints of its present state are dropped: a node that isn't ready exists. Nodes of one type
    differ in a few KiB of memory, so the room is rounded down to 16 MiB.
    """

    metadata: ObjectMeta
    spec: CachedNodeSpec = CachedNodeSpec()
    status: CachedNodeStatus = CachedNodeStatus()
    # Moved from the fields above; nodes share keys, and most values.
    label_keys: tuple[str, ...] = ()
    label_values: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    is_leaving: bool = False  # cordoned, or about to be deleted
    room: Room | None = None  # None: its allocatable can't be read

    def __post_init__(self) -> None:
        meta = self.metadata
        labels = sorted((meta.labels or {}).items())
        traits = NodeTraits(taints=self.spec.taints or ()).without_transient_taints()
        leaves = any(each.key in _LEAVING for each in self.spec.taints or ())
        kept = ObjectMeta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version)
        force_setattr(self, "metadata", kept)
        force_setattr(self, "label_keys", _keys.shared(tuple(key for key, _ in labels)))
        force_setattr(self, "label_values", tuple(sys.intern(value) for _, value in labels))
        force_setattr(self, "taints", _taints.shared(traits.taints))
        force_setattr(self, "is_leaving", leaves or self.spec.unschedulable)
        force_setattr(self, "room", _rounded_room(self.status.allocatable))
        force_setattr(self, "spec", _NO_SPEC)
        force_setattr(self, "status", _NO_STATUS)

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels."""
        return dict(zip(self.label_keys, self.label_values, strict=True))


_NO_SPEC = CachedNodeSpec()
_NO_STATUS = CachedNodeStatus()


def _rounded_room(allocatable: Mapping[str, QuantityJson] | None) -> Room | None:
    counted = {name: each for name, each in (allocatable or {}).items() if name in _COUNTED}
    try:
        room = room_on(counted)
    except QuantityError:
        return None
    return _rooms.shared(Room(room.cpu, room.memory // _STEP * _STEP, room.pods))
