"""The rules that Services keep.

Source: ``validateService``, k8s.io/kubernetes pkg/apis/core/validation/validation.go. Addresses,
their families and load balancers are not looked at: nobody routes to them here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import (
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_not_supported,
    field_required,
    fields_invalid,
)
from sandbox.objects.rules.dns_names import label_problems, subdomain_problems
from sandbox.objects.rules.metadata import key_causes, label_causes
from sandbox.objects.rules.ports import PROTOCOLS, port_causes, port_number_causes

Json = Mapping[str, Any]

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_TRAFFIC: Final = ("Cluster", "Local")
_LONGEST_AFFINITY: Final = 86400  # seconds
_HEADLESS: Final = "None"


def service_causes(service: Json) -> Iterator[Cause]:
    """Ports that can be told apart behind an address, or a name elsewhere."""
    spec = service.get("spec") or {}
    kind, ports = spec.get("type", ""), spec.get("ports") or ()
    headless = spec.get("clusterIP") == _HEADLESS
    if not ports and not headless and kind != "ExternalName":
        yield field_required("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        text = f"may not be set to 'None' for {kind} services"
        yield field_invalid("spec.clusterIPs[0]", _HEADLESS, text)
    if kind == "ExternalName":
        yield from _external_causes(spec)
    names: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port_causes(port, f"spec.ports[{index}]", names, named=len(ports) > 1)
    yield from label_causes(spec.get("selector"), "spec.selector")
    yield from _affinity_causes(spec)
    if kind not in _TYPES:
        yield field_not_supported("spec.type", kind, _TYPES)
    for index, port in enumerate(ports):
        if kind == "ClusterIP" and port.get("nodePort"):
            text = "may not be used when `type` is 'ClusterIP'"
            yield field_forbidden(f"spec.ports[{index}].nodePort", text)
    yield from _duplicate_causes(ports)
    policy = spec.get("internalTrafficPolicy")
    if policy is not None and policy not in _TRAFFIC:
        yield field_not_supported("spec.internalTrafficPolicy", policy, _TRAFFIC)


def changed_service_causes(old: Json, new: Json) -> Iterator[Cause]:
    """A Service keeps its address, unless it begins or ends to be a name elsewhere."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if "ExternalName" not in (before.get("type"), after.get("type")):
        had, has = before.get("clusterIPs") or [], after.get("clusterIPs") or []
        for index, (one, other) in enumerate(zip(had, has, strict=False)):
            if one != other:
                yield field_invalid(f"spec.clusterIPs[{index}]", has, "may not change once set")
    yield from service_causes(new)


def _external_causes(spec: Json) -> Iterator[Cause]:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield field_forbidden(f"spec.{field}", "may not be set for ExternalName services")
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield field_required("spec.externalName")
        return
    yield from fields_invalid("spec.externalName", name, subdomain_problems(name))


def _port_causes(port: Json, path: str, names: set[str], *, named: bool) -> Iterator[Cause]:
    name = port.get("name") or ""
    if named and not name:
        yield field_required(f"{path}.name")
    elif name:
        yield from fields_invalid(f"{path}.name", name, label_problems(name))
        if name in names:
            yield field_duplicate(f"{path}.name", name)
        names.add(name)
    yield from port_number_causes(port.get("port") or 0, f"{path}.port")
    protocol = port.get("protocol", "")
    if protocol not in PROTOCOLS:
        yield field_not_supported(f"{path}.protocol", protocol, PROTOCOLS)
    yield from port_causes(port.get("targetPort") or 0, f"{path}.targetPort")
    if port.get("appProtocol") is not None:
        yield from key_causes(port["appProtocol"], f"{path}.appProtocol")


def _affinity_causes(spec: Json) -> Iterator[Cause]:
    affinity = spec.get("sessionAffinity", "")
    if affinity not in _AFFINITIES:
        yield field_not_supported("spec.sessionAffinity", affinity, _AFFINITIES)
    if affinity != "ClientIP":
        return
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get(
        "timeoutSeconds"
    )
    if seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
        yield field_invalid(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            seconds,
            f"must be greater than 0 and less than {_LONGEST_AFFINITY}",
        )


def _duplicate_causes(ports: Any) -> Iterator[Cause]:
    """No two ports of a protocol have the same number."""
    seen: set[tuple[str, str, int]] = set()
    for field in ("nodePort", "port"):
        for index, port in enumerate(ports):
            number = port.get(field) or 0
            key = (field, port.get("protocol", ""), number)
            if key in seen:
                path = f"spec.ports[{index}]"
                if field == "nodePort":
                    yield field_duplicate(f"{path}.nodePort", number)
                else:
                    yield field_duplicate(path, _bare_port(*key[1:]))
            if number:
                seen.add(key)


def _bare_port(protocol: str, port: int) -> Json:
    """A port as a real API server shows one that is there twice: by its internal type."""
    return {
        "Name": "",
        "Protocol": protocol,
        "AppProtocol": None,
        "Port": port,
        "TargetPort": 0,
        "NodePort": 0,
    }
