"""What a process of the admission controller does from its start to its end.

Alone it does everything. Among several workers the first has all duties, and the others follow the
cluster and answer reviews: see :mod:`admission.workers`.
"""

import asyncio
import contextlib
import functools
import gc
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from admission import debugging, tls, webhook
from admission.app import LARGEST_BODY, Policy, Webhook
from admission.cluster import CachedCluster
from admission.expiry import Expiry
from admission.metrics import AdmissionMetrics, Registries
from admission.self_check import Caller, SelfCheck
from admission.settings import AdmissionSettings
from admission.workers import PROGRAM, Worker
from common.kube import config
from common.kube.client import KubeClient
from common.kube.lease import StatusLease
from common.runtime import service
from common.runtime.clock import Clock
from common.runtime.health import Health, OpsServer
from common.runtime.limited_http import HttpLimits
from common.runtime.web import WebServer, inherited
from common.version import user_agent

logger = logging.getLogger(__name__)

# Longer than the 90 seconds for which API servers keep an idle connection: whoever closes first
# must not be us, or a review that is just being sent would be lost.
_LIMITS = HttpLimits(body=LARGEST_BODY, idle=120)
_LONGEST_CHECK = 5.0  # seconds, if API servers wait as long
# A first worker that is started again leaves reviews to the others for so long. Longer it must not:
# if they are as new as it is, nobody would answer at all.
_LEFT_TO_OTHERS_SECONDS = 5.0


async def serve(
    settings: AdmissionSettings, clock: Clock, *, namespace: str, worker: Worker | None = None
) -> None:
    """Run the admission controller until a signal; ``namespace`` is the one it lives in.

    ``worker`` is which of several processes this is; None: there is only this one.

    Raises:
        ConfigError: certificates, addresses or kubeconfig can't be used.
    """
    pair = tls.KeyPair(
        Path(settings.tls_cert_file),
        Path(settings.tls_private_key),
        min_version=settings.min_tls_version,
        ciphers=settings.tls_ciphers,
        client_authority=(
            Path(settings.client_ca_file) if settings.require_client_certificate else None
        ),
    )
    connection = await config.load(settings.kubeconfig)
    async with KubeClient(
        connection,
        user_agent=user_agent(PROGRAM),
        qps=settings.kube_api_qps,
        burst=settings.kube_api_burst,
    ) as client:
        cluster = CachedCluster(client, namespace=settings.vpa_object_namespace)
        registries = Registries.alone() if worker is None else Registries.shared(worker.number)
        metrics = AdmissionMetrics(registries.counted, asked=registries.shown)
        reviews = Webhook(
            cluster,
            _policy(settings),
            metrics,
            callers_need_certificate=settings.require_client_certificate,
        )
        server = _webhook_server(settings, reviews, pair.context, worker, metrics)
        background: list[service.Background] = [cache.run for cache in cluster.caches]
        if settings.reload_cert:
            background.append(functools.partial(tls.follow, pair))
        if worker is not None:
            background.append(worker.until_orphaned)
        if worker is not None and worker.number > 0:
            background.append(functools.partial(_help, cluster, server))
        else:
            if worker is not None and worker.again:
                background.append(functools.partial(_answer_again, cluster, server))
            else:
                background.append(server.run)
            duties = _Duties(settings, clock, namespace, client, cluster, pair)
            background += duties.all(reviews, server.port, metrics, registries)
        await service.serve(_until_stopped, background=tuple(background))


@dataclass(frozen=True, slots=True)
class _Duties:
    """What one process does for all of an installation: who is told of the webhook, and what."""

    settings: AdmissionSettings
    clock: Clock
    namespace: str
    client: KubeClient
    cluster: CachedCluster
    pair: tls.KeyPair

    def all(
        self, reviews: Webhook, port: int, metrics: AdmissionMetrics, registries: Registries
    ) -> list[service.Background]:
        """The background tasks.

        Raises:
            ConfigError: nothing can listen on the ops address.
        """
        settings, clock = self.settings, self.clock
        lease = StatusLease(
            self.client,
            namespace=settings.status_lease_namespace or self.namespace,
            name=settings.status_lease_name,
            clock=clock,
        )
        authority = Path(settings.client_ca_file)
        chosen = webhook.registration(settings, namespace=self.namespace)
        registrar = webhook.Registrar(self.client, chosen, lambda: tls.read_bundle(authority))
        conditions: dict[str, Callable[[], bool]] = {
            "caches": lambda: self.cluster.synced,
            "certificate": lambda: self.pair.valid_at(clock.now()),
        }
        check = SelfCheck(_caller(settings, chosen, port), conditions, metrics)

        async def answering() -> bool:
            answers = await check.passed()  # whatever it finds, the registration is looked at
            return (not settings.register_webhook or await registrar.in_place()) and answers

        async def announce() -> None:
            await _synced(self.cluster)
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
            registry=registries.shown,
            profiling=settings.profiling,
            routers=(debugging.router(reviews.judge),) if settings.debug_endpoints else (),
        )
        find = functools.partial(_content, authority)
        expiry = Expiry(lambda: self.pair.certificate, find, clock, metrics)
        tasks: list[service.Background] = [ops.run, announce, expiry.run]
        if settings.reload_cert and settings.register_webhook:
            renew = registrar.renew_bundle
            tasks.append(functools.partial(tls.follow_authority, authority, renew))
        return tasks


async def _synced(cluster: CachedCluster) -> None:
    await cluster.wait_synced()
    gc.collect()
    gc.freeze()  # what was listed stays; the collector need not look at it again
    logger.info("caches have synced")


async def _help(cluster: CachedCluster, server: WebServer) -> None:
    """Answer reviews, but none before the caches have synced: somebody else can do better."""
    await _synced(cluster)
    await server.run()


async def _answer_again(cluster: CachedCluster, server: WebServer) -> None:
    """Answer reviews once the caches have synced, or soon: somebody has to."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LEFT_TO_OTHERS_SECONDS):
            await cluster.wait_synced()
    await server.run()


def _policy(settings: AdmissionSettings) -> Policy:
    return Policy(
        features=settings.feature_gates,
        most_boost=settings.max_allowed_cpu_boost,
        pod_level=settings.pod_level_resources,
        lookup_deadline=settings.lookup_deadline,
    )


def _webhook_server(
    settings: AdmissionSettings,
    reviews: Webhook,
    context: ssl.SSLContext,
    worker: Worker | None,
    metrics: AdmissionMetrics,
) -> WebServer:
    def own_context(_config: Any, _default: Any) -> ssl.SSLContext:
        return context

    return WebServer(
        reviews,
        f":{settings.port}" if worker is None else inherited(worker.listening),
        name="webhook",
        limits=_LIMITS,
        refused=metrics.refused,
        ssl_context_factory=own_context,
    )


def _caller(settings: AdmissionSettings, chosen: webhook.Registration, port: int) -> Caller:
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
