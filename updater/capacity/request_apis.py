"""The served APIs through which an autoscaler can be asked for capacity."""

from collections.abc import Mapping
from typing import Any

from common.api.provisioning import CapacityRequestObject
from common.kube.client import KubeClient
from common.kube.discovery import served_resources, served_versions
from common.kube.endpoints import (
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Endpoint,
)
from updater.capacity.provisioning_plan import RequestKind
from updater.capacity.request_objects import GROUP

RESOURCES = {
    RequestKind.BUFFER: "capacitybuffers",
    RequestKind.REQUEST: "provisioningrequests",
}
"""The plural names, in the order of preference."""

REQUESTING_WORKLOADS: tuple[Endpoint[Any], ...] = (
    *(DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS),
)
"""The workloads for whose pods capacity is requested; another node doesn't help a DaemonSet."""

RequestApis = Mapping[RequestKind, Endpoint[CapacityRequestObject]]


async def discover(client: KubeClient) -> RequestApis:
    """Return the served APIs, each in its newest version; empty if there is none.

    Raises:
        KubeError: the API server refused or failed.
        DecodeError: an answer is malformed.
    """
    found: dict[RequestKind, Endpoint[CapacityRequestObject]] = {}
    for version in await served_versions(client, GROUP):
        served = await served_resources(client, GROUP, version)
        for kind, resource in RESOURCES.items():
            if kind not in found and resource in served:
                found[kind] = Endpoint(GROUP, version, resource, kind.value, CapacityRequestObject)
    return found


def preferred(apis: RequestApis) -> RequestKind | None:
    """Return the kind of new objects: a buffer if both are served; None: neither is."""
    return next((kind for kind in RESOURCES if kind in apis), None)
