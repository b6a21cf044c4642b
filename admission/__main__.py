"""The admission controller: ``python -P -m admission``."""

import asyncio
import functools
import gc
import logging
import os
import socket
import ssl
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import prometheus_client

from admission import tls, webhook
from admission.app import Policy, Webhook
from admission.cluster import CachedCluster
from admission.metrics import Metrics
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
        controllers = ControllerCaches.following(client, namespace=settings.vpa_object_namespace)
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

        async def announce() -> None:
            await cluster.wait_synced()
            gc.collect()
            gc.freeze()  # what was listed stays; the collector need not look at it again
            logger.info("caches have synced")
            if settings.register_webhook:
                chosen = _registration(settings, namespace)
                bundle = tls.read_bundle(authority)
                wanted = webhook.configuration(chosen, bundle)
                await webhook.until_accepted(lambda: webhook.register(client, wanted))
                logger.info("webhook registered")
            interval = settings.status_lease_update_interval
            await lease.keep(socket.gethostname(), interval=interval)

        ops = OpsServer(
            Health(clock, timedelta()),  # never armed: the webhook has no cycle that could hang
            settings.address,
            checks={
                "caches": lambda: cluster.synced,
                "certificate": lambda: pair.valid_at(clock.now()),
            },
            profiling=settings.profiling,
        )
        server = _webhook_server(settings, cluster, pair.context)
        background: list[service.Background] = [ops.run, server.run, announce]
        background += [cache.run for cache in cluster.caches]
        if settings.reload_cert:
            background.append(functools.partial(tls.follow, pair))
            if settings.register_webhook:
                patch = functools.partial(_patch_ca, client)
                background.append(functools.partial(tls.follow_authority, authority, patch))
        await service.serve(_until_stopped, background=tuple(background))


def _webhook_server(
    settings: Settings, cluster: CachedCluster, context: ssl.SSLContext
) -> WebServer:
    policy = Policy(
        features=settings.feature_gates,
        most_boost=settings.max_allowed_cpu_boost,
        lookup_deadline=settings.lookup_deadline,
    )

    def own_context(_config: Any, _default: Any) -> ssl.SSLContext:
        return context

    return WebServer(
        Webhook(cluster, policy, Metrics(prometheus_client.REGISTRY)),
        f":{settings.port}",
        name="webhook",
        ssl_context_factory=own_context,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )


def _registration(settings: Settings, namespace: str) -> webhook.Registration:
    labels: Mapping[str, str] = {}
    try:
        labels = webhook.parse_labels(settings.webhook_labels)
    except ValueError as error:
        logger.error("--webhook-labels are left out", extra={"error": str(error)})  # noqa: TRY400 - no bug
    by_url = f"{settings.webhook_address}:{settings.webhook_port}"
    return webhook.Registration(
        service=settings.webhook_service,
        namespace=namespace,
        url=by_url if settings.register_by_url else "",
        labels=labels,
        refuse_on_failure=settings.webhook_failure_policy_fail,
        timeout_seconds=settings.webhook_timeout_seconds,
        only_namespace=settings.vpa_object_namespace,
        ignored_namespaces=settings.ignored_vpa_object_namespaces,
    )


async def _patch_ca(client: KubeClient, bundle: bytes) -> None:
    if await webhook.until_accepted(lambda: webhook.patch_ca(client, bundle)):
        logger.info("Successfully patched webhook with new client CA")


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
