"""The rounds that ``e2e.py`` measures; what counts is what the API server wrote down."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from benchmarks.e2e_figures import Histogram, histogram, total
from benchmarks.e2e_world import REQUESTS, TooSlowError, World, requested_cpu
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.quantity import Quantity
from common.resources import CPU, MEMORY
from controlplane.processes import ProcessUsage
from demo.processes import Running
from sandbox.apiserver.audit import Entry

# What the VPAs are told for the in-place round: more than any pod has, evicted or not.
FLOOR = {"cpu": "500m", "memory": "600Mi"}

# Confidence in hours would be a benchmark in hours.
RECOMMENDER = (
    "--recommender-interval=5s",
    "--confidence-interval-cpu=1m",
    "--confidence-interval-memory=1m",
)
# Half of each group at a time, as by default, and no limit of evictions per second.
UPDATER = ("--min-replicas=2", "--eviction-tolerance=0.5", "--eviction-rate-limit=-1")
IN_PLACE = ("--in-place-skip-disruption-budget=true",)  # as in deploy/updater.yaml

_WEBHOOK_SECONDS = "apiserver_admission_webhook_admission_duration_seconds"
_REQUESTS_TOTAL = "apiserver_request_total"
_REQUEST_SECONDS = "apiserver_request_duration_seconds"
_POLL = 0.5  # seconds

Calls = Callable[[], Sequence[Entry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: so many actions, first to last by the audit log, and what they cost."""

    component: str
    actions: int
    seconds: float  # from the first answered action to the last
    calls: int  # everything that the component asked the API server meanwhile, watches aside
    span: float  # seconds between the two looks at the processes that enclose the round
    cpu: dict[str, float]  # seconds of CPU between these looks, by process
    counted: int = 0  # the same actions by the API server's own metrics, at the end
    server_ms: float | None = None  # mean time of one action inside the API server
    right: int = 0  # pods, or VPAs, that are afterwards as they should be

    @property
    def rate(self) -> float:
        """Actions per second."""
        return self.actions / self.seconds if self.seconds else 0.0

    def cores(self, process: str) -> float:
        """How many cores a process kept busy."""
        return self.cpu.get(process, 0.0) / self.span if self.span else 0.0


async def recommendations(world: World) -> Round:
    """The recommender alone: from its first answer of the metrics API to the last VPA.

    Goes on until every lower bound is above what pods ask for, then ends the recommender: the
    updater is measured without it.
    """
    began = (asyncio.get_running_loop().time(), world.used())
    running = await world.start("recommender", *RECOMMENDER)

    def recommended() -> Sequence[Entry]:
        firsts: dict[str, Entry] = {}
        for call in world.answered("recommender", "verticalpodautoscalers", "patch", "status"):
            firsts.setdefault(call.name, call)
        return sorted(firsts.values(), key=lambda call: call.time)

    found = await _watch(world, running, recommended, world.size.vpas, began=began)
    metrics = [
        call
        for call in world.answered("recommender", "pods", "list")
        if call.group == "metrics.k8s.io"
    ]
    took = recommended()[-1].time - metrics[0].time
    vpas = await world.vpas()
    found = replace(
        found,
        seconds=took / timedelta(seconds=1),
        counted=sum(vpa.status.recommendation is not None for vpa in vpas),
    )

    async def all_bounded() -> bool:
        return all(_bounded(vpa) for vpa in await world.vpas())

    await world.until("every lower bound is above the pods' requests", all_bounded)
    await world.stop(running)
    return replace(found, right=sum(_bounded(vpa) for vpa in await world.vpas()))


