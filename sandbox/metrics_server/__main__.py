"""Run it: ``python -P -m sandbox.metrics_server --kubeconfig=PATH --secure-port=PORT``."""

import asyncio
import ssl
import sys
from collections.abc import Sequence

from common.errors import ConfigError
from common.flags import read_flags
from common.kube import config
from common.kube.client import KubeClient
from common.runtime import logs, service
from common.runtime.clock import SystemClock
from sandbox.furnishing import METRICS_HOST
from sandbox.kubelet.metrics_server import MetricsServer
from sandbox.listener import Listener
from sandbox.metrics_server.scraping import Scraper
from sandbox.metrics_server.settings import Settings
from sandbox.tls import NAMES, make_credentials

PROGRAM = "metrics-server"


async def _main(argv: Sequence[str]) -> None:
    settings = read_flags(Settings, argv, program=PROGRAM)
    logs.configure(settings.verbosity, settings.logging_format)
    clock = SystemClock()
    tls = _tls(settings, clock)
    connection = await config.load(settings.kubeconfig)
    async with KubeClient(
        connection,
        user_agent=PROGRAM,
        qps=settings.kube_api_qps,
        burst=settings.kube_api_burst,
    ) as client:
        scraper = Scraper(client, clock, every=settings.metric_resolution)
        server = MetricsServer(scraper, clock, window=settings.metric_resolution)

        async def serve(stop: asyncio.Event) -> None:
            async with Listener(server, tls=tls, port=settings.secure_port):
                await stop.wait()

        await service.serve(
            serve,
            background=(scraper.nodes.run, scraper.pods.run, lambda: scraper.run(server)),
        )


def _tls(settings: Settings, clock: SystemClock) -> ssl.SSLContext:
    if settings.tls_cert_file is None or settings.tls_private_key_file is None:
        credentials = make_credentials(clock.now(), names=(*NAMES, METRICS_HOST))
        return credentials.server_context()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(settings.tls_cert_file, settings.tls_private_key_file)
    except OSError as error:
        raise ConfigError(f"--tls-cert-file: {error}") from error
    return context


def main() -> int:
    """Entry point; the exit code."""
    return service.run(PROGRAM, lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
