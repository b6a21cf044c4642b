"""The program: ``python -P -m sandbox.load --vpas=1000 --pods-per-vpa=10 --kubeconfig=PATH``."""

import asyncio
import contextlib
import gc
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from common.flags import read_flags
from common.runtime import logs
from common.runtime.clock import SystemClock
from common.runtime.limited_http import HttpLimits
from common.runtime.service import run
from common.runtime.web_server import WebServer
from sandbox.kubeconfigs import kubeconfig_text
from sandbox.load.server import LoadApi
from sandbox.load.settings import Settings
from sandbox.program import run_until_stopped
from sandbox.tls import make_credentials

PROGRAM = "sandbox.load"
_LIMITS = HttpLimits(idle=3600, connections=10_000, connections_of_peer=10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCluster:
    """A served load mode."""

    url: str
    kubeconfig: str
    pod_bytes: int


def main() -> None:
    """Entry point of the program."""
    sys.exit(run(PROGRAM, lambda: _main(sys.argv[1:])))


async def _main(argv: Sequence[str]) -> None:
    settings = read_flags(Settings, argv, program=PROGRAM)
    logs.configure(settings.verbosity, settings.logging_format)
    layout = settings.layout
    counts = f"{layout.vpas} VPAs, {layout.pods} pods in groups of {layout.group_size}"
    tls = "with TLS" if settings.tls else "without TLS"
    await run_until_stopped(
        serving(settings),
        settings.kubeconfig,
        title=lambda it: f"Load mode ready: {counts}, {it.pod_bytes} bytes each, {tls}",
        nodes=layout.nodes,
    )


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[LoadCluster]:
    """Serve the API on 127.0.0.1 while the context is entered."""
    clock = SystemClock()
    credentials = make_credentials()
    api = LoadApi(settings, clock)
    options: dict[str, Any] = {"interface": "asgi3"}
    if settings.tls:
        context = credentials.server_context()
        options["ssl_context_factory"] = lambda *_: context
    server = WebServer(api, f"127.0.0.1:{settings.port}", name="load", limits=_LIMITS, **options)
    url = f"{'https' if settings.tls else 'http'}://127.0.0.1:{server.port}"
    gc.collect()
    gc.freeze()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        yield LoadCluster(
            url=url,
            kubeconfig=kubeconfig_text(url, credentials.authority, {"token": "load"}),
            pod_bytes=api.pod_bytes,
        )
        task.cancel()


if __name__ == "__main__":
    main()
