"""Which VPAs and pods a snapshot is about."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import KubeError
from common.kube.cache import Snapshot
from common.kube.endpoints import VPAS
from common.kube.targets import TargetError, Targets
from common.runtime.object_errors import ObjectErrors
from common.runtime.pausing import pausing
from common.target.controlling import (
    SelectedVpa,
    can_control_pods,
    target_key,
)
from updater.snapshot.cluster_snapshot import acts, key_of
from updater.snapshot.live_pod import LivePod

_SLICE = 1000  # objects looked at before other tasks run
_LARGE_SLICE = 20_000  # the same, for a single look


@dataclass(frozen=True, slots=True)
class Scope:
    """The VPAs that a plan is about; an empty text stands for all.

    Pods of a namespace are matched to the VPAs of that namespace, and no budget is shared beyond
    a VPA: so what is left out changes nothing about the rest. Only a ResourceQuota is shared; what
    other VPAs would take of it in the same pass is not in the plan.
    """

    namespace: str = ""
    vpa: str = ""

    def covers(self, vpa: VerticalPodAutoscaler) -> bool:
        """Return whether the plan is about this VPA."""
        meta = vpa.metadata
        return self.namespace in ("", meta.namespace) and self.vpa in ("", meta.name)

    def reach(self, vpas: Iterable[VerticalPodAutoscaler]) -> tuple[VerticalPodAutoscaler, ...]:
        """Return the VPAs that are to be looked at: one may be the older one of the same target."""
        known = tuple(vpas)
        if self == EVERYTHING:
            return known
        namespaces = {vpa.metadata.namespace for vpa in known if self.covers(vpa)}
        return tuple(vpa for vpa in known if vpa.metadata.namespace in namespaces)

    def namespaces(self, vpas: Iterable[VerticalPodAutoscaler]) -> frozenset[str] | None:
        """Return those whose pods are to be looked at, of the VPAs in ``reach``; None: all."""
        if self == EVERYTHING:
            return None  # a pass remembers pods as long as they live, with a VPA or without one
        return frozenset(vpa.metadata.namespace for vpa in vpas)


EVERYTHING = Scope()


async def select_vpas(
    vpas: Collection[VerticalPodAutoscaler], targets: Targets, errors: ObjectErrors
) -> tuple[list[SelectedVpa], dict[tuple[str, str], str]]:
    """Return the VPAs that a pod may belong to, with the selectors of their targets.

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
class PodsByState:
    """Those that nobody has asked to go, and the UIDs of the others."""

    live: Sequence[LivePod]
    terminating: frozenset[str]


async def divide_pods(
    pods: Snapshot[LivePod], namespaces: Iterable[str] | None = None
) -> PodsByState:
    """Return the pods of some namespaces or, by default, of all."""
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
    return PodsByState(live, frozenset(terminating))
