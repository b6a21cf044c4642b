"""The state and the result of one writing request."""

from dataclasses import dataclass, field
from typing import Any

from sandbox.admission.chain import AdmissionRequest, Operation
from sandbox.apiserver.requests import Place, Request
from sandbox.objects.metadata import manager_of
from sandbox.objects.resources import Resource
from sandbox.objects.store import Stored

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of a write: the object as stored, or as it would be stored (dry run)."""

    status: int
    object: Stored | Json
    warnings: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Write:
    """One writing request and its collected warnings."""

    request: Request
    resource: Resource
    place: Place
    warnings: list[str] = field(default_factory=list)

    @property
    def manager(self) -> str:
        return self.request.query.get("fieldManager") or manager_of(self.request.user_agent)

    def done(self, status: int, obj: Stored | Json) -> Written:
        return Written(status=status, object=obj, warnings=tuple(self.warnings))

    def admission_request(
        self, operation: Operation, obj: Json, old: Json | None
    ) -> AdmissionRequest:
        """Return the request for admission."""
        return AdmissionRequest(
            operation=operation,
            resource=self.resource,
            subresource=self.place.subresource,
            user=self.request.user,
            namespace=self.place.namespace,
            name=self.place.name or obj["metadata"].get("name", ""),
            object=obj,
            old_object=old,
            dry_run=self.request.is_dry_run,
            options=options_of(f"{operation.capitalize()}Options", self.request),
            warnings=self.warnings,
        )


def options_of(kind: str, request: Request) -> Json:
    """Return the request's parameters as an options object of ``kind``, for admission."""
    options: Json = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    for name in ("fieldManager", "fieldValidation"):
        if request.query.get(name):
            options[name] = request.query[name]
    if request.is_dry_run:
        options["dryRun"] = ["All"]
    return options
