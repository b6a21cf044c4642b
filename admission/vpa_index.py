"""The VPAs of the cluster by the controller that they target.

Source: admission.md 4; the indexer of
vertical-pod-autoscaler/pkg/admission-controller/resource/vpa/matcher.go.
"""

from collections.abc import Collection

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.cache import Change
from common.target.controlling import target_key
from common.target.owners import TargetKey


class VpaIndex:
    """An index that a cache's changes keep up to date; a look-up costs the same with any number."""

    def __init__(self) -> None:
        self._by_target: dict[TargetKey, dict[str, VerticalPodAutoscaler]] = {}
        self._namespaces: dict[str, int] = {}  # how many VPAs with a target are in it

    def apply(self, change: Change[VerticalPodAutoscaler]) -> None:
        """Take over one change; VPAs without a target don't count."""
        if change.old is not None:
            self._drop(change.old)
        if change.new is not None:
            self._put(change.new)

    def has_any(self, namespace: str) -> bool:
        """Return whether a pod of the namespace can have a VPA at all."""
        return namespace in self._namespaces

    def targeting(self, key: TargetKey) -> Collection[VerticalPodAutoscaler]:
        """Return the VPAs that target one controller."""
        return self._by_target.get(key, {}).values()

    def _put(self, vpa: VerticalPodAutoscaler) -> None:
        key = target_key(vpa)
        if key is None:
            return
        self._by_target.setdefault(key, {})[vpa.metadata.name] = vpa
        namespace = vpa.metadata.namespace
        self._namespaces[namespace] = self._namespaces.get(namespace, 0) + 1

    def _drop(self, vpa: VerticalPodAutoscaler) -> None:
        key = target_key(vpa)
        found = self._by_target.get(key) if key is not None else None
        if key is None or not found or found.pop(vpa.metadata.name, None) is None:
            return
        if not found:
            del self._by_target[key]
        left = self._namespaces[vpa.metadata.namespace] - 1
        if left:
            self._namespaces[vpa.metadata.namespace] = left
        else:
            del self._namespaces[vpa.metadata.namespace]
