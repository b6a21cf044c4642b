"""The containers of a pod that a VPA scales: listed here, and nowhere else.

Every module that reads or changes the resources of a pod's containers goes through this list, so
that recommender, admission and updater can't disagree about what belongs to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from common.api.core import Container, ContainerStatus, Pod
from common.patches import pointer


@dataclass(frozen=True, slots=True)
class ScaledContainer:
    """A container whose resources follow a recommendation, and where a patch finds them."""

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
            kind="container",
            index=index,
            resources_path=pointer("spec", "containers", index, "resources"),
        )
        for index, spec in enumerate(pod.spec.containers)
    )


def scaled_specs(pod: Pod) -> tuple[Container, ...]:
    """Return what the spec says of the scaled containers, regular containers first."""
    return pod.spec.containers


def scaled_statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    """Return what the kubelet reports of the scaled containers."""
    return pod.status.container_statuses or ()


def with_changed_scaled(
    pod: Pod,
    spec: Callable[[Container], Container],
    status: Callable[[ContainerStatus], ContainerStatus],
) -> Pod:
    """Return the pod with specs and statuses of its scaled containers changed one by one."""
    return replace(
        pod,
        spec=replace(pod.spec, containers=tuple(map(spec, pod.spec.containers))),
        status=replace(
            pod.status, container_statuses=tuple(map(status, pod.status.container_statuses or ()))
        ),
    )
