"""One writing request: what is known about it on its way, and what it leads to."""

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
    """What a write leads to: the object as it is, or as it would be (dry run)."""

    status: int
    object: Stored | Json
    warnings: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Write:
    """One writing request on its way, with what is known about it so far."""

    request: Request
    resource: Resource
    place: Place
    warnings: list[str] = field(default_factory=list)

    @property
    def manager(self) -> str:
        return self.request.query.get("fieldManager") or manager_of(self.request.user_agent)

    def done(self, status: int, obj: Stored | Json) -> Written:
        return Written(status=status, object=obj, warnings=tuple(self.warnings))

    def asked(self, operation: Operation, obj: Json, old: Json | None) -> AdmissionRequest:
        """The request as admission sees it."""
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
    """The request's parameters as admission sees them, an object of ``kind``."""
    options: Json = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    for name in ("fieldManager", "fieldValidation"):
        if request.query.get(name):
            options[name] = request.query[name]
    if request.is_dry_run:
        options["dryRun"] = ["All"]
    return options
