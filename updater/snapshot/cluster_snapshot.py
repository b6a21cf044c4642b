"""What a pass decides on: every VPA with its live pods, at one moment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, ResourceQuota
from common.features import FeatureGates
from common.target.controlling import (
    has_startup_boost,
)
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


def update_mode(vpa: VerticalPodAutoscaler) -> UpdateMode | None:
    """Return the mode of a VPA, by default Recreate; None: a mode of a newer version.

    Source: updater.md 2.1.
    """
    policy = vpa.spec.update_policy
    written = "" if policy is None else policy.update_mode or ""
    return _MODES.get(written) if written else UpdateMode.RECREATE


def acts(vpa: VerticalPodAutoscaler) -> bool:
    """Return whether the VPA may change running pods.

    In mode Off or Initial it may only take boosts back; a mode that we don't know may nothing.

    Source: updater.md 4.
    """
    mode = update_mode(vpa)
    return mode is not None and (mode not in NEW_PODS_ONLY or has_startup_boost(vpa))


def skipped_vpas(
    vpas: Iterable[VerticalPodAutoscaler], features: FeatureGates
) -> dict[tuple[str, str], str]:
    """Return the VPAs that want something of us that we don't do, and why we don't."""
    found = {}
    for vpa in vpas:
        mode = update_mode(vpa)
        if mode is None:
            found[key_of(vpa)] = "its update mode is not known to this version"
        elif mode is UpdateMode.IN_PLACE and not features.in_place:
            found[key_of(vpa)] = "mode InPlace needs --feature-gates=InPlace=true"
    return found


def key_of(vpa: VerticalPodAutoscaler) -> tuple[str, str]:
    """Namespace and name."""
    return vpa.metadata.namespace, vpa.metadata.name
