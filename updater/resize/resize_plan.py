"""Plans of in-place resizes, and their patches."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from common.annotations import IN_PLACE_UPDATED, startup_boost_key
from common.api.base import QuantityJson
from common.api.core import Container, ContainerStatus, Pod, ResourceRequirements
from common.patches import Operation, add, pointer, remove
from common.recommendation.container_resources import WantedResources
from common.recommendation.pod_level import (
    POD_LEVEL_PATH,
    UNCHANGED,
    PodLevelBounds,
    PodLevelResources,
)
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import (
    scaled_containers,
    scaled_specs,
    scaled_statuses,
)
from common.resources import ResourceQuantities, in_order, parse_quantities
from updater.decision import Reason
from updater.evaluate.drift import is_outside
from updater.evaluate.quick_oom_kills import ContainerOomKill
from updater.resize.limit_decrease import LimitDecrease

_NO_REQUESTS: ResourceQuantities = {}
_NOTHING = ResourceRequirements()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePlan:
    """A resize that could be sent, and its effects."""

    operations: tuple[Operation, ...]  # for the resize subresource
    changes: frozenset[tuple[str, str]]  # changed containers and resources
    restarts: bool  # some changed resource has the policy RestartContainer
    targets: Mapping[str, ResourceQuantities]  # processed, of all containers
    # Only for a resize that replaces a pending one:
    lowers: bool = False  # some request is below the one in the spec
    withdraws: bool = False  # the resources are the granted ones
    keeps_memory: bool = False  # some memory is the granted one, because its limit must not go down
    # Of a candidate's whole resize: memory limits that go down without a restart.
    memory_decreases: tuple[LimitDecrease, ...] = ()


def containers_to_patch(
    why: Reason,
    containers: Mapping[str, ContainerAmounts],
    *,
    requests: Mapping[str, ResourceQuantities],
    ooms: Collection[ContainerOomKill] = (),
) -> frozenset[str]:
    """Return the recommended containers that a resize changes.

    These are all containers of a pod that drifted within its range, and otherwise the containers
    that are out of range or were OOM-killed.

    Source: updater.md 10.6 and D21 (the reference patches all of them).
    """
    if why is Reason.DRIFTED:
        return frozenset(containers)
    killed = {kill.container for kill in ooms}
    return frozenset(
        name
        for name, amounts in containers.items()
        if name in killed or is_outside(requests.get(name, _NO_REQUESTS), amounts)
    )


def plan_resize(
    pod: Pod,
    wanted: Collection[WantedResources],
    chosen: Collection[str],
    *,
    containers: Mapping[str, ContainerAmounts],
    bounds: PodLevelBounds | None = None,
) -> ResizePlan:
    """Plan to resize the ``chosen`` containers to the ``wanted`` resources.

    ``wanted`` has one entry for each of the pod's ``scaled_specs``. Containers whose spec has the
    wanted resources are left out. ``bounds`` are those of pod-level resources, which change in the
    same patch.
    """
    changes = frozenset(_changes(pod, wanted, chosen))
    changing = {container for container, _ in changes}
    pairs = zip(scaled_specs(pod), wanted, strict=True)
    after = {container.name: want for container, want in pairs if container.name in changing}
    whole = UNCHANGED if bounds is None else bounds.after(pod, after)
    operations = resize_operations(pod, wanted, changing)
    if whole:
        operations += tuple(_resource_operations(POD_LEVEL_PATH, pod.spec.resources, whole))
    return ResizePlan(
        operations=operations,
        changes=changes,
        restarts=any(
            policy.restart_policy == "RestartContainer"
            and (
                (container.name, policy.resource_name) in changes
                or _inherits(container, policy.resource_name, whole)
            )
            for container in scaled_specs(pod)
            for policy in container.resize_policy or ()
        ),
        targets={name: amounts.target for name, amounts in containers.items()},
    )


def _inherits(container: Container, resource: str, whole: PodLevelResources) -> bool:
    """Return whether the container inherits a pod-level limit that changes (KEP-5419)."""
    own = (container.resources or _NOTHING).limits or {}
    return resource in whole.limits and resource not in own


def _changes(
    pod: Pod, wanted: Collection[WantedResources], chosen: Collection[str]
) -> Iterator[tuple[str, str]]:
    for container, want in zip(scaled_specs(pod), wanted, strict=True):
        if container.name not in chosen:
            continue
        spec = container.resources or _NOTHING
        for present, values in ((spec.requests, want.requests), (spec.limits, want.limits)):
            current = parse_quantities(present)
            for resource, value in values.items():
                if resource not in current or current[resource].milli != value.milli:
                    yield container.name, resource


def resize_operations(
    pod: Pod, wanted: Collection[WantedResources], containers: Collection[str]
) -> tuple[Operation, ...]:
    """Return the JSON patch for the resize subresource, containers and resources in order.

    Missing parents are added first.

    Source: updater.md 10.6; ``resourcesInplaceUpdatesPatchCalculator.CalculatePatches``,
    vertical-pod-autoscaler/pkg/updater/inplace/resource_updates.go.
    """
    operations: list[Operation] = []
    for scaled, want in zip(scaled_containers(pod), wanted, strict=True):
        if scaled.spec.name in containers:
            operations += _resource_operations(scaled.resources_path, scaled.spec.resources, want)
    return tuple(operations)


def _resource_operations(
    at: str, resources: ResourceRequirements | None, want: WantedResources | PodLevelResources
) -> Iterator[Operation]:
    """Yield the operations that set the resources at a path, of a container or of the pod."""
    spec = resources or _NOTHING
    if spec.requests is None and spec.limits is None:
        yield add(at, {})
    for kind, present, values in (
        ("requests", spec.requests, want.requests),
        ("limits", spec.limits, want.limits),
    ):
        if values and present is None:
            yield add(at + pointer(kind), {})
        for resource in in_order(values):
            yield add(at + pointer(kind, resource), str(values[resource]))


def annotation_operations(pod: Pod, unboosted: Collection[str] = ()) -> tuple[Operation, ...]:
    """Return the JSON patch for the pod itself after an accepted resize.

    ``unboosted`` are containers with an ended start-up boost, whose annotation is removed.
    """
    operations = [add(pointer("metadata", "annotations", IN_PLACE_UPDATED), "true")]
    if pod.metadata.annotations is None:
        operations.insert(0, add(pointer("metadata", "annotations"), {}))
    operations += [
        remove(pointer("metadata", "annotations", startup_boost_key(name)))
        for name in sorted(unboosted)
    ]
    return tuple(operations)


def is_marked(pod: Pod) -> bool:
    """Return whether the pod has the annotation of an in-place update."""
    return (pod.metadata.annotations or {}).get(IN_PLACE_UPDATED) == "true"


def unfinished_restarts(pod: Pod, *, resizing: bool) -> bool:
    """Return whether an unfinished resize of the pod restarts one of its containers.

    It does if the spec and the kubelet's report differ in a resource with the policy
    RestartContainer. While the kubelet reports that it is ``resizing``, the reported resources
    count, and a missing report is a difference. Otherwise only allocated requests count, because
    reported cpu may be rounded and differ permanently. A container without requests had nothing
    allocated; then a request that isn't reported is a difference.

    Source: updater.md D32, kubernetes-resize.md 3.2.
    """
    restarting = [
        (container, policy.resource_name)
        for container in scaled_specs(pod)
        for policy in container.resize_policy or ()
        if policy.restart_policy == "RestartContainer"
    ]
    if not restarting:
        return False
    statuses = {status.name: status for status in scaled_statuses(pod)}
    return any(
        _is_unfinished(container, statuses.get(container.name), resource, resizing=resizing)
        for container, resource in restarting
    )


def _is_unfinished(
    container: Container, status: ContainerStatus | None, resource: str, *, resizing: bool
) -> bool:
    spec = container.resources or _NOTHING
    if resizing:
        actual = None if status is None else status.resources
        return actual is None or (
            _differs(spec.requests, actual.requests, resource)
            or _differs(spec.limits, actual.limits, resource)
        )
    if status is None:
        return False
    if status.allocated_resources is not None:
        return _differs(spec.requests, status.allocated_resources, resource)
    reported = status.resources
    return (
        reported is not None
        and resource in (spec.requests or {})
        and resource not in (reported.requests or {})
    )


def _differs(
    spec: Mapping[str, QuantityJson] | None,
    actual: Mapping[str, QuantityJson] | None,
    resource: str,
) -> bool:
    wanted = parse_quantities(spec).get(resource)
    found = parse_quantities(actual).get(resource)
    return wanted is not None and (found is None or found.milli != wanted.milli)
