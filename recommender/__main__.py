"""The entry point of the recommender: reads flags, assembles the parts and runs them."""

import asyncio
import gc
import logging
import os
import sys
from datetime import timedelta

import fastapi
from prometheus_client import GCCollector, PlatformCollector, ProcessCollector

from common.errors import DecodeError, KubeError
from common.flags import read_flags
from common.kube import config
from common.kube.client import KubeClient
from common.kube.lease import LeaderElection, leader_election
from common.read_api.assembly import read_api
from common.read_model.explanation import RecommendationExplanation
from common.read_model.recommender import VPA_PATH, VPAS_PATH, VpaDetail, VpaList
from common.runtime import logs
from common.runtime.clock import Clock, SystemClock
from common.runtime.health import Health, ops_server
from common.runtime.service import (
    every,
    pause_until,
    run,
    serve,
    unless_stopped,
)
from common.version import user_agent
from recommender import debugging
from recommender.checkpoints.checkpoint_store import CheckpointStore
from recommender.checkpoints.garbage_collection import CheckpointCollector
from recommender.checkpoints.loading import CheckpointLoading
from recommender.checkpoints.schedule import CheckpointSchedule
from recommender.checkpoints.writing import CheckpointWriting
from recommender.metrics import RecommenderMetrics
from recommender.model.sidecars import Sidecars
from recommender.model.usage import Usage
from recommender.namespace_vpas import NamespaceVpas
from recommender.publish.explanation import Unexplained
from recommender.publish.node_limits import NodeLimits
from recommender.publish.publisher import Publisher
from recommender.publish.quota_limits import QuotaLimits
from recommender.publish.request_report import RequestReport
from recommender.publish.status_decision import PublishingSettings
from recommender.publish.status_writer import StatusWriter
from recommender.run import Recommender
from recommender.settings import RecommenderSettings
from recommender.sources.cluster import PodLoader, VpaLoader
from recommender.sources.external_metrics import ExternalMetricsSource
from recommender.sources.fetch_result import UsageSource
from recommender.sources.informers import Informers
from recommender.sources.metrics_server import MetricsServerSource
from recommender.sources.namespace_history import NamespaceHistory
from recommender.sources.oom_ingestion import OomIngestion
from recommender.sources.prometheus import Prometheus, PrometheusServer, read_token
from recommender.sources.prometheus_backfill import PrometheusBackfill
from recommender.sources.usage_ingestion import UsageIngestion
from recommender.state_log import StateLog

logger = logging.getLogger(__name__)

_PROGRAM = "vpa-recommender"
_MISSED_CYCLES = 5  # intervals without a cycle until the process is unhealthy
# Thresholds of the garbage collector. Reference counting frees the objects of a cycle, so a full
# collection finds nothing, but stops the event loop for half a second with 150,000 pods. Young
# objects are collected often, all objects hardly ever.
COLLECT_AFTER = (10_000, 10, 1_000)
_LAST_WRITES = timedelta(seconds=15)  # for checkpoints after a signal; kubelets wait 30 s
_RETRY_SECONDS = 5.0  # between two attempts to read the history


def main() -> int:
    """Run the recommender and return the exit code."""
    return run(_PROGRAM, _from_command_line)


async def _from_command_line() -> None:
    settings = read_flags(RecommenderSettings, sys.argv[1:], program=_PROGRAM, environ=os.environ)
    logs.configure(settings.verbosity, settings.logging_format)
    for warning in settings.warnings:
        logger.warning(warning)
    if settings.prometheus_bearer_token_file:
        read_token(settings.prometheus_bearer_token_file)  # fail early, even if it isn't used
    gc.set_threshold(*COLLECT_AFTER)
    await recommend(settings, SystemClock())


