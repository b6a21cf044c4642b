"""The resources that admission sets in a new pod: of containers, of boosts, and pod-level.

Source: admission.md 5 to 7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import NO_RESOURCES, Container, LimitRangeSpec, Pod, ResourceRequirements
from common.quantity import ZERO, Quantity
from common.recommendation.container_resources import WantedResources, wanted_resources
from common.recommendation.pod_level import (
    UNCHANGED,
    PodLevelBounds,
    PodLevelMode,
    PodLevelResources,
    Unfit,
    pod_level_bounds,
)
from common.recommendation.policy import container_policy, is_off
from common.recommendation.processing import ProcessingStages, process_in_stages
from common.recommendation.scaled_containers import scaled_specs, with_changed_scaled
from common.recommendation.startup_boost import Boosted, boosted, written_before_boosts
from common.recommendation.unboosted_pod import before_boost
from common.resources import CPU, ResourceQuantities, parse_quantities


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedResources:
    """The resources that admission sets in a pod; other resources stay unchanged.

    ``containers`` has one entry, boost included, for each of the pod's ``scaled_specs``, in their
    order. ``boosts`` are by container. ``unfit`` is the reason if the recommendation isn't applied.
    ``stages`` is None without a recommendation, and in mode Off.
    """

    containers: tuple[WantedResources, ...]
    pod_level: PodLevelResources = UNCHANGED
    boosts: Mapping[str, Boosted] = field(default_factory=dict)
    unfit: Unfit | None = None
    stages: ProcessingStages | None = None


def admitted_resources(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
    most_boost: Quantity | None = None,
    with_bounds: bool = False,
) -> AdmittedResources:
    """Return the resources that admission sets in the containers and in ``spec.resources``.

    ``most_boost`` bounds the CPU of a start-up boost. Zero is no bound; None disables boosts (the
    gate is off). A boost is also limited to the room in pod-level resources. ``with_bounds``
    computes lower and upper bounds, too, which a pod doesn't need.

    Raises:
        DecodeError: a start-up boost lacks its number.
        QuantityError: a quantity of the pod, the VPA or a LimitRange is malformed.
    """
    bare = pod if most_boost is None else before_boost(pod)
    bounds = pod_level_bounds(pod, pod_level, limit_ranges, bare=bare)
    written = None
    if bare is not pod and most_boost is not None:
        full = () if bounds is None else _full(bounds, pod)
        written = written_before_boosts(pod, bare, vpa, most=most_boost, full=full)
    stages: ProcessingStages | None = None
    policy = vpa.spec.update_policy
    if policy is None or policy.update_mode != UpdateMode.OFF:
        stages = process_in_stages(
            bare,
            vpa,
            limit_ranges,
            bounds=bounds,
            written=written,
            targets_only=not with_bounds,
        )
    processed = None if stages is None else stages.processed
    wanted = wanted_resources(bare, vpa, processed, limit_ranges)
    boosts: dict[str, Boosted] = {}
    if most_boost is not None:
        shrunk = {} if processed is None else processed.shrunk
        base = _with_shrunk(bare, shrunk, wanted)
        wanted, boosts = _boosted(base, vpa, wanted, bounds, most=most_boost)
    whole = UNCHANGED
    if bounds is not None:
        names = (each.name for each in scaled_specs(pod))
        whole = bounds.after(pod, dict(zip(names, wanted, strict=True)))
    return AdmittedResources(
        containers=wanted,
        pod_level=whole,
        boosts=boosts,
        unfit=None if processed is None else processed.unfit,
        stages=stages,
    )


def _with_shrunk(
    pod: Pod, shrunk: Mapping[str, ResourceQuantities], wanted: Sequence[WantedResources]
) -> Pod:
    """Return the pod with what A29 lowers, which is restored after a boost."""
    if not shrunk:
        return pod
    names = [each.name for each in scaled_specs(pod)]
    lower = dict(zip(names, wanted, strict=True))

    def changed(container: Container) -> Container:
        resources, want = container.resources, lower[container.name]
        if container.name not in shrunk or resources is None:
            return container
        parts = ((resources.requests, want.requests), (resources.limits, want.limits))
        requests, limits = (
            {
                name: str(new[name]) if name in shrunk[container.name] and name in new else value
                for name, value in (present or {}).items()
            }
            for present, new in parts
        )
        return structs.replace(
            container, resources=ResourceRequirements(requests=requests, limits=limits)
        )

    return with_changed_scaled(pod, changed, lambda status: status)


def _boosted(
    bare: Pod,
    vpa: VerticalPodAutoscaler,
    wanted: tuple[WantedResources, ...],
    bounds: PodLevelBounds | None,
    *,
    most: Quantity,
) -> tuple[tuple[WantedResources, ...], dict[str, Boosted]]:
    """Return the resources during start-up; each boost reduces the room for the next."""
    containers = scaled_specs(bare)
    requests = {each.name: want.requests for each, want in zip(containers, wanted, strict=True)}
    found: list[WantedResources] = []
    boosts: dict[str, Boosted] = {}
    for container, want in zip(containers, wanted, strict=True):
        name, policy = container.name, container_policy(vpa, container.name)
        room = None if bounds is None else _room(bounds, name, requests)
        boost = None
        if not is_off(policy) and (room is None or not room.is_zero):
            boost = boosted(
                container,
                vpa,
                policy,
                requests=want.requests,
                limits=want.limits,
                most=most,
                room=room,
            )
        if boost is None:
            found.append(want)
            continue
        if bounds is not None:
            boost = replace(boost, limits={**boost.limits, **bounds.cut(boost.limits)})
        requests[name], boosts[name] = boost.requests, boost
        found.append(replace(want, requests=boost.requests, limits=boost.limits))
    return tuple(found), boosts


def _room(
    bounds: PodLevelBounds, name: str, requests: Mapping[str, ResourceQuantities]
) -> Quantity | None:
    """Return the CPU that a container may request beside the others; at least its own request."""
    room, present = bounds.room_for(name, CPU, requests), bounds.phases[-1].scaled[name].requests
    return None if room is None else max(room, requests[name].get(CPU, present.get(CPU, ZERO)))


def _full(bounds: PodLevelBounds, pod: Pod) -> frozenset[str]:
    """Return the containers whose CPU request uses all the room: their boosts were cut."""
    asked = {
        each.name: parse_quantities((each.resources or NO_RESOURCES).requests)
        for each in scaled_specs(pod)
    }
    rooms = {name: bounds.room_for(name, CPU, asked) for name in asked}
    return frozenset(
        name
        for name, room in rooms.items()
        if room is not None and asked[name].get(CPU, ZERO) >= room
    )
