"""The ops address of a process: liveness, readiness and metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import fastapi
import prometheus_client
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import choose_encoder

from common.flags import show
from common.runtime import profiles
from common.runtime.clock import Clock
from common.runtime.web import WebServer

Checks = Mapping[str, Callable[[], bool]]


def _text(example: str) -> dict[str, Any]:
    """What the page of endpoints shows of an answer."""
    return {"content": {"text/plain": {"schema": {"type": "string"}, "example": example}}}


_HEALTHY: dict[int | str, dict[str, Any]] = {200: _text("OK") | {"description": "Yes."}}


class Health:
    """Whether the process still gets its work done.

    Healthy until ``arm`` is called, so that a standby replica and a start-up take the time
    they need; from then on healthy while the last ``beat`` is no older than ``timeout``
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
        """A cycle has finished; without effect before ``arm``."""
        if self._last is not None:
            self._last = self._clock.now()

    def answer(self) -> tuple[int, str]:
        """HTTP status and text of ``/health-check``."""
        if self._last is None:
            return 200, "OK"
        age = self._clock.now() - self._last
        if age <= self._timeout:
            return 200, "OK"
        return 500, f"Error: last activity more than {show(age)} ago"


def ops_app(
    health: Health,
    *,
    checks: Checks | None = None,
    registry: prometheus_client.CollectorRegistry = prometheus_client.REGISTRY,
    profiling: bool = False,
    routers: Sequence[fastapi.APIRouter] = (),
) -> fastapi.FastAPI:
    """The application behind the ops address.

    ``/health-check`` is :class:`Health`; ``/readyz`` is 200 when every one of ``checks`` says
    so, else 503 with the names of those that don't; ``/metrics`` is the registry in the form
    that the scraper asks for, or with ``?name[]=`` only these series of it. It is collected in a
    thread, so a collector must stand that its values change meanwhile. With ``profiling``,
    ``/debug/pprof/profile`` and ``/debug/pprof/heap`` watch the process for ``?seconds=`` and
    answer with a table. ``routers`` add endpoints of one process. ``/openapi.json`` and ``/docs``
    describe all of them.
    """
    # A series of its own for the creation of each counter: dashboards of the reference know none.
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # as shipped
    app = fastapi.FastAPI(title="Ops address", version="1", redoc_url=None)
    late = _text("Error: last activity more than 5m1s ago") | {"description": "No; restart it."}
    missing = _text("not ready: caches") | {"description": "Not yet, and what it waits for."}
    numbers = _text("# HELP vpa_things_total Things.") | {
        "description": "The text format of Prometheus, or OpenMetrics where that is accepted."
    }

    @app.get("/health-check", response_class=PlainTextResponse, responses={**_HEALTHY, 500: late})
    async def health_check() -> PlainTextResponse:
        """Whether the process still gets its work done; for liveness probes."""
        status, text = health.answer()
        return PlainTextResponse(text, status_code=status)

    @app.get("/readyz", response_class=PlainTextResponse, responses={**_HEALTHY, 503: missing})
    async def readyz() -> PlainTextResponse:
        """Whether the process knows the cluster and can do its work; for readiness probes."""
        waiting = [name for name, check in (checks or {}).items() if not check()]
        if waiting:
            return PlainTextResponse(f"not ready: {', '.join(waiting)}", status_code=503)
        return PlainTextResponse("OK")

    @app.get("/metrics", response_class=PlainTextResponse, responses={200: numbers})
    async def metrics(
        request: fastapi.Request,
        names: Annotated[list[str] | None, fastapi.Query(alias="name[]")] = None,
    ) -> fastapi.Response:
        """What the process counts, for Prometheus; with names, only these series."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        chosen = registry.restricted_registry(names) if names else registry
        # Fifteen thousand VPAs make megabytes: half a second in which the rest must go on.
        text = await asyncio.to_thread(encode, chosen)
        return fastapi.Response(text, headers={"Content-Type": content_type})

    if profiling:
        _add_profiles(app)
    for router in routers:
        app.include_router(router)
    return app


def _add_profiles(app: fastapi.FastAPI) -> None:
    async def answer(taking: Awaitable[str]) -> PlainTextResponse:
        try:
            return PlainTextResponse(await taking)
        except profiles.BusyError as error:
            return PlainTextResponse(f"{error}\n", status_code=409)

    @app.get("/debug/pprof/profile", response_class=PlainTextResponse)
    async def profile(seconds: float = 30.0) -> PlainTextResponse:
        """Where the process spends its time."""
        return await answer(profiles.cpu_profile(seconds))

    @app.get("/debug/pprof/heap", response_class=PlainTextResponse)
    async def heap(seconds: float = 30.0) -> PlainTextResponse:
        """Where the process takes memory."""
        return await answer(profiles.heap_growth(seconds))


class OpsServer(WebServer):
    """Serves :func:`ops_app` on ``address``; ``run`` is its background task.

    Raises:
        ConfigError: nothing can listen on the address.
    """

    def __init__(
        self,
        health: Health,
        address: str,
        *,
        checks: Checks | None = None,
        registry: prometheus_client.CollectorRegistry = prometheus_client.REGISTRY,
        profiling: bool = False,
        routers: Sequence[fastapi.APIRouter] = (),
    ) -> None:
        app = ops_app(
            health, checks=checks, registry=registry, profiling=profiling, routers=routers
        )
        super().__init__(app, address, name="ops")
