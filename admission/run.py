"""The admission controller: its parts, their start and their shutdown."""

import asyncio
import functools
import gc
import logging
import socket
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastapi
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from admission import debugging, registration, tls
from admission.admission_history import AdmissionHistory
from admission.app import LARGEST_BODY, webhook_app
from admission.certificate_expiry import CertificateExpiry
from admission.cluster import CachedCluster
from admission.managed_certificates import CertificateFiles, ManagedCertificates
from admission.metrics import AdmissionMetrics
from admission.pod_reviews import ReviewPolicy
from admission.registration_state import RegistrationReport
from admission.reviewer import Reviewer
from admission.self_check import Caller, Conditions, SelfCheck
from admission.settings import AdmissionSettings
from certs.certificate_stores import Secret
from certs.renewal import CertificatePolicy
from certs.settings import DEFAULT_SECRET
from certs.trust import WebhookCaBundle
from common.kube import config
from common.kube.ca_bundle import CONFIGURATION_NAME
from common.kube.client import KubeClient
from common.kube.lease import StatusLease
from common.read_api.assembly import read_api
from common.read_model.admission import (
    ADMISSIONS_PATH,
    REGISTRATION_PATH,
    AdmissionList,
    RegistrationState,
)
from common.runtime import service
from common.runtime.clock import Clock
from common.runtime.health import Health, ops_server
from common.runtime.limited_http import HttpLimits
from common.runtime.web_server import WebServer
from common.version import user_agent

logger = logging.getLogger(__name__)

PROGRAM = "vpa-admission-controller"

# API servers keep idle connections for 90 seconds. If the webhook closed one earlier, a review that
# is being sent would fail.
_LIMITS = HttpLimits(body=LARGEST_BODY, idle=120)
_LONGEST_CHECK = 5.0  # seconds, or the timeout of API servers if that is shorter


async def serve(settings: AdmissionSettings, clock: Clock, *, namespace: str) -> None:
    """Run the admission controller until a signal; ``namespace`` is that of its pod.

    Raises:
        ConfigError: certificates, addresses or kubeconfig can't be used.
    """
    pair = tls.KeyPair(
        Path(settings.tls_cert_file),
        Path(settings.tls_private_key),
        min_version=settings.min_tls_version,
        ciphers=settings.tls_ciphers,
        client_authority=(
            Path(settings.callers_authority) if settings.require_client_certificate else None
        ),
        created_later=settings.manage_certificates,
    )
    connection = await config.load(settings.kubeconfig, settings.context)
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    metrics = AdmissionMetrics(registry)
    async with KubeClient(
        connection,
        user_agent=user_agent(PROGRAM),
        qps=settings.kube_api_qps,
        burst=settings.kube_api_burst,
        metrics=metrics.client,
    ) as client:
        cluster = CachedCluster(client, namespace=settings.vpa_object_namespace)
        metrics.caches.follow(cluster.caches)
        history = AdmissionHistory(clock) if settings.read_api else None
        reviewer = Reviewer(cluster, _policy(settings), metrics, history=history)
        server = _webhook_server(settings, reviewer, pair.context, metrics)
        chosen = registration.of_settings(settings, namespace=namespace)
        authority = Path(settings.client_ca_file)
        registrar = registration.Registrar(client, chosen, lambda: tls.read_bundle(authority))
        if settings.register_webhook:
            metrics.registers(lambda: registrar.right)
        conditions: Conditions = {
            "caches": lambda: cluster.synced,
            "certificate": lambda: pair.valid_at(clock.now()),
        }
        check = SelfCheck(_caller(settings, chosen, server.port), conditions, metrics)
        lease = StatusLease(
            client,
            namespace=settings.status_lease_namespace or namespace,
            name=settings.status_lease_name,
            clock=clock,
        )
        routers = [debugging.router(reviewer.judge)] if settings.debug_endpoints else []
        if history is not None:
            report = RegistrationReport(
                registrar=registrar,
                registers=settings.register_webhook,
                pair=pair,
                authority=authority,
                check=check,
            )
            routers.append(_read_api(client, history, report))
        ops = ops_server(
            Health(clock, timedelta()),  # never armed, because the webhook has no cycle
            settings.address,
            checks={**conditions, "self-check": lambda: check.right},
            registry=registry,
            profiling=settings.profiling,
            routers=routers,
        )
        expiry = CertificateExpiry(
            lambda: pair.certificate,
            functools.partial(tls.read_bundle, authority, quiet=True),
            clock,
            metrics,
        )
        background: list[service.Background] = [
            *(cache.run for cache in cluster.caches),
            server.run,
            ops.run,
            expiry.run,
            functools.partial(_announce, settings, cluster, check, registrar, lease, pair=pair),
        ]
        if settings.manage_certificates:
            background.append(
                _managed_certificates(settings, client, clock, chosen.host, namespace).run
            )
        if settings.reloads_certificates:
            background.append(functools.partial(tls.follow, pair))
        if settings.reloads_certificates and settings.register_webhook:
            renew = registrar.renew_bundle
            background.append(functools.partial(tls.follow_authority, authority, renew))
        await service.serve(_until_stopped, background=tuple(background))


