"""The rounds of ``e2e.py``, as recorded by the API server's audit log."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from benchmarks.e2e_figures import Histogram, histogram, total
from benchmarks.e2e_world import REQUESTS, World, requested_cpu
from benchmarks.load_world import TooSlowError
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.quantity import Quantity
from common.resources import CPU, MEMORY
from controlplane.processes import ProcessUsage
from demo.processes import Running
from sandbox.apiserver.audit import Entry

# The minAllowed of the in-place round: more than any pod requests.
FLOOR = {"cpu": "500m", "memory": "600Mi"}

# With the default confidence intervals the benchmark would take hours.
RECOMMENDER = (
    "--recommender-interval=5s",
    "--confidence-interval-cpu=1m",
    "--confidence-interval-memory=1m",
)
# Half of each group at a time, as by default, without a limit of evictions per second.
UPDATER = ("--min-replicas=2", "--eviction-tolerance=0.5", "--eviction-rate-limit=-1")
IN_PLACE = ("--in-place-skip-disruption-budget=true",)  # as in the manifests

_WEBHOOK_SECONDS = "apiserver_admission_webhook_admission_duration_seconds"
_REQUESTS_TOTAL = "apiserver_request_total"
_REQUEST_SECONDS = "apiserver_request_duration_seconds"
_POLL = 0.5  # seconds

Calls = Callable[[], Sequence[Entry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The actions of one round, from the first to the last in the audit log, and their cost."""

    component: str
    actions: int
    seconds: float  # from the first answered action to the last
    calls: int  # all calls of the component in this time, without watches
    span: float  # seconds between the measurements of CPU that enclose the round
    cpu: dict[str, float]  # seconds of CPU in this span, by process
    counted: int = 0  # the same actions according to the API server's metrics
    server_ms: float | None = None  # mean duration of one action in the API server
    right: int = 0  # pods, or VPAs, that have the expected state at the end

    @property
    def rate(self) -> float:
        """Return the actions per second."""
        return self.actions / self.seconds if self.seconds else 0.0

    def cores(self, process: str) -> float:
        """Return how many cores a process used on average."""
        return self.cpu.get(process, 0.0) / self.span if self.span else 0.0


async def recommendations(world: World) -> Round:
    """Measure the recommender alone, from its first response of the metrics API to the last VPA.

    Continue until every lower bound exceeds the pods' requests, then stop the recommender, which
    must not run beside the updater.
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
    """Evict half of each group; return also the durations of the webhook's reviews."""
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
    """Resize all pods of all groups in place."""
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
    """Follow the audit log until ``wanted`` actions were answered.

    CPU counts from ``began``, or from the last measurement before the first action.

    Raises:
        TooSlowError: the actions took too long.
        ProcessDiedError: a component ended.
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
    """Add the API server's metrics of the same actions."""
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
