"""The API server of the load mode: an ASGI application."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from common.runtime.clock import Clock
from sandbox.errors import ApiError
from sandbox.load.audit import Audit, Call
from sandbox.load.layout import CONTAINERS, Layout
from sandbox.load.population import Population
from sandbox.load.reads import Collection, Reads
from sandbox.load.requests import Asked, Receive, Send, asked_of, body_of, not_found
from sandbox.load.resources import resources
from sandbox.load.settings import Settings
from sandbox.load.world import World
from sandbox.load.writes import Writes

REPORT = "/load/report"

_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_JSON = (b"content-type", b"application/json")


class LoadApi:
    """Answers requests; ``GET /load/report`` returns counts, and ``DELETE`` resets them."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.layout: Layout = settings.layout
        self.population = Population(
            self.layout,
            update_mode=settings.update_mode,
            right_sized=settings.right_sized,
            now=clock.now(),
        )
        self.audit = Audit(time.perf_counter())
        self._settings = settings
        self._clock = clock
        world = World(self.population)
        delay = settings.answer_delay.total_seconds()
        self._writes = Writes(world, self.audit, clock, delay=delay)
        if settings.checkpoints:
            self._writes.checkpoints.update(range(self.layout.vpas * len(CONTAINERS)))
        self._reads = Reads(lambda: world.version)
        self._collections: Mapping[tuple[str, str, str], Collection] = {
            (each.group, each.version, each.resource): each
            for each in resources(world, self._writes.checkpoints)
        }

    @property
    def pod_bytes(self) -> int:
        """The size of a pod's JSON."""
        return len(self.population.render_pod(self.population.pod(0)))

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        asked = asked_of(scope)
        if asked is None:
            await self._answer_path(scope["method"], scope["path"], send)
            return
        code, size = 200, 0
        try:
            collection = self._collection(asked)
            if asked.verb == "watch":
                self._note(asked, 200, began, 0)
                await self._reads.watch(collection, asked, receive, send)
                return
            if asked.verb == "list":
                size = await self._list(collection, asked, send)
            else:
                code, body = await self._answer(collection, asked, receive)
                await _send(send, code, body)
        except ApiError as error:
            code = error.code
            await _send(send, code, msgspec.json.encode(error.status_object()))
        self._note(asked, code, began, size)

    def _collection(self, asked: Asked) -> Collection:
        found = self._collections.get((asked.group, asked.version, asked.resource))
        if found is None:
            raise not_found("the load mode has no such resource")
        return found

    async def _list(self, collection: Collection, asked: Asked, send: Send) -> int:
        everything = not asked.namespace and not asked.query.get("continue")
        if collection.group == "metrics.k8s.io" and everything:
            self.population.next_metrics(self._clock.now())
        return await self._reads.list(collection, asked, send)

    async def _answer(
        self, collection: Collection, asked: Asked, receive: Receive
    ) -> tuple[int, bytes]:
        if asked.verb != "get":
            return await self._writes.answer(asked, await body_of(receive))
        if asked.resource == "leases":
            return 200, self._writes.lease(asked)
        if asked.subresource:
            raise asked.missing  # the components read scales of absent kinds
        return 200, await self._reads.get(collection, asked)

    def _note(self, asked: Asked, code: int, began: float, size: int) -> None:
        resource = asked.audited if asked.group != "metrics.k8s.io" else "podmetrics"
        now = time.perf_counter()
        self.audit.note(Call(asked.verb, resource, code), began=began, now=now, size=size)

    async def _answer_path(self, method: str, path: str, send: Send) -> None:
        if path in _HEALTH:
            await _send(send, 200, b"ok")
            return
        if path != REPORT:
            await _send(send, 404, b"404 page not found")
            return
        now = time.perf_counter()
        if method == "DELETE":
            self.audit.reset(now)
        report = {"world": self._described(), **self.audit.report(now)}
        await _send(send, 200, msgspec.json.encode(report))

    def _described(self) -> dict[str, Any]:
        layout, settings = self.layout, self._settings
        return {
            "vpas": layout.vpas,
            "pods": layout.pods,
            "groups": layout.groups,
            "podBytes": self.pod_bytes,
            "podMetricsBytes": len(self.population.pod_metrics(0)),
            "checkpointBytes": len(self.population.checkpoint(0)),
            "vpaBytes": len(self.population.render_vpa(self.population.vpa(0))),
            "tls": settings.tls,
            "rightSized": settings.right_sized,
            "updateMode": settings.update_mode,
            "answerDelaySeconds": settings.answer_delay.total_seconds(),
        }


async def _send(send: Send, code: int, body: bytes) -> None:
    headers: Iterable[tuple[bytes, bytes]] = (_JSON, (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
