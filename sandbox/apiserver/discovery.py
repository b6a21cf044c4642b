"""Discovery of groups, versions and resources, in the legacy JSON form."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sandbox.objects.resources import Resource
from sandbox.version import NEWEST_MINOR, KubernetesVersion

_SUBRESOURCES: Mapping[str, Mapping[str, Any]] = {
    "binding": {"kind": "Binding", "verbs": ["create"]},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]},
    "log": {"verbs": ["get"]},
    "proxy": {"kind": "PodProxyOptions", "verbs": ["get"]},
    "resize": {"verbs": ["get", "patch", "update"]},
    "scale": {
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get"],
    },
    "status": {"verbs": ["get", "patch", "update"]},
}


def core_versions(address: str) -> dict[str, Any]:
    """Return ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return ``/apis``, from the versions by group."""
    entries = [group_entry(group, versions) for group, versions in groups.items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": entries}


def group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    """Return ``/apis/<group>``."""
    return {"kind": "APIGroup", "apiVersion": "v1", **group_entry(name, versions)}


def group_entry(name: str, versions: Sequence[str]) -> dict[str, Any]:
    """Return the entry of one group. Its first version is the preferred one."""
    listed = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(group_version: str, resources: Iterable[Resource]) -> dict[str, Any]:
    """Return ``/api/v1`` or ``/apis/<group>/<version>``."""
    entries: list[dict[str, Any]] = []
    for resource in resources:
        entries.append(_resource(resource))
        entries += [_subresource(resource, name) for name in resource.subresources]
    found: dict[str, Any] = {"kind": "APIResourceList", "groupVersion": group_version}
    if "/" in group_version:
        found = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version}
    found["resources"] = entries
    return found


def _resource(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    return entry


def _subresource(resource: Resource, name: str) -> dict[str, Any]:
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        **_SUBRESOURCES[name],
    }


def version_info(version: KubernetesVersion) -> dict[str, str]:
    """Return ``/version``."""
    info = {"major": "1", "minor": str(version.minor)}
    if version.minor >= NEWEST_MINOR - 2:
        info |= {
            "emulationMajor": "1",
            "emulationMinor": str(version.minor),
            "minCompatibilityMajor": "1",
            "minCompatibilityMinor": str(version.minor - 1),
        }
    return info | {
        "gitVersion": version.git_version,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }
