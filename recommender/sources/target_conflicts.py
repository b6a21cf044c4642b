"""Conflicts between VPAs with the same target: one of them controls the pods."""

from collections import defaultdict
from collections.abc import Iterable

from common.api.autoscaling import VerticalPodAutoscaler
from common.target.controlling import can_control_pods, precedence, target_key
from common.target.owners import TargetKey
from recommender.model.keys import VpaKey
from recommender.sources.conversion import vpa_key


def controlled_vpas(vpas: Iterable[VerticalPodAutoscaler]) -> dict[VpaKey, str]:
    """Return the VPAs whose pods another VPA controls, with the name of that one (X115).

    ``vpas`` are those of all recommenders. A VPA with mode Off and without a start-up boost
    controls no pods.
    """
    by_target: defaultdict[TargetKey, list[VerticalPodAutoscaler]] = defaultdict(list)
    for vpa in vpas:
        key = target_key(vpa)
        if key is not None and can_control_pods(vpa):
            by_target[key].append(vpa)
    found: dict[VpaKey, str] = {}
    for rivals in by_target.values():
        if len(rivals) > 1:  # nearly every target has one VPA
            winner, *rest = sorted(rivals, key=precedence)
            found.update((vpa_key(vpa), winner.metadata.name) for vpa in rest)
    return found
