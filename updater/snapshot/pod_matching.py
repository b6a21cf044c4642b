"""Which VPA controls which pods; of what stays the same it is found out once."""

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

_SLICE = 1000  # groups looked at before other tasks run
_SMALL_LOOKS = 10_000  # the same, for a look at a pod

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
    """Pods of a namespace whose owners and labels are the same objects, as replicas share them.

    It keeps both alive: no other object can have their identity. All but the pods is what was
    found out about them, and holds while the candidates are the same tuple.
    """

    owners: tuple[OwnerReference, ...] | None
    labels: Mapping[str, str] | None
    controller: Controller | None
    pods: list[LivePod]  # of this pass
    candidates: tuple[SelectedVpa, ...] | None = None
    chosen: tuple[str, str] | None = None  # namespace and name of the VPA


class Matcher:
    """Matches the pods of one pass after the other.

    Owners are walked once for each direct controller, and a VPA is chosen once for all pods that
    share owners and labels. From pass to pass both are remembered, as long as the objects that
    they were read from are the very same ones.
    """

    def __init__(
        self, controllers: ControllerCaches, targets: Targets, errors: ObjectErrors
    ) -> None:
        self._errors = errors
        self._owner_chains = OwnerChains(controllers, targets)
        self._kin: dict[AlikeKey, _AlikePods] = {}
        self._candidates: dict[TargetKey, tuple[SelectedVpa, ...]] = {}

    async def match(self, pods: Iterable[LivePod], selected: Iterable[SelectedVpa]) -> Matched:
        """Return the pods that each VPA controls; only in namespaces with VPAs."""
        candidates = self._candidates = _by_target(selected, self._candidates)
        kin = await self._gather(pods, {namespace for namespace, _, _ in candidates})
        owner_chains: dict[Controller, OwnerChain | None] = {}  # of this pass
        matched: dict[tuple[str, str], dict[Controller, PodGroup]] = {}
        async for each in pausing(kin, every=_SLICE):
            controller, first = each.controller, each.pods[0].metadata
            if controller is None:
                continue
            with self._errors.around("match", "Pod", first.namespace, first.name):
                if controller not in owner_chains:
                    known = self._owner_chains.known(controller)
                    owner_chains[controller] = known or await self._owner_chains.of(controller)
                owner_chain = owner_chains[controller]
                if owner_chain is None:
                    continue
                among = candidates.get(owner_chain.top.key)
                if among is not each.candidates:
                    found = controlling(first, owner_chain.top, among or ())
                    each.chosen = None if found is None else key_of(found.vpa)
                    each.candidates = among
                if each.chosen is not None:
                    _add(matched.setdefault(each.chosen, {}), controller, owner_chain, each.pods)
        self._owner_chains.keep_only(owner_chains)
        return matched

    async def _gather(
        self, pods: Iterable[LivePod], namespaces: Collection[str]
    ) -> Collection[_AlikePods]:
        """Return the pods of these namespaces, with their kin; those without pods are forgotten."""
        before, after = self._kin, dict[AlikeKey, _AlikePods]()
        async for pod in pausing(pods, every=_SMALL_LOOKS):
            meta = pod.metadata
            if meta.namespace not in namespaces:
                continue
            owners, labels = meta.owner_references, meta.labels
            key = (meta.namespace, id(owners), id(labels))
            kin = after.get(key)
            if kin is not None:
                kin.pods.append(pod)
                continue
            kin = before.get(key)
            if kin is None:
                kin = _AlikePods(owners, labels, controller_of(meta), [pod])
            else:
                kin.pods = [pod]
            after[key] = kin
        self._kin = after
        return after.values()


def _by_target(
    selected: Iterable[SelectedVpa], before: Mapping[TargetKey, tuple[SelectedVpa, ...]]
) -> dict[TargetKey, tuple[SelectedVpa, ...]]:
    """Return the VPAs of each target; the tuple is the one of before where all of them are."""
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


def _add(
    groups: dict[Controller, PodGroup],
    controller: Controller,
    owner_chain: OwnerChain,
    pods: list[LivePod],
) -> None:
    group = groups.get(controller)
    if group is None:
        groups[controller] = PodGroup(owner_chain, pods)
    else:
        group.pods.extend(pods)
