"""What kube-proxy does for the webhook's Service: its address leads to a ready pod that it selects.

The control plane has no kube-proxy. Its Services have addresses of 10.96.0.0/16, which the network
namespace of these tests routes to loopback.
"""

import asyncio
import errno
import socket
from typing import Any

from common.errors import KubeError
from common.kube.client import KubeClient
from common.kube.endpoints import PODS, Endpoint
from e2e.pods import Object, is_ready
from reference.programs import webhook_port
from relay import Relay, Streams

PORT = 443
_SOME_SERVICE = "10.96.0.99"  # in the network of controlplane/commands.py
_SERVICES: Endpoint[Object] = Endpoint("", "v1", "services", "Service", dict[str, Any])


def problem() -> str:
    """Return the reason why the webhook's Service can't have its address here; empty if it can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_SOME_SERVICE, PORT))
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "")
            return f"the address of a Service can't be had ({name}): run `make test-reference`"
    return ""


def serving(client: KubeClient) -> Relay:
    """Return a relay that connects port 443 of each Service to its pods."""

    async def dial(service_address: str) -> Streams:
        try:
            address = await _ready_pod(client, service_address)
        except KubeError as error:
            raise ConnectionError(str(error)) from error
        if not address:
            raise ConnectionRefusedError(f"no ready pod of {service_address}")
        return await asyncio.open_connection(address, webhook_port(address))

    return Relay(dial, host="0.0.0.0", port=PORT)


async def _ready_pod(client: KubeClient, service_address: str) -> str:
    """Return the address of a ready pod of the Service; empty if there is none."""
    for service in (await client.list(_SERVICES)).items:
        if service["spec"].get("clusterIP") == service_address:
            selector = service["spec"]["selector"]
            found = await client.list(
                PODS.as_dicts(),
                namespace=service["metadata"]["namespace"],
                label_selector=",".join(f"{key}={value}" for key, value in selector.items()),
            )
            return next((_address(pod) for pod in found.items if _serves(pod)), "")
    return ""


def _serves(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and is_ready(pod) and bool(_address(pod))


def _address(pod: Object) -> str:
    return str(pod["status"].get("podIP") or "")
