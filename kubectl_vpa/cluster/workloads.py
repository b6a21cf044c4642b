"""All workloads with pods, with or without a VPA."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.kube.endpoints import LIMIT_RANGES, PODS, VPAS
from common.target.owners import Controller, TargetKey
from kubectl_vpa.cluster.fleet import LIVE_PODS, by_namespace, read_owners
from kubectl_vpa.cluster.installation import served_resources
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.competitors import vpas_by_target
from kubectl_vpa.judge.pod_groups import Owners, PodGroup, PodGroups
from kubectl_vpa.judge.workload_report import row_key

Vpas = Mapping[Controller, VerticalPodAutoscaler]
"""VPAs by the workload that they target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The pods of a topmost controller, or a pod without one."""

    controller: Controller
    groups: Sequence[PodGroup]
    vpa: VerticalPodAutoscaler | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workloads:
    """What was read in one cluster."""

    found: Sequence[Workload]
    limit_ranges: Mapping[str, Sequence[LimitRangeSpec]]  # by namespace


async def read_workloads(reader: Reader, *, label_selector: str = "") -> Workloads:
    """Read the pods that a selector matches and their owners; without a selector also all VPAs.

    A VPA whose workload has no pods is a workload without pods, unless there is a selector.

    Raises:
        KubeError: the pods could not be read.
    """
    async with asyncio.TaskGroup() as group:
        reading = reader.fold(
            PODS,
            _bare_too,
            _add,
            label_selector=label_selector,
            field_selector=LIVE_PODS,
            needed=True,
        )
        pods = group.create_task(reading)
        vpas_task = group.create_task(_read_vpas(reader))
        limit_ranges = group.create_task(reader.list(LIMIT_RANGES))
    vpas, groups = vpas_task.result(), pods.result() or PodGroups()
    owners = await read_owners(reader, vpas, groups)
    return Workloads(
        found=tuple(_workloads(groups, owners, vpas, without_pods=not label_selector)),
        limit_ranges={
            namespace: tuple(each.spec for each in there)
            for namespace, there in by_namespace(limit_ranges.result() or ()).items()
        },
    )


async def _read_vpas(reader: Reader) -> Sequence[VerticalPodAutoscaler]:
    """Return all VPAs; a cluster without their definition has none, which needs no note."""
    if await served_resources(reader, VPAS.group, VPAS.version) == ():
        return ()
    return await reader.list(VPAS) or ()


def _bare_too() -> PodGroups:
    return PodGroups(keeps_bare=True)


def _add(groups: PodGroups, pods: Sequence[Pod]) -> None:
    groups.add(pods)


def _workloads(
    groups: PodGroups,
    owners: Owners,
    vpas: Sequence[VerticalPodAutoscaler],
    *,
    without_pods: bool,
) -> Sequence[Workload]:
    by_target = vpas_by_target(vpas)
    controllers: dict[TargetKey, Controller] = {}
    found: dict[TargetKey, list[PodGroup]] = {}
    for group in groups.groups.values():
        owner = owners.above(group.controller)
        key = row_key(owner.key, group)
        controllers[key] = owner if key == owner.key else Controller(*key)
        found.setdefault(key, []).append(group)
    if without_pods:
        for key, vpa in by_target.items():
            if key not in found and (target := vpa.spec.target_ref) is not None:
                controllers[key] = Controller(*key, api_version=target.api_version)
                found[key] = []
    return [
        Workload(controller=controllers[key], groups=there, vpa=by_target.get(key))
        for key, there in found.items()
    ]
