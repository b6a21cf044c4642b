"""Create, update and patch: from a request's body to the store.

The order is that of a real API server: decode, defaults, mutating admission, the rules of the
kind, validating admission, store (kubernetes-resize.md 1.3).
"""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from common.runtime.clock import Clock
from sandbox import errors
from sandbox.admission.chain import Admission, AdmissionRequest, Operation
from sandbox.apiserver.decoding import (
    check_name,
    checked_metadata,
    complete,
    read_body,
)
from sandbox.apiserver.deletion import Deletions
from sandbox.apiserver.event_expiry import EventExpiry
from sandbox.apiserver.requests import Place, Request
from sandbox.apiserver.writes import Write, Written
from sandbox.objects import crds
from sandbox.objects.metadata import (
    carry_over,
    generated_name,
    grows_generation,
    record_manager,
    stamp_new,
)
from sandbox.objects.registry import Registry
from sandbox.objects.resizing import prepare_resize
from sandbox.objects.resources import NAMESPACES, PODS, Resource
from sandbox.objects.store import Store, Stored
from sandbox.objects.strategies import prepare_create, prepare_identified, prepare_update
from sandbox.objects.validation import Validation
from sandbox.patching.apply import ContentType, apply_patch
from sandbox.version import KubernetesVersion

Json = dict[str, Any]
Change = Callable[[Json], Json]

_PATCHES = (ContentType.JSON, ContentType.MERGE, ContentType.STRATEGIC)
_TRIES = 5  # of an update without a version, after concurrent writes


