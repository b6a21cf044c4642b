"""Pods without the start-up boosts of their containers (gate CPUStartupBoost).

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
from common.api.core import NO_RESOURCES, Container, Pod, ResourceRequirements
from common.recommendation.pod_amounts import pod_amounts
from common.recommendation.pod_level import filled_in
from common.recommendation.scaled_containers import scaled_specs, with_changed_scaled
from common.resources import RESOURCES, ResourceQuantities


def before_boost(pod: Pod, names: Collection[str] | None = None) -> Pod:
    """Return the pod with the original resources of its boosted containers (A21).

    They are in the pod's annotations. ``names`` restricts the containers; None means all. The
    result has no reported resources of these containers. Ignore malformed annotations. Don't read
    those of containers that the pod doesn't have, because their number is unbounded. A pod-level
    request that the API server set becomes the sum over the containers without boosts.

    Raises:
        QuantityError: the pod has pod-level resources, and one of its quantities is malformed.
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
        lambda each: replace(each, resources=None) if each.name in originals else each,
    )
    filled = filled_in(pod)
    if pod.spec.resources is None or not filled:
        return bare
    sums = pod_amounts(bare.spec).inside.requests
    moved = {name: str(sums[name]) for name in filled if name in sums}
    whole = replace(pod.spec.resources, requests={**(pod.spec.resources.requests or {}), **moved})
    return replace(bare, spec=replace(bare.spec, resources=whole))


def _as_before(container: Container, original: OriginalResources) -> Container:
    now = container.resources or NO_RESOURCES
    resources = ResourceRequirements(
        requests=_restored(now.requests, original.requests),
        limits=_restored(now.limits, original.limits),
    )
    return replace(container, resources=resources)


def _restored(
    now: Mapping[str, QuantityJson] | None, original: ResourceQuantities
) -> dict[str, QuantityJson]:
    """Return the original cpu and memory, with the present values of other resources."""
    others = {name: value for name, value in (now or {}).items() if name not in RESOURCES}
    return others | {name: str(value) for name, value in original.items()}
