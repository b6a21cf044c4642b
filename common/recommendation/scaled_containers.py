"""The containers of a pod that a VPA scales; recommender, admission and updater use the same list.

The list has the regular containers in their order. With the gate NativeSidecar, which is part of
the spec's type, native sidecars follow (X107). Plain init containers are never in it.

Source: AEP-8905.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from common.api.core import Container, ContainerStatus, Pod, PodSpec, is_sidecar
from common.patches import pointer


@dataclass(frozen=True, slots=True)
class ScaledContainer:
    """A scaled container and its place in the pod."""

    spec: Container
    status: ContainerStatus | None
    kind: str  # as the annotation ``vpaUpdates`` names it
    index: int  # in its list of the pod's spec
    resources_path: str  # JSON pointer


def scaled_containers(pod: Pod) -> tuple[ScaledContainer, ...]:
    """Return the scaled containers of a pod, in the order of ``scaled_specs``."""
    statuses = {status.name: status for status in scaled_statuses(pod)}
    return tuple(
        ScaledContainer(
            spec=spec,
            status=statuses.get(spec.name),
            kind=kind,
            index=index,
            resources_path=pointer("spec", part, index, "resources"),
        )
        for part, kind, index, spec in _places(pod)
    )


def scaled_specs(of: Pod | PodSpec) -> tuple[Container, ...]:
    """Return the scaled containers of a spec: regular ones, then sidecars."""
    spec = of.spec if isinstance(of, Pod) else of
    sidecars = scaled_sidecars(spec)
    return (*spec.containers, *sidecars) if sidecars else spec.containers


def scaled_sidecars(spec: PodSpec) -> tuple[Container, ...]:
    """Return the scaled native sidecars of a spec."""
    if not spec.scales_sidecars or not spec.init_containers:
        return ()
    return tuple(filter(is_sidecar, spec.init_containers))


def scaled_statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    """Return the statuses of the scaled containers."""
    regular = pod.status.container_statuses or ()
    sidecars = {each.name for each in scaled_sidecars(pod.spec)}
    if not sidecars:
        return regular
    reported = pod.status.init_container_statuses or ()
    return (*regular, *(each for each in reported if each.name in sidecars))


def with_changed_scaled(
    pod: Pod,
    spec: Callable[[Container], Container],
    status: Callable[[ContainerStatus], ContainerStatus],
) -> Pod:
    """Return the pod with ``spec`` and ``status`` applied to each of its scaled containers."""
    changed = replace(
        pod,
        spec=replace(pod.spec, containers=tuple(map(spec, pod.spec.containers))),
        status=replace(
            pod.status, container_statuses=tuple(map(status, pod.status.container_statuses or ()))
        ),
    )
    sidecars = {each.name for each in scaled_sidecars(pod.spec)}
    if not sidecars:
        return changed
    init_containers = tuple(
        spec(each) if each.name in sidecars else each for each in pod.spec.init_containers or ()
    )
    init_statuses = tuple(
        status(each) if each.name in sidecars else each
        for each in pod.status.init_container_statuses or ()
    )
    return replace(
        changed,
        spec=replace(changed.spec, init_containers=init_containers),
        status=replace(changed.status, init_container_statuses=init_statuses),
    )


def _places(pod: Pod) -> Iterator[tuple[str, str, int, Container]]:
    """Yield the field of the spec, kind, index and spec of each scaled container."""
    for index, spec in enumerate(pod.spec.containers):
        yield "containers", "container", index, spec
    if pod.spec.scales_sidecars:
        for index, spec in enumerate(pod.spec.init_containers or ()):
            if is_sidecar(spec):
                yield "initContainers", "native sidecar", index, spec
