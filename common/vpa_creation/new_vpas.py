"""The VPAs that workloads without a VPA get, and the reasons why others get none."""

import enum
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from common.api.autoscaling import (
    TargetReference,
    UpdateMode,
    VerticalPodAutoscaler,
    VpaSpec,
)
from common.api.horizontal_autoscaling import HorizontalPodAutoscaler
from common.api.meta import ObjectMeta
from common.resources import RESOURCES
from common.target.controlling import target_key
from common.target.horizontal import utilized_resources
from common.target.owners import WELL_KNOWN_KINDS, Controller, TargetKey
from common.vpa_creation.policy import PREFIX, CreationPolicy

CREATED_BY = f"{PREFIX}created-by"
"""The label of a VPA that was created for one of many workloads; the value is a ``Creator``."""

NAME_PATTERN = "{name}"
"""The default pattern of the names of new VPAs."""

_LONGEST_NAME = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Creator(enum.StrEnum):
    """The value of the label ``vpa.autoscaling/created-by``."""

    COMMAND = "kubectl-vpa"
    NAMESPACE_LABEL = "vpa-recommender"


class SkipReason(enum.StrEnum):
    """Why a workload gets no VPA."""

    OWNED = "owned"  # by a controller of a well-known kind, which gets the VPA
    OWNED_BY_CUSTOM_KIND = "owned_by_custom_kind"
    EXCLUDED = "excluded"
    HAS_VPA = "has_vpa"
    NO_FREE_NAME = "no_free_name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A workload that may get a VPA."""

    workload: Controller
    owner: Controller | None = None
    excluded: bool = False  # by a label, or by the person


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaConflict:
    """An HPA that scales on the utilization of resources which the policy would let a VPA change.

    The VPA leaves them out. If it has no other resource, its mode is Off. A VPA that is Off anyway
    keeps all resources.
    """

    hpa: str
    resources: tuple[str, ...]
    left: tuple[str, ...]  # the resources that the VPA changes; empty in the mode Off
    was_off: bool = False  # the policy has the mode Off


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVpa:
    """A VPA to create."""

    vpa: VerticalPodAutoscaler
    workload: Controller
    conflict: HpaConflict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedWorkload:
    """A workload that gets no VPA; ``other`` is its owner, or the name of its VPA."""

    workload: Controller
    reason: SkipReason
    other: str = ""


def is_name_pattern(pattern: str) -> bool:
    """Return True if the pattern has ``{name}`` and its results are names of objects."""
    shown = _named(pattern, Controller("", "Kind", "name"))
    return "{name}" in pattern and _SUBDOMAIN.fullmatch(shown) is not None


def new_vpas(
    candidates: Iterable[Candidate],
    vpas: Iterable[VerticalPodAutoscaler],
    hpas: Mapping[TargetKey, Sequence[HorizontalPodAutoscaler]],
    policies: Mapping[str, CreationPolicy],
    *,
    creator: Creator,
    pattern: str = NAME_PATTERN,
) -> Iterator[NewVpa | SkippedWorkload]:
    """Yield a VPA, or the reason for none, for each workload in a namespace with a policy.

    Topmost workloads without any VPA get one; ``vpas`` are all VPAs of these namespaces.

    A new VPA has no owner reference. Garbage collection would delete it with its workload, and
    its checkpoints with it: a workload that is created again would start without history.
    """
    known = tuple(vpas)
    by_target: dict[TargetKey | None, VerticalPodAutoscaler] = {}
    for vpa in known:
        by_target.setdefault(target_key(vpa), vpa)
    taken = {(vpa.metadata.namespace, vpa.metadata.name) for vpa in known}
    for each in sorted(candidates, key=lambda one: one.workload.key):
        workload = each.workload
        policy = policies.get(workload.namespace)
        if policy is None:
            continue
        skipped = _skip_reason(each, by_target.get(workload.key))
        if skipped is not None:
            yield skipped
            continue
        name = _free_name(pattern, workload, taken)
        if name is None:
            yield SkippedWorkload(workload=workload, reason=SkipReason.NO_FREE_NAME)
            continue
        taken.add((workload.namespace, name))
        fitted, conflict = beside_hpas(policy, hpas.get(workload.key, ()))
        yield NewVpa(
            vpa=_vpa(workload, name, fitted, creator), workload=workload, conflict=conflict
        )


def beside_hpas(
    policy: CreationPolicy, hpas: Sequence[HorizontalPodAutoscaler]
) -> tuple[CreationPolicy, HpaConflict | None]:
    """Return the policy for a workload that these HPAs scale, and the conflict that changed it."""
    controlled = policy.controlled_resources or RESOURCES
    utilized = {name for hpa in hpas for name in utilized_resources(hpa)}
    shared = tuple(name for name in controlled if name in utilized)
    if not shared:
        return policy, None
    first = next(hpa for hpa in hpas if shared[0] in utilized_resources(hpa))
    rest = tuple(name for name in controlled if name not in shared)
    if policy.mode is UpdateMode.OFF:
        fitted, rest = policy, ()
    elif rest:
        fitted = replace(policy, controlled_resources=rest)
    else:
        fitted = replace(policy, mode=UpdateMode.OFF)
    conflict = HpaConflict(
        hpa=first.metadata.name,
        resources=shared,
        left=rest,
        was_off=policy.mode is UpdateMode.OFF,
    )
    return fitted, conflict


def _skip_reason(candidate: Candidate, vpa: VerticalPodAutoscaler | None) -> SkippedWorkload | None:
    workload, owner = candidate.workload, candidate.owner
    if vpa is not None:
        return SkippedWorkload(
            workload=workload, reason=SkipReason.HAS_VPA, other=vpa.metadata.name
        )
    if owner is not None:
        is_known = owner.kind in WELL_KNOWN_KINDS
        reason = SkipReason.OWNED if is_known else SkipReason.OWNED_BY_CUSTOM_KIND
        return SkippedWorkload(workload=workload, reason=reason, other=f"{owner.kind} {owner.name}")
    if candidate.excluded:
        return SkippedWorkload(workload=workload, reason=SkipReason.EXCLUDED)
    return None


def _vpa(
    workload: Controller, name: str, policy: CreationPolicy, creator: Creator
) -> VerticalPodAutoscaler:
    return VerticalPodAutoscaler(
        metadata=ObjectMeta(
            name=name, namespace=workload.namespace, labels={CREATED_BY: creator.value}
        ),
        spec=VpaSpec(
            target_ref=TargetReference(
                api_version=workload.api_version, kind=workload.kind, name=workload.name
            ),
            update_policy=policy.update_policy,
            resource_policy=policy.resource_policy,
        ),
    )


def _free_name(
    pattern: str, workload: Controller, taken: Collection[tuple[str, str]]
) -> str | None:
    """Return a name that no VPA of the namespace has; the first is the plain one."""
    plain = _named(pattern, workload)
    kind = workload.kind.lower()
    digest = hashlib.sha256(f"{workload.kind}/{workload.name}".encode()).hexdigest()[:8]
    short = plain[: _LONGEST_NAME - len(digest) - 1].rstrip("-.")
    for name in (plain, f"{plain}-{kind}", f"{short}-{digest}"):
        if len(name) <= _LONGEST_NAME and (workload.namespace, name) not in taken:
            return name
    return None


def _named(pattern: str, workload: Controller) -> str:
    return pattern.replace("{kind}", workload.kind.lower()).replace("{name}", workload.name)
