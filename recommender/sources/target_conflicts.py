"""VPAs of one target: which of them controls the pods."""

from collections import defaultdict

from common.api.autoscaling import VerticalPodAutoscaler
from common.target.controlling import can_control_pods, precedence, target_key
from common.target.owners import TargetKey
from recommender.model.keys import VpaKey


class TargetConflicts:
    """Collects VPAs, of any recommender, and finds those whose pods another one controls (X115).

    A VPA of mode Off without a start-up boost controls no pod, so it is left out.
    """

    def __init__(self) -> None:
        self._first: dict[TargetKey, VerticalPodAutoscaler] = {}
        self._several: defaultdict[TargetKey, list[VerticalPodAutoscaler]] = defaultdict(list)

    def add(self, vpa: VerticalPodAutoscaler) -> None:
        """Take a VPA into account. Cheap: nearly every target has one."""
        key = target_key(vpa)
        if key is None or not can_control_pods(vpa):
            return
        first = self._first.setdefault(key, vpa)
        if first is not vpa:
            self._several[key].append(vpa)

    def controlled(self) -> dict[VpaKey, str]:
        """Return the name of the VPA that controls the pods instead, by VPA."""
        found: dict[VpaKey, str] = {}
        for key, others in self._several.items():
            winner, *rest = sorted((self._first[key], *others), key=precedence)
            for vpa in rest:
                meta = vpa.metadata
                found[VpaKey(meta.namespace, meta.name)] = winner.metadata.name
        return found
