"""An index of the cluster's VPAs by the controller that they target.

Source: admission.md 4; the indexer of
vertical-pod-autoscaler/pkg/admission-controller/resource/vpa/matcher.go.
"""

from collections.abc import Collection

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.cache import Change
from common.target.controlling import target_key
from common.target.owners import TargetKey


class VpaIndex:
    """An index of VPAs that the changes of a cache keep up to date."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[TargetKey, dict[str, VerticalPodAutoscaler]]] = {}

    def apply(self, change: Change[VerticalPodAutoscaler]) -> None:
        """Apply one change; ignore VPAs without a target."""
        if change.old is not None:
            self._drop(change.old)
        if change.new is not None:
            self._put(change.new)

    def has_any(self, namespace: str) -> bool:
        """Return whether the namespace has a VPA with a target."""
        return namespace in self._by_namespace

    def targeting(self, key: TargetKey) -> Collection[VerticalPodAutoscaler]:
        """Return the VPAs that target one controller."""
        return self._by_namespace.get(key[0], {}).get(key, {}).values()

    def _put(self, vpa: VerticalPodAutoscaler) -> None:
        key = target_key(vpa)
        if key is not None:
            by_target = self._by_namespace.setdefault(key[0], {})
            by_target.setdefault(key, {})[vpa.metadata.name] = vpa

    def _drop(self, vpa: VerticalPodAutoscaler) -> None:
        key = target_key(vpa)
        if key is None:
            return
        by_target = self._by_namespace.get(key[0], {})
        by_target.get(key, {}).pop(vpa.metadata.name, None)
        if not by_target.get(key):
            by_target.pop(key, None)
        if not by_target:
            self._by_namespace.pop(key[0], None)
