"""The VPAs and pods of a snapshot."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain

from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import KubeError
from common.kube.cache import Snapshot
from common.kube.endpoints import VPAS
from common.kube.targets import TargetError, Targets
from common.runtime.object_errors import ObjectErrors
from common.runtime.pausing import pausing
from common.target.controlling import SelectedVpa, can_control_pods, target_key
from updater.snapshot.cluster_snapshot import acts, key_of
from updater.snapshot.live_pod import LivePod

_SLICE = 1000  # VPAs before other tasks run
_POD_SLICE = 20_000  # pods before other tasks run


@dataclass(frozen=True, slots=True)
class Scope:
    """The VPAs of a plan; an empty text stands for all.

    VPAs outside of the scope don't change the plan, except that they share ResourceQuotas: the
    plan ignores their use of a quota in the same pass.
    """

    namespace: str = ""
    vpa: str = ""

    def covers(self, vpa: VerticalPodAutoscaler) -> bool:
        """Return whether the plan covers this VPA."""
        meta = vpa.metadata
        return self.namespace in ("", meta.namespace) and self.vpa in ("", meta.name)

    def reach(self, vpas: Iterable[VerticalPodAutoscaler]) -> tuple[VerticalPodAutoscaler, ...]:
        """Return all VPAs of the covered namespaces: an older one may have the same target."""
        known = tuple(vpas)
        if self == EVERYTHING:
            return known
        namespaces = {vpa.metadata.namespace for vpa in known if self.covers(vpa)}
        return tuple(vpa for vpa in known if vpa.metadata.namespace in namespaces)

    def namespaces(self, vpas: Iterable[VerticalPodAutoscaler]) -> frozenset[str] | None:
        """Return the namespaces of the VPAs in ``reach``, whose pods are needed; None: all."""
        if self == EVERYTHING:
            return None  # a pass keeps the state of all live pods, with a VPA or without one
        return frozenset(vpa.metadata.namespace for vpa in vpas)


EVERYTHING = Scope()


async def select_vpas(
    vpas: Collection[VerticalPodAutoscaler], targets: Targets, errors: ObjectErrors
) -> tuple[list[SelectedVpa], dict[tuple[str, str], str]]:
    """Return the VPAs that can control pods, with the selectors of their targets.

    Also return the causes for VPAs whose target has no selector, by namespace and name.

    The rule is that of admission: an older VPA of mode Initial or of an unknown mode doesn't
    change running pods, but it controls the patches of their replacements. A younger VPA with the
    same target would otherwise evict them repeatedly. A VPA of mode Off without a boost controls
    no pods.

    Source: updater.md 4, admission.md 4.
    """
    selected = []
    unresolved = {}
    targeted = {target_key(vpa) for vpa in vpas if acts(vpa)}
    async for vpa in pausing(targets.postponed_first(sorted(vpas, key=key_of)), every=_SLICE):
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


async def divide_pods(
    pods: Snapshot[LivePod], namespaces: Iterable[str] | None = None
) -> tuple[list[LivePod], frozenset[str]]:
    """Return the live pods of some namespaces or, by default, of all.

    Also return the UIDs of the terminating pods.
    """
    found = (
        pods.items()
        if namespaces is None
        else chain.from_iterable(map(pods.in_namespace, namespaces))
    )
    live, terminating = [], []
    async for pod in pausing(found, every=_POD_SLICE):
        if pod.metadata.deletion_timestamp is None:
            live.append(pod)
        else:
            terminating.append(pod.metadata.uid)
    return live, frozenset(terminating)
