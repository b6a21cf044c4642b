"""A pod as the updater keeps it: what it reads, and of equal parts only one."""

import sys
from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import structs
from msgspec.structs import force_setattr

from common.annotations import IN_PLACE_UPDATED, OBSERVED_CONTAINERS, STARTUP_BOOST_PREFIX
from common.api.base import Wire
from common.api.core import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodSpecWithSidecars,
    PodStatus,
)
from common.api.meta import ObjectMeta, OwnerReference
from common.api.sharing import Pool
from common.recommendation.scaled_containers import scaled_sidecars
from updater.evaluate.update_order import is_oom_kill

# The API server takes the manager's name from the User-Agent, up to the slash.
MANAGER = "vpa-updater"
# The name under which pending resizes are taken back: that is no resize of ours (D18).
WITHDRAWER = f"{MANAGER}-withdrawal"

_CONDITIONS = frozenset({"Ready", "PodResizePending", "PodResizeInProgress"})
_POOL = 1 << 16  # values of a kind; about as many as the largest clusters have workloads

_labels = Pool[Mapping[str, str]](_POOL)
_annotations = Pool[Mapping[str, str]](_POOL)
_owners = Pool[tuple[OwnerReference, ...]](_POOL)
# A pool compares content alone, and not types.
_specs = {kind: Pool[PodSpec](_POOL) for kind in (PodSpec, PodSpecWithSidecars)}
_statuses = Pool[tuple[ContainerStatus, ...]](_POOL)


class ManagedFieldsEntry(Wire, frozen=True, kw_only=True):
    """An entry of ``metadata.managedFields``, without the fields themselves."""

    manager: str = ""
    subresource: str = ""
    time: datetime | None = None


class LivePodMeta(ObjectMeta, frozen=True, kw_only=True):
    """``metadata`` with the managed fields, which no other process needs."""

    managed_fields: tuple[ManagedFieldsEntry, ...] | None = None


class LivePod(Pod, frozen=True, kw_only=True):
    """A pod as the updater's cache holds it: less than a tenth of what it would take as a whole.

    Of annotations, conditions and managed fields only those stay that are ours to read, and an
    empty map tells of other annotations. Replicas share what is equal in them; where that is the
    very same object as in an earlier state of a pod, nothing about it has changed.
    """

    metadata: LivePodMeta
    node_name: str = ""  # from the spec, where it would keep replicas from sharing theirs

    def __post_init__(self) -> None:
        force_setattr(self, "metadata", _kept_meta(self.metadata))
        if self.spec.node_name:
            force_setattr(self, "node_name", sys.intern(self.spec.node_name))
        spec = structs.replace(self.spec, node_name="")
        force_setattr(self, "spec", _specs[type(spec)].shared(spec))
        force_setattr(self, "status", _kept_status(self))


class LivePodWithSidecars(LivePod, frozen=True, kw_only=True):
    """The same where native sidecars are scaled, too (gate NativeSidecar)."""

    spec: PodSpecWithSidecars = PodSpecWithSidecars()


def _kept_meta(meta: LivePodMeta) -> LivePodMeta:
    labels, annotations, owners = meta.labels, meta.annotations, meta.owner_references
    if annotations is not None:
        ours = {name: value for name, value in annotations.items() if _is_read(name)}
        annotations = _annotations.shared(ours)
    resizes = tuple(entry for entry in meta.managed_fields or () if _is_resize(entry))
    return structs.replace(
        meta,
        namespace=sys.intern(meta.namespace),
        labels=None if labels is None else _labels.shared(labels),
        annotations=annotations,
        owner_references=None if owners is None else _owners.shared(owners),
        managed_fields=resizes or None,
    )


def _is_read(annotation: str) -> bool:
    return annotation in (OBSERVED_CONTAINERS, IN_PLACE_UPDATED) or annotation.startswith(
        STARTUP_BOOST_PREFIX
    )


def _is_resize(entry: ManagedFieldsEntry) -> bool:
    return entry.manager == MANAGER and entry.subresource == "resize" and entry.time is not None


def _kept_status(pod: Pod) -> PodStatus:
    status = pod.status
    conditions = tuple(
        structs.replace(each, type=sys.intern(each.type), status=sys.intern(each.status))
        for each in status.conditions or ()
        if each.type in _CONDITIONS
    )
    sidecars = {each.name for each in scaled_sidecars(pod.spec)}
    return PodStatus(
        phase=sys.intern(status.phase),
        qos_class=sys.intern(status.qos_class),
        start_time=status.start_time,
        conditions=conditions or None,
        container_statuses=_shared_statuses(status.container_statuses or ()),
        init_container_statuses=_shared_statuses(
            each for each in status.init_container_statuses or () if each.name in sidecars
        ),
    )


def _shared_statuses(given: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...] | None:
    statuses = tuple(_kept_container(each) for each in given)
    return _statuses.shared(statuses) if statuses else None


def _kept_container(status: ContainerStatus) -> ContainerStatus:
    ended = None if status.last_state is None else status.last_state.terminated
    now = None if status.state is None else status.state.terminated
    killed = now is not None and is_oom_kill(now)
    return ContainerStatus(
        name=status.name,
        state=ContainerState(terminated=now) if killed else None,
        last_state=None if ended is None else ContainerState(terminated=ended),
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )


def resized_at(pod: LivePod) -> datetime | None:
    """Return when we last resized the pod in place, as the API server remembers it.

    Source: updater.md 13, D18.
    """
    entries = pod.metadata.managed_fields
    if entries is None:
        return None
    return max((entry.time for entry in entries if entry.time is not None), default=None)
