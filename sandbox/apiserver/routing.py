"""Dispatch of requests that aren't watches."""

from collections.abc import Collection, Mapping

import msgspec

from common.runtime.clock import Clock
from sandbox import errors
from sandbox.apiserver import discovery, openapi
from sandbox.apiserver.answers import (
    Answer,
    json_answer,
    text_answer,
    unknown_path,
    warning_headers,
)
from sandbox.apiserver.audit import AuditLog
from sandbox.apiserver.deletion import Deletes
from sandbox.apiserver.forms import Form, Presenter, negotiate
from sandbox.apiserver.reading import Reads
from sandbox.apiserver.requests import Place, Request
from sandbox.apiserver.subresources import Subresources
from sandbox.apiserver.writes import Written
from sandbox.apiserver.writing import Writes
from sandbox.objects.registry import Registry
from sandbox.objects.resources import Resource
from sandbox.objects.store import Store, Stored
from sandbox.version import KubernetesVersion

_HEALTH = ("/healthz", "/livez", "/readyz")
_GROUP_VERSION_PARTS = 2


class Routing:
    """Dispatches requests by path and verb."""

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        reads: Reads,
        writes: Writes,
        deletes: Deletes,
        subresources: Subresources,
        presenter: Presenter,
        mounted: Collection[tuple[str, str]],
        audit: AuditLog,
        version: KubernetesVersion,
        clock: Clock,
    ) -> None:
        self._store = store
        self._registry = registry
        self._reads = reads
        self._writes = writes
        self._deletes = deletes
        self._subresources = subresources
        self._presenter = presenter
        self._mounted = mounted  # groups and versions that another application serves
        self._audit = audit
        self._version = version
        self._clock = clock

    def resource_at(self, place: Place) -> Resource | None:
        """Return the served resource of a path.

        Raises:
            ApiError: 404, a built-in group lacks the resource, or the resource lacks the
                subresource.
        """
        resource = self._registry.find(place.group, place.version, place.plural)
        if resource is None:
            if self._is_built_in(place.group):
                raise errors.no_such_path()
            return None
        if place.subresource and place.subresource not in resource.subresources:
            if resource.custom:
                raise errors.not_found(resource, place.name)
            raise errors.no_such_path()
        return resource

    def _is_built_in(self, group: str) -> bool:
        """Return True if the group is built in."""
        return any(one.group == group and not one.custom for one in self._registry)

    def other(self, request: Request) -> Answer:
        """Answer a request outside the resources.

        Raises:
            ApiError: 405.
        """
        path = request.path.rstrip("/") or "/"
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        if path in _HEALTH:
            return text_answer("ok")
        if path == "/version":
            return json_answer(discovery.version_info(self._version))
        if path == "/sandbox/audit":
            return self._audited(request.query)
        if path.startswith("/openapi/v3"):
            return self._openapi(path)
        return self._discovery(path)

    def _audited(self, query: Mapping[str, str]) -> Answer:
        try:
            entries = self._audit.find(query)
        except KeyError as error:
            raise errors.bad_request(f"unknown filter {error}") from error
        items = [entry.as_json() for entry in entries]
        return json_answer({"items": items, "counts": self._audit.counts()})

    def _discovery(self, path: str) -> Answer:
        groups = self._registry.group_versions()
        for group, version in self._mounted:
            groups.setdefault(group, []).append(version)
        parts = path.strip("/").split("/")
        if parts == ["api"]:
            return json_answer(discovery.core_versions("127.0.0.1"))
        if parts == ["apis"]:
            return json_answer(discovery.group_list(groups))
        if parts[0] == "apis" and len(parts) == _GROUP_VERSION_PARTS and parts[1] in groups:
            return json_answer(discovery.group(parts[1], groups[parts[1]]))
        group = parts[1] if parts[0] == "apis" and len(parts) == _GROUP_VERSION_PARTS + 1 else ""
        if len(parts) == _GROUP_VERSION_PARTS + bool(group) and parts[0] in ("api", "apis"):
            found = self._registry.in_version(group, parts[-1])
            if found:
                return json_answer(discovery.resource_list(found[0].api_version, found))
            if (group or parts[0] == "api") and self._is_built_in(group):
                raise errors.no_such_path()
        return unknown_path()

    def _openapi(self, path: str) -> Answer:
        groups = self._registry.group_versions()
        root = path.removeprefix("/openapi/v3").strip("/")
        if not root:
            return json_answer(openapi.index(groups))
        for group, versions in groups.items():
            for version in versions:
                if root == openapi.root_of(group, version):
                    return json_answer(openapi.document(self._registry.in_version(group, version)))
        return unknown_path()

    async def resource(
        self, request: Request, resource: Resource, place: Place, verb: str
    ) -> Answer:
        """Answer a request for a collection, an object or a subresource.

        Raises:
            ApiError: the request is refused.
        """
        if not place.subresource and verb not in resource.verbs:
            raise errors.method_not_allowed()
        if place.subresource:
            answer = await self._subresources.handle(request, resource, place, verb)
            if answer is not None:
                return answer
            if place.subresource not in ("status", "resize"):
                raise errors.method_not_allowed()
        form = negotiate(request.headers.get("accept", ""))
        if verb == "get":
            stored = self._store.existing(resource, place.namespace, place.name)
            return Answer(body=self._presenter.one(resource, stored, form))
        if verb == "list":
            page = self._reads.list(request, resource, place.namespace)
            return Answer(body=self._presenter.many(resource, page.items, page.meta, form))
        written = await self._write(request, resource, place, verb)
        return self._present(resource, written, form)

    async def _write(
        self, request: Request, resource: Resource, place: Place, verb: str
    ) -> Written:
        if resource.namespaced and not place.namespace:
            raise errors.method_not_allowed()
        if verb == "create" and not place.name:
            return await self._writes.create(request, resource, place)
        if verb == "update" and place.name:
            return await self._writes.replace(request, resource, place)
        if verb == "patch" and place.name:
            return await self._writes.patch(request, resource, place)
        if verb == "delete" and not place.subresource:
            return await self._deletes.one(request, resource, place)
        raise errors.method_not_allowed()

    def _present(self, resource: Resource, written: Written, form: Form) -> Answer:
        headers = warning_headers(written.warnings)
        if isinstance(written.object, Stored):
            body = self._presenter.one(resource, written.object, form)
        else:
            obj = {"kind": resource.kind, "apiVersion": resource.api_version, **written.object}
            body = msgspec.json.encode(obj)
        return Answer(status=written.status, body=body, headers=headers)
