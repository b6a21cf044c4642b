"""Flags become settings, settings become parts, and the parts run until a signal."""

import asyncio
import gc
import logging
import os
import sys

from common.errors import DecodeError, KubeError
from common.flags import read_flags
from common.kube import config
from common.kube.client import KubeClient
from common.kube.lease import leader_election
from common.runtime import logs
from common.runtime.clock import Clock, SystemClock
from common.runtime.health import Health, OpsServer
from common.runtime.service import (
    every,
    pause_until,
    run,
    serve,
    unless_stopped,
)
from recommender.checkpointing import Checkpointing
from recommender.cycle import Recommender
from recommender.ingestion import Ingestion
from recommender.metrics import Metrics
from recommender.model.usage import Usage
from recommender.publishing import Publisher, Routine
from recommender.settings import Settings
from recommender.sources.checkpoint_store import CheckpointStore
from recommender.sources.cluster import PodLoader, VpaLoader
from recommender.sources.followed import Followed
from recommender.sources.metrics_server import MetricsServer

logger = logging.getLogger(__name__)

_PROGRAM = "vpa-recommender"
_MISSED_CYCLES = 5  # after so many intervals without a cycle the process is no longer healthy
_RETRY_SECONDS = 5.0  # between two attempts to read the history


def main() -> int:
    """Run the recommender; the exit code."""
    return run(_PROGRAM, _from_command_line)


async def _from_command_line() -> None:
    settings = read_flags(Settings, sys.argv[1:], program=_PROGRAM, environ=os.environ)
    logs.configure(settings.verbosity, settings.logging_format)
    for warning in settings.warnings:
        logger.warning(warning)
    await recommend(settings, SystemClock())


async def recommend(settings: Settings, clock: Clock) -> None:
    """Serve until a signal comes.

    Raises:
        ConfigError: the API server's configuration or the address can't be used.
        LeadershipLostError: another replica took over.
    """
    connection = await config.load(settings.kubeconfig)
    metrics = Metrics()
    health = Health(clock, settings.interval * _MISSED_CYCLES)
    async with KubeClient(
        connection,
        user_agent=_PROGRAM,
        qps=settings.kube_api_qps,
        burst=settings.kube_api_burst,
    ) as client:
        followed = Followed(client, namespace=settings.vpa_object_namespace)
        ops = OpsServer(
            health,
            settings.address,
            checks={"caches": lambda: followed.synced},
            registry=metrics.registry,
            profiling=settings.profiling,
        )
        recommender = assemble(settings, followed, metrics, clock)
        campaign = leader_election(settings, settings.leader_elect_resource_name, client, clock)
        background = [ops.run, *followed.background]
        if campaign is not None:
            background.append(campaign.run)

        async def work(stop: asyncio.Event) -> None:
            if campaign is not None and not await unless_stopped(campaign.wait_leading, stop=stop):
                return
            if not await unless_stopped(followed.wait_synced, stop=stop):
                return
            if not await _start(recommender, stop):
                return
            gc.collect()
            gc.freeze()  # what was listed stays; the collector need not look at it again
            health.arm()

            async def cycle() -> None:
                await recommender.run_once()
                health.beat()

            await every(settings.interval.total_seconds(), cycle, stop=stop)

        await serve(work, background=tuple(background))


async def _start(recommender: Recommender, stop: asyncio.Event) -> bool:
    """Read the history, as often as it takes; False if a signal came first."""
    told = ""
    while not stop.is_set():
        try:
            return await unless_stopped(recommender.start, stop=stop)
        except* (KubeError, DecodeError) as group:
            trouble = str(group.exceptions[0])
        if trouble != told:
            told = trouble
            logger.warning("history not loaded, trying again", extra={"error": trouble})
        due = asyncio.get_running_loop().time() + _RETRY_SECONDS
        await pause_until(due, stop=stop)
    return False


def assemble(settings: Settings, followed: Followed, metrics: Metrics, clock: Clock) -> Recommender:
    """A recommender with an empty model, made of the parts that the settings ask for."""
    usage = Usage(defaults=settings.aggregation, half_lives=settings.half_lives)
    namespace, ignored = settings.vpa_object_namespace, settings.ignored_vpa_object_namespaces
    workers = settings.update_worker_count
    return Recommender(
        followed,
        usage,
        pods=PodLoader(usage, memory_saver=settings.memory_saver),
        vpas=VpaLoader(
            usage,
            followed.targets,
            recommender=settings.recommender_name,
            ignored=ignored,
            per_vpa_config=settings.feature_gates.per_vpa_config,
            workers=workers,
        ),
        ingestion=Ingestion(
            followed,
            usage,
            source=MetricsServer(followed.client, namespace=namespace, workers=workers),
            metrics=metrics,
            clock=clock,
        ),
        checkpointing=Checkpointing(
            usage,
            CheckpointStore(followed.client, namespace=namespace),
            ignored_namespaces=ignored,
            workers=workers,
            timeout=settings.checkpoints_timeout,
            collect_every=settings.checkpoints_gc_interval,
            metrics=metrics,
            clock=clock,
        ),
        publisher=Publisher(
            followed.client,
            usage,
            routine=Routine(
                estimation=settings.estimation,
                publication=settings.publication,
                workers=workers,
                interval=settings.interval,
            ),
            metrics=metrics,
            clock=clock,
        ),
        metrics=metrics,
        clock=clock,
    )


if __name__ == "__main__":
    sys.exit(main())
