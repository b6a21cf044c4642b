"""The ops address of a process: liveness, readiness and metrics."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

import fastapi
import prometheus_client
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import choose_encoder

from common.flags import show
from common.runtime import profiles
from common.runtime.clock import Clock
from common.runtime.web import WebServer

Checks = Mapping[str, Callable[[], bool]]


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
) -> fastapi.FastAPI:
    """The application behind the ops address.

    ``/health-check`` is :class:`Health`; ``/readyz`` is 200 when every one of ``checks`` says
    so, else 503 with the names of those that don't; ``/metrics`` is the registry in the form
    that the scraper asks for. With ``profiling``, ``/debug/pprof/profile`` and
    ``/debug/pprof/heap`` watch the process for ``?seconds=`` and answer with a table.
    """
    # A series of its own for the creation of each counter: dashboards of the reference know none.
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # as shipped
    app = fastapi.FastAPI(openapi_url=None)

    @app.get("/health-check")
    async def health_check() -> PlainTextResponse:
        status, text = health.answer()
        return PlainTextResponse(text, status_code=status)

    @app.get("/readyz")
    async def readyz() -> PlainTextResponse:
        waiting = [name for name, check in (checks or {}).items() if not check()]
        if waiting:
            return PlainTextResponse(f"not ready: {', '.join(waiting)}", status_code=503)
        return PlainTextResponse("OK")

    @app.get("/metrics")
    async def metrics(request: fastapi.Request) -> fastapi.Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return fastapi.Response(encode(registry), headers={"Content-Type": content_type})

    if profiling:
        _add_profiles(app)
    return app


def _add_profiles(app: fastapi.FastAPI) -> None:
    async def answer(taking: Awaitable[str]) -> PlainTextResponse:
        try:
            return PlainTextResponse(await taking)
        except profiles.BusyError as error:
            return PlainTextResponse(f"{error}\n", status_code=409)

    @app.get("/debug/pprof/profile")
    async def profile(seconds: float = 30.0) -> PlainTextResponse:
        return await answer(profiles.cpu_profile(seconds))

    @app.get("/debug/pprof/heap")
    async def heap(seconds: float = 30.0) -> PlainTextResponse:
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
    ) -> None:
        app = ops_app(health, checks=checks, registry=registry, profiling=profiling)
        super().__init__(app, address, name="ops")
