"""The faults of :mod:`faulty_cluster`, one function each."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import msgspec

from common.errors import KubeError
from common.kube.endpoints import PODS, VPAS
from faulty_cluster import INTERVAL, KUBELET_FAULT, FaultyCluster, Obstacle, Workload
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.apiserver.requests import Place, Request
from updater.snapshot.live_pod import MANAGER
from workloads import NAMESPACE

KUBELET_FAULTS = ("stuck", "error", "deferred", "infeasible", "silent", "unknown-reason")
WRITES = ("pods/eviction", "pods/resize", "pods/*", "pods*")
# Each decides whether the call is carried out; two effects could contradict each other.
TROUBLE = (
    *(Effect(refuse=code, done=False) for code in Refusal if code is not Refusal.UNAUTHORIZED),
    Effect(refuse=Refusal.OVERLOADED, retry_after=10, done=False),
    Effect(refuse=Refusal.TIMEOUT, done=True),
    Effect(drop=True, done=False),
    Effect(drop=True, done=True),
    Effect(delay=5.0),
    Effect(delay=25.0),
    Effect(delay=58.0),  # the client times out, and the call is carried out
    Effect(delay=58.0, refuse=Refusal.UNAVAILABLE, done=False),
)
WATCH_TROUBLE = (
    Effect(watch_delay=10.0),  # twice as much for an event behind a delayed bundle
    Effect(watch_pause=0.01),
    Effect(watch_cut=20.0),
    Effect(watch_end=5.0),
    Effect(watch_duplicates=True),
    Effect(watch_bookmarks=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallsOf(Calls):
    """A rule for calls whose body is a pod of this app."""

    app: str

    def include(self, request: Request, place: Place, verb: str) -> bool:
        if not super(_CallsOf, self).include(request, place, verb):
            return False
        labels = msgspec.json.decode(request.body)["metadata"].get("labels") or {}
        return bool(labels.get("app") == self.app)


async def trouble_for_the_updater(faulty: FaultyCluster) -> None:
    """Refuse, lose or delay calls for a while; some are carried out all the same."""
    for undo in faulty.undo:
        undo()
    faulty.undo.clear()
    for _ in range(faulty.rng.randrange(4)):
        effect = faulty.rng.choice(TROUBLE)
        if effect.delay:
            effect = replace(effect, delay=faulty.rng.uniform(0.01, effect.delay))
        fault = ApiFault(
            calls=Calls(resource=faulty.rng.choice(WRITES), user_agent=f"{MANAGER}*"),
            effect=effect,
            share=faulty.rng.choice((0.1, 0.3, 0.6)),
        )
        faulty.undo.append(faulty.cluster.api.faults.add(fault))


async def trouble_for_its_watches(faulty: FaultyCluster) -> None:
    fault = ApiFault(
        calls=Calls(verb="watch", user_agent=f"{MANAGER}*"),
        effect=faulty.rng.choice(WATCH_TROUBLE),
        count=faulty.rng.randrange(1, 4),
    )
    undo = faulty.cluster.api.faults.add(fault)
    faulty.undo.append(undo)
    if fault.effect.watch_delay:
        faulty.undo_at_a_restart.append(undo)


async def updater_dies(faulty: FaultyCluster) -> None:
    await faulty.process.kill()
    faulty.process.start()


async def updater_is_away_for_a_while(faulty: FaultyCluster) -> None:
    await faulty.process.kill()
    await asyncio.sleep(faulty.rng.uniform(0, 2 * INTERVAL))
    faulty.process.start()


async def api_server_restarts(faulty: FaultyCluster) -> None:
    """Restart the API server.

    Events that a slow watch still held come with the next watch, which must not be slow.
    Otherwise they could be later than ``LAG``, which the judge assumes.
    """
    for undo in faulty.undo_at_a_restart:
        undo()
    faulty.undo_at_a_restart.clear()
    await asyncio.shield(faulty.cluster.restart_api_server())  # the end of faults doesn't cancel it


async def history_is_forgotten(faulty: FaultyCluster) -> None:
    await asyncio.shield(faulty.cluster.forget_history())


async def kubelet_trouble(faulty: FaultyCluster) -> None:
    """Set the result of future resizes of a pod, and end the set results of other pods."""
    fault = faulty.rng.choice((*KUBELET_FAULTS, *(None,) * 2 * len(KUBELET_FAULTS)))
    await faulty.annotate(faulty.some_pod(), {KUBELET_FAULT: fault})


async def memory_runs_out(faulty: FaultyCluster) -> None:
    name = faulty.some_pod()
    await faulty.annotate(name, {"usage.sandbox/memory": "1000Gi"})
    await asyncio.sleep(INTERVAL)
    await faulty.annotate(name, {"usage.sandbox/memory": None})


async def node_shrinks_or_grows(faulty: FaultyCluster) -> None:
    node = faulty.rng.choice(sorted(faulty.cluster.kubelets.nodes))
    await faulty.node_is(node, faulty.rng.choice((0.5, 0.75, 1.0, 1.0)))


async def kubelet_dies_for_a_while(faulty: FaultyCluster) -> None:
    node = faulty.rng.choice(sorted(faulty.cluster.kubelets.nodes))
    faulty.cluster.kubelets.freeze(node)
    await asyncio.sleep(faulty.rng.uniform(INTERVAL / 4, 4 * INTERVAL))
    faulty.cluster.kubelets.thaw(node)


async def pod_is_deleted(faulty: FaultyCluster) -> None:
    with contextlib.suppress(KubeError):
        await faulty.admin.delete(
            PODS,
            faulty.some_pod(),
            namespace=NAMESPACE,
            grace_period_seconds=faulty.rng.choice((0, None)),
        )


async def pod_changes_owner(faulty: FaultyCluster) -> None:
    """Remove the pod's owner, so that its controller creates another; delete it later."""
    name = faulty.some_pod()
    await faulty.merge(PODS.as_dicts(), name, {"metadata": {"ownerReferences": None}})
    await faulty.merge(PODS.as_dicts(), name, {"metadata": {"labels": {"app": "other"}}})
    await asyncio.sleep(faulty.rng.uniform(0, 2 * INTERVAL))
    with contextlib.suppress(KubeError):
        await faulty.admin.delete(PODS, name, namespace=NAMESPACE)


