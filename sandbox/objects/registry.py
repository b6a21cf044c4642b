"""The served resources: built-in ones, and those of applied CRDs."""

from collections.abc import Iterable, Iterator

from sandbox.objects.crds import CustomVersion
from sandbox.objects.resources import BUILTIN, Resource


class Registry:
    """Finds resources by group, version and plural name."""

    def __init__(self, resources: Iterable[Resource] = BUILTIN) -> None:
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._custom: dict[tuple[str, str, str], CustomVersion] = {}
        for resource in resources:
            self._resources[_key(resource)] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource, None if it isn't served."""
        return self._resources.get((group, version, plural))

    def custom(self, resource: Resource) -> CustomVersion | None:
        """Return schema, columns and scale paths of a custom resource; None for a built-in one."""
        return self._custom.get(_key(resource))

    def of(self, group_resource: str) -> Resource | None:
        """Return any version of the resource with a name such as ``deployments.apps``."""
        for resource in self._resources.values():
            if resource.group_resource == group_resource:
                return resource
        return None

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._resources.values()))

    def group_versions(self) -> dict[str, list[str]]:
        """Return the served versions by group, in the order of registration."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._resources:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return found

    def in_version(self, group: str, version: str) -> list[Resource]:
        """Return the resources of one group version, ordered by name."""
        found = [r for r in self if (r.group, r.version) == (group, version)]
        return sorted(found, key=lambda resource: resource.plural)

    def replace_custom(self, name: str, versions: Iterable[CustomVersion]) -> None:
        """Serve only these versions of the CRD ``name`` (``<plural>.<group>``)."""
        for key, custom in tuple(self._custom.items()):
            if custom.resource.group_resource == name:
                del self._custom[key], self._resources[key]
        for custom in versions:
            key = _key(custom.resource)
            self._custom[key] = custom
            self._resources[key] = custom.resource


def _key(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural
