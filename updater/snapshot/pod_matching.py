"""Matches pods to the VPAs that control them; results are reused while objects don't change."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from common.api.meta import OwnerReference
from common.kube.targets import ControllerCaches, Targets
from common.runtime.object_errors import ObjectErrors
from common.runtime.pausing import pausing
from common.target.controlling import SelectedVpa, controlling, target_key
from common.target.owners import Controller, TargetKey, controller_of
from updater.snapshot.cluster_snapshot import key_of
from updater.snapshot.live_pod import LivePod
from updater.snapshot.owner_chain import OwnerChain, OwnerChains

_SLICE = 1000  # groups before other tasks run
_POD_SLICE = 10_000  # pods before other tasks run

AlikeKey: TypeAlias = tuple[str, int, int]


@dataclass(slots=True)
class PodGroup:
    """The pods of one VPA that have the same direct controller."""

    owner_chain: OwnerChain
    pods: list[LivePod]


Matched: TypeAlias = Mapping[tuple[str, str], Mapping[Controller, PodGroup]]
"""The pods of each VPA, by its namespace and name, and by their direct controllers."""


@dataclass(slots=True, eq=False)
class _AlikePods:
    """Pods of a namespace whose owners and labels are the same objects.

    It references both, so no other object can get their identities. ``chosen`` is valid while
    ``candidates`` is the same tuple.
    """

    owners: tuple[OwnerReference, ...] | None
    labels: Mapping[str, str] | None
    controller: Controller | None
    pods: list[LivePod]  # of this pass
    candidates: tuple[SelectedVpa, ...] | None = None
    chosen: tuple[str, str] | None = None  # namespace and name of the VPA


class Matcher:
    """Matches the pods of each pass.

    Owner chains are found once for each direct controller, and a VPA is chosen once for all pods
    that share owners and labels. Both are reused in later passes while their objects are the same.
    """

    def __init__(
        self, controllers: ControllerCaches, targets: Targets, errors: ObjectErrors
    ) -> None:
        self._errors = errors
        self._owner_chains = OwnerChains(controllers, targets)
        self._alike: dict[AlikeKey, _AlikePods] = {}
        self._candidates: dict[TargetKey, tuple[SelectedVpa, ...]] = {}

    async def match(self, pods: Iterable[LivePod], selected: Iterable[SelectedVpa]) -> Matched:
        """Return the pods that each VPA controls."""
        candidates = self._candidates = _by_target(selected, self._candidates)
        alike_pods = await self._gather(pods, {namespace for namespace, _, _ in candidates})
        owner_chains: dict[Controller, OwnerChain | None] = {}  # of this pass
        matched: dict[tuple[str, str], dict[Controller, PodGroup]] = {}
        async for each in pausing(alike_pods, every=_SLICE):
            controller, first = each.controller, each.pods[0].metadata
            if controller is None:
                continue
            with self._errors.around("match", "Pod", first.namespace, first.name):
                if controller not in owner_chains:
                    owner_chains[controller] = await self._owner_chains.of(controller)
                owner_chain = owner_chains[controller]
                if owner_chain is None:
                    continue
                among = candidates.get(owner_chain.top.key)
                if among is not each.candidates:
                    found = controlling(first, owner_chain.top, among or ())
                    each.chosen = None if found is None else key_of(found.vpa)
                    each.candidates = among
                if each.chosen is not None:
                    groups = matched.setdefault(each.chosen, {})
                    group = groups.setdefault(controller, PodGroup(owner_chain, []))
                    group.pods += each.pods
        self._owner_chains.keep_only(owner_chains)
        return matched

    async def _gather(
        self, pods: Iterable[LivePod], namespaces: Collection[str]
    ) -> Collection[_AlikePods]:
        """Return the pods of these namespaces, grouped by owners and labels."""
        before, after = self._alike, dict[AlikeKey, _AlikePods]()
        async for pod in pausing(pods, every=_POD_SLICE):
            meta = pod.metadata
            if meta.namespace not in namespaces:
                continue
            owners, labels = meta.owner_references, meta.labels
            key = (meta.namespace, id(owners), id(labels))
            alike = after.get(key)
            if alike is not None:
                alike.pods.append(pod)
                continue
            alike = before.get(key)
            if alike is None:
                alike = _AlikePods(owners, labels, controller_of(meta), [pod])
            else:
                alike.pods = [pod]
            after[key] = alike
        self._alike = after
        return after.values()


def _by_target(
    selected: Iterable[SelectedVpa], before: Mapping[TargetKey, tuple[SelectedVpa, ...]]
) -> dict[TargetKey, tuple[SelectedVpa, ...]]:
    """Return the VPAs of each target; the tuple of ``before`` if its VPAs are the same."""
    found: dict[TargetKey, list[SelectedVpa]] = {}
    for candidate in selected:
        key = target_key(candidate.vpa)
        if key is not None:
            found.setdefault(key, []).append(candidate)
    return {key: _same_or_new(each, before.get(key)) for key, each in found.items()}


def _same_or_new(
    found: Sequence[SelectedVpa], before: tuple[SelectedVpa, ...] | None
) -> tuple[SelectedVpa, ...]:
    if before is not None and len(found) == len(before):
        pairs = zip(found, before, strict=True)
        if all(one.vpa is its.vpa and one.selector is its.selector for one, its in pairs):
            return before
    return tuple(found)
