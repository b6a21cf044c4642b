"""A pod in the recommender's cache: only the required fields, with shared parts."""

import sys
from collections.abc import Iterable, Mapping

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
    is_sidecar,
)
from common.api.intern_pool import InternPool
from common.api.meta import ObjectMeta
from common.api.scheduling import SchedulablePodSpec, SchedulablePodSpecWithSidecars
from common.recommendation.scaled_containers import scaled_sidecars
from common.scheduling.eligibility import ANYWHERE, SchedulingRules, rules_of
from common.scheduling.pod_claims import PodShape, is_only_regular, slim_spec

_POOL = 1 << 16  # values of a kind; about as many as the largest clusters have workloads
_NODE = "Node"  # the kind of the owner of static pods
_RUNNING = ContainerState(running=ContainerStateRunning())

_labels = InternPool[Mapping[str, str]](_POOL)
# A pool compares only the contents, not the types.
_KINDS = (SchedulablePodSpec, SchedulablePodSpecWithSidecars)
_specs = {kind: InternPool[SchedulablePodSpec](_POOL) for kind in _KINDS}
_whole_specs = InternPool[PodSpec](_POOL)
rules_pool = InternPool[SchedulingRules](_POOL)
_statuses = InternPool[tuple[ContainerStatus, ...]](_POOL)


class CachedPod(Pod, frozen=True, kw_only=True):
    """A pod in the recommender's cache, which needs a fraction of the memory of a whole pod.

    It keeps the labels and containers for aggregation, requests, restarts and terminations for the
    detection of OOM kills, and what decides on which nodes the pod fits and which quotas count it.
    Replicas share equal parts.
    """

    spec: SchedulablePodSpec = SchedulablePodSpec()
    # Moved from the spec: most pods have few distinct ones, and the same containers in both specs.
    rules: SchedulingRules = ANYWHERE
    whole_spec: PodSpec = PodSpec()  # with plain init containers, pod-level resources, overhead
    static_on: str = ""  # the node of a static pod; empty for all others

    def __post_init__(self) -> None:
        if any(each.kind == _NODE for each in self.metadata.owner_references or ()):
            force_setattr(self, "static_on", sys.intern(self.spec.node_name))
        force_setattr(self, "metadata", _kept_meta(self.metadata))
        given = self.spec
        kept = _kept_spec(given)
        spec = _specs[type(kept)].shared(kept)
        whole = spec if is_only_regular(given) else _whole_specs.shared(slim_spec(given))
        force_setattr(self, "spec", spec)
        force_setattr(self, "rules", rules_pool.shared(rules_of(given)))
        force_setattr(self, "whole_spec", whole)
        force_setattr(self, "status", _kept_status(self))

    @property
    def shape(self) -> PodShape:
        """Return what decides on which nodes the pod fits."""
        return PodShape(self.rules, self.whole_spec)


class CachedPodWithSidecars(CachedPod, frozen=True, kw_only=True):
    """The same if native sidecars are tracked, too (gate NativeSidecar)."""

    spec: SchedulablePodSpecWithSidecars = SchedulablePodSpecWithSidecars()


def _kept_meta(meta: ObjectMeta) -> ObjectMeta:
    labels = meta.labels
    return ObjectMeta(
        name=meta.name,
        namespace=sys.intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
        labels=None if labels is None else _labels.shared(labels),
    )


def _kept_spec(spec: SchedulablePodSpec) -> SchedulablePodSpec:
    """Keep the scaled containers, the names of other native sidecars, and facts for quotas."""
    containers = tuple(
        Container(name=each.name, resources=each.resources) for each in spec.containers
    )
    sidecars = tuple(
        Container(
            name=each.name,
            resources=each.resources if spec.scales_sidecars else None,
            restart_policy=each.restart_policy,
        )
        for each in spec.init_containers or ()
        if is_sidecar(each)
    )
    return type(spec)(
        containers=containers,
        init_containers=sidecars or None,
        priority_class_name=spec.priority_class_name,
        active_deadline_seconds=spec.active_deadline_seconds,
    )


def _kept_status(pod: Pod) -> PodStatus:
    status = pod.status
    sidecars = {each.name for each in scaled_sidecars(pod.spec)}
    return PodStatus(
        phase=sys.intern(status.phase),
        container_statuses=_shared_statuses(status.container_statuses or ()),
        init_container_statuses=_shared_statuses(
            each for each in status.init_container_statuses or () if each.name in sidecars
        ),
    )


def _shared_statuses(given: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...] | None:
    statuses = tuple(_kept_container(each) for each in given)
    return _statuses.shared(statuses) if statuses else None


def _kept_container(status: ContainerStatus) -> ContainerStatus:
    return ContainerStatus(
        name=status.name,
        restart_count=status.restart_count,
        state=_kept_state(status.state),
        last_state=_kept_state(status.last_state),
        resources=status.resources,
    )


def _kept_state(state: ContainerState | None) -> ContainerState | None:
    """Drop the start time of a running container, which differs between replicas."""
    if state is None or (state.running is None and state.terminated is None):
        return None
    if state.terminated is None:
        return _RUNNING
    ended = state.terminated
    kept = ContainerStateTerminated(reason=ended.reason, finished_at=ended.finished_at)
    return ContainerState(running=state.running and ContainerStateRunning(), terminated=kept)
