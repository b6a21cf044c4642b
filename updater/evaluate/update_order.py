"""The order in which the pods of a VPA are updated."""

from common.api.core import Pod
from updater.evaluate.drift import Drift


def rank(drift: Drift, pod: Pod) -> tuple[bool, float, str, str]:
    """Return the sort key of a pod: scale-ups come first, then larger differences.

    The pod's namespace and name break ties.

    Source: updater.md 7; ``byPriorityDesc.Less`` in the reference.
    """
    meta = pod.metadata
    return (not drift.scale_up, -drift.resource_diff, meta.namespace, meta.name)
