"""Reads and writes the objects that request capacity, with their PodTemplates."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from common.api.provisioning import CapacityRequestObject
from common.errors import (
    ConflictError,
    DecodeError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    NotLeadingError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import POD_TEMPLATES, Endpoint
from common.target.owners import Controller
from updater.capacity.capacity_requests import RequestStage
from updater.capacity.provisioning_plan import CapacityObject, Creation, RequestKind
from updater.capacity.request_apis import (
    REQUESTING_WORKLOADS,
    RequestApis,
    discover,
    preferred,
)
from updater.capacity.request_objects import (
    MANAGED_BY,
    parse_object,
    pod_template,
    request_body,
    resize_patch,
)
from updater.snapshot.live_pod import MANAGER

logger = logging.getLogger(__name__)

_REDISCOVER = timedelta(minutes=5)  # while no API is served
_REDISCOVER_SERVED = timedelta(hours=1)  # for a newer version
_MOST_REPORTED = 1000
_SELECTOR = f"{MANAGED_BY}={MANAGER}"
_TEMPLATES: Mapping[str, Endpoint[dict[str, Any]]] = {
    endpoint.kind: endpoint.as_dicts() for endpoint in REQUESTING_WORKLOADS
}
# The next pass tries again. Another process may have created the object of a conflict.
_TRANSIENT = (
    ConflictError,
    NotLeadingError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)


@dataclass(frozen=True, slots=True)
class NotCreated:
    """The failure of a creation."""

    stage: RequestStage | None  # None: the next pass tries again
    message: str


@dataclass(frozen=True, slots=True)
class Listed:
    """The objects of the API server with our label."""

    objects: Sequence[CapacityObject] = ()
    unreadable: Sequence[tuple[RequestKind, str, str, str]] = ()  # with namespace, name and UID
    templates: Sequence[tuple[str, str, str]] = ()  # namespace, name and UID


class RequestClient:
    """Makes the calls about the objects of the updater in ``namespace``; empty: in all.

    Those in ``ignored`` namespaces belong to another updater. ``client`` reads, and ``writer``
    writes while this process leads. ``timeout`` is that of requests.
    """

    def __init__(
        self,
        client: KubeClient,
        writer: KubeClient,
        *,
        namespace: str,
        timeout: timedelta,
        ignored: Collection[str] = (),
    ) -> None:
        self._client = client
        self._writer = writer
        self._namespace = namespace
        self._ignored = frozenset(ignored)
        self._timeout = timeout
        self._apis: RequestApis = {}
        self._discover_at: datetime | None = None  # None: now
        # Causes why none can be made for a workload, and failed calls; each is logged once.
        self._reported: set[str] = set()

    @property
    def kind(self) -> RequestKind | None:
        """Return the kind of new objects; None: no API is served."""
        return preferred(self._apis)

    async def list(self, now: datetime) -> Listed:
        """Return all objects, of both kinds.

        Raises:
            KubeError: the API server refused or failed.
            DecodeError: an answer is malformed.
        """
        if self._discover_at is None or now >= self._discover_at:
            self._apis = await discover(self._client)
            self._discover_at = now + (_REDISCOVER_SERVED if self._apis else _REDISCOVER)
        objects: list[CapacityObject] = []
        unreadable = []
        for kind, endpoint in self._apis.items():
            for found in await self._list_objects(endpoint):
                parsed = parse_object(kind, found, now=now)
                if parsed is None:
                    meta = found.metadata
                    unreadable.append((kind, meta.namespace, meta.name, meta.uid))
                else:
                    objects.append(parsed)
        templates = await self._client.list(
            POD_TEMPLATES, namespace=self._namespace, label_selector=_SELECTOR
        )
        names = [
            (each.metadata.namespace, each.metadata.name, each.metadata.uid)
            for each in templates.items
            if each.metadata.namespace not in self._ignored
        ]
        return Listed(objects, unreadable, names)

    async def create(self, creation: Creation, now: datetime) -> CapacityObject | NotCreated:
        """Create a PodTemplate and its object; return the object, or why it wasn't created."""
        workload = creation.demand.workload
        if workload.kind not in _TEMPLATES or not workload.is_well_known:
            return self._unavailable(f"the pod template of kind {workload.kind} isn't known")
        created = False
        try:
            owner = await self._client.get(
                _TEMPLATES[workload.kind], workload.name, namespace=workload.namespace
            )
            body = pod_template(creation, owner, manager=MANAGER)
            await self._writer.create(POD_TEMPLATES, body, namespace=workload.namespace)
            created = True
            endpoint = self._apis[creation.kind]
            body = request_body(creation, manager=MANAGER, timeout=self._timeout)
            answer = await self._writer.create(endpoint, body, namespace=workload.namespace)
        except _TRANSIENT as error:
            return NotCreated(None, f"the API server failed to create the request: {error}")
        except (KubeError, DecodeError) as error:
            if created:
                await self._delete_template(workload.namespace, creation.name)
            text = str(error) or type(error).__name__
            if isinstance(error, ForbiddenError) and not _is_about_namespace(error):
                return self._unavailable(text)
            _log("capacity request refused", workload, creation.name, error=text)
            return NotCreated(RequestStage.REFUSED, text)
        _log("capacity requested", workload, creation.name, count=creation.count)
        found = parse_object(creation.kind, answer, now=now)
        return NotCreated(None, "its annotation was changed") if found is None else found

    async def resize(self, wanted: CapacityObject) -> bool:
        """Set the count of a buffer; return whether it was set."""
        try:
            await self._writer.patch(
                self._apis[wanted.kind],
                wanted.name,
                resize_patch(wanted.count),
                patch_type=PatchType.MERGE,
                namespace=wanted.namespace,
            )
        except (KubeError, DecodeError) as error:
            if self._is_new(f"resize {wanted.namespace}/{wanted.name}: {error}"):
                _log("capacity request not resized", wanted.workload, wanted.name, error=str(error))
            return False
        _log("capacity request resized", wanted.workload, wanted.name, count=wanted.count)
        return True

    async def delete(self, found: CapacityObject) -> bool:
        """Delete an object and its PodTemplate; return whether it is gone."""
        if not await self._delete_object(found.kind, found.namespace, found.name, found.uid):
            return False
        _log("capacity request deleted", found.workload, found.name)
        await self._delete_template(found.namespace, found.name)
        return True

    async def clear(self, listed: Listed) -> None:
        """Delete what isn't a complete request: a process ended between two calls."""
        for each in listed.unreadable:
            await self._delete_object(*each)
        used = {each.key for each in listed.objects}
        for namespace, name, uid in listed.templates:
            if (namespace, name) not in used:
                await self._delete_template(namespace, name, uid)

    def _unavailable(self, text: str) -> NotCreated:
        """Return that no request can be made for a workload; log each cause once."""
        if self._is_new(text):
            logger.warning("capacity can't be requested for a workload", extra={"cause": text})
        return NotCreated(RequestStage.UNAVAILABLE, text)

    def _is_new(self, text: str) -> bool:
        """Return whether a cause is to be logged, once."""
        if text in self._reported or len(self._reported) >= _MOST_REPORTED:
            return False
        self._reported.add(text)
        return True

    async def _list_objects(
        self, endpoint: Endpoint[CapacityRequestObject]
    ) -> Sequence[CapacityRequestObject]:
        try:
            listing = await self._client.list(
                endpoint, namespace=self._namespace, label_selector=_SELECTOR
            )
        except NotFoundError:
            self._apis, self._discover_at = {}, None  # the definition or its version is gone
            raise
        return [each for each in listing.items if each.metadata.namespace not in self._ignored]

    async def _delete_object(self, kind: RequestKind, namespace: str, name: str, uid: str) -> bool:
        endpoint = self._apis.get(kind)
        return endpoint is None or await self._delete_one(endpoint, namespace, name, uid)

    async def _delete_template(self, namespace: str, name: str, uid: str = "") -> None:
        await self._delete_one(POD_TEMPLATES, namespace, name, uid)

    async def _delete_one(
        self, endpoint: Endpoint[Any], namespace: str, name: str, uid: str
    ) -> bool:
        try:
            await self._writer.delete(endpoint, name, namespace=namespace, uid=uid)
        except NotFoundError:
            return True
        except (KubeError, DecodeError) as error:
            about = {"object": f"{endpoint.kind} {namespace}/{name}", "error": str(error)}
            if self._is_new(f"delete {about}"):
                logger.warning("capacity request not deleted", extra=about)
            return False
        return True


def _is_about_namespace(error: ForbiddenError) -> bool:
    """Return whether a quota or the end of the namespace refuses the creation, and no right."""
    return "exceeded quota" in str(error) or error.has_cause("NamespaceTerminating")


def _log(message: str, workload: Controller, name: str, **more: object) -> None:
    about = {
        "workload": f"{workload.kind} {workload.namespace}/{workload.name}",
        "request": name,
        **more,
    }
    level = logging.WARNING if "error" in more else logging.INFO
    logger.log(level, message, extra=about)
