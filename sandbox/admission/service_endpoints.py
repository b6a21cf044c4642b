"""Where a Service leads to: the address that the API server dials for a webhook.

There is no network of pods here, so a Service must be an ExternalName, or have Endpoints or an
EndpointSlice with an address that this machine can reach.

Source: k8s.io/apiserver pkg/util/proxy/proxy.go; kubernetes-resize.md section 6.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandbox.objects.resources import BUILTIN, SERVICES
from sandbox.objects.store import Store

_ENDPOINTS: Final = next(one for one in BUILTIN if one.plural == "endpoints")
_SLICES: Final = next(one for one in BUILTIN if one.plural == "endpointslices")
_SERVICE_LABEL: Final = "kubernetes.io/service-name"


class ServiceError(Exception):
    """The Service isn't there, or leads nowhere."""


def service_address(store: Store, namespace: str, name: str, port: int) -> tuple[str, int]:
    """Host and port behind ``port`` of a Service.

    Raises:
        ServiceError: no such Service or port, or no endpoint.
    """
    stored = store.get(SERVICES, namespace, name)
    if stored is None:
        raise ServiceError(f'service "{name}" not found')
    spec = stored.object(SERVICES)["spec"]
    if spec.get("type") == "ExternalName":
        return spec["externalName"], port
    ports = [one for one in spec.get("ports") or () if one.get("port") == port]
    if not ports:
        raise ServiceError(f'no service port {port} found for service "{name}"')
    for address, number, port_name in _endpoints(store, namespace, name):
        if port_name == ports[0].get("name", ""):
            return address, number
    raise ServiceError(f'no endpoints available for service "{name}"')


def _endpoints(store: Store, namespace: str, name: str) -> Iterator[tuple[str, int, str]]:
    for stored in store.list(_SLICES, namespace):
        if stored.labels.get(_SERVICE_LABEL) == name:
            found = stored.object(_SLICES)
            for endpoint in found.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready", True):
                    yield from _ports(endpoint["addresses"][0], found.get("ports"))
    one = store.get(_ENDPOINTS, namespace, name)
    if one is not None:
        for subset in one.object(_ENDPOINTS).get("subsets") or ():
            for address in subset.get("addresses") or ():
                yield from _ports(address["ip"], subset.get("ports"))


def _ports(address: str, ports: list[Mapping[str, Any]] | None) -> Iterator[tuple[str, int, str]]:
    for port in ports or ():
        if port.get("port"):
            yield address, port["port"], port.get("name") or ""
