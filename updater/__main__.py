"""The updater: ``python -P -m updater``."""

import asyncio
import contextlib
import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import fastapi
import prometheus_client

from common.flags import read_flags
from common.kube import config
from common.kube.cache import with_boundary
from common.kube.client import KubeClient
from common.kube.events import EventRecorder
from common.kube.lease import LeaderElection, StatusLease, leader_election
from common.kube.targets import Targets
from common.read_api.assembly import read_api
from common.read_model.page import PassInfo
from common.read_model.updater import ACTIONS_PATH, PLAN_PATH, ActionList, PlanList
from common.runtime import logs, service
from common.runtime.clock import Clock, SystemClock
from common.runtime.health import Health, ops_server
from common.runtime.rate_limit import RateLimiter
from common.version import user_agent
from updater import debugging
from updater.action_history import ActionHistory
from updater.actuation import PodActuator, TemplatePods
from updater.capacity.detection import CapacityDetection
from updater.capacity.provisioner import Provisioner
from updater.capacity.provisioning_state import ProvisioningLimits
from updater.capacity.request_client import RequestClient
from updater.event_trigger import EventTrigger
from updater.execute import RateLimits
from updater.metrics import UpdaterMetrics
from updater.plan_table import PlanTable
from updater.preview import NotNow, PassPreview
from updater.run import Admission, Updater, always_ready
from updater.settings import UpdaterSettings
from updater.snapshot.caches import LIVE_NODES, LIVE_PODS, LIVE_VPAS, Caches
from updater.snapshot.live_pod import MANAGER
from updater.snapshot.selection import Scope
from updater.usage_watch import UsageWatch

logger = logging.getLogger(__name__)

PROGRAM = MANAGER

# Objects of a pass are freed by reference counts. A full collection would stop the event loop for a
# quarter of a second with 150,000 pods, so only young generations are collected often.
_COLLECT_AFTER = (10_000, 10, 1_000)

# To wait for a list of nodes, or a refusal. Without it the first pass holds evictions back.
_NODES_SECONDS = 30.0


async def serve(settings: UpdaterSettings, clock: Clock, *, environ: Mapping[str, str]) -> None:
    """Run the updater until a signal.

    Raises:
        ConfigError: the address, the kubeconfig or the leader election is invalid.
        LeadershipLostError: another replica became the leader.
    """
    connection = await config.load(settings.kubeconfig, settings.context)
    metrics = UpdaterMetrics(prometheus_client.REGISTRY)
    async with KubeClient(
        connection,
        user_agent=user_agent(PROGRAM),
        qps=settings.kube_api_qps,
        burst=settings.kube_api_burst,
        metrics=metrics.client,
    ) as client:
        seconds = settings.interval.total_seconds()
        metrics.interval.set(seconds)
        errors = metrics.object_errors
        acting: Updater | None = None
        trigger = None
        if settings.event_driven:
            trigger = EventTrigger(
                seconds,
                ignored=settings.ignored_vpa_object_namespaces,
                waits_for_room=lambda: acting is not None and acting.waits_for_room,
            )
        caches = Caches.following(
            client,
            namespace=settings.vpa_object_namespace,
            features=settings.feature_gates,
            on_vpa=None if trigger is None else with_boundary(trigger.on_vpa, LIVE_VPAS, errors),
            on_pod=None if trigger is None else with_boundary(trigger.on_pod, LIVE_PODS, errors),
            on_node=None if trigger is None else with_boundary(trigger.on_node, LIVE_NODES, errors),
        )
        metrics.caches.follow(caches.followed())
        events = EventRecorder(
            client.with_rate_limit(qps=settings.event_qps, burst=settings.event_burst),
            PROGRAM,
            clock=clock,
        )
        health = Health(clock, 5 * settings.interval)
        campaign = leader_election(settings, settings.leader_elect_resource_name, client, clock)
        writer = client if campaign is None else client.guarded(campaign.check)

        history = ActionHistory()
        provisioner = Provisioner(
            RequestClient(
                client,
                writer,
                namespace=settings.vpa_object_namespace,
                timeout=settings.capacity_timeout,
                ignored=settings.ignored_vpa_object_namespaces,
            ),
            pods=caches.pods,
            controllers=caches.controllers,
            clock=clock,
            limits=ProvisioningLimits(timeout=settings.capacity_timeout),
            errors=errors,
            asks=settings.capacity_check.may_request,
        )

        async def plan(scope: Scope) -> PassPreview | NotNow:
            if acting is not None:
                return await acting.plan(scope)
            standby = campaign is not None and not campaign.leading
            return NotNow.NOT_LEADING if standby else NotNow.NOT_SYNCED

        async def main(stop: asyncio.Event) -> None:
            nonlocal acting
            if campaign is not None and not await service.unless_stopped(
                campaign.wait_leading, stop=stop
            ):
                return
            metrics.leading.set(1)
            if not await service.unless_stopped(_synced(caches), stop=stop):
                return
            gc.freeze()  # listed objects stay; exclude them from collections
            logger.info("caches have synced")
            health.arm()
            updater = acting = Updater(
                caches=caches,
                targets=Targets(client, caches.controllers),
                admission=_admission(settings, client, clock, environ),
                ignored_namespaces=settings.ignored_vpa_object_namespaces,
                rules=settings.rules,
                actuator=PodActuator(writer, events),
                limits=RateLimits(evictions=_limiter(settings), resizes=_limiter(settings)),
                metrics=metrics,
                clock=clock,
                stop=stop,
                history=history,
                usage=UsageWatch(client, clock),
                replacements=(
                    TemplatePods(client, caches.controllers)
                    if settings.replacement_dry_run
                    else None
                ),
                capacity=CapacityDetection(
                    client,
                    settings.capacity_check,
                    sees_all_pods=not settings.vpa_object_namespace,
                ),
                provisioner=provisioner,
            )

            async def cycle() -> None:
                if trigger is not None:
                    trigger.clear()
                await updater.run_once()
                health.beat()
                if updater.passes == 1:
                    gc.freeze()  # so does most of the state of the first pass

            due = asyncio.get_running_loop().time() + seconds
            await service.pause_until(due, stop=stop)  # wait before the first pass, too
            rest = service.pause_until if trigger is None else trigger.rest
            await service.every(seconds, cycle, stop=stop, rest=rest)

        routers = [debugging.router(plan)] if settings.debug_endpoints else []
        if settings.read_api:
            routers.append(_read_api(client, campaign, lambda: acting, history))
        ops = ops_server(
            health,
            settings.address,
            checks={"caches": lambda: all(cache.synced for cache in caches.all())},
            profiling=settings.profiling,
            routers=routers,
        )
        background: list[service.Background] = [cache.run for cache in caches.followed()]
        background += [] if campaign is None else [campaign.run]
        background += [ops.run, events.run, provisioner.run]
        await service.serve(main, background=tuple(background))


