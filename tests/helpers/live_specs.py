"""Specs of pods as the updater decodes them."""

from msgspec import structs

from common.api.core import PodSpec
from common.api.scheduling import SchedulablePodSpec


def schedulable(spec: PodSpec) -> SchedulablePodSpec:
    """Return the spec of a pod that may run on any node."""
    return SchedulablePodSpec(**structs.asdict(spec))