async def recommend(settings: RecommenderSettings, clock: Clock) -> None:
    """Run the recommender until SIGTERM or SIGINT.

    Raises:
        ConfigError: the API server's configuration or the address can't be used.
        LeadershipLostError: another replica took over.
    """
    connection = await config.load(settings.kubeconfig, settings.context)
    metrics = RecommenderMetrics(per_container=settings.container_metrics)
    metrics.interval.set(settings.interval.total_seconds())
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=metrics.registry)
    health = Health(clock, settings.interval * _MISSED_CYCLES)
    async with KubeClient(
        connection,
        user_agent=user_agent(_PROGRAM),
        qps=settings.kube_api_qps,
        burst=settings.kube_api_burst,
        read_failed=metrics.read_failed,
        metrics=metrics.client,
    ) as client:
        campaign = leader_election(settings, settings.leader_elect_resource_name, client, clock)
        informers = Informers(
            client if campaign is None else client.guarded(campaign.check),
            namespace=settings.vpa_object_namespace,
            features=settings.feature_gates,
            errors=metrics.object_errors,
            with_quotas=settings.cap_to_quotas,
        )
        metrics.caches.follow(informers.all())
        recommender = assemble(settings, informers, metrics, clock)

        def explain(namespace: str, name: str) -> RecommendationExplanation | Unexplained:
            if campaign is not None and not campaign.leading:
                return Unexplained(503, "another replica is the leader; send the request to it")
            return recommender.explain(namespace, name)

        routers = [debugging.router(explain)] if settings.debug_endpoints else []
        if settings.read_api:
            routers.append(_read_api(client, campaign, recommender))
        ops = ops_server(
            health,
            settings.address,
            checks={"caches": lambda: informers.synced},
            registry=metrics.registry,
            profiling=settings.profiling,
            routers=routers,
        )
        background = [ops.run, *informers.background, *recommender.background]
        if campaign is not None:
            background.append(campaign.run)

        async def work(stop: asyncio.Event) -> None:
            if campaign is not None and not await unless_stopped(campaign.wait_leading, stop=stop):
                return
            metrics.leading.set(1)
            async with asyncio.TaskGroup() as group:  # read history while pods are listed
                synced = group.create_task(unless_stopped(informers.wait_synced, stop=stop))
                started = group.create_task(_start(recommender, stop))
            if not (synced.result() and started.result()):
                return
            gc.freeze()  # listed objects stay: the garbage collector need not scan them
            health.arm()
            is_first = True

            async def cycle() -> None:
                nonlocal is_first
                await recommender.run_once()
                health.beat()
                if is_first:
                    gc.freeze()  # the model stays too
                    is_first = False

            await every(settings.interval.total_seconds(), cycle, stop=stop)
            await recommender.end(_LAST_WRITES)

        await serve(work, background=tuple(background))


def _read_api(
    client: KubeClient, campaign: LeaderElection | None, recommender: Recommender
) -> fastapi.APIRouter:
    """Return the routes of the read API."""
    api = read_api(
        "recommender", client, election=campaign, last_pass=lambda: recommender.last_cycle
    )
    api.add_table(
        VPAS_PATH,
        lambda: recommender.vpa_table,
        VpaList,
        name="name",
        about="Return the VPAs with their recommendations and the extent of their history.",
    )
    api.add_vpa(
        VPA_PATH,
        recommender.detail,
        VpaDetail,
        about="Return a VPA with every step of its numbers, and the histograms of its containers.",
    )
    return api.router


async def _start(recommender: Recommender, stop: asyncio.Event) -> bool:
    """Read the history, with retries; return False if a signal came first."""
    trouble = StateLog(logger)
    while not stop.is_set():
        try:
            return await unless_stopped(recommender.start, stop=stop)
        except* (KubeError, DecodeError) as group:
            error = str(group.exceptions[0])
        trouble.report("history not loaded, trying again", cause=error, error=error)
        due = asyncio.get_running_loop().time() + _RETRY_SECONDS
        await pause_until(due, stop=stop)
    return False