def _read_api(
    client: KubeClient,
    campaign: LeaderElection | None,
    acting: Callable[[], Updater | None],
    history: ActionHistory,
) -> fastapi.APIRouter:
    """Return the routes of the read API; ``acting`` returns None before the first pass."""
    nothing = PlanTable()

    def last_pass() -> PassInfo | None:
        updater = acting()
        return None if updater is None else updater.last_pass

    def last_plan() -> PlanTable:
        updater = acting()
        return nothing if updater is None else updater.last_plan

    api = read_api("updater", client, election=campaign, last_pass=last_pass)
    api.add_table(
        PLAN_PATH,
        last_plan,
        PlanList,
        name="vpa",
        about="Return the decision of the last pass on each pod, its reason and its numbers.",
    )
    api.add_history(
        ACTIONS_PATH,
        history.entries,
        ActionList,
        about="Return the last evictions and resizes with their outcomes, newest first.",
    )
    return api.router


def _synced(caches: Caches) -> service.Background:
    async def wait() -> None:
        for cache in caches.all():
            await cache.wait_synced()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NODES_SECONDS):
                await caches.nodes.wait_answered()

    return wait


def _limiter(settings: UpdaterSettings) -> RateLimiter | None:
    """Return a rate limiter, for evictions or for resizes; None: no limit."""
    if settings.eviction_rate_limit <= 0:
        return None
    return RateLimiter(settings.eviction_rate_limit, settings.eviction_rate_burst)


def _admission(
    settings: UpdaterSettings, client: KubeClient, clock: Clock, environ: Mapping[str, str]
) -> Admission:
    if not settings.use_admission_controller_status:
        return always_ready
    lease = StatusLease(
        client,
        namespace=settings.lease_namespace(environ),
        name=settings.status_lease_name,
        clock=clock,
    )
    return partial(lease.read, max_age=settings.status_lease_timeout)


async def _main(argv: Sequence[str]) -> None:
    settings = read_flags(UpdaterSettings, argv, program=PROGRAM, environ=os.environ)
    logs.configure(settings.verbosity, settings.logging_format)
    for warning in settings.warnings:
        logger.warning(warning)
    gc.set_threshold(*_COLLECT_AFTER)
    await serve(settings, SystemClock(), environ=os.environ)


def main() -> int:
    """Run the process and return its exit code."""
    return service.run(PROGRAM, lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
