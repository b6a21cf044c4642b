"""A pod as the recommender keeps it: what it reads, and of equal parts only one."""

import sys
from collections.abc import Mapping

from msgspec.structs import force_setattr

from common.api.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from common.api.meta import ObjectMeta
from common.api.sharing import Pool

_POOL = 1 << 16  # values of a kind; about as many as the largest clusters have workloads
_RUNNING = ContainerState(running=ContainerStateRunning())

_labels = Pool[Mapping[str, str]](_POOL)
_specs = Pool[PodSpec](_POOL)
_statuses = Pool[tuple[ContainerStatus, ...]](_POOL)


class FollowedPod(Pod, frozen=True, kw_only=True):
    """A pod as the recommender's cache holds it: a small part of what it would take as a whole.

    What is left is what usage is counted by, its labels and its containers, and what tells of OOM
    kills: requests, restarts and terminations. Replicas share what is equal in them.
    """

    def __post_init__(self) -> None:
        force_setattr(self, "metadata", _kept_meta(self.metadata))
        force_setattr(self, "spec", _specs.shared(_kept_spec(self.spec)))
        force_setattr(self, "status", _kept_status(self.status))


def _kept_meta(meta: ObjectMeta) -> ObjectMeta:
    labels = meta.labels
    return ObjectMeta(
        name=meta.name,
        namespace=sys.intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=None if labels is None else _labels.shared(labels),
    )


def _kept_spec(spec: PodSpec) -> PodSpec:
    containers = tuple(
        Container(name=each.name, resources=each.resources) for each in spec.containers
    )
    return PodSpec(containers=containers)


def _kept_status(status: PodStatus) -> PodStatus:
    statuses = tuple(_kept_container(each) for each in status.container_statuses or ())
    return PodStatus(
        phase=sys.intern(status.phase),
        container_statuses=_statuses.shared(statuses) if statuses else None,
    )


def _kept_container(status: ContainerStatus) -> ContainerStatus:
    return ContainerStatus(
        name=status.name,
        restart_count=status.restart_count,
        state=_kept_state(status.state),
        last_state=_kept_state(status.last_state),
        resources=status.resources,
    )


def _kept_state(state: ContainerState | None) -> ContainerState | None:
    """Since when a container runs nobody asks, and replicas would have nothing in common."""
    if state is None or (state.running is None and state.terminated is None):
        return None
    if state.terminated is None:
        return _RUNNING
    ended = state.terminated
    kept = ContainerStateTerminated(reason=ended.reason, finished_at=ended.finished_at)
    return ContainerState(running=state.running and ContainerStateRunning(), terminated=kept)
