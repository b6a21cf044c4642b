"""The patch of a new pod: recommended resources, and annotations that describe the change.

Source: vertical-pod-autoscaler/pkg/admission-controller/resource/pod; admission.md 3, 5, 6.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.annotations import (
    OBSERVED_CONTAINERS,
    VPA_UPDATES,
    observed_containers_value,
    startup_boost_key,
    startup_boost_value,
)
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.base import QuantityJson
from common.api.core import NO_RESOURCES, LimitRangeSpec, Pod, ResourceRequirements
from common.errors import DecodeError
from common.features import FeatureGates
from common.patches import Operation, add, pointer
from common.quantity import Quantity
from common.recommendation.admitted_resources import AdmittedResources, admitted_resources
from common.recommendation.container_resources import WantedResources
from common.recommendation.pod_level import POD_LEVEL_PATH, PodLevelMode, Unfit
from common.recommendation.policy import container_policy, is_off
from common.recommendation.scaled_containers import scaled_containers, scaled_specs
from common.resources import ResourceQuantities, in_order


@dataclass(frozen=True, slots=True)
class PodPatch:
    """The JSON patch of a new pod; ``unfit`` is the reason why it lacks the recommendation."""

    operations: tuple[Operation, ...]
    unfit: Unfit | None = None


def pod_patch(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    features: FeatureGates,
    most_boost: Quantity,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
) -> PodPatch:
    """Return the JSON patch that applies a VPA to a pod, in the reference's order.

    ``most_boost`` bounds the CPU request of a start-up boost; zero is no bound. ``pod_level``
    decides whether ``spec.resources`` of the pod scales with its containers. The patch uses only
    ``add``, and adds missing maps first: a patch that can't be applied fails the pod, whatever the
    failure policy.

    Raises:
        DecodeError: a start-up boost lacks its number, or a value would be negative.
        QuantityError: a quantity can't be parsed.
    """
    admitted = admitted_resources(
        pod,
        vpa,
        limit_ranges,
        pod_level=pod_level,
        most_boost=most_boost if features.cpu_startup_boost else None,
    )
    return PodPatch(_operations(pod, vpa, admitted, features=features), admitted.unfit)


def _operations(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    admitted: AdmittedResources,
    *,
    features: FeatureGates,
) -> tuple[Operation, ...]:
    """Return the operations that set the admitted resources and the annotations."""
    operations: list[Operation] = []
    if pod.metadata.annotations is None:
        operations.append(add("/metadata/annotations", {}))
    changed: list[str] = []
    for scaled, resources in zip(scaled_containers(pod), admitted.containers, strict=True):
        container = scaled.spec
        off = features.cpu_startup_boost and is_off(container_policy(vpa, container.name))
        if off and not resources.requests:
            continue
        boost = admitted.boosts.get(container.name)
        if boost is not None:
            value = startup_boost_value(boost.original)
            operations.append(_annotation(startup_boost_key(container.name), value))
        path = scaled.resources_path
        changes = tuple(_resource_operations(path, container.resources, resources))
        if changes:
            operations += changes
            changed.append(f"{scaled.kind} {scaled.index}: {', '.join(_items(resources))}")
    if admitted.pod_level:
        whole = WantedResources(
            requests=admitted.pod_level.requests, limits=admitted.pod_level.limits
        )
        operations += _resource_operations(POD_LEVEL_PATH, pod.spec.resources, whole)
        changed.append(f"pod: {', '.join(_items(whole))}")
    if changed:
        text = f"Pod resources updated by {vpa.metadata.name}: {'; '.join(changed)}"
        operations.append(_annotation(VPA_UPDATES, text))
    names = observed_containers_value(container.name for container in scaled_specs(pod))
    operations.append(_annotation(OBSERVED_CONTAINERS, names))
    return tuple(operations)


def _resource_operations(
    root: str, resources: ResourceRequirements | None, wanted: WantedResources
) -> Iterator[Operation]:
    """Yield the operations that set the resources at ``root``, of a container or of the pod."""
    present = resources or NO_RESOURCES
    if present.requests is None and present.limits is None:
        yield add(root, {})
    yield from _map_operations(f"{root}/requests", present.requests, wanted.requests)
    yield from _map_operations(f"{root}/limits", present.limits, wanted.limits)


def _map_operations(
    path: str, present: Mapping[str, QuantityJson] | None, wanted: ResourceQuantities
) -> Iterator[Operation]:
    if present is None and wanted:
        yield add(path, {})
    for name in in_order(wanted):
        if wanted[name].sign < 0:  # the API server would refuse the pod
            raise DecodeError(f"{name} would become {wanted[name]}")
        yield add(path + pointer(name), str(wanted[name]))


def _items(wanted: WantedResources) -> Iterator[str]:
    yield from wanted.notes
    for name in in_order(wanted.requests):
        yield f"{name} request"
    for name in in_order(wanted.limits):
        yield f"{name} limit"


def _annotation(key: str, value: str) -> Operation:
    return add(pointer("metadata", "annotations", key), value)