class Writes:
    """The write path of one API server."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        admission: Admission,
        deletions: Deletions,
        *,
        version: KubernetesVersion,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._store = store
        self._registry = registry
        self._admission = admission
        self._deletions = deletions
        self._expiry = EventExpiry(store, clock)
        self._validation = Validation(registry, version)
        self._version = version
        self._clock = clock
        self._rng = rng

    async def create(self, request: Request, resource: Resource, place: Place) -> Written:
        """Handle a POST on a collection."""
        write = Write(request=request, resource=resource, place=place)
        obj = read_body(request, resource)
        meta = checked_metadata(obj, resource, place)
        if meta.get("resourceVersion"):
            raise errors.plain("resourceVersion should not be set on objects to be created")
        if resource.namespaced:
            self._store.existing(NAMESPACES, "", place.namespace)
        obj = self._completed(write, obj, None)
        prepare_create(resource, obj)
        for name in ("uid", "creationTimestamp", "managedFields"):
            obj["metadata"].pop(name, None)
        self._record(write, obj)
        asked = write.admission_request(Operation.CREATE, obj, None)
        obj = await self._mutated(asked)
        if not obj["metadata"].get("name") and obj["metadata"].get("generateName"):
            obj["metadata"]["name"] = self._free_name(resource, obj["metadata"])
        stamp_new(obj, resource, self._clock.now(), self._rng)
        prepare_identified(resource, obj)
        self._validation.check_new(resource, obj)
        asked.name, asked.object = obj["metadata"]["name"], obj
        self._admission.validate(asked)
        if write.request.is_dry_run:
            if self._store.get(resource, place.namespace, asked.name) is not None:
                raise errors.already_exists(resource, asked.name)
            del obj["metadata"]["resourceVersion"]
            return write.done(201, obj)
        if crds.is_definition(resource):
            obj["status"] = crds.first_status(obj)
        stored = self._store.create(resource, obj)
        if crds.is_definition(resource):  # a real server does it later
            status = crds.established_status(obj, self._clock.now())
            self._store.update(resource, {**stored.object(resource), "status": status})
        self._expiry.written(resource, stored)
        self._deletions.collect_if_orphaned(resource, stored)
        return write.done(201, stored)

    async def replace(self, request: Request, resource: Resource, place: Place) -> Written:
        """Handle a PUT on an object or on its ``/status`` or ``/resize``."""
        write = Write(request=request, resource=resource, place=place)
        body = read_body(request, resource)
        meta = checked_metadata(body, resource, place)
        check_name(meta, place)

        def change(old: Json) -> Json:
            uid, actual = meta.get("uid"), old["metadata"].get("uid")
            if uid and uid != actual:
                text = f"UID in precondition: {uid}, UID in object meta: {actual}"
                raise errors.precondition_failed(resource, place.namespace, place.name, text)
            copied: Json = msgspec.json.decode(msgspec.json.encode(body))
            return copied

        return await self.update(write, change)

    async def patch(self, request: Request, resource: Resource, place: Place) -> Written:
        """Handle a PATCH on an object or on its ``/status`` or ``/resize``."""
        content_type = request.headers.get("content-type", "")
        write = Write(request=request, resource=resource, place=place)
        if request.content_type not in _PATCHES:  # refused before a 404
            apply_patch(content_type, {}, b"{}", resource=resource)

        def change(old: Json) -> Json:
            patched = apply_patch(content_type, old, request.body, resource=resource)
            meta = checked_metadata(patched, resource, place)
            check_name(meta, place)
            causes = [
                errors.field_invalid(f"metadata.{name}", meta.get(name), "field is immutable")
                for name in ("name", "uid")
                if meta.get(name) != old["metadata"].get(name)
            ]
            if causes:
                raise errors.invalid(resource.kind, place.name, causes, group=resource.group)
            return patched

        return await self.update(write, change)

    async def update(self, write: Write, change: Change) -> Written:
        """Update, and retry after a concurrent write unless the body names a version."""
        for _ in range(_TRIES - 1):
            try:
                return await self._update(write, change)
            except _StaleUpdateError:
                write.warnings.clear()
        try:
            return await self._update(write, change)
        except _StaleUpdateError as error:
            raise errors.conflict(write.resource, write.place.name) from error

    async def _update(self, write: Write, change: Change) -> Written:
        resource, place = write.resource, write.place
        before = self._store.existing(resource, place.namespace, place.name)
        old = before.object(resource)
        new = change(old)
        _check_version(new["metadata"].get("resourceVersion"), before, resource)
        new = self._completed(write, new, old)
        carry_over(old, new)
        if place.subresource != "resize":
            new = prepare_update(resource, place.subresource, old, new)
        asked = write.admission_request(Operation.UPDATE, new, old)
        new = await self._mutated(asked)
        if place.subresource == "resize":
            new = prepare_resize(old, new, self._version)
        elif grows_generation(resource, place.subresource, old, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        self._validation.check_changed(resource, place.subresource, old, new)
        asked.object = new
        self._admission.validate(asked)
        if new == old:
            return write.done(200, before)
        self._record(write, new)
        if write.request.is_dry_run:
            return write.done(200, new)
        if crds.is_definition(resource):
            new["status"] = crds.established_status(new, self._clock.now())
        if self._store.get(resource, place.namespace, place.name) is not before:
            raise _StaleUpdateError
        after = self._store.update(resource, new)
        self._expiry.written(resource, after)
        self._deletions.finish(resource, after)
        return write.done(200, after)

    async def _mutated(self, asked: AdmissionRequest) -> Json:
        obj = await self._admission.mutate(asked)
        if obj is None:
            raise RuntimeError("admission has lost the object")
        return obj

    def _completed(self, write: Write, obj: Json, old: Json | None) -> Json:
        custom = self._registry.custom(write.resource)
        complete(
            obj,
            write.resource,
            custom,
            subresource=write.place.subresource,
            completes=not _same_pod_spec(write.resource, obj, old),
        )
        return obj

    def _free_name(self, resource: Resource, meta: Json) -> str:
        while True:
            name = generated_name(meta["generateName"], self._rng)
            if self._store.get(resource, meta.get("namespace", ""), name) is None:
                return name

    def _record(self, write: Write, obj: Json) -> None:
        record_manager(
            obj,
            manager=write.manager,
            api_version=write.resource.api_version,
            subresource=write.place.subresource,
            now=self._clock.now(),
        )


class _StaleUpdateError(Exception):
    """The object changed during admission, so the update is retried."""


def _check_version(given: str | None, before: Stored, resource: Resource) -> None:
    """Check that an update with a version is based on the latest one.

    Raises:
        ApiError: 409, it is based on another version.
    """
    if not given or given == str(before.version):
        return
    if given != "0":
        raise errors.conflict(resource, before.name)


def _same_pod_spec(resource: Resource, obj: Json, old: Json | None) -> bool:
    """Return True for a pod with an unchanged spec, as most writes are. It needs no defaults."""
    return resource is PODS and old is not None and obj.get("spec") == old.get("spec")
