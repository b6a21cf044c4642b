"""A pod as it was before the start-up boosts of its containers (gate CPUStartupBoost).

Source: admission.md 7, updater.md 11; the rule A21 is ours.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from common.annotations import (
    OriginalResources,
    parse_startup_boost,
    startup_boost_key,
)
from common.api.base import QuantityJson
from common.api.core import Container, ContainerStatus, Pod, ResourceRequirements
from common.recommendation.pod_amounts import pod_amounts
from common.recommendation.pod_level import filled_in
from common.recommendation.scaled_containers import scaled_specs, with_changed_scaled
from common.resources import RESOURCES, ResourceQuantities


def before_boost(pod: Pod, names: Collection[str] | None = None) -> Pod:
    """Return the pod with what its boosted containers had before, as its annotations say (A21).

    ``names`` says which containers; None means all of them. What the kubelet reports of that
    container is left out, and an annotation that can't be read is ignored. Those of containers
    that the pod doesn't have are not read: there may be any number of them. A pod-level request
    that the API server filled in is the sum of those of the bare containers.

    Raises:
        QuantityError: a quantity of the pod is none; only of one with resources of its own.
    """
    annotations = pod.metadata.annotations or {}
    own = {each.name: annotations.get(startup_boost_key(each.name)) for each in scaled_specs(pod)}
    read = {
        name: parse_startup_boost(value)
        for name, value in own.items()
        if value is not None and (names is None or name in names)
    }
    originals = {name: original for name, original in read.items() if original is not None}
    if not originals:
        return pod
    bare = with_changed_scaled(
        pod,
        lambda each: _as_before(each, originals[each.name]) if each.name in originals else each,
        lambda each: _unreported(each) if each.name in originals else each,
    )
    filled = filled_in(pod)
    if pod.spec.resources is None or not filled:
        return bare
    sums = pod_amounts(bare.spec).inside.requests
    moved = {name: str(sums[name]) for name in filled if name in sums}
    whole = replace(pod.spec.resources, requests={**(pod.spec.resources.requests or {}), **moved})
    return replace(bare, spec=replace(bare.spec, resources=whole))


def _as_before(container: Container, original: OriginalResources) -> Container:
    now = container.resources or ResourceRequirements()
    resources = ResourceRequirements(
        requests=_put_back(now.requests, original.requests),
        limits=_put_back(now.limits, original.limits),
    )
    return replace(container, resources=resources)


def _put_back(
    now: Mapping[str, QuantityJson] | None, original: ResourceQuantities
) -> dict[str, QuantityJson]:
    """Return an annotation holds cpu and memory; all else is what it is."""
    others = {name: value for name, value in (now or {}).items() if name not in RESOURCES}
    return others | {name: str(value) for name, value in original.items()}


def _unreported(status: ContainerStatus) -> ContainerStatus:
    return replace(status, resources=None)
