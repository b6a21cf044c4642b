"""The patch of a new pod: resources as recommended, and annotations that say so.

Source: vertical-pod-autoscaler/pkg/admission-controller/resource/pod; admission.md 3, 5, 6.
"""

from collections.abc import Iterator, Mapping, Sequence

from common.annotations import (
    OBSERVED_CONTAINERS,
    VPA_UPDATES,
    observed_containers_value,
    startup_boost_key,
    startup_boost_value,
)
from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.base import QuantityJson
from common.api.core import LimitRangeSpec, Pod
from common.errors import DecodeError
from common.features import FeatureGates
from common.patches import Operation, add, pointer
from common.quantity import Quantity
from common.recommendation.boosts import before_boost
from common.recommendation.container_resources import WantedResources, wanted_resources
from common.recommendation.policy import container_policy, is_off
from common.recommendation.processing import process
from common.recommendation.scaled_containers import ScaledContainer, scaled_containers, scaled_specs
from common.recommendation.settling import Written
from common.recommendation.startup_boost import (
    Boosted,
    boosted,
    has_boost,
    written_before_boosts,
)
from common.recommendation.trail import Amount, Trail
from common.resources import CPU, ResourceQuantities, in_order


def update_mode(vpa: VerticalPodAutoscaler) -> str:
    """The mode as written; Recreate where nothing is written."""
    policy = vpa.spec.update_policy
    mode = policy.update_mode if policy is not None else None
    return UpdateMode.RECREATE if mode is None else mode


def changes_pods(vpa: VerticalPodAutoscaler) -> bool:
    """Whether the VPA takes part in the choice of a new pod's VPA.

    Every mode but Off does, one that we don't know included; Off does with a start-up boost.
    """
    return update_mode(vpa) != UpdateMode.OFF or has_boost(vpa)


def admit_pod(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    features: FeatureGates,
    most_boost: Quantity,
    trail: Trail | None = None,
) -> tuple[Operation, ...]:
    """The JSON patch that gives a pod what its VPA wants, in the reference's order.

    ``most_boost`` bounds the CPU request of a start-up boost; zero is no bound. Every value is
    set with ``add``, nothing is ever removed, and maps that are missing are added first: a
    patch that can't be applied fails the pod whatever the failure policy says. ``trail`` is told
    how each number came about.

    Raises:
        DecodeError: a start-up boost lacks its number, or a value would be negative.
        QuantityError: something that should be a quantity is none.
    """
    operations: list[Operation] = []
    if pod.metadata.annotations is None:
        operations.append(add("/metadata/annotations", {}))
    told: list[str] = []
    bare = before_boost(pod) if features.cpu_startup_boost else pod
    written = None if bare is pod else written_before_boosts(pod, bare, vpa, most=most_boost)
    wanted = _wanted(bare, vpa, limit_ranges, trail, written)
    before = scaled_specs(bare)
    for scaled, original, resources in zip(scaled_containers(pod), before, wanted, strict=True):
        container = scaled.spec
        if features.cpu_startup_boost:
            policy = container_policy(vpa, container.name)
            if is_off(policy):
                continue
            boost = boosted(
                original,
                vpa,
                policy,
                requests=resources.requests,
                limits=resources.limits,
                most=most_boost,
            )
            if boost is not None:
                if trail is not None:
                    _tell_boost(trail, container.name, boost)
                value = startup_boost_value(boost.original)
                operations.append(_annotation(startup_boost_key(container.name), value))
                resources = WantedResources(  # noqa: PLW2901 - the boost builds on the rest
                    requests=boost.requests, limits=boost.limits, notes=resources.notes
                )
        changes = tuple(_container_operations(scaled, resources))
        if changes:
            operations += changes
            told.append(f"{scaled.kind} {scaled.index}: {', '.join(_items(resources))}")
    if told:
        text = f"Pod resources updated by {vpa.metadata.name}: {'; '.join(told)}"
        operations.append(_annotation(VPA_UPDATES, text))
    names = observed_containers_value(container.name for container in scaled_specs(pod))
    operations.append(_annotation(OBSERVED_CONTAINERS, names))
    return tuple(operations)


def _tell_boost(trail: Trail, container: str, boost: Boosted) -> None:
    trail.capped(container, Amount.REQUEST, boost.changes)
    if boost.limit:
        trail.add(container, Amount.LIMIT, CPU, boost.limit, boost.limits[CPU])


def _wanted(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    trail: Trail | None,
    written: Written | None,
) -> Sequence[WantedResources]:
    """What the recommendation asks for, container by container; nothing in mode Off."""
    if update_mode(vpa) == UpdateMode.OFF:
        return wanted_resources(pod, vpa, None, limit_ranges, trail)
    shown = trail is not None  # to people, and then the bounds are, too
    processed = process(pod, vpa, limit_ranges, trail, written=written, targets_only=not shown)
    return wanted_resources(pod, vpa, processed, limit_ranges, trail)


def _container_operations(scaled: ScaledContainer, wanted: WantedResources) -> Iterator[Operation]:
    resources = scaled.spec.resources
    requests = resources.requests if resources is not None else None
    limits = resources.limits if resources is not None else None
    root = scaled.resources_path
    if requests is None and limits is None:
        yield add(root, {})
    yield from _map_operations(f"{root}/requests", requests, wanted.requests)
    yield from _map_operations(f"{root}/limits", limits, wanted.limits)


def _map_operations(
    path: str, there: Mapping[str, QuantityJson] | None, wanted: ResourceQuantities
) -> Iterator[Operation]:
    if there is None and wanted:
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