def assemble(
    settings: RecommenderSettings, informers: Informers, metrics: RecommenderMetrics, clock: Clock
) -> Recommender:
    """Return a recommender with an empty model, assembled according to the settings."""
    usage = Usage(
        defaults=settings.aggregation,
        half_lives=settings.half_lives,
        sidecars=Sidecars(scaled=settings.feature_gates.native_sidecar),
    )
    namespace, ignored = settings.vpa_object_namespace, settings.ignored_vpa_object_namespaces
    workers = settings.update_worker_count
    model_lock = asyncio.Lock()
    store = CheckpointStore(
        informers.client, namespace=namespace, half_lives=settings.half_lives, metrics=metrics
    )
    schedule = CheckpointSchedule(clock)
    loading = CheckpointLoading(usage, store, schedule, metrics=metrics, clock=clock)
    publishing = PublishingSettings(
        estimation=settings.estimation,
        publication=settings.publication,
        workers=workers,
        interval=settings.interval,
    )
    backfill = None
    if settings.reads_prometheus:
        server = PrometheusServer.of(settings, os.environ)
        history = NamespaceHistory(
            Prometheus(server, user_agent=user_agent(_PROGRAM), metrics=metrics),
            settings,
            usage,
            model_lock=model_lock,
            matched_only=settings.memory_saver,
            clock=clock,
        )
        backfill = PrometheusBackfill(history, metrics=metrics, rng=informers.client.rng)
    return Recommender(
        informers,
        usage,
        pods=PodLoader(usage, memory_saver=settings.memory_saver, metrics=metrics),
        vpas=VpaLoader(
            usage,
            informers.targets,
            recommender=settings.recommender_name,
            ignored=ignored,
            per_vpa_config=settings.feature_gates.per_vpa_config,
            workers=workers,
            interval=settings.interval,
            metrics=metrics,
        ),
        ingestion=UsageIngestion(
            informers,
            usage,
            source=_usage_source(settings, informers.client, usage),
            metrics=metrics,
            clock=clock,
        ),
        ooms=OomIngestion(
            informers,
            usage,
            loading,
            schedule,
            memory_saver=settings.memory_saver,
            metrics=metrics,
            clock=clock,
        ),
        loading=loading,
        checkpointing=CheckpointWriting(
            usage,
            loading,
            schedule,
            store,
            workers=workers,
            timeout=settings.checkpoints_timeout,
            metrics=metrics,
            clock=clock,
        ),
        collector=CheckpointCollector(
            informers.client,
            namespace=namespace,
            ignored=ignored,
            every=settings.checkpoints_gc_interval,
            clock=clock,
        ),
        publisher=Publisher(
            StatusWriter(informers.client, settings=publishing, metrics=metrics),
            usage,
            settings=publishing,
            fetching=(lambda _: False) if backfill is None else backfill.fetching,
            quotas=QuotaLimits(informers, usage, settings=publishing, errors=metrics.object_errors),
            limits=(
                NodeLimits(
                    informers.node_facts,
                    mode=settings.cap_to_nodes,
                    flags=settings.node_shapes,
                    clock=clock,
                    errors=metrics.object_errors,
                ),
            ),
            metrics=metrics,
            clock=clock,
        ),
        requests=RequestReport(usage, metrics),
        backfill=backfill,
        namespace_vpas=_namespace_vpas(settings, informers, metrics, clock),
        model_lock=model_lock,
        metrics=metrics,
        clock=clock,
    )


def _namespace_vpas(
    settings: RecommenderSettings, informers: Informers, metrics: RecommenderMetrics, clock: Clock
) -> NamespaceVpas | None:
    if not settings.namespace_vpas:
        return None
    return NamespaceVpas(
        informers,
        namespace=settings.vpa_object_namespace,
        ignored=settings.ignored_vpa_object_namespaces,
        metrics=metrics,
        clock=clock,
    )


def _usage_source(settings: RecommenderSettings, client: KubeClient, usage: Usage) -> UsageSource:
    workers = settings.update_worker_count
    if settings.use_external_metrics:
        return ExternalMetricsSource(
            client,
            usage,
            metrics=settings.external_metrics,
            container_label=settings.container_name_label,
            workers=workers,
        )
    return MetricsServerSource(client, namespace=settings.vpa_object_namespace, workers=workers)


if __name__ == "__main__":
    sys.exit(main())
