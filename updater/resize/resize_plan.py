"""What a resize patch of a pod says, before anybody decides to send it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from common.annotations import IN_PLACE_UPDATED
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
from updater.evaluate.update_order import ContainerOomKill, Verdict, is_outside

_NO_REQUESTS: ResourceQuantities = {}
_NOTHING = ResourceRequirements()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePlan:
    """A resize as it would be sent now, and what it would do."""

    operations: tuple[Operation, ...]  # for the resize subresource
    changes: frozenset[tuple[str, str]]  # container and resource whose spec would differ
    restarts: bool  # some change asks for a restart of its container
    targets: Mapping[str, ResourceQuantities]  # processed, of all containers
    # Of a resize that replaces a pending one:
    lowers: bool = False  # it asks for less of something than the spec does
    withdraws: bool = False  # it asks for what the pod has: nothing changes for its containers


def containers_to_patch(
    verdict: Verdict,
    containers: Mapping[str, ContainerAmounts],
    *,
    requests: Mapping[str, ResourceQuantities],
    ooms: Collection[ContainerOomKill] = (),
) -> frozenset[str]:
    """Return which of the recommended containers a resize is about.

    A pod that left its range, or was OOM-killed, is resized where that is so; what is in
    range stays. A pod that merely drifted is resized everywhere.

    Source: updater.md 10.6 and D21 (the reference patches all of them).
    """
    if verdict is Verdict.DRIFTED:
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
    """Plan to give the ``chosen`` containers what is ``wanted`` for them.

    ``wanted`` has one entry for each of the pod's ``scaled_specs``. Chosen containers whose
    spec says so already are left out. ``bounds`` are those of the pod's own resources, if it has
    some: they move along in the same patch.
    """
    changes = frozenset(_changes(pod, wanted, chosen))
    changing = {container for container, _ in changes}
    after = _by_name(pod, wanted, changing)
    whole = UNCHANGED if bounds is None else bounds.after(pod, after)
    return ResizePlan(
        operations=(*resize_operations(pod, wanted, changing), *_pod_level_operations(pod, whole)),
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


def _by_name(
    pod: Pod, wanted: Collection[WantedResources], names: Collection[str]
) -> dict[str, WantedResources]:
    pairs = zip(scaled_specs(pod), wanted, strict=True)
    return {container.name: want for container, want in pairs if container.name in names}


def _inherits(container: Container, resource: str, whole: PodLevelResources) -> bool:
    """Return whether the container's limit is that of the pod, which changes (KEP-5419)."""
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

    Parents that the spec lacks come first, because ``add`` needs them to be there.

    Source: updater.md 10.6; ``resourcesInplaceUpdatesPatchCalculator.CalculatePatches``,
    vertical-pod-autoscaler/pkg/updater/inplace/resource_updates.go.
    """
    operations: list[Operation] = []
    for scaled, want in zip(scaled_containers(pod), wanted, strict=True):
        if scaled.spec.name in containers:
            operations += _resource_operations(scaled.resources_path, scaled.spec.resources, want)
    return tuple(operations)


def _pod_level_operations(pod: Pod, whole: PodLevelResources) -> Iterator[Operation]:
    if whole:
        yield from _resource_operations(POD_LEVEL_PATH, pod.spec.resources, whole)


def _resource_operations(
    at: str, resources: ResourceRequirements | None, want: WantedResources | PodLevelResources
) -> Iterator[Operation]:
    """Set resources that stand at this path: of a container, or of the pod as a whole."""
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
    """Return the JSON patch for the pod itself, once the resize was accepted.

    ``unboosted`` are annotations that go: those of start-up boosts that were taken back.
    """
    operations = [add(pointer("metadata", "annotations", IN_PLACE_UPDATED), "true")]
    if pod.metadata.annotations is None:
        operations.insert(0, add(pointer("metadata", "annotations"), {}))
    operations += [remove(pointer("metadata", "annotations", name)) for name in sorted(unboosted)]
    return tuple(operations)


def is_marked(pod: Pod) -> bool:
    """Return whether the pod says already that we resized it."""
    return (pod.metadata.annotations or {}).get(IN_PLACE_UPDATED) == "true"


def unfinished_restarts(pod: Pod, *, resizing: bool) -> bool:
    """Return whether an unfinished resize of the pod restarts one of its containers.

    That is so where the spec and the kubelet's report differ in a resource with the policy
    RestartContainer. While the kubelet says that it is ``resizing``, the reported resources
    count, and none reported is a difference. Before it says so, and after, only what it
    allocated counts: reported cpu may be rounded and stay different for ever. A container that
    had no requests has nothing allocated: then a request that isn't reported at all is one.

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
