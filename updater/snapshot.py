"""What a cycle sees: every VPA with its live pods, frozen at one moment."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import LimitRange, LimitRangeSpec, Pod, ResourceQuota
from common.errors import KubeError
from common.features import FeatureGates
from common.kube.cache import Cache, Change, Snapshot
from common.kube.client import KubeClient
from common.kube.endpoints import LIMIT_RANGES, NODES, RESOURCE_QUOTAS, VPAS, Endpoint
from common.kube.targets import ControllerCaches, TargetError, Targets
from common.runtime.object_errors import ObjectErrors
from common.runtime.pausing import pausing
from common.target.controlling import (
    SelectedVpa,
    can_control_pods,
    has_startup_boost,
    target_key,
)
from common.target.owners import Controller
from updater.group_size import GroupSize
from updater.live_node import LiveNode
from updater.live_pod import LivePod, LivePodWithSidecars
from updater.live_vpa import LiveVpa
from updater.rollout import Rollout

LIVE_PODS = Endpoint("", "v1", "pods", "Pod", LivePod)
LIVE_NODES = Endpoint("", "v1", NODES.resource, NODES.kind, LiveNode, namespaced=False)
_LIVE_PODS_WITH_SIDECARS: Endpoint[LivePod] = Endpoint("", "v1", "pods", "Pod", LivePodWithSidecars)
LIVE_VPAS = Endpoint(VPAS.group, VPAS.version, VPAS.resource, VPAS.kind, LiveVpa)
_PODS_ON_NODES = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_CHECK_SECONDS = 5.0
_SLICE = 1000  # objects looked at before other tasks get their turn
_LARGE_SLICE = 20_000  # the same, for a single look
_MODES = {mode.value: mode for mode in UpdateMode}
NEW_PODS_ONLY = (UpdateMode.OFF, UpdateMode.INITIAL)
IN_PLACE = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)
_NO_GATES = FeatureGates()


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscaledPods:
    """One VPA, the live pods that it controls, and what bounds them."""

    vpa: VerticalPodAutoscaler
    mode: UpdateMode
    pods: tuple[LivePod, ...]  # without those that are terminating
    controllers: Mapping[str, Controller]  # direct ones, by pod UID
    replicas: Mapping[Controller, int | None]  # that the controllers ask for; None: not known
    limit_ranges: tuple[LimitRangeSpec, ...]
    # By workload; also of those that owe a replacement, which may have no pods left.
    sizes: Mapping[Controller, GroupSize] = field(default_factory=dict)
    # The Deployments of direct controllers, where there is one.
    deployments: Mapping[Controller, Controller] = field(default_factory=dict)
    rollouts: Mapping[Controller, Rollout] = field(default_factory=dict)  # in progress, by workload

    def workload(self, controller: Controller) -> Controller:
        """Return the Deployment of a direct controller, or the controller itself."""
        return self.deployments.get(controller, controller)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """Everything that one cycle decides on."""

    # By namespace and name, those with pods, or to which a replacement is owed.
    autoscaled: tuple[AutoscaledPods, ...]
    living: frozenset[str]  # UIDs of all live pods, controlled or not
    terminating: frozenset[str] = frozenset()  # UIDs of those that somebody asked to go
    nodes: Mapping[str, LiveNode] = field(default_factory=dict)  # by name, as far as readable
    quotas: Mapping[str, Sequence[ResourceQuota]] = field(default_factory=dict)  # by namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """The watch caches that a snapshot is taken from."""

    client: KubeClient
    vpas: Cache[LiveVpa]
    pods: Cache[LivePod]
    limit_ranges: Cache[LimitRange]
    quotas: Cache[ResourceQuota]
    controllers: ControllerCaches
    nodes: Cache[LiveNode]  # optional: passes go on without it (X103)

    @classmethod
    def following(
        cls,
        client: KubeClient,
        *,
        namespace: str = "",
        features: FeatureGates = _NO_GATES,
        on_vpa: Callable[[Change[LiveVpa]], None] | None = None,
        on_pod: Callable[[Change[LivePod]], None] | None = None,
        on_node: Callable[[Change[LiveNode]], None] | None = None,
    ) -> Self:
        """Caches of one namespace or, by default, of all; each still has to be run.

        Pods that are not on a node yet, or that have ended, are none of ours. Nodes belong to no
        namespace. ``on_vpa``, ``on_pod`` and ``on_node`` are called with every change.
        """
        return cls(
            client=client,
            vpas=Cache(client, LIVE_VPAS, namespace=namespace, on_change=on_vpa),
            pods=Cache(
                client,
                _LIVE_PODS_WITH_SIDECARS if features.native_sidecar else LIVE_PODS,
                namespace=namespace,
                field_selector=_PODS_ON_NODES,
                on_change=on_pod,
            ),
            limit_ranges=Cache(client, LIMIT_RANGES, namespace=namespace),
            quotas=Cache(client, RESOURCE_QUOTAS, namespace=namespace),
            controllers=ControllerCaches.following(client, namespace=namespace),
            nodes=Cache(client, LIVE_NODES, on_change=on_node),
        )

    def all(self) -> tuple[Cache[Any], ...]:
        """Every cache that passes need, to be run and waited for.

        ``nodes`` and ``quotas`` are only to be run: without the right to read them passes go on.
        """
        return (self.vpas, self.pods, self.limit_ranges, *self.controllers.all())

    def quotas_by_namespace(self) -> Mapping[str, Sequence[ResourceQuota]]:
        """The ResourceQuotas, as far as they can be read."""
        if not self.quotas.fresh:
            return {}
        return {
            namespace: tuple(found.values())
            for namespace, found in self.quotas.snapshot.by_namespace().items()
        }

    @property
    def fresh(self) -> bool:
        """Whether each of them follows the API server; only then may pods be touched."""
        now = asyncio.get_running_loop().time()
        return self.client.reachable and all(each.fresh_from <= now for each in self.all())

    async def check(self) -> bool:
        """As ``fresh``, but where the last call had no answer, ask whether there is one by now.

        The watches alone don't tell: they may stand, and have nothing to say for minutes.
        """
        if not self.client.reachable:
            with contextlib.suppress(KubeError):  # any answer will do
                await self.client.request("GET", "/version", retry=False, seconds=_CHECK_SECONDS)
        return self.fresh

    def has_pod(self, pod: Pod) -> bool:
        """Whether the pod is there, has the same owners, and nobody asked it to go."""
        found = self.pods.get(pod.metadata.namespace, pod.metadata.name)
        return (
            found is not None
            and found.metadata.uid == pod.metadata.uid
            and found.metadata.deletion_timestamp is None
            and found.metadata.owner_references == pod.metadata.owner_references
        )

    def has_vpa(self, vpa: VerticalPodAutoscaler) -> bool:
        """Whether the VPA is there and says the same; its recommendation may be a newer one."""
        found = self.vpas.get(vpa.metadata.namespace, vpa.metadata.name)
        return found is not None and found.spec == vpa.spec


def update_mode(vpa: VerticalPodAutoscaler) -> UpdateMode | None:
    """The mode of a VPA, Recreate unless it says otherwise; None: written by a newer version.

    Source: updater.md 2.1.
    """
    policy = vpa.spec.update_policy
    written = "" if policy is None else policy.update_mode or ""
    return _MODES.get(written) if written else UpdateMode.RECREATE


def acts(vpa: VerticalPodAutoscaler) -> bool:
    """Whether the VPA may change running pods.

    In mode Off or Initial it may only take boosts back; a mode that we don't know may nothing.

    Source: updater.md 4.
    """
    mode = update_mode(vpa)
    return mode is not None and (mode not in NEW_PODS_ONLY or has_startup_boost(vpa))


def passed_over(
    vpas: Iterable[VerticalPodAutoscaler], features: FeatureGates
) -> dict[tuple[str, str], str]:
    """The VPAs that want something of us that we don't do, and why we don't."""
    found = {}
    for vpa in vpas:
        mode = update_mode(vpa)
        if mode is None:
            found[key_of(vpa)] = "its update mode is not known to this version"
        elif mode is UpdateMode.IN_PLACE and not features.in_place:
            found[key_of(vpa)] = "mode InPlace needs --feature-gates=InPlace=true"
    return found


async def select_vpas(
    vpas: Collection[VerticalPodAutoscaler], targets: Targets, errors: ObjectErrors
) -> tuple[list[SelectedVpa], dict[tuple[str, str], str]]:
    """The VPAs that a pod may belong to, with the selectors of their targets.

    Also, by namespace and name, why those have none that could not be resolved.

    They are those of admission: an older VPA of mode Initial, or of a mode that we don't know,
    does nothing to running pods, but it is the one that patches their replacements. By the word
    of a younger one they would be evicted for ever. One of mode Off without a boost patches
    nothing, and where the selector can't be found, nothing can be said.

    Source: updater.md 4, admission.md 4.
    """
    selected = []
    unresolved = {}
    targeted = {target_key(vpa) for vpa in vpas if acts(vpa)}
    async for vpa in pausing(targets.in_turn(sorted(vpas, key=key_of)), every=_SLICE):
        if target_key(vpa) not in targeted:
            continue
        if not can_control_pods(vpa):
            continue
        with errors.around("resolve", VPAS.kind, *key_of(vpa)):
            try:
                selector = await targets.selector(vpa)
            except (TargetError, KubeError) as error:
                unresolved[key_of(vpa)] = str(error)
            else:
                selected.append(SelectedVpa(vpa=vpa, selector=selector))
    selected.sort(key=lambda each: key_of(each.vpa))
    return selected, unresolved


@dataclass(frozen=True, slots=True)
class Pods:
    """Those that nobody has asked to go, and the UIDs of the others."""

    live: Sequence[LivePod]
    terminating: frozenset[str]


async def sorted_out(pods: Snapshot[LivePod], namespaces: Iterable[str] | None = None) -> Pods:
    """The pods of some namespaces or, by default, of all."""
    there = (
        pods.items()
        if namespaces is None
        else chain.from_iterable(map(pods.in_namespace, namespaces))
    )
    live, terminating = [], []
    async for pod in pausing(there, every=_LARGE_SLICE):
        if pod.metadata.deletion_timestamp is None:
            live.append(pod)
        else:
            terminating.append(pod.metadata.uid)
    return Pods(live, frozenset(terminating))


def key_of(vpa: VerticalPodAutoscaler) -> tuple[str, str]:
    """Namespace and name."""
    return vpa.metadata.namespace, vpa.metadata.name