async def vpa_goes_and_comes(faulty: FaultyCluster) -> None:
    one = faulty.some_workload()
    with contextlib.suppress(KubeError):
        await faulty.admin.delete(VPAS, one.name, namespace=NAMESPACE)
        await asyncio.sleep(faulty.rng.uniform(0, 2 * INTERVAL))
    with contextlib.suppress(KubeError):
        await faulty.create_vpa(one)


async def webhook_patches_nothing_for_a_while(faulty: FaultyCluster) -> None:
    assert faulty.webhook is not None
    faulty.webhook.patches = False
    await asyncio.sleep(faulty.rng.uniform(INTERVAL, 8 * INTERVAL))
    faulty.webhook.patches = True


async def scaled(faulty: FaultyCluster) -> None:
    one = faulty.some_workload()
    if one.kind != "DaemonSet":
        replicas = max(1, one.replicas + faulty.rng.choice((-1, 0, 0, 1, 2)))
        await faulty.merge(one.endpoint, one.name, {"spec": {"replicas": replicas}})


async def rolled_out(faulty: FaultyCluster) -> None:
    """Change a Deployment's template, without a fault."""
    one = _some_deployment(faulty)
    async with _out_of_range_perhaps(faulty, one):
        await faulty.roll_out(one)
        await asyncio.sleep(faulty.rng.uniform(0, 8 * INTERVAL))


async def rollout_is_stuck_for_a_while(faulty: FaultyCluster) -> None:
    """Roll out a template whose pods never become ready or are refused; repair it later."""
    one = _some_deployment(faulty)
    before = faulty.revisions[one.name]
    async with _out_of_range_perhaps(faulty, one):
        await faulty.roll_out(one, obstacle=faulty.rng.choice(list(Obstacle)))
        await asyncio.sleep(faulty.rng.uniform(INTERVAL, 12 * INTERVAL))
        await faulty.roll_out(one, revision=faulty.rng.choice((before, None)))


async def quota_is_tight_for_a_while(faulty: FaultyCluster) -> None:
    """Set a quota of the namespace that is little above or below the present usage."""
    names = faulty.rng.sample(("requests.cpu", "requests.memory", "pods"), 2)
    await faulty.limit_namespace(names, faulty.rng.uniform(0.97, 1.03))
    await asyncio.sleep(faulty.rng.uniform(INTERVAL, 20 * INTERVAL))
    await faulty.lift_quota()


async def policy_refuses_pods_for_a_while(faulty: FaultyCluster) -> None:
    """Refuse the pods of one workload, as a policy or webhook of another program does."""
    one = faulty.some_workload()
    async with _out_of_range_perhaps(faulty, one):
        await _refused_for_a_while(faulty, _CallsOf(app=one.name, verb="create", resource="pods"))


async def policy_refuses_resizes_for_a_while(faulty: FaultyCluster) -> None:
    name = f"{faulty.some_workload().name}-*"
    await _refused_for_a_while(faulty, Calls(verb="patch", resource="pods/resize", name=name))


async def _refused_for_a_while(faulty: FaultyCluster, calls: Calls) -> None:
    text = 'admission webhook "policy.example.com" denied the request: not today'
    effect = Effect(refuse=Refusal.FORBIDDEN, message=text, done=False)
    undo = faulty.cluster.api.faults.add(ApiFault(calls=calls, effect=effect))
    faulty.undo_at_the_end.append(undo)
    await asyncio.sleep(faulty.rng.uniform(INTERVAL, 20 * INTERVAL))
    undo()


@contextlib.asynccontextmanager
async def _out_of_range_perhaps(faulty: FaultyCluster, one: Workload) -> AsyncIterator[None]:
    """Move all pods of the workload out of range within the block, in three of five cases."""
    drifts = faulty.rng.random() < 0.6
    if drifts:
        cpu, memory = faulty.rng.randrange(50, 700, 50), faulty.rng.randrange(64, 1024, 64)
        await faulty.recommend(one.name, cpu, memory)
    yield
    if drifts:
        await faulty.recommend(one.name, 200, 256, exact=False)


def _some_deployment(faulty: FaultyCluster) -> Workload:
    return faulty.rng.choice([one for one in faulty.workloads if one.kind == "Deployment"])


async def new_recommendation(faulty: FaultyCluster) -> None:
    """Change the recommendation of one VPA, sometimes beyond any node's size."""
    cpu = faulty.rng.choice((*range(50, 700, 50), 20_000))
    memory = faulty.rng.choice(range(64, 1024, 64))
    await faulty.recommend(faulty.some_workload().name, cpu, memory)


async def out_of_range_for_a_while(faulty: FaultyCluster) -> None:
    """Move all pods of a workload out of range. Resizes bring them into it, evictions don't."""
    one = faulty.some_workload()
    cpu = faulty.rng.choice((*range(50, 700, 50), 20_000))
    await faulty.recommend(one.name, cpu, faulty.rng.choice(range(64, 1024, 64)))
    await asyncio.sleep(faulty.rng.uniform(INTERVAL, 10 * INTERVAL))
    await faulty.recommend(one.name, 200, 256, exact=False)