async def _announce(
    settings: AdmissionSettings,
    cluster: CachedCluster,
    check: SelfCheck,
    registrar: registration.Registrar,
    lease: StatusLease,
    *,
    pair: tls.KeyPair,
) -> None:
    """Register the webhook, and renew the status Lease while reviews are answered."""

    async def answering() -> bool:
        answers = await check.passed()  # first, because the registration is checked in any case
        return (not settings.register_webhook or await registrar.in_place()) and answers

    await cluster.wait_synced()
    gc.collect()
    gc.freeze()  # exempts the listed objects, which stay, from garbage collection
    logger.info("caches have synced")
    await pair.loaded.wait()
    await check.passed()  # readiness depends on the first check
    interval = settings.status_lease_update_interval
    keeping = lease.keep(socket.gethostname(), interval=interval, condition=answering)
    async with asyncio.TaskGroup() as group:
        group.create_task(keeping)
        if settings.register_webhook:
            await registrar.register()


def _managed_certificates(
    settings: AdmissionSettings, client: KubeClient, clock: Clock, host: str, namespace: str
) -> ManagedCertificates:
    return ManagedCertificates(
        Secret(client, namespace, DEFAULT_SECRET),
        WebhookCaBundle(client, CONFIGURATION_NAME),
        CertificatePolicy(hosts=(host,)),
        CertificateFiles(
            certificate=Path(settings.tls_cert_file),
            key=Path(settings.tls_private_key),
            authority=Path(settings.client_ca_file),
        ),
        clock,
    )


def _policy(settings: AdmissionSettings) -> ReviewPolicy:
    return ReviewPolicy(
        features=settings.feature_gates,
        most_boost=settings.max_allowed_cpu_boost,
        pod_level=settings.pod_level_resources,
        lookup_timeout=settings.lookup_timeout,
    )


def _webhook_server(
    settings: AdmissionSettings,
    reviewer: Reviewer,
    context: ssl.SSLContext,
    metrics: AdmissionMetrics,
) -> WebServer:
    def own_context(_config: Any, _default: Any) -> ssl.SSLContext:
        return context

    return WebServer(
        webhook_app(
            reviewer, metrics, callers_need_certificate=settings.require_client_certificate
        ),
        f":{settings.port}",
        name="webhook",
        limits=_LIMITS,
        refused=metrics.refused,
        ssl_context_factory=own_context,
    )


def _read_api(
    client: KubeClient, history: AdmissionHistory, report: RegistrationReport
) -> fastapi.APIRouter:
    """Return the routes of the read API."""
    api = read_api("admission-controller", client)
    api.add_history(
        ADMISSIONS_PATH,
        history.entries,
        AdmissionList,
        about="Return the last reviews of pods that have a VPA, newest first.",
    )
    api.add_object(
        REGISTRATION_PATH,
        report.state,
        RegistrationState,
        about="Return the state of the webhook's registration, certificates and self-check.",
    )
    return api.router


def _caller(settings: AdmissionSettings, chosen: registration.Registration, port: int) -> Caller:
    """Return the client of self-checks."""
    read = functools.partial(tls.read_bundle, Path(settings.client_ca_file), quiet=True)
    at_start = read()
    return Caller(
        port=port,
        # Without our own registration the host name in the configuration is unknown.
        name=chosen.host if settings.register_webhook else "",
        # A pair that isn't reloaded is that of the start, and so has to be the authority.
        authority=read if settings.reloads_certificates else (lambda: at_start),
        timeout=min(_LONGEST_CHECK, settings.webhook_timeout_seconds),
    )


async def _until_stopped(stop: asyncio.Event) -> None:
    await stop.wait()
