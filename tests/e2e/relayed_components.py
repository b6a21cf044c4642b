"""Addresses at which the API server reaches components that listen on loopback."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from common.kube.client import PatchType
from common.kube.endpoints import PODS, Endpoint
from common.read_api.reviews import API_SERVER_NAMESPACE, ENDPOINT_SLICES
from e2e.cluster import Cluster
from e2e.kubectl import run_command
from relay import Relay, Streams

_DOCUMENTATION = "192.0.2.10"  # RFC 5737: no machine has it
_DICTS: Endpoint[dict[str, Any]] = ENDPOINT_SLICES.as_dicts()


def relay(address: str, target: str, port: int, *, source: str) -> Relay:
    """Forward connections on ``address`` to the same port of ``target``, from ``source``.

    They end with the context: an API server would use them again for another relay.
    """

    async def dial(_: str) -> Streams:
        return await asyncio.open_connection(target, port, local_addr=(source, 0))

    return Relay(dial, host=address, port=port)


async def create_pod_with(
    cluster: Cluster, namespace: str, name: str, address: str, **labels: str
) -> None:
    """Create a ready pod with this address, which no node starts."""
    spec = {
        "containers": [{"name": "app", "image": "none"}],
        "schedulingGates": [{"name": "example.com/held"}],
    }
    pods = PODS.as_dicts()
    meta = {"name": name, "labels": labels}
    await cluster.client.create(pods, {"metadata": meta, "spec": spec}, namespace=namespace)
    ready = {"type": "Ready", "status": "True"}
    await cluster.client.patch(
        pods,
        name,
        {"status": {"podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}},
        patch_type=PatchType.MERGE,
        namespace=namespace,
        subresource="status",
    )


@contextlib.asynccontextmanager
async def address_of_api_server(cluster: Cluster, name: str, address: str) -> AsyncIterator[None]:
    """Let the components take an address for that of an API server."""
    made = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [],
    }
    await cluster.client.create(_DICTS, made, namespace=API_SERVER_NAMESPACE)
    try:
        yield
    finally:
        await cluster.client.delete(_DICTS, name, namespace=API_SERVER_NAMESPACE)


@contextlib.asynccontextmanager
async def other_address() -> AsyncIterator[str]:
    """Yield an address of this machine that isn't loopback; add one if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_DOCUMENTATION, 9))  # sends nothing
            own = str(probe.getsockname()[0])
        except OSError:
            own = ""
    if own:
        yield own
        return
    words = (f"{_DOCUMENTATION}/32", "dev", "lo")
    code, printed = await run_command("ip", "address", "add", *words)
    assert code == 0, printed
    try:
        yield _DOCUMENTATION
    finally:
        await run_command("ip", "address", "del", *words)
