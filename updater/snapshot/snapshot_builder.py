"""Builds the snapshot of a pass; an unchanged VPA is the same object as in the last one."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import is_

from common.api.core import LimitRange, LimitRangeSpec
from common.kube.cache import Snapshot
from common.kube.endpoints import VPAS
from common.kube.targets import ControllerCaches
from common.runtime.object_errors import ObjectErrors
from common.runtime.pausing import pausing
from common.target.controlling import SelectedVpa
from common.target.owners import Controller
from updater.snapshot.cluster_snapshot import (
    AutoscaledPods,
    acts,
    key_of,
    update_mode,
)
from updater.snapshot.owner_chain import OwnerChain
from updater.snapshot.pod_matching import Matched, PodGroup
from updater.snapshot.workload_size import GroupSize, group_size

_SLICE = 500  # VPAs before other tasks run
_NONE: Mapping[str, Collection[Controller]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class _BuiltVpa:
    """One VPA in the last snapshot, and the owner chains of its groups."""

    scaled: AutoscaledPods
    owner_chains: tuple[OwnerChain, ...]


class SnapshotBuilder:
    """Builds the ``AutoscaledPods`` of each VPA that has pods.

    A VPA that hasn't changed since the last pass keeps its ``AutoscaledPods`` object, so results
    about it stay valid.
    """

    def __init__(self, controllers: ControllerCaches, errors: ObjectErrors) -> None:
        self._errors = errors
        self._controllers = controllers
        self._before: dict[tuple[str, str], _BuiltVpa] = {}
        self._limits: dict[str, tuple[LimitRangeSpec, ...]] = {}

    async def build(
        self,
        selected: Iterable[SelectedVpa],
        matched: Matched,
        limit_ranges: Snapshot[LimitRange],
        *,
        awaited: Mapping[str, Collection[Controller]] = _NONE,
    ) -> tuple[AutoscaledPods, ...]:
        """Return the pods of all VPAs that may act.

        ``awaited`` are the workloads of evicted pods without a replacement, by the UID of the VPA.
        Their sizes are in the snapshot even if they have no pods.
        """
        limits = self._limits_of(limit_ranges)
        after: dict[tuple[str, str], _BuiltVpa] = {}
        autoscaled = []
        async for candidate in pausing(selected, every=_SLICE):
            vpa = candidate.vpa
            key = key_of(vpa)
            groups = matched.get(key, {})
            missing = awaited.get(vpa.metadata.uid, ())
            if not (groups or missing) or not acts(vpa):
                continue
            built = None
            with self._errors.around("freeze", VPAS.kind, *key):
                bounds = limits.get(vpa.metadata.namespace, ())
                built = self._built(candidate, groups, bounds, missing)
            if built is None:
                continue
            autoscaled.append(built.scaled)
            if not missing:
                after[key] = built
        self._before = after
        return tuple(autoscaled)

    def _built(
        self,
        candidate: SelectedVpa,
        groups: Mapping[Controller, PodGroup],
        limits: tuple[LimitRangeSpec, ...],
        missing: Collection[Controller],
    ) -> _BuiltVpa | None:
        vpa = candidate.vpa
        mode = update_mode(vpa)
        if mode is None:
            return None
        pods = tuple(chain.from_iterable(group.pods for group in groups.values()))
        owner_chains = tuple(group.owner_chain for group in groups.values())
        before = self._before.get(key_of(vpa))
        if (
            before is not None
            and not missing
            and before.scaled.vpa is vpa
            and before.scaled.limit_ranges is limits
            and _same(before.owner_chains, owner_chains)
            and _same(before.scaled.pods, pods)
        ):
            return before
        sizes = _sizes(owner_chains)
        for owner in missing:
            if owner not in sizes:
                sizes[owner] = group_size(owner, self._controllers.find)
        scaled = AutoscaledPods(
            vpa=vpa,
            mode=mode,
            pods=pods,
            controllers={
                pod.metadata.uid: owner for owner, group in groups.items() for pod in group.pods
            },
            replicas={owner: group.owner_chain.replicas for owner, group in groups.items()},
            limit_ranges=limits,
            sizes=sizes,
            deployments={
                owner: group.owner_chain.workload
                for owner, group in groups.items()
                if group.owner_chain.workload != owner
            },
            rollouts={
                owner_chain.workload: owner_chain.rollout
                for owner_chain in owner_chains
                if owner_chain.rollout is not None
            },
        )
        return _BuiltVpa(scaled, owner_chains)

    def _limits_of(
        self, limit_ranges: Snapshot[LimitRange]
    ) -> Mapping[str, tuple[LimitRangeSpec, ...]]:
        """Return the LimitRanges by namespace; an equal tuple is the same object as before."""
        before, after = self._limits, dict[str, tuple[LimitRangeSpec, ...]]()
        for namespace in limit_ranges.namespaces():
            found = tuple(item.spec for item in limit_ranges.in_namespace(namespace))
            known = before.get(namespace)
            after[namespace] = known if known == found and known is not None else found
        self._limits = after
        return after


def _sizes(owner_chains: Iterable[OwnerChain]) -> dict[Controller, GroupSize]:
    """Return the size of each workload; ReplicaSets may surge above a Deployment's wanted count."""
    wanted: Counter[Controller] = Counter()
    sizes: dict[Controller, GroupSize] = {}
    for owner_chain in owner_chains:
        workload, size = owner_chain.workload, owner_chain.size
        sizes[workload] = size
        if workload.kind == "Deployment" and size.wanted:
            wanted[workload] += owner_chain.replicas or 0
            if wanted[workload] > size.wanted:
                sizes[workload] = replace(size, wanted=wanted[workload])
    return sizes


def _same(before: Sequence[object], after: Sequence[object]) -> bool:
    """Return whether both have the same objects."""
    return len(before) == len(after) and all(map(is_, before, after))
