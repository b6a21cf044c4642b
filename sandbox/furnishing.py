"""What a cluster is given before anybody uses it, through its API: namespaces, the metrics API."""

import contextlib
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from common.errors import ConflictError
from common.kube.client import KubeClient
from common.kube.endpoints import NAMESPACES, Endpoint
from sandbox.kubelet.metrics_server import GROUP, VERSION

_NAMESPACE = "kube-system"
_SERVICE = "metrics-server"
METRICS_HOST = f"{_SERVICE}.{_NAMESPACE}.svc"  # the name that its certificate must carry
_SERVICES = Endpoint("", "v1", "services", "Service", dict[str, Any])
_API_SERVICES = Endpoint(
    "apiregistration.k8s.io", "v1", "apiservices", "APIService", dict[str, Any], namespaced=False
)


async def create_namespaces(client: KubeClient, names: Iterable[str]) -> None:
    """Create the namespaces that aren't there yet."""
    for name in names:
        with contextlib.suppress(ConflictError):
            await client.create(NAMESPACES.as_dicts(), {"metadata": {"name": name}})


async def announce_metrics(client: KubeClient, port: int, authority: str) -> None:
    """Let the API server find a metrics server that listens on ``port`` of this machine.

    An ExternalName Service has no target port: the port that is dialled is the APIService's.
    """
    await client.create(
        _SERVICES,
        {
            "metadata": {"name": _SERVICE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        namespace=_NAMESPACE,
    )
    await client.create(
        _API_SERVICES,
        {
            "metadata": {"name": f"{VERSION}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "version": VERSION,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"namespace": _NAMESPACE, "name": _SERVICE, "port": port},
                "caBundle": b64encode(authority.encode()).decode(),
            },
        },
    )
