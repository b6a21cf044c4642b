"""The addresses of Services, and what goes with them: allocated, kept, and given up.

Source: k8s.io/kubernetes pkg/registry/core/service (``normalizeClusterIPs``,
``patchAllocatedValues``, ``dropTypeDependentFields``, ``initIPFamilyFields``).
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

Json = Mapping[str, Any]

_OF_ADDRESS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_OF_TYPE: Final = (*_OF_ADDRESS, "internalTrafficPolicy")
_HEADLESS: Final = "None"


def allocate_address(spec: dict[str, Any], rng: Random) -> None:
    """Give the spec of a new Service an address, in place, unless it has one or needs none."""
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = f"10.96.{rng.randrange(256)}.{rng.randrange(1, 255)}"
        spec["clusterIPs"] = [spec["clusterIP"]]
    # Without a selector nobody knows what the addresses behind it will be.
    both = spec["clusterIP"] == _HEADLESS and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")


def keep_address(old: Json, new: dict[str, Any]) -> None:
    """Take over, in place, what was allocated and isn't named again; a mere name has nothing."""
    if new.get("type") == "ExternalName":
        for name in _OF_TYPE:
            if new.get(name) == old.get(name):
                new.pop(name, None)
        return
    address = new.get("clusterIP")
    changed = address and address != old.get("clusterIP")
    if changed and new.get("clusterIPs") == old.get("clusterIPs"):
        new["clusterIPs"] = [address]
    for name in _OF_ADDRESS:
        if not new.get(name) and name in old:
            new[name] = old[name]
