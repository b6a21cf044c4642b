"""The VPAs of namespaces with the label ``vpa.autoscaling/enable``: to create, update or delete."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from common.api.autoscaling import UpdatePolicy, VerticalPodAutoscaler
from common.api.horizontal_autoscaling import HorizontalPodAutoscaler
from common.target.controlling import precedence, target_key
from common.target.owners import TargetKey
from common.vpa_creation.new_vpas import (
    CREATED_BY,
    Candidate,
    Creator,
    NewVpa,
    beside_hpas,
    new_vpas,
)
from common.vpa_creation.policy import CreationPolicy

KEPT_FOR = timedelta(days=1)
"""A VPA, and with it the history of its containers, outlives its workload by this time."""

VpaName: TypeAlias = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledNamespaces:
    """The namespaces with the label; in a namespace of ``unchanged`` nothing is done."""

    policies: Mapping[str, CreationPolicy]
    unchanged: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedVpa:
    """A VPA whose mode, minimum of replicas or resource policy differs from the policy."""

    vpa: VerticalPodAutoscaler
    policy: CreationPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedVpa:
    """A VPA to delete, and the reason in words."""

    vpa: VerticalPodAutoscaler
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The writes that are due."""

    create: Sequence[NewVpa] = ()
    update: Sequence[UpdatedVpa] = ()
    delete: Sequence[DeletedVpa] = ()
    absent: Mapping[VpaName, datetime]  # VPAs whose workload doesn't exist, and since when


def is_managed(vpa: VerticalPodAutoscaler) -> bool:
    """Return True if the VPA was created because of a namespace's label, and still has the mark."""
    return (vpa.metadata.labels or {}).get(CREATED_BY) == Creator.NAMESPACE_LABEL


def reconcile(
    namespaces: EnabledNamespaces,
    candidates: Iterable[Candidate],
    vpas: Iterable[VerticalPodAutoscaler],
    hpas: Mapping[TargetKey, Sequence[HorizontalPodAutoscaler]],
    *,
    absent: Mapping[VpaName, datetime],
    now: datetime,
) -> Changes:
    """Return the changes after which the VPAs are those that the namespaces ask for.

    Only managed VPAs are updated or deleted. One is deleted if its namespace has no label, its
    workload is excluded or owned, another VPA has its target, or its workload has not existed for
    ``KEPT_FOR``. ``absent`` is that of the last call.
    """
    known, there = tuple(vpas), tuple(candidates)
    workloads = {each.workload.key: each for each in there}
    managed = sorted(filter(is_managed, known), key=precedence)
    others = {target_key(vpa): vpa.metadata.name for vpa in known if not is_managed(vpa)}
    update, delete = list[UpdatedVpa](), list[DeletedVpa]()
    absent_now: dict[VpaName, datetime] = {}
    for vpa in managed:
        meta, key = vpa.metadata, target_key(vpa)
        if meta.namespace in namespaces.unchanged:
            continue
        policy = namespaces.policies.get(meta.namespace)
        workload = None if key is None else workloads.get(key)
        if policy is None:
            delete.append(DeletedVpa(vpa=vpa, why="its namespace isn't enabled any more"))
        elif (other := others.get(key)) is not None:
            delete.append(DeletedVpa(vpa=vpa, why=f"VPA {other} has the same target"))
        elif workload is None:
            name = (meta.namespace, meta.name)
            since = absent_now[name] = min(absent.get(name, now), now)
            if now - since >= KEPT_FOR:
                delete.append(DeletedVpa(vpa=vpa, why="its workload doesn't exist any more"))
        elif workload.excluded:
            delete.append(DeletedVpa(vpa=vpa, why="its workload is excluded"))
        elif workload.owner is not None:
            delete.append(DeletedVpa(vpa=vpa, why="its workload has an owner"))
        else:
            wanted, _ = beside_hpas(policy, hpas.get(workload.workload.key, ()))
            if differs(vpa, wanted):
                update.append(UpdatedVpa(vpa=vpa, policy=wanted))
        if key is not None:
            others[key] = meta.name
    policies = {
        name: policy
        for name, policy in namespaces.policies.items()
        if name not in namespaces.unchanged
    }
    return Changes(
        create=tuple(_created(there, known, hpas, policies)),
        update=update,
        delete=delete,
        absent=absent_now,
    )


def differs(vpa: VerticalPodAutoscaler, policy: CreationPolicy) -> bool:
    """Return True if the VPA's mode, minimum of replicas or resource policy isn't the policy's.

    Its other fields are those of the persons who edit it.
    """
    stored, wanted = vpa.spec.update_policy or UpdatePolicy(), policy.update_policy
    return (stored.update_mode, stored.min_replicas) != (
        wanted.update_mode,
        wanted.min_replicas,
    ) or vpa.spec.resource_policy != policy.resource_policy


def _created(
    candidates: Iterable[Candidate],
    vpas: Sequence[VerticalPodAutoscaler],
    hpas: Mapping[TargetKey, Sequence[HorizontalPodAutoscaler]],
    policies: Mapping[str, CreationPolicy],
) -> Iterator[NewVpa]:
    for each in new_vpas(candidates, vpas, hpas, policies, creator=Creator.NAMESPACE_LABEL):
        if isinstance(each, NewVpa):
            yield each
