"""The client of the API server, for all its calls and watches."""

import builtins
import contextlib
import copy
import enum
import random
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from common.api.core import Pod
from common.errors import GoneError
from common.kube.client_metrics import ClientMetrics
from common.kube.connection import Connection
from common.kube.encoding import decoded, typed
from common.kube.endpoints import PODS, Endpoint
from common.kube.paginated_list import Listing, Undecoded, read_pages, read_undecoded
from common.kube.transport import CALL_SECONDS, Call, Query, Transport, no_check
from common.kube.watch import EventType, WatchEvent, WatchProtocol
from common.runtime.rate_limit import RateLimiter

T = TypeVar("T")

ReadFailed = Callable[[str, str], None]
"""Callback for each failed read, with the resource and a reason that can be a label value."""

UNDECODABLE = "undecodable"
"""The reason for an object of an unexpected shape."""

_PAGE = 500  # objects in one request
LOOKUP_SECONDS = 5.0
_LOOKUP_BYTES = 4 * 1024 * 1024
_RESTARTS = 3  # of a list whose continue token expired
_WATCH_SECONDS = (300, 600)  # how long the server keeps a watch, drawn at random
# Servers without metadata lists return whole objects; decoding skips the other fields.
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = _METADATA.replace("Metadata;", "MetadataList;")
"""The media types of lists of metadata alone."""
_WATCH_IDLE = 180.0  # seconds without a byte; servers send bookmarks about once a minute


