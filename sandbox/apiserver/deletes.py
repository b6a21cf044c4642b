"""DELETE requests: what they ask for, who has a say, and what they are told."""

from typing import Any

from sandbox import errors
from sandbox.admission.chain import Admission, AdmissionRequest, Operation
from sandbox.apiserver.decoding import read_options
from sandbox.apiserver.deletion import DeleteOptions, Deletions
from sandbox.apiserver.requests import Place, Request, dry_run
from sandbox.apiserver.writes import Written, options_of
from sandbox.objects.resources import Resource
from sandbox.objects.store import Store, Stored

Json = dict[str, Any]


class Deletes:
    """Serves them for one API server."""

    def __init__(self, store: Store, admission: Admission, deletions: Deletions) -> None:
        self._store = store
        self._admission = admission
        self._deletions = deletions

    async def one(self, request: Request, resource: Resource, place: Place) -> Written:
        """Delete an object."""
        options, dry = self._options(request)
        stored = self._store.get(resource, place.namespace, place.name)
        if stored is None:
            raise errors.not_found(resource, place.name)
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
        """What is asked for, and whether it is a dry run; a body speaks for the query, too."""
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
    ) -> tuple[Stored | Json, bool]:
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
        current = self._store.get(resource, stored.namespace, stored.name)
        if current is None:
            raise errors.not_found(resource, stored.name)
        return self._deletions.delete(resource, current, options)