async def evictions(world: World, interval: timedelta) -> tuple[Round, Histogram]:
    """A round of evictions, half of each group; with how long the webhook took for each pod."""
    wanted = world.size.vpas * (world.size.replicas // 2)
    before = await world.plane.metrics_text()
    running = await world.start("updater", *UPDATER, _interval(interval))

    def evicted() -> Sequence[Entry]:
        return world.answered("updater", "pods", "create", "eviction")

    found = await _watch(world, running, evicted, wanted)
    await world.stop(running)
    await world.until("all replacements run", world.all_run)
    after = await world.plane.metrics_text()
    patched = sum(requested_cpu(pod) != REQUESTS["cpu"] for pod in await world.pods())
    found = _with_server(found, before, after, verb="POST", subresource="eviction")
    return replace(found, right=patched), _webhook(after).since(_webhook(before))


async def resizes(world: World, interval: timedelta) -> Round:
    """A round of resizes in place, all pods of all groups."""
    policy = {"containerPolicies": [{"containerName": "*", "minAllowed": FLOOR}]}
    mode = {"updateMode": "InPlaceOrRecreate"}
    await world.change_all({"updatePolicy": mode, "resourcePolicy": policy})
    before = await world.plane.metrics_text()
    running = await world.start("updater", *UPDATER, *IN_PLACE, _interval(interval))

    def resized() -> Sequence[Entry]:
        return world.answered("updater", "pods", "patch", "resize")

    found = await _watch(world, running, resized, world.size.pods)

    async def all_grown() -> bool:
        return all(_grown(pod) for pod in await world.pods())

    await world.until("all kubelets have resized", all_grown)
    await world.stop(running)
    after = await world.plane.metrics_text()
    grown = sum(_grown(pod) for pod in await world.pods())
    found = _with_server(found, before, after, verb="PATCH", subresource="resize")
    return replace(found, right=grown)


async def _watch(
    world: World,
    running: Running,
    calls: Calls,
    wanted: int,
    *,
    began: tuple[float, dict[str, ProcessUsage]] | None = None,
) -> Round:
    """Follow the audit log until so many actions were answered.

    CPU counts from ``began``, or else from the last look at which nothing had been done.

    Raises:
        TooSlowError: they did not come in time.
        ProcessDiedError: a component ended meanwhile.
    """
    loop = asyncio.get_running_loop()
    start = began or (loop.time(), world.used())
    deadline = loop.time() + world.size.patience
    while True:
        done, now, used = calls(), loop.time(), world.used()
        if len(done) >= wanted:
            break
        if not done and began is None:
            start = (now, used)
        if now > deadline:
            raise TooSlowError(f"{running.name}: {len(done)} of {wanted} actions")
        world.processes.check()
        await asyncio.sleep(_POLL)
    first, last = done[0].time, done[-1].time
    return Round(
        component=running.name,
        actions=len(done),
        seconds=(last - first) / timedelta(seconds=1),
        calls=world.calls(running.name, first, last),
        span=now - start[0],
        cpu={
            name: one.cpu_seconds - (start[1][name].cpu_seconds if name in start[1] else 0.0)
            for name, one in used.items()
        },
    )


def _with_server(found: Round, before: str, after: str, *, verb: str, subresource: str) -> Round:
    """Add what the API server's metrics say of the same actions."""
    labels = {"verb": verb, "resource": "pods", "subresource": subresource}

    def grown(name: str, **more: str) -> float:
        return total(after, name, **labels, **more) - total(before, name, **labels, **more)

    done = sum(grown(_REQUESTS_TOTAL, code=code) for code in ("200", "201"))
    seen = grown(f"{_REQUEST_SECONDS}_count")
    mean = 1000 * grown(f"{_REQUEST_SECONDS}_sum") / seen if seen else None
    return replace(found, counted=int(done), server_ms=mean)


def _webhook(text: str) -> Histogram:
    return histogram(text, _WEBHOOK_SECONDS, name="vpa.k8s.io", operation="CREATE")


def _interval(interval: timedelta) -> str:
    return f"--updater-interval={interval.total_seconds():.0f}s"


def _bounded(vpa: VerticalPodAutoscaler) -> bool:
    recommendation = vpa.status.recommendation
    containers = (recommendation and recommendation.container_recommendations) or ()
    return bool(containers) and all(
        Quantity.from_json(containers[0].lower_bound.get(name, 0)) > Quantity.parse(REQUESTS[name])
        for name in (CPU, MEMORY)
    )


def _grown(pod: Pod) -> bool:
    statuses = pod.status.container_statuses or ()
    actual = statuses[0].resources if statuses else None
    return (
        requested_cpu(pod) == FLOOR[CPU]
        and actual is not None
        and (actual.requests or {}).get(CPU) == FLOOR[CPU]
    )