class PatchType(enum.StrEnum):
    """The format of a patch; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class KubeClient:
    """A client of one API server; an asynchronous context manager.

    Reads are retried a few times, with growing pauses, if the server is unreachable,
    overloaded or failing. Writes are never retried: the caller has to decide again. Every
    failure is a :class:`~common.errors.KubeError`; an answer of an unexpected shape is
    a :class:`~common.errors.DecodeError`. ``qps`` and ``burst`` bound all calls but watches.
    ``read_failed`` is called for objects that can't be decoded. Caches call it for lists and
    watches that fail.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        qps: float,
        burst: float,
        rng: random.Random | None = None,
        read_failed: ReadFailed = lambda _resource, _reason: None,
        metrics: ClientMetrics | None = None,
    ) -> None:
        self.read_failed = read_failed
        self.rng = rng or random.Random()  # noqa: S311 - spreads retries, guards no secret
        self._transport = Transport(
            connection, user_agent=user_agent, rng=self.rng, metrics=metrics
        )
        self.limiter = RateLimiter(qps, burst)
        self.before_write: Callable[[], None] = no_check
        self._undecodable: dict[str, frozenset[str]] = {}  # names, by path of the last list

    def with_rate_limit(self, *, qps: float, burst: float) -> Self:
        """Return the same client with a rate limit of its own."""
        other = copy.copy(self)
        other.limiter = RateLimiter(qps, burst)
        return other

    def guarded(self, before_write: Callable[[], None]) -> Self:
        """Return the same client that calls ``before_write`` just before it sends a write.

        If ``before_write`` raises a KubeError, the write is not sent.
        """
        other = copy.copy(self)
        other.before_write = before_write
        return other

    @property
    def reachable(self) -> bool:
        """Return True if the API server answered the last request that needed an answer."""
        return self._transport.connectivity.reachable

    async def back_within(self, seconds: float) -> bool:
        """Wait for an unreachable API server at most so long; return whether it is back."""
        return await self._transport.connectivity.back_within(seconds)

    async def __aenter__(self) -> Self:
        self._transport.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.close()

    # Reads

    async def get(
        self,
        endpoint: Endpoint[T],
        name: str,
        *,
        namespace: str = "",
        retry: bool = True,
    ) -> T:
        """Read one object."""
        path = endpoint.object(name, namespace)
        return decoded(endpoint, await self.request("GET", path, retry=retry))

    async def look_up(self, path: str, *, retry: bool = True) -> bytes:
        """GET an object that a user references by text, such as a target of an unknown kind.

        The limits are five seconds and 4 MiB. A time-out doesn't mean that the API server is
        unreachable, because an aggregated API server may cause it.
        """
        return await self._transport.request(
            Call(
                method="GET",
                path=path,
                seconds=LOOKUP_SECONDS,
                retry=retry,
                limiter=self.limiter,
                most_bytes=_LOOKUP_BYTES,
                timeout_is_outage=False,
            )
        )

    async def list(
        self,
        endpoint: Endpoint[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing[T]:
        """Return all objects, fetched page by page at one version.

        An object that can't be decoded is omitted and counted. It is logged unless the last list
        omitted it as well. If a continue token expires, the list starts again.
        """
        path = endpoint.collection(namespace)
        query = {**_selectors(label_selector, field_selector), "limit": _PAGE}
        accept = METADATA_LIST if endpoint.metadata_only else ""

        async def fetch(token: str) -> bytes:
            page_query = {**query, "continue": token} if token else query
            return await self.request("GET", path, query=page_query, accept=accept)

        restarts = 0
        while True:
            try:
                listing = await read_pages(
                    endpoint, path, fetch, known=self._undecodable.get(path, frozenset())
                )
            except GoneError:
                restarts += 1
                if restarts > _RESTARTS:
                    raise
            else:
                self._undecodable[path] = frozenset(listing.undecodable)
                for _ in listing.undecodable:
                    self.read_failed(endpoint.resource, UNDECODABLE)
                return listing

    async def list_undecoded(
        self,
        endpoint: Endpoint[T],
        *,
        namespace: str = "",
        undecodable: builtins.list[str],
        known: Collection[str] = (),
    ) -> Undecoded[T]:
        """Return all objects, decoded slice by slice; for lists that are frequent and not stored.

        ``undecodable`` collects the names of objects that can't be decoded; those in ``known`` are
        not logged.
        """
        path = endpoint.collection(namespace)

        async def fetch(token: str) -> bytes:
            query: Query = {"limit": _PAGE, **({"continue": token} if token else {})}
            return await self.request("GET", path, query=query)

        items = await read_undecoded(path, fetch)
        return Undecoded(endpoint=endpoint, items=items, undecodable=undecodable, known=known)

    async def watch(
        self,
        endpoint: Endpoint[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield events after ``resource_version`` until the server ends the watch or is silent.

        ``on_open`` is called when the server has accepted the watch.

        Close it with ``contextlib.aclosing``. It ends without an error after five to ten minutes,
        or three minutes without data; continue from the last event's version.

        Raises:
            GoneError: the version is too old: list again.
            UnreachableError: no connection, or it broke.
        """
        seconds = self.rng.randint(*_WATCH_SECONDS)
        query: Query = {
            **_selectors(label_selector, field_selector),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": seconds,
        }
        protocol = WatchProtocol(endpoint.type, resource_version=resource_version)
        chunks = self._transport.stream(
            endpoint.collection(namespace),
            query,
            seconds=seconds,
            idle=_WATCH_IDLE,
            accept=_METADATA if endpoint.metadata_only else "",
            on_open=on_open,
        )
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                for event in protocol.feed(chunk):
                    if event.object is None and event.type is not EventType.BOOKMARK:
                        self.read_failed(endpoint.resource, UNDECODABLE)
                    yield event

    # Writes

    async def create(
        self, endpoint: Endpoint[T], body: Any, *, namespace: str = "", dry_run: bool = False
    ) -> T:
        """Create an object; a dry run makes all checks and stores nothing."""
        path = endpoint.collection(namespace)
        query: Query = {"dryRun": "All"} if dry_run else {}
        answer = await self.request("POST", path, query=query, body=typed(endpoint, body))
        return decoded(endpoint, answer)

    async def replace(
        self,
        endpoint: Endpoint[T],
        name: str,
        body: Any,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        """PUT a whole object, which must have been read as a dictionary."""
        path = endpoint.object(name, namespace, subresource)
        return decoded(endpoint, await self.request("PUT", path, body=typed(endpoint, body)))

    async def patch(
        self,
        endpoint: Endpoint[T],
        name: str,
        patch: Any,
        *,
        patch_type: PatchType,
        namespace: str = "",
        subresource: str = "",
        manager: str = "",
    ) -> T:
        """Patch one object; without a ``manager`` the User-Agent names the field manager."""
        path = endpoint.object(name, namespace, subresource)
        query = {"fieldManager": manager} if manager else None
        answer = await self.request(
            "PATCH", path, query=query, body=patch, content_type=patch_type.value
        )
        return decoded(endpoint, answer)

    async def delete(
        self,
        endpoint: Endpoint[Any],
        name: str,
        *,
        namespace: str = "",
        grace_period_seconds: int | None = None,
        uid: str = "",
        resource_version: str = "",
    ) -> None:
        """Delete one object; with ``uid`` or ``resource_version`` only if it still has these."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        await self.request("DELETE", endpoint.object(name, namespace), body=options)

    async def evict(self, namespace: str, name: str, *, uid: str = "") -> None:
        """Evict a pod through the Eviction API; with ``uid`` only if the pod still has it.

        Raises:
            TooManyRequestsError: the budget refused, if the cause is ``DisruptionBudget``.
            ConflictError: the pod of that name has another UID.
            KubeError: anything else; kubernetes-resize.md 5 lists the answers.
        """
        body: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        if uid:
            body["deleteOptions"] = {"preconditions": {"uid": uid}}
        await self.request("POST", PODS.object(name, namespace, "eviction"), body=body)

    async def resize(
        self, namespace: str, name: str, operations: Sequence[Any], *, manager: str = ""
    ) -> Pod:
        """Resize a pod in place by JSON patch; return the pod with its new spec."""
        return await self.patch(
            PODS,
            name,
            operations,
            patch_type=PatchType.JSON,
            namespace=namespace,
            subresource="resize",
            manager=manager,
        )

    # Other requests

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "",
        retry: bool = True,
        seconds: float = CALL_SECONDS,
        timeout_is_outage: bool = True,
    ) -> bytes:
        """Send one request and read the whole answer; ``seconds`` limits each try.

        ``timeout_is_outage``: a time-out means that the API server is unreachable. ``body`` is a
        wire type, a dictionary or list, or bytes. A GET is retried unless ``retry`` is False.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        return await self._transport.request(
            Call(
                method=method,
                path=path,
                query=query,
                body=data,
                content_type=content_type,
                seconds=seconds,
                retry=retry and method == "GET",
                limiter=self.limiter,
                accept=accept,
                timeout_is_outage=timeout_is_outage,
                before_send=no_check if method == "GET" else self.before_write,
            )
        )


def _selectors(label_selector: str, field_selector: str) -> dict[str, str | int]:
    query: dict[str, str | int] = {}
    if label_selector:
        query["labelSelector"] = label_selector
    if field_selector:
        query["fieldSelector"] = field_selector
    return query
