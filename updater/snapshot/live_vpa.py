"""VPAs in the updater's cache: the parts that it reads, and the last write of the update policy."""

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import force_setattr, replace

from common.api.autoscaling import (
    ContainerRecommendation,
    RecommendedPodResources,
    ResourcePolicy,
    TargetReference,
    UpdatePolicy,
    VerticalPodAutoscaler,
    VpaCondition,
    VpaSpec,
    VpaStatus,
)
from common.api.base import Time
from common.api.intern_pool import InternPool
from common.api.meta import ObjectMeta

_RECOMMENDED = "RecommendationProvided"
_POOL = 1 << 14  # policies per pool; most VPAs share theirs with others

_update_policies = InternPool[UpdatePolicy](_POOL)
_resource_policies = InternPool[ResourcePolicy](_POOL)


class LiveVpaMeta(ObjectMeta, frozen=True, kw_only=True):
    """``metadata`` with the time of the last policy write from the managed fields.

    Decoding drops the entries themselves. Malformed ones never fail the VPA, because other
    clients write them.
    """

    managed_fields: Any = None  # decoded JSON at first, then the time or None

    def __post_init__(self) -> None:
        force_setattr(self, "managed_fields", _last_policy_write(self.managed_fields))


class LiveVpa(VerticalPodAutoscaler, frozen=True, kw_only=True):
    """A VPA in the updater's cache, in half of the memory of a whole VPA.

    Labels, annotations, owners, uncapped targets, and conditions except RecommendationProvided
    are dropped. VPAs share equal parts.
    """

    metadata: LiveVpaMeta

    def __post_init__(self) -> None:
        force_setattr(self, "metadata", _kept_meta(self.metadata))
        force_setattr(self, "spec", _kept_spec(self.spec))
        force_setattr(self, "status", _kept_status(self.status))


def _kept_meta(meta: LiveVpaMeta) -> LiveVpaMeta:
    return LiveVpaMeta(
        name=meta.name,
        namespace=sys.intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        creation_timestamp=meta.creation_timestamp,
        managed_fields=meta.managed_fields,
    )


def _kept_spec(spec: VpaSpec) -> VpaSpec:
    target, update, resources = spec.target_ref, spec.update_policy, spec.resource_policy
    return replace(
        spec,
        target_ref=None if target is None else _kept_target(target),
        update_policy=None if update is None else _update_policies.shared(update),
        resource_policy=None if resources is None else _resource_policies.shared(resources),
    )


def _kept_target(target: TargetReference) -> TargetReference:
    return TargetReference(
        api_version=sys.intern(target.api_version),
        kind=sys.intern(target.kind),
        name=target.name,
    )


def _kept_status(status: VpaStatus) -> VpaStatus:
    conditions = tuple(
        VpaCondition(
            type=_RECOMMENDED,
            status=sys.intern(each.status),
            last_transition_time=each.last_transition_time,
        )
        for each in status.conditions or ()
        if each.type == _RECOMMENDED
    )
    recommended = status.recommendation
    return VpaStatus(
        recommendation=None if recommended is None else _kept_recommendation(recommended),
        conditions=conditions or None,
    )


def _kept_recommendation(recommended: RecommendedPodResources) -> RecommendedPodResources:
    containers = recommended.container_recommendations
    if containers is None:
        return recommended
    kept = tuple(
        ContainerRecommendation(
            container_name=sys.intern(each.container_name),
            target=each.target,
            lower_bound=each.lower_bound,
            upper_bound=each.upper_bound,
        )
        for each in containers
    )
    return RecommendedPodResources(container_recommendations=kept)


def policy_written_at(vpa: VerticalPodAutoscaler) -> datetime | None:
    """Return the time of the last write to ``spec.updatePolicy``; None: none, or unknown."""
    found = vpa.metadata.managed_fields if isinstance(vpa.metadata, LiveVpaMeta) else None
    return found if isinstance(found, datetime) else None


def recommended_since(vpa: VerticalPodAutoscaler) -> datetime | None:
    """Return when RecommendationProvided became True; None: it isn't True, or has no time."""
    for condition in vpa.status.conditions or ():
        if condition.type == _RECOMMENDED and condition.status == "True":
            at = condition.last_transition_time
            return at if isinstance(at, datetime) else None
    return None


def in_force_since(vpa: VerticalPodAutoscaler) -> datetime | None:
    """Return the time since which new pods should have the recommendation; None: unknown.

    It is the later of the first recommendation and the last write of the update policy.
    """
    recommended, written = recommended_since(vpa), policy_written_at(vpa)
    return None if recommended is None or written is None else max(recommended, written)


def _last_policy_write(raw: object) -> datetime | None:
    if isinstance(raw, datetime):  # a copy of what was decoded before
        return raw
    times = list(_policy_writes(raw))
    # A write without a time may be the last one.
    return None if None in times else max((time for time in times if time), default=None)


def _policy_writes(raw: object) -> Iterator[datetime | None]:
    """Yield the times of the entries that own a field of ``spec.updatePolicy``; None: unreadable.

    Source: kubernetes.io/docs/reference/using-api/server-side-apply; an entry's time moves when
    its manager changes the value of a field that it owns.
    """
    for entry in raw if isinstance(raw, list | tuple) else ():
        if not isinstance(entry, dict):
            continue
        fields = entry.get("fieldsV1")
        spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(spec, dict) and "f:updatePolicy" in spec:
            try:
                yield msgspec.convert(entry.get("time"), Time)
            except msgspec.ValidationError:
                yield None
