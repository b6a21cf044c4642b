"""Deletion: grace periods, finalizers and owned objects.

The garbage collector of a real cluster is part of the API server here: what an object owns is
deleted with it, at once, whatever the propagation policy and its other owners.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from common.runtime.clock import Clock
from sandbox import errors
from sandbox.objects.registry import Registry
from sandbox.objects.resources import Resource
from sandbox.objects.store import Store, Stored
from sandbox.times import rfc3339

_REMEMBERED_OWNERS = 1000
_DEFAULT_GRACE = 30
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """What a DELETE may ask for; ``grace`` is in seconds, and one where it was negative."""

    grace: int | None = None
    uid: str = ""
    version: str = ""

    @classmethod
    def read(cls, body: Mapping[str, Any], query: Mapping[str, str]) -> "DeleteOptions":
        """Read the body, or the query of a request that has none.

        Raises:
            ApiError: 400, an option can't be read.
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
    """Takes objects out of the store."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._gone: deque[str] = deque(maxlen=_REMEMBERED_OWNERS)

    def check(self, resource: Resource, stored: Stored, options: DeleteOptions) -> None:
        """Compare the preconditions.

        Raises:
            ApiError: 409, it is another object or another version of it.
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
        """What a deletion makes of an object, and whether it is gone then; nothing is written.

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
        """Begin or finish the deletion; returns the last state, and whether it is gone."""
        obj, gone = self.planned(resource, stored, options)
        marked = stored
        if obj != stored.object(resource):
            marked = self._store.update(resource, obj)
        if gone:
            self.remove(resource, marked)
        return marked, gone

    def finish(self, resource: Resource, stored: Stored) -> bool:
        """Remove an object whose last finalizer is gone; called after every update of one."""
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
        """Remove a new object whose owners were all deleted while it was being made."""
        if stored.owners and all(uid in self._gone for uid in stored.owners):
            self.delete(resource, stored, _BY_COLLECTOR)

    def _grace(self, obj: Mapping[str, Any], options: DeleteOptions) -> int:
        """How many seconds a pod has; none where no kubelet knows of it, or it has ended."""
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
