"""The server on the ops address of a process: liveness, readiness and metrics."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import fastapi
import msgspec
import prometheus_client
from fastapi.responses import PlainTextResponse

from common.flags import show
from common.runtime import profiles
from common.runtime.clock import Clock
from common.runtime.exposition import CONTENT_TYPE, exposition
from common.runtime.text_or_json import described, wants_text
from common.runtime.web_server import WebServer
from common.version import version, version_info

_MOST_SCRAPES = 16  # concurrent ones, which wait for each other
_SCRAPE_SECONDS = 1.0
_BUSY = "too many scrapes at once"

Checks = Mapping[str, Callable[[], bool]]


def _text(example: str) -> dict[str, Any]:
    """Return the OpenAPI description of a text response."""
    return {"content": {"text/plain": {"schema": {"type": "string"}, "example": example}}}


_HEALTHY: dict[int | str, dict[str, Any]] = {200: _text("OK") | {"description": "OK."}}


class Health:
    """The health of a process: whether its cycles finish in time.

    A process is healthy until ``arm`` is called, so that a standby replica or a slow start-up is
    not restarted. After that it is healthy while the last ``beat`` is no older than ``timeout``
    (five intervals of the loop).

    Source: recommender.md 13; autoscaler/common metrics HealthCheck.
    """

    def __init__(self, clock: Clock, timeout: timedelta) -> None:
        self._clock = clock
        self._timeout = timeout
        self._last: datetime | None = None

    def arm(self) -> None:
        """Expect beats from now on."""
        self._last = self._clock.now()

    def beat(self) -> None:
        """Note that a cycle has finished; this has no effect before ``arm``."""
        if self._last is not None:
            self._last = self._clock.now()

    def answer(self) -> tuple[int, str]:
        """Return HTTP status and text of ``/health-check``."""
        if self._last is None:
            return 200, "OK"
        age = self._clock.now() - self._last
        if age <= self._timeout:
            return 200, "OK"
        return 500, f"Error: last activity more than {show(age)} ago"


class _Scrapes:
    """Answers to scrapes, generated one at a time and cached for a second.

    For 15,000 VPAs an answer is megabytes large and takes half a second, so a thread generates it.
    """

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self._registry = registry
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._names: Sequence[str] | None = None  # of the last answer
        self._answer = b""
        self._until = 0.0  # the event loop's time

    async def answer(self, names: Sequence[str]) -> bytes | None:
        """Return the text, shared by equal requests; None if too many requests wait.

        ``names`` selects series; empty selects all.
        """
        if self._waiting >= _MOST_SCRAPES and not self._has(names):
            return None
        self._waiting += 1
        try:
            async with self._lock:
                if not self._has(names):
                    chosen = self._registry.restricted_registry(names) if names else self._registry
                    self._answer = await asyncio.to_thread(exposition, chosen)
                    self._names = names
                    self._until = asyncio.get_running_loop().time() + _SCRAPE_SECONDS
                return self._answer
        finally:
            self._waiting -= 1

    def _has(self, names: Sequence[str]) -> bool:
        return names == self._names and asyncio.get_running_loop().time() < self._until


def ops_server(
    health: Health,
    address: str,
    *,
    checks: Checks | None = None,
    registry: prometheus_client.CollectorRegistry = prometheus_client.REGISTRY,
    profiling: bool = False,
    routers: Sequence[fastapi.APIRouter] = (),
) -> WebServer:
    """Return the server of the ops ``address``.

    ``/health-check`` is :class:`Health`; ``/readyz`` is 200 when all of ``checks`` return
    True, else 503 with the names of the failed ones; ``/metrics`` is the registry, or with
    ``?name[]=`` only these series of it. It is collected in a
    thread, so collectors must tolerate that their values change meanwhile; once at a time, and for
    the same query no more than once a second. With ``profiling``, ``/debug/pprof/profile`` and
    ``/debug/pprof/heap`` watch the process for ``?seconds=``, or until the client leaves, and
    answer with a table. ``/version`` is the version of the program. ``routers`` add
    endpoints of one process. ``/livez`` and ``/healthz`` equal ``/health-check``. ``/`` lists all
    paths; ``/openapi.json`` and ``/docs`` describe them.

    Raises:
        ConfigError: nothing can listen on the address.
    """
    # No ``_created`` series for counters: the reference doesn't export them.
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # as shipped
    app = fastapi.FastAPI(title="Ops address", version=version(), redoc_url=None)
    late = _text("Error: last activity more than 5m1s ago") | {"description": "A cycle is overdue."}
    scrapes = _Scrapes(registry)
    busy = _text(_BUSY) | {"description": "Too many requests are in progress."}
    missing = _text("not ready: caches") | {"description": "Not ready. Lists what is missing."}
    numbers = _text("# HELP vpa_things_total Things.") | {
        "description": "The text format of Prometheus."
    }

    @app.get("/health-check", response_class=PlainTextResponse, responses={**_HEALTHY, 500: late})
    async def health_check() -> PlainTextResponse:
        """Report whether cycles finish in time, for liveness probes."""
        status, text = health.answer()
        return PlainTextResponse(text, status_code=status)

    for path in ("/livez", "/healthz"):
        app.get(path, response_class=PlainTextResponse, responses={**_HEALTHY, 500: late})(
            health_check
        )

    @app.get("/readyz", response_class=PlainTextResponse, responses={**_HEALTHY, 503: missing})
    async def readyz() -> PlainTextResponse:
        """Report whether all checks pass, such as synced caches, for readiness probes."""
        waiting = [name for name, check in (checks or {}).items() if not check()]
        if waiting:
            return PlainTextResponse(f"not ready: {', '.join(waiting)}", status_code=503)
        return PlainTextResponse("OK")

    @app.get("/metrics", response_class=PlainTextResponse, responses={200: numbers, 503: busy})
    async def metrics(
        names: Annotated[list[str] | None, fastapi.Query(alias="name[]")] = None,
    ) -> fastapi.Response:
        """Return the metrics of the process; with ``name[]``, only these series."""
        text = await scrapes.answer(tuple(names or ()))
        if text is None:
            return PlainTextResponse(f"{_BUSY}\n", status_code=503)
        return fastapi.Response(text, headers={"Content-Type": CONTENT_TYPE})

    @app.get("/version")
    async def running_version() -> dict[str, str]:
        """Return the version of the program, with the field names of an API server."""
        return version_info(version())

    if profiling:
        _add_profiles(app)
    for router in routers:
        app.include_router(router)
    _add_index(app)
    return WebServer(app, address, name="ops")


class ServedPath(msgspec.Struct, frozen=True):
    """A path of the ops address, in the index."""

    path: str
    methods: tuple[str, ...]
    about: str


class PathIndex(msgspec.Struct, frozen=True):
    """The answer of ``/``: the paths of the ops address."""

    paths: tuple[ServedPath, ...]


def _add_index(app: fastapi.FastAPI) -> None:
    """Serve a list of all paths."""
    row = "/readyz  GET  Report whether all checks pass.\n"
    answer = described(PathIndex, path="/", method="get", status=200, text=row)

    @app.get("/", response_model=None, responses={200: answer | {"description": "The paths."}})
    async def index(request: fastapi.Request) -> fastapi.Response:
        """List the paths of this address; with ``Accept: text/plain`` as a table."""
        found = _index(app.openapi()["paths"])
        if not wants_text(request.headers.get("accept", "")):
            body = msgspec.json.encode(found) + b"\n"
            return fastapi.Response(body, media_type="application/json")
        width = max(len(each.path) for each in found.paths)
        rows = (
            f"{each.path:<{width}}  {','.join(each.methods)}  {each.about}" for each in found.paths
        )
        return PlainTextResponse("".join(f"{row}\n" for row in rows))


def _index(described_paths: Mapping[str, Mapping[str, Any]]) -> PathIndex:
    served = [
        ServedPath("/docs", ("GET",), "Show the description of all paths in a browser."),
        ServedPath("/openapi.json", ("GET",), "Describe all paths in OpenAPI."),
    ]
    for path, methods in described_paths.items():
        (text,) = {operation["description"] for operation in methods.values()}
        served.append(ServedPath(path, tuple(map(str.upper, methods)), _first_sentence(text)))
    return PathIndex(tuple(sorted(served, key=lambda each: each.path)))


def _first_sentence(description: str) -> str:
    text = " ".join(description.partition("\n\n")[0].split()).replace("``", "")
    return text.partition(". ")[0].removesuffix(".") + "."


_Seconds = Annotated[float, fastapi.Query(ge=0, allow_inf_nan=False)]


def _add_profiles(app: fastapi.FastAPI) -> None:
    async def answer(
        request: fastapi.Request, seconds: float, take: Callable[[profiles.Wait], Awaitable[str]]
    ) -> PlainTextResponse:
        left = asyncio.create_task(_until_left(request))
        try:
            wait = functools.partial(asyncio.wait, [left], timeout=min(seconds, profiles.LONGEST))
            return PlainTextResponse(await take(wait))
        except profiles.BusyError as error:
            return PlainTextResponse(f"{error}\n", status_code=409)
        finally:
            left.cancel()

    @app.get("/debug/pprof/profile", response_class=PlainTextResponse)
    async def profile(request: fastapi.Request, seconds: _Seconds = 30.0) -> PlainTextResponse:
        """Profile the CPU time of the process."""
        return await answer(request, seconds, profiles.cpu_profile)

    @app.get("/debug/pprof/heap", response_class=PlainTextResponse)
    async def heap(request: fastapi.Request, seconds: _Seconds = 30.0) -> PlainTextResponse:
        """Profile the memory that the process allocates."""
        return await answer(request, seconds, profiles.heap_growth)


async def _until_left(request: fastapi.Request) -> None:
    """Wait until the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
