"""Takes the snapshots of passes from the caches."""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta

from common.api.autoscaling import VerticalPodAutoscaler
from common.features import FeatureGates
from common.kube.targets import Targets
from common.runtime.object_errors import ObjectErrors
from common.target.owners import Controller
from updater.snapshot.caches import Caches
from updater.snapshot.cluster_snapshot import ClusterSnapshot, skipped_vpas
from updater.snapshot.pod_matching import Matcher
from updater.snapshot.selection import EVERYTHING, Scope, divide_pods, select_vpas
from updater.snapshot.snapshot_builder import SnapshotBuilder

Timed = Callable[[str], AbstractContextManager[None]]
"""Measures a step of a pass."""


def _untimed(_: str) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassInput:
    """The VPAs of a pass, the causes for skipped ones, and the snapshot."""

    vpas: Sequence[VerticalPodAutoscaler]
    skipped: Mapping[tuple[str, str], str]  # why, by namespace and name
    snapshot: ClusterSnapshot


class SnapshotSource:
    """Takes snapshots; results about unchanged objects are reused."""

    def __init__(
        self,
        caches: Caches,
        targets: Targets,
        *,
        ignored_namespaces: Collection[str],
        features: FeatureGates,
        interval: timedelta,
        errors: ObjectErrors,
    ) -> None:
        self._caches = caches
        self._targets = targets
        self._ignored_namespaces = ignored_namespaces
        self._features = features
        self._interval = interval
        self._errors = errors
        self._matcher = Matcher(caches.controllers, targets, errors)
        self._builder = SnapshotBuilder(caches.controllers, errors)

    async def take(
        self,
        *,
        awaited: Mapping[str, Collection[Controller]],
        scope: Scope = EVERYTHING,
        timed: Timed = _untimed,
    ) -> PassInput:
        """Return a snapshot, the only input of a pass from the caches.

        ``awaited`` are the workloads of evicted pods without a replacement, by the UID of the VPA.
        """
        caches = self._caches
        self._targets.begin_cycle(self._interval.total_seconds())
        with timed("ListVPAs"):
            vpas = scope.reach(
                vpa
                for vpa in caches.vpas.snapshot.items()
                if vpa.metadata.namespace not in self._ignored_namespaces
            )
            selected, unresolved = await select_vpas(vpas, self._targets, self._errors)
        with timed("ListPods"):
            live, terminating = await divide_pods(caches.pods.snapshot, scope.namespaces(vpas))
        with timed("FilterPods"):
            matched = await self._matcher.match(live, selected)
        with timed("AdmissionInit"):
            autoscaled = await self._builder.build(
                [each for each in selected if scope.covers(each.vpa)],
                matched,
                caches.limit_ranges.snapshot,
                awaited=awaited,
            )
        snapshot = ClusterSnapshot(
            autoscaled=autoscaled,
            living=frozenset([pod.metadata.uid for pod in live]),
            terminating=terminating,
            quotas=caches.quotas_by_namespace(),
            nodes=caches.nodes.snapshot.by_namespace().get("", {}),
            pods=caches.pods.snapshot.by_namespace(),
        )
        skipped = skipped_vpas(vpas, self._features) | unresolved
        return PassInput(vpas=vpas, skipped=skipped, snapshot=snapshot)
