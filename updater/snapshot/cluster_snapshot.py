"""The snapshot that a pass decides on: every VPA with its live pods, at one moment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod, ResourceQuota
from common.features import FeatureGates
from common.target.controlling import has_startup_boost, mode_of
from common.target.owners import Controller
from updater.snapshot.live_node import LiveNode
from updater.snapshot.live_pod import LivePod
from updater.snapshot.rollout import Rollout
from updater.snapshot.workload_size import GroupSize

_MODES = {mode.value: mode for mode in UpdateMode}
NEW_PODS_ONLY = (UpdateMode.OFF, UpdateMode.INITIAL)
IN_PLACE = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscaledPods:
    """One VPA, the live pods that it controls, and their workloads and LimitRanges."""

    vpa: VerticalPodAutoscaler
    mode: UpdateMode
    pods: tuple[LivePod, ...]  # without those that are terminating
    controllers: Mapping[str, Controller]  # direct ones, by pod UID
    replicas: Mapping[Controller, int | None]  # that the controllers want; None: unknown
    limit_ranges: tuple[LimitRangeSpec, ...]
    # By workload; includes workloads without pods that lack a replacement.
    sizes: Mapping[Controller, GroupSize] = field(default_factory=dict)
    # By direct controller that has one.
    deployments: Mapping[Controller, Controller] = field(default_factory=dict)
    rollouts: Mapping[Controller, Rollout] = field(default_factory=dict)  # in progress, by workload

    def workload(self, controller: Controller) -> Controller:
        """Return the Deployment of a direct controller, or the controller itself."""
        return self.deployments.get(controller, controller)

    def workload_of(self, pod: Pod) -> Controller | None:
        """Return the workload of a pod; None: no controller would replace it."""
        controller = self.controllers.get(pod.metadata.uid)
        return None if controller is None else self.workload(controller)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The objects that one pass decides on."""

    # Those with pods or a missing replacement, by namespace and name.
    autoscaled: tuple[AutoscaledPods, ...]
    living: frozenset[str]  # UIDs of all live pods, with or without a VPA
    terminating: frozenset[str] = frozenset()  # UIDs
    nodes: Mapping[str, LiveNode] = field(default_factory=dict)  # by name
    # All pods on nodes, by namespace and name; those of one VPA are in ``autoscaled``.
    pods: Mapping[str, Mapping[str, LivePod]] = field(default_factory=dict)
    quotas: Mapping[str, Sequence[ResourceQuota]] = field(default_factory=dict)  # by namespace


def update_mode(vpa: VerticalPodAutoscaler) -> UpdateMode | None:
    """Return the mode of a VPA, by default Recreate; None: unknown to this version.

    Source: updater.md 2.1.
    """
    return _MODES.get(mode_of(vpa))


def acts(vpa: VerticalPodAutoscaler) -> bool:
    """Return whether the VPA may change running pods.

    In mode Off or Initial it may only end start-up boosts; an unknown mode changes nothing.

    Source: updater.md 4.
    """
    mode = update_mode(vpa)
    return mode is not None and (mode not in NEW_PODS_ONLY or has_startup_boost(vpa))


def skipped_vpas(
    vpas: Iterable[VerticalPodAutoscaler], features: FeatureGates
) -> dict[tuple[str, str], str]:
    """Return the cause for each VPA whose mode is unknown or disabled."""
    found = {}
    for vpa in vpas:
        mode = update_mode(vpa)
        if mode is None:
            found[key_of(vpa)] = "its update mode is not known to this version"
        elif mode is UpdateMode.IN_PLACE and not features.in_place:
            found[key_of(vpa)] = "mode InPlace needs --feature-gates=InPlace=true"
    return found


def key_of(vpa: VerticalPodAutoscaler) -> tuple[str, str]:
    """Return the namespace and name."""
    return vpa.metadata.namespace, vpa.metadata.name
