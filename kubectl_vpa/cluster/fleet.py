"""The VPAs of a namespace or of all, with everything that decides about their state."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRange, LimitRangeSpec, Pod
from common.api.horizontal_autoscaling import HorizontalPodAutoscaler
from common.api.meta import OwnedObject
from common.errors import ConfigError
from common.kube.endpoints import (
    DEPLOYMENTS,
    HPAS,
    JOBS,
    LIMIT_RANGES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    VPAS,
    Endpoint,
    with_type,
)
from common.target.controlling import target_key
from common.target.horizontal import hpas_by_target
from common.target.owners import WELL_KNOWN_KINDS, TargetKey
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.competitors import (
    PodDisruptionBudget,
    controlled_by_others,
)
from kubectl_vpa.judge.pod_groups import Owners, PodGroup, PodGroups
from kubectl_vpa.judge.vpa_status import VpaFacts

T = TypeVar("T", LimitRange, PodDisruptionBudget)
L = TypeVar("L")

BUDGETS = Endpoint(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget
)
LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of pods that have not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All VPAs that were read, and what concerns them."""

    vpas: Sequence[VerticalPodAutoscaler]
    pods: PodGroups | None  # None: they could not be read
    owners: Owners
    groups: Mapping[TargetKey, Sequence[PodGroup]]
    controlled_by: Mapping[tuple[str, str], str]
    hpas: Mapping[TargetKey, Sequence[HorizontalPodAutoscaler]]
    hpas_seen: bool
    budgets: Mapping[str, Sequence[PodDisruptionBudget]]  # by namespace, as the next one
    limit_ranges: Mapping[str, Sequence[LimitRangeSpec]]

    def facts(self) -> Iterator[VpaFacts]:
        """Yield the facts about each VPA."""
        return map(self.facts_of, self.vpas)

    def named(self, name: str, namespace: str) -> Sequence[VpaFacts]:
        """Return the facts about VPAs with a name, or about all if it is empty.

        ``namespace`` is that of the session, for the message.

        Raises:
            ConfigError: there is no VPA with this name.
        """
        found = [self.facts_of(vpa) for vpa in self.vpas if name in ("", vpa.metadata.name)]
        if name and not found:
            raise no_such_vpa(name, namespace)
        return found

    def facts_of(self, vpa: VerticalPodAutoscaler) -> VpaFacts:
        """Return the facts about one VPA."""
        meta, key = vpa.metadata, target_key(vpa)
        return VpaFacts(
            vpa=vpa,
            groups=None if self.pods is None else self.groups.get(key, ()) if key else (),
            controlled_by=self.controlled_by.get((meta.namespace, meta.name), ""),
            hpas=self.hpas.get(key, ()) if key else (),
            budgets=self.budgets.get(meta.namespace, ()),
            limit_ranges=self.limit_ranges.get(meta.namespace, ()),
        )


def no_such_vpa(name: str, namespace: str) -> ConfigError:
    """Return the error for a VPA that doesn't exist."""
    return ConfigError(f"there is no VPA named {name} in namespace {namespace}")


async def read_fleet(
    reader: Reader, *, label_selector: str = "", competitors: bool = True
) -> Fleet:
    """Read the VPAs that a selector matches, and the rest concurrently.

    Without ``competitors`` HPAs and disruption budgets are not read, which only the state of a VPA
    depends on.

    Raises:
        KubeError: the VPAs could not be read, or the API server is unreachable.
    """
    async with asyncio.TaskGroup() as group:
        # All VPAs: one that the selector doesn't match may control the pods of another.
        vpas = group.create_task(reader.list(VPAS, needed=True))
        selected = (
            group.create_task(reader.list(VPAS, label_selector=label_selector, needed=True))
            if label_selector
            else vpas
        )
        reading = reader.fold(PODS, PodGroups, _add, field_selector=LIVE_PODS)
        pods = group.create_task(reading)
        hpas = group.create_task(reader.list(HPAS)) if competitors else None
        budgets = group.create_task(reader.list(BUDGETS)) if competitors else None
        limit_ranges = group.create_task(reader.list(LIMIT_RANGES))
    every, found = vpas.result() or (), pods.result()
    owners = await read_owners(reader, every, found)
    return Fleet(
        vpas=selected.result() or (),
        pods=found,
        owners=owners,
        groups={} if found is None else found.by_target(owners),
        controlled_by=controlled_by_others(every),
        hpas=hpas_by_target(_listed(hpas)),
        hpas_seen=hpas is not None and hpas.result() is not None,
        budgets=by_namespace(_listed(budgets)),
        limit_ranges={
            namespace: tuple(each.spec for each in found_there)
            for namespace, found_there in by_namespace(limit_ranges.result() or ()).items()
        },
    )


async def read_owners(
    reader: Reader, vpas: Iterable[VerticalPodAutoscaler], pods: PodGroups | None
) -> Owners:
    """Read the owners of the objects that own pods; only the kinds that occur.

    Deployments and StatefulSets are read only if a VPA targets another kind, which may own them.
    """
    owners = Owners()
    if pods is None:
        return owners
    targets = {vpa.spec.target_ref.kind for vpa in vpas if vpa.spec.target_ref is not None}
    direct = {group.controller.kind for group in pods.groups.values()}
    candidates: tuple[Endpoint[Any], ...] = (REPLICA_SETS, JOBS)
    wanted = [each for each in candidates if each.kind in direct]
    if targets - WELL_KNOWN_KINDS:
        wanted += (DEPLOYMENTS, STATEFUL_SETS)
    kinds = [with_type(each, OwnedObject, metadata_only=True) for each in wanted]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reader.list(each)) for each in kinds]
    for each, task in zip(kinds, tasks, strict=True):
        owners.add(each.kind, task.result() or ())
    return owners


def _listed(task: asyncio.Task[Sequence[L] | None] | None) -> Sequence[L]:
    return (task.result() if task is not None else None) or ()


def _add(groups: PodGroups, pods: Sequence[Pod]) -> None:
    groups.add(pods)


def by_namespace(objects: Iterable[T]) -> Mapping[str, Sequence[T]]:
    """Return namespaced objects by their namespace."""
    found: dict[str, list[T]] = {}
    for each in objects:
        found.setdefault(each.metadata.namespace, []).append(each)
    return found
