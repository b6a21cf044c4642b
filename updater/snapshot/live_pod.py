"""Pods in the updater's cache: only the parts that it reads; equal parts are shared."""

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
    PodStatus,
)
from common.api.intern_pool import InternPool
from common.api.meta import ObjectMeta, OwnerReference
from common.api.scheduling import SchedulablePodSpec, SchedulablePodSpecWithSidecars
from common.recommendation.scaled_containers import scaled_sidecars
from common.scheduling.eligibility import ANYWHERE, SchedulingRules, rules_of
from updater.evaluate.quick_oom_kills import is_oom_kill

# The API server takes the manager's name from the User-Agent, up to the slash.
MANAGER = "vpa-updater"
# The manager that withdraws pending resizes, which don't count as resizes (D18).
WITHDRAWER = f"{MANAGER}-withdrawal"

_CONDITIONS = frozenset({"Ready", "PodResizePending", "PodResizeInProgress"})
_POOL = 1 << 16  # values per pool; about the number of workloads in the largest clusters

_labels = InternPool[Mapping[str, str]](_POOL)
_annotations = InternPool[Mapping[str, str]](_POOL)
_owners = InternPool[tuple[OwnerReference, ...]](_POOL)
# A pool compares content alone, and not types.
_KINDS = (SchedulablePodSpec, SchedulablePodSpecWithSidecars)
_specs = {kind: InternPool[SchedulablePodSpec](_POOL) for kind in _KINDS}
_rules = InternPool[SchedulingRules](_POOL)
_statuses = InternPool[tuple[ContainerStatus, ...]](_POOL)


class ManagedFieldsEntry(Wire, frozen=True, kw_only=True):
    """An entry of ``metadata.managedFields``, without the fields themselves."""

    manager: str = ""
    subresource: str = ""
    time: datetime | None = None


class LivePodMeta(ObjectMeta, frozen=True, kw_only=True):
    """``metadata`` with the managed fields, which only the updater needs."""

    managed_fields: tuple[ManagedFieldsEntry, ...] | None = None


class LivePod(Pod, frozen=True, kw_only=True):
    """A pod in the updater's cache, in less than a tenth of the memory of a whole pod.

    Annotations, conditions and managed fields that the updater doesn't read are dropped; a pod
    with only other annotations keeps an empty map. Replicas share equal parts. A part that is the
    same object as before hasn't changed.
    """

    metadata: LivePodMeta
    spec: SchedulablePodSpec = SchedulablePodSpec()
    # Moved from the spec, so that replicas share specs.
    node_name: str = ""
    rules: SchedulingRules = ANYWHERE

    def __post_init__(self) -> None:
        force_setattr(self, "metadata", _kept_meta(self.metadata))
        if self.spec.node_name:
            force_setattr(self, "node_name", sys.intern(self.spec.node_name))
        force_setattr(self, "rules", _rules.shared(rules_of(self.spec)))
        spec = structs.replace(
            self.spec,
            node_name="",
            node_selector=None,
            affinity=None,
            tolerations=None,
        )
        force_setattr(self, "spec", _specs[type(spec)].shared(spec))
        force_setattr(self, "status", _kept_status(self))


class LivePodWithSidecars(LivePod, frozen=True, kw_only=True):
    """A pod whose native sidecars are scaled too (gate NativeSidecar)."""

    spec: SchedulablePodSpecWithSidecars = SchedulablePodSpecWithSidecars()


def _kept_meta(meta: LivePodMeta) -> LivePodMeta:
    labels, annotations, owners = meta.labels, meta.annotations, meta.owner_references
    if annotations is not None:
        kept = {name: value for name, value in annotations.items() if _is_read(name)}
        annotations = _annotations.shared(kept)
    resizes = tuple(
        entry
        for entry in meta.managed_fields or ()
        if entry.manager == MANAGER and entry.subresource == "resize" and entry.time is not None
    )
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
    """Return the time of the updater's last resize of the pod, by its managed fields.

    Source: updater.md 13, D18.
    """
    entries = pod.metadata.managed_fields
    if entries is None:
        return None
    return max((entry.time for entry in entries if entry.time is not None), default=None)
