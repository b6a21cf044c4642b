"""The API server: an ASGI application over the store, and a context that serves it.

``sandbox/README.md`` describes its features and limits.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from common.kube.client import KubeClient
from common.kube.connection import Connection, StaticCredentials, client_context
from common.runtime.clock import Clock
from sandbox.admission.chain import Admission
from sandbox.apiserver.answers import (
    Answer,
    lowered,
    raw_headers,
    refusal,
    unknown_path,
)
from sandbox.apiserver.audit import AuditLog, Entry
from sandbox.apiserver.auth import ADMIN, Authenticator
from sandbox.apiserver.deletion import Deletes, Deletions
from sandbox.apiserver.fault_injection import FaultInjection, dropper
from sandbox.apiserver.faults import NOTHING, ApiFaults
from sandbox.apiserver.forms import Presenter, negotiate
from sandbox.apiserver.reading import Reads
from sandbox.apiserver.requests import Place, Request, parse_place, parse_query
from sandbox.apiserver.routing import Routing
from sandbox.apiserver.subresources import Subresources
from sandbox.apiserver.watching import Watch, Watches
from sandbox.apiserver.writing import Writes
from sandbox.clocks import ShiftedClock
from sandbox.errors import ApiError
from sandbox.kubeconfigs import kubeconfig_text
from sandbox.listener import Listener
from sandbox.objects import crds, defaults
from sandbox.objects.metadata import stamp_new
from sandbox.objects.registry import Registry
from sandbox.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from sandbox.objects.store import Change, ChangeType, Store
from sandbox.objects.strategies import prepare_create
from sandbox.tls import make_credentials
from sandbox.version import KubernetesVersion

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_UNLIMITED = 0.0  # requests per second
_LARGEST_BODY = 3 * 1024 * 1024  # bytes, the limit of a real API server


class ApiServer:
    """A Kubernetes API server in memory, as an ASGI application. Every user may do everything."""

    def __init__(
        self,
        store: Store,
        version: KubernetesVersion,
        clock: Clock,
        *,
        rng: Random | None = None,
    ) -> None:
        rng = rng or Random()  # noqa: S311 - names and UIDs, no secrets
        clock = ShiftedClock.of(clock)
        self.store = store
        self.version = version
        self.clock = clock
        self.faults = ApiFaults(clock, rng)
        self.audit = AuditLog()
        self.authenticator = Authenticator()
        self.registry = Registry()
        self.admission = Admission(store, version, clock)
        self._mounted: dict[tuple[str, str], App] = {}  # by group and version
        presenter = Presenter(self.registry, clock)
        deletions = Deletions(store, self.registry, clock)
        writes = Writes(
            store,
            self.registry,
            self.admission,
            deletions,
            version=version,
            clock=clock,
            rng=rng,
        )
        self._watches = Watches(store, presenter, version=version, rng=rng)
        self._routing = Routing(
            store=store,
            registry=self.registry,
            reads=Reads(store),
            writes=writes,
            deletes=Deletes(store, self.admission, deletions),
            subresources=Subresources(
                store,
                self.registry,
                writes=writes,
                deletions=deletions,
                clock=clock,
            ),
            presenter=presenter,
            mounted=self._mounted.keys(),
            audit=self.audit,
            version=version,
            clock=clock,
        )
        store.subscribe(CUSTOM_RESOURCE_DEFINITIONS, self._definition_changed)
        for name in _SYSTEM_NAMESPACES:
            obj: dict[str, Any] = {"metadata": {"name": name}}
            defaults.fill(NAMESPACES, obj)
            prepare_create(NAMESPACES, obj)
            stamp_new(obj, NAMESPACES, clock.now(), rng)
            store.create(NAMESPACES, obj)

    def mount(self, group: str, version: str, app: App) -> None:
        """Let another ASGI application answer the requests of a group version."""
        self._mounted[group, version] = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"not served: {scope['type']}")
        path = scope["raw_path"].decode("latin-1")
        place = parse_place(path)
        try:
            request = self._request(scope, path, lowered(scope["headers"]))
            if request.method != "GET":
                request = replace(request, body=await _body(receive))
        except ApiError as error:
            await _answer(send, refusal(error))
            return
        if place is None or not place.plural:
            if place is not None and (place.group, place.version) in self._mounted:
                await self._mounted[place.group, place.version](scope, receive, send)
                return
            await _answer(send, self._other(request))
            return
        verb = place.verb(request.method, watch=request.flag("watch"))
        effect = self.faults.effect_on(request, place, verb)
        handle = partial(self._resource, request, place, scope)
        if effect is NOTHING:
            await handle(receive, send)
            return
        injection = FaultInjection(effect=effect, place=place, verb=verb, drop=dropper(scope))
        refused = await injection.run(handle, receive, send)
        if refused is not None:
            self._record(request, place, verb, refused)

    async def close(self) -> None:
        """End the watches, and close the connections to webhooks."""
        self._watches.stop()
        await self.admission.close()

    def stop_watches(self) -> None:
        """End every watch after its queued events are sent."""
        self._watches.stop()

    def _request(self, scope: Scope, path: str, headers: Mapping[str, str]) -> Request:
        """Return the request without its body.

        Raises:
            ApiError: 401.
        """
        return Request(
            method=scope["method"],
            path=path,
            query=parse_query(scope["query_string"]),
            headers=headers,
            user=self.authenticator.authenticate(headers.get("authorization", "")),
        )

    def _other(self, request: Request) -> Answer:
        try:
            return self._routing.other(request)
        except ApiError as error:
            return refusal(error)

    async def _resource(
        self, request: Request, place: Place, scope: Scope, receive: Receive, send: Send
    ) -> None:
        app = self._mounted.get((place.group, place.version))
        verb = place.verb(request.method, watch=request.flag("watch"))
        if app is not None:
            await app(scope, receive, self._recording(request, place, verb, send))
            return
        try:
            resource = self._routing.resource_at(place)
            if resource is None:
                answer = unknown_path()
            elif verb == "watch":
                await self._watch(request, resource, place, receive, send)
                return
            else:
                answer = await self._routing.resource(request, resource, place, verb)
        except ApiError as error:
            verb, answer = place.verb(request.method, watch=False), refusal(error)
        self._record(request, place, verb, answer.status)
        await _answer(send, answer)

    def _recording(self, request: Request, place: Place, verb: str, send: Send) -> Send:
        """Return a ``send`` that records the call with the status of its response."""

        async def recording(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._record(request, place, verb, message["status"])
            await send(message)

        return recording

    async def _watch(
        self, request: Request, resource: Resource, place: Place, receive: Receive, send: Send
    ) -> None:
        form = negotiate(request.headers.get("accept", ""))
        watch = self._watches.open(request, resource, place.namespace, form)
        self._record(request, place, "watch", 200)
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"application/json")],
            }
        )
        try:
            async with asyncio.TaskGroup() as group:
                listener = group.create_task(_until_disconnected(receive, watch))
                async for chunk in watch.chunks():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                listener.cancel()
        finally:
            watch.close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _record(self, request: Request, place: Place, verb: str, code: int) -> None:
        self.audit.record(
            Entry(
                time=self.clock.now(),
                verb=verb,
                group=place.group,
                resource=place.plural,
                subresource=place.subresource,
                namespace=place.namespace,
                name=place.name,
                user=request.user.username,
                user_agent=request.user_agent,
                code=code,
            )
        )

    def _definition_changed(self, change: Change) -> None:
        name = change.stored.name
        if change.type is ChangeType.DELETED:
            self.registry.replace_custom(name, ())
            return
        definition = change.stored.object(CUSTOM_RESOURCE_DEFINITIONS)
        self.registry.replace_custom(name, crds.served_versions(definition))


@dataclass(frozen=True, slots=True)
class ServedApi:
    """A served API server, with its address, credentials and clients."""

    api: ApiServer
    listener: Listener
    authority: str  # PEM
    token: str  # the administrator's
    trusted: ssl.SSLContext  # trusts the authority

    @property
    def url(self) -> str:
        return self.listener.url

    @property
    def kubeconfig(self) -> str:
        """The administrator's kubeconfig, as YAML."""
        return self.kubeconfig_for(self.token)

    def kubeconfig_for(self, token: str) -> str:
        """Return a kubeconfig, as YAML, for the bearer of a token."""
        return kubeconfig_text(self.url, self.authority, {"token": token})

    @property
    def connection(self) -> Connection:
        """The administrator's connection, for :class:`~common.kube.client.KubeClient`."""
        return self._connection(self.token)

    def client(self, user_agent: str, *, user: str = "") -> KubeClient:
        """Return a client without rate limits. The user is the administrator unless named."""
        token = self.api.authenticator.issue(user) if user else self.token
        return KubeClient(
            self._connection(token),
            user_agent=user_agent,
            qps=_UNLIMITED,
            burst=_UNLIMITED,
            rng=Random(0),  # noqa: S311 - spreads retries, guards no secret
        )

    def _connection(self, token: str) -> Connection:
        credentials = StaticCredentials(f"Bearer {token}")
        return Connection(self.url, ssl_context=self.trusted, credentials=credentials)


@contextlib.asynccontextmanager
async def serve(api: ApiServer, *, port: int = 0) -> AsyncIterator[ServedApi]:
    """Serve ``api`` over TLS on 127.0.0.1 while the context is entered.

    ``port`` 0 selects a free one.

    Raises:
        ConfigError: the port isn't available.
    """
    credentials = make_credentials()
    trusted = client_context(ca_data=credentials.authority)
    token = api.authenticator.issue(ADMIN)
    try:
        async with Listener(api, tls=credentials.server_context(), port=port) as listener:
            try:
                yield ServedApi(api, listener, credentials.authority, token, trusted)
            finally:
                api.stop_watches()
    finally:
        await api.close()


async def _until_disconnected(receive: Receive, watch: Watch) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    watch.stop()


async def _body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > _LARGEST_BODY:
            text = f"Request entity too large: limit is {_LARGEST_BODY}"
            raise ApiError(413, "RequestEntityTooLarge", text)
        if not message.get("more_body", False):
            return b"".join(chunks) if len(chunks) > 1 else chunks[0]


async def _answer(send: Send, answer: Answer) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": raw_headers(answer),
        }
    )
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
