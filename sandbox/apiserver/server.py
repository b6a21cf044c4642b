"""The API server: an ASGI application over the store, and the way to serve it.

What it does and what it doesn't is in ``sandbox/README.md``.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

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
from sandbox.apiserver.bootstrap import fill_new_cluster
from sandbox.apiserver.deletes import Deletes
from sandbox.apiserver.deletion import Deletions
from sandbox.apiserver.fault_injection import FaultInjection, dropper
from sandbox.apiserver.faults import NOTHING, ApiFaults
from sandbox.apiserver.forms import Presenter
from sandbox.apiserver.negotiation import negotiate
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
from sandbox.objects import crds
from sandbox.objects.registry import Registry
from sandbox.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from sandbox.objects.store import Change, ChangeType, Store
from sandbox.tls import Credentials, make_credentials
from sandbox.version import KubernetesVersion

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

_LARGEST_BODY = 3 * 1024 * 1024  # bytes, as a real API server has it


class ApiServer:
    """A Kubernetes API server in memory, as an ASGI application.

    ``checks_nodes`` False leaves the node check of resizes out (the plugin
    PodResizeValidator); ``serves_resize`` False makes ``/resize`` a 404, as on a server whose
    feature gate is off. Every user may do everything.
    """

    def __init__(
        self,
        store: Store,
        version: KubernetesVersion,
        clock: Clock,
        *,
        rng: Random | None = None,
        checks_nodes: bool = True,
        serves_resize: bool = True,
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
        self.admission = Admission(store, version, clock, checks_nodes=checks_nodes)
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
            serves_resize=serves_resize,
        )
        store.subscribe(CUSTOM_RESOURCE_DEFINITIONS, self._definition_changed)
        fill_new_cluster(store, clock, rng)

    def mount(self, group: str, version: str, app: App) -> None:
        """Let an ASGI application answer the requests of a group version, as a metrics server."""
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
            self._note(request, place, verb, refused)

    async def close(self) -> None:
        """End the watches, and close the connections to webhooks."""
        self._watches.stop()
        await self.admission.close()

    def stop_watches(self) -> None:
        """End every watch; what they have queued is still sent."""
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
            await app(scope, receive, self._noting(request, place, verb, send))
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
        self._note(request, place, verb, answer.status)
        await _answer(send, answer)

    def _noting(self, request: Request, place: Place, verb: str, send: Send) -> Send:
        """``send`` that records the call with the status of its answer."""

        async def noting(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._note(request, place, verb, message["status"])
            await send(message)

        return noting

    async def _watch(
        self, request: Request, resource: Resource, place: Place, receive: Receive, send: Send
    ) -> None:
        form = negotiate(request.headers.get("accept", ""))
        watch = self._watches.open(request, resource, place.namespace, form)
        self._note(request, place, "watch", 200)
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

    def _note(self, request: Request, place: Place, verb: str, code: int) -> None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Where an API server is served, and how to get in."""

    url: str
    port: int
    authority: str  # PEM
    token: str  # the administrator's
    authenticator: Authenticator
    listener: Listener

    @property
    def kubeconfig(self) -> str:
        """A kubeconfig of the administrator."""
        return self.kubeconfig_for(self.token)

    def kubeconfig_for(self, token: str, *, namespace: str = "default") -> str:
        """A kubeconfig, as YAML, for the bearer of a token."""
        return kubeconfig_text(self.url, self.authority, {"token": token}, namespace=namespace)


@contextlib.asynccontextmanager
async def serve(
    api: ApiServer,
    *,
    port: int = 0,
    token: str = "",
    credentials: Credentials | None = None,
) -> AsyncIterator[Serving]:
    """Serve ``api`` over TLS on 127.0.0.1 while the context is entered.

    ``port`` 0 takes a free one; token and certificates are made unless they are given.
    """
    credentials = credentials or make_credentials(api.clock.now())
    token = api.authenticator.issue(ADMIN, token=token)
    try:
        async with Listener(api, tls=credentials.server_context(), port=port) as listener:
            try:
                yield Serving(
                    url=listener.url,
                    port=listener.port,
                    authority=credentials.authority,
                    token=token,
                    authenticator=api.authenticator,
                    listener=listener,
                )
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
