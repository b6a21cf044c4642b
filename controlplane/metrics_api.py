"""The registration of the metrics server, which runs in this process, at the API server."""

import contextlib
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import Endpoint
from sandbox.kubelet.metrics_server import GROUP, VERSION

_NAMESPACE = "kube-system"
_SERVICE = "metrics-server"
METRICS_HOST = f"{_SERVICE}.{_NAMESPACE}.svc"  # the name in its certificate
_CLOSED_PORT = 1
_SERVICE_PORT = 443
_SERVICES = Endpoint("", "v1", "services", "Service", dict[str, Any])
_SLICES = Endpoint("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", dict[str, Any])
_API_SERVICES = Endpoint(
    "apiregistration.k8s.io", "v1", "apiservices", "APIService", dict[str, Any], namespaced=False
)


@dataclass(frozen=True, slots=True)
class MetricsApi:
    """A metrics server that listens on ``port`` of this machine."""

    port: int
    authority: str  # PEM, of its certificate
    address: str = ""  # that API servers dial; empty: localhost

    async def announce(self, client: KubeClient) -> None:
        """Create the Service, its endpoint if it has an address, and the APIService."""
        metadata = {"name": _SERVICE, "labels": {"kubernetes.io/service-name": _SERVICE}}
        ports = [{"port": _SERVICE_PORT, "targetPort": self.port}]
        by_name = {"type": "ExternalName", "externalName": "localhost"}
        service = {"metadata": metadata, "spec": {"ports": ports} if self.address else by_name}
        await client.create(_SERVICES, service, namespace=_NAMESPACE)
        if self.address:
            endpoints = {
                "metadata": metadata,
                "addressType": "IPv4",
                "endpoints": [{"addresses": [self.address], "conditions": {"ready": True}}],
                "ports": [{"port": self.port, "name": ""}],
            }
            await client.create(_SLICES, endpoints, namespace=_NAMESPACE)
        await client.create(
            _API_SERVICES,
            {
                "metadata": {"name": f"{VERSION}.{GROUP}"},
                "spec": {
                    "group": GROUP,
                    "version": VERSION,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "service": {"namespace": _NAMESPACE, "name": _SERVICE, "port": self._dialled},
                    "caBundle": b64encode(self.authority.encode()).decode(),
                },
            },
        )

    @contextlib.asynccontextmanager
    async def away(self, client: KubeClient) -> AsyncIterator[None]:
        """Point the APIService to a closed port while the context is entered."""
        await self._dial(client, _CLOSED_PORT)
        try:
            yield
        finally:
            await self._dial(client, self._dialled)

    @property
    def _dialled(self) -> int:
        """The port of the Service. An ExternalName Service has no target port."""
        return _SERVICE_PORT if self.address else self.port

    async def _dial(self, client: KubeClient, port: int) -> None:
        await client.patch(
            _API_SERVICES,
            f"{VERSION}.{GROUP}",
            {"spec": {"service": {"port": port}}},
            patch_type=PatchType.MERGE,
        )
