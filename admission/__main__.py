"""The admission controller: ``python -P -m admission``."""

import asyncio
import functools
import gc
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import prometheus_client

from admission import debugging, tls, webhook
from admission.app import LARGEST_BODY, Policy, Webhook
from admission.cluster import CachedCluster
from admission.expiry import Expiry
from admission.metrics import Metrics
from admission.self_check import Caller, SelfCheck
from admission.settings import Settings
from common.flags import read_flags
from common.kube import config
from common.kube.client import KubeClient
from common.kube.lease import StatusLease
from common.kube.targets import ControllerCaches, Targets
from common.runtime import logs, service
from common.runtime.clock import Clock, SystemClock
from common.runtime.health import Health, OpsServer
from common.runtime.web import WebServer

logger = logging.getLogger(__name__)

PROGRAM = "vpa-admission-controller"
_DEFAULT_NAMESPACE = "kube-system"
# Longer than API servers keep an idle connection: whoever closes first must not be us, or a
# review that is just being sent would be lost.
_KEEP_ALIVE_SECONDS = 600
_LONGEST_CHECK = 5.0  # seconds, if API servers wait as long


async def serve(settings: Settings, clock: Clock, *, namespace: str) -> None:
    """Run the admission controller until a signal; ``namespace`` is the one it lives in.

    Raises:
        ConfigError: certificates, addresses or kubeconfig can't be used.
    """
    pair = tls.KeyPair(
        Path(settings.tls_cert_file),
        Path(settings.tls_private_key),
        min_version=settings.min_tls_version,
        ciphers=settings.tls_ciphers,
    )
    connection = await config.load(settings.kubeconfig)
    async with KubeClient(
        connection,
        user_agent=PROGRAM,
        qps=settings.kube_api_qps,
        burst=settings.kube_api_burst,
    ) as client:
        controllers = ControllerCaches.following(
            client, namespace=settings.vpa_object_namespace, only_owners=True
        )
        cluster = CachedCluster(
            client,
            controllers,
            Targets(client, controllers),
            namespace=settings.vpa_object_namespace,
        )
        lease = StatusLease(
            client,
            namespace=settings.status_lease_namespace or namespace,
            name=settings.status_lease_name,
            clock=clock,
        )
        authority = Path(settings.client_ca_file)

        chosen = webhook.registration(settings, namespace=namespace)
        registrar = webhook.Registrar(client, chosen, lambda: tls.read_bundle(authority))
        metrics = Metrics(prometheus_client.REGISTRY)
        conditions: dict[str, Callable[[], bool]] = {
            "caches": lambda: cluster.synced,
            "certificate": lambda: pair.valid_at(clock.now()),
        }
        reviews = Webhook(cluster, _policy(settings), metrics)
        server = _webhook_server(settings, reviews, pair.context)
        check = SelfCheck(_caller(settings, chosen, server.port), conditions, metrics)

        async def answering() -> bool:
            answers = await check.passed()  # whatever it finds, the registration is looked at
            return (not settings.register_webhook or await registrar.in_place()) and answers

        async def announce() -> None:
            await cluster.wait_synced()
            gc.collect()
            gc.freeze()  # what was listed stays; the collector need not look at it again
            logger.info("caches have synced")
            await check.passed()  # at once: without it nobody is ready
            interval = settings.status_lease_update_interval
            keeping = lease.keep(socket.gethostname(), interval=interval, deserved=answering)
            async with asyncio.TaskGroup() as group:
                group.create_task(keeping)
                if settings.register_webhook:
                    await registrar.register()

        ops = OpsServer(
            Health(clock, timedelta()),  # never armed: the webhook has no cycle that could hang
            settings.address,
            checks=conditions | {"self-check": lambda: check.right},
            profiling=settings.profiling,
            routers=(debugging.router(reviews.judge),) if settings.debug_endpoints else (),
        )
        background: list[service.Background] = [ops.run, server.run, announce]
        background += [cache.run for cache in cluster.caches]
        expiry = Expiry(lambda: pair.certificate, lambda: _content(authority), clock, metrics)
        background.append(expiry.run)
        if settings.reload_cert:
            background.append(functools.partial(tls.follow, pair))
            if settings.register_webhook:
                renew = registrar.renew_bundle
                background.append(functools.partial(tls.follow_authority, authority, renew))
        await service.serve(_until_stopped, background=tuple(background))


def _policy(settings: Settings) -> Policy:
    return Policy(
        features=settings.feature_gates,
        most_boost=settings.max_allowed_cpu_boost,
        lookup_deadline=settings.lookup_deadline,
    )


def _webhook_server(settings: Settings, reviews: Webhook, context: ssl.SSLContext) -> WebServer:
    def own_context(_config: Any, _default: Any) -> ssl.SSLContext:
        return context

    return WebServer(
        reviews,
        f":{settings.port}",
        name="webhook",
        largest_body=LARGEST_BODY,
        ssl_context_factory=own_context,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )


def _caller(settings: Settings, chosen: webhook.Registration, port: int) -> Caller:
    """Who asks for a self-check, and what it may trust."""
    file = Path(settings.client_ca_file)
    at_start = _content(file)
    return Caller(
        port=port,
        # Whoever registers the webhook in our place knows by which name it is called.
        name=chosen.host if settings.register_webhook else "",
        # A pair that is never loaded again is not judged by files that came after it.
        authority=(lambda: _content(file)) if settings.reload_cert else (lambda: at_start),
        patience=min(_LONGEST_CHECK, settings.webhook_timeout_seconds),
    )


def _content(file: Path) -> bytes:
    """What is in a file; an unreadable one, of which the registration tells, is empty."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


async def _until_stopped(stop: asyncio.Event) -> None:
    await stop.wait()


async def _main(argv: Sequence[str]) -> None:
    settings = read_flags(Settings, argv, program=PROGRAM, environ=os.environ)
    logs.configure(settings.verbosity, settings.logging_format)
    namespace = os.environ.get("NAMESPACE") or _DEFAULT_NAMESPACE
    await serve(settings, SystemClock(), namespace=namespace)


def main() -> int:
    """Entry point; the exit code."""
    return service.run(PROGRAM, lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
