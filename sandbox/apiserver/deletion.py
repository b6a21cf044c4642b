"""DELETE requests: grace periods, finalizers and owned objects.

The API server also is the garbage collector. It deletes the objects that an object owns with it, at
once, regardless of the propagation policy and other owners.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from common.runtime.clock import Clock
from sandbox import errors
from sandbox.admission.chain import Admission, AdmissionRequest, Operation
from sandbox.apiserver.decoding import read_options
from sandbox.apiserver.requests import Place, Request, dry_run
from sandbox.apiserver.writes import Written, options_of
from sandbox.objects.registry import Registry
from sandbox.objects.resources import Resource
from sandbox.objects.store import Store, Stored
from sandbox.times import rfc3339

_KEPT_UIDS = 1000  # of deleted objects
_DEFAULT_GRACE = 30
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """The options of a DELETE. ``grace`` is in seconds; a negative value is read as one."""

    grace: int | None = None
    uid: str = ""
    version: str = ""

    @classmethod
    def read(cls, body: Mapping[str, Any], query: Mapping[str, str]) -> "DeleteOptions":
        """Read the body, or the query if there is no body.

        Raises:
            ApiError: 400, an option is invalid.
        """
        grace = (body or query).get("gracePeriodSeconds")
        preconditions = body.get("preconditions") or {}
        try:
            seconds = None if grace in (None, "") else int(str(grace))
        except ValueError as error:
            text = f'strconv.ParseInt: parsing "{grace}": invalid syntax'
            raise errors.bad_request(text) from error
        return cls(
            grace=1 if seconds is not None and seconds < 0 else seconds,
            uid=preconditions.get("uid") or "",
            version=preconditions.get("resourceVersion") or "",
        )


_BY_COLLECTOR = DeleteOptions()


class Deletions:
    """Deletes objects from the store."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._gone: deque[str] = deque(maxlen=_KEPT_UIDS)

    def check(self, resource: Resource, stored: Stored, options: DeleteOptions) -> None:
        """Check the preconditions.

        Raises:
            ApiError: 409, the UID or the version differs.
        """
        subject = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
        for kind, wanted, actual, ending in (
            ("UID", options.uid, stored.uid, "deleted and then recreated"),
            ("ResourceVersion", options.version, str(stored.version), "modified"),
        ):
            if wanted and wanted != actual:
                raise errors.ApiError(
                    409,
                    "Conflict",
                    f'Operation cannot be fulfilled on {subject} "{stored.name}": '
                    f"the {kind} in the precondition ({wanted}) does not match the {kind} in "
                    f"record ({actual}). The object might have been {ending}",
                    details={"name": stored.name, "kind": resource.kind}
                    | ({"group": resource.group} if resource.group else {}),
                )

    def planned(
        self, resource: Resource, stored: Stored, options: DeleteOptions
    ) -> tuple[dict[str, Any], bool]:
        """Return the object after its deletion, and True if it is removed. Nothing is written.

        Source: ``BeforeDelete``, k8s.io/apiserver pkg/registry/rest/delete.go, and
        ``updateForGracefulDeletionAndFinalizers``, pkg/registry/generic/registry/store.go there.
        """
        obj = stored.object(resource)
        meta = obj["metadata"]
        finalizers = meta.get("finalizers") or []
        left = meta.get("deletionGracePeriodSeconds", 0)
        if "deletionTimestamp" not in meta:
            if resource.group_resource == "pods":
                self._mark(meta, self._grace(obj, options))
            elif finalizers:
                self._mark(meta, 0)
        elif left and options.grace is not None and options.grace < left:
            end = datetime.fromisoformat(meta["deletionTimestamp"])
            meta["deletionTimestamp"] = rfc3339(end - timedelta(seconds=left - options.grace))
            meta["deletionGracePeriodSeconds"] = options.grace
        return obj, not finalizers and not meta.get("deletionGracePeriodSeconds")

    def delete(
        self, resource: Resource, stored: Stored, options: DeleteOptions
    ) -> tuple[Stored, bool]:
        """Begin or finish the deletion. Return the last state, and True if it is removed."""
        obj, gone = self.planned(resource, stored, options)
        marked = stored
        if obj != stored.object(resource):
            marked = self._store.update(resource, obj)
        if gone:
            self.remove(resource, marked)
        return marked, gone

    def finish(self, resource: Resource, stored: Stored) -> bool:
        """Remove an object after its last finalizer was removed. Called after every update."""
        if not stored.terminating:
            return False
        meta = stored.object(resource)["metadata"]
        if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
            return False
        self.remove(resource, stored)
        return True

    def remove(self, resource: Resource, stored: Stored) -> Stored:
        """Remove the object and everything that it owns."""
        last = self._store.delete(resource, stored.namespace, stored.name)
        if stored.uid:
            self._gone.append(stored.uid)
            self._collect(stored.uid)
        return last

    def collect_if_orphaned(self, resource: Resource, stored: Stored) -> None:
        """Remove a new object if all its owners were deleted in the meantime."""
        if stored.owners and all(uid in self._gone for uid in stored.owners):
            self.delete(resource, stored, _BY_COLLECTOR)

    def _grace(self, obj: Mapping[str, Any], options: DeleteOptions) -> int:
        """Return the grace period of a pod in seconds; zero if it has no node, or has ended."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in _FINISHED:
            return 0
        if options.grace is not None:
            return options.grace
        return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE))

    def _mark(self, meta: dict[str, Any], grace: int) -> None:
        meta["deletionTimestamp"] = rfc3339(self._clock.now() + timedelta(seconds=grace))
        meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] += 1

    def _collect(self, uid: str) -> None:
        for resource, stored in self._dependents(uid):
            if not stored.terminating:
                self.delete(resource, stored, _BY_COLLECTOR)

    def _dependents(self, uid: str) -> list[tuple[Resource, Stored]]:
        found = []
        for group_resource, namespace, name in self._store.owned_by(uid):
            resource = self._registry.of(group_resource)
            dependent = self._store.get(resource, namespace, name) if resource else None
            if resource is not None and dependent is not None:
                found.append((resource, dependent))
        return found


class Deletes:
    """Handles the DELETE requests of one API server."""

    def __init__(self, store: Store, admission: Admission, deletions: Deletions) -> None:
        self._store = store
        self._admission = admission
        self._deletions = deletions

    async def one(self, request: Request, resource: Resource, place: Place) -> Written:
        """Delete an object."""
        options, dry = self._options(request)
        stored = self._store.existing(resource, place.namespace, place.name)
        last, gone = await self._delete(request, resource, stored, options, dry=dry)
        if not gone or resource.group_resource == "pods":
            return Written(status=200, object=last)
        details = {**errors.details_of(resource, stored.name), "uid": stored.uid}
        return Written(
            status=200,
            object={
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": details,
            },
        )

    def _options(self, request: Request) -> tuple[DeleteOptions, bool]:
        """Return the options and the dry-run flag. A body overrides the query."""
        body = read_options(request)
        options = DeleteOptions.read(body, request.query)
        if body:
            return options, dry_run("".join(body.get("dryRun") or ()), "DeleteOptions")
        return options, request.is_dry_run

    async def _delete(
        self,
        request: Request,
        resource: Resource,
        stored: Stored,
        options: DeleteOptions,
        *,
        dry: bool,
    ) -> tuple[Stored | dict[str, Any], bool]:
        self._deletions.check(resource, stored, options)
        asked = AdmissionRequest(
            operation=Operation.DELETE,
            resource=resource,
            user=request.user,
            namespace=stored.namespace,
            name=stored.name,
            old_object=stored.object(resource),
            dry_run=dry,
            options=options_of("DeleteOptions", request),
        )
        await self._admission.mutate(asked)
        self._admission.validate(asked)
        if dry:
            return self._deletions.planned(resource, stored, options)
        current = self._store.existing(resource, stored.namespace, stored.name)
        return self._deletions.delete(resource, current, options)
