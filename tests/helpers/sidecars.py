"""Pods with native sidecars and plain init containers for tests of decisions (AEP-8905)."""

from collections.abc import Mapping

import msgspec

from builders import container, pod
from common.api.base import QuantityJson
from common.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodSpecWithSidecars,
)


def sidecar(
    name: str = "proxy",
    *,
    requests: Mapping[str, QuantityJson] | None = None,
    limits: Mapping[str, QuantityJson] | None = None,
) -> Container:
    """Return a native sidecar."""
    return msgspec.structs.replace(
        container(name, requests=requests, limits=limits), restart_policy="Always"
    )


def pod_with_init(
    *init: Container,
    gate: bool = True,
    containers: tuple[Container, ...] = (),
    annotations: Mapping[str, str] | None = None,
    statuses: tuple[ContainerStatus, ...] | None = None,
) -> Pod:
    """Return a running pod with these init containers; ``statuses`` are theirs.

    ``gate`` is the feature gate NativeSidecar.
    """
    made = pod(containers=containers, annotations=annotations)
    status = msgspec.structs.replace(made.status, init_container_statuses=statuses)
    kind = PodSpecWithSidecars if gate else PodSpec
    spec = kind(containers=made.spec.containers, init_containers=init, node_name="node-1")
    return msgspec.structs.replace(made, spec=spec, status=status)
