"""What goes wrong in a stormy cluster, one function for each."""

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
# Each says whether the call is carried out, or two of them together would refuse what was done.
TROUBLE = (
    *(Effect(refuse=code, done=False) for code in Refusal if code is not Refusal.UNAUTHORIZED),
    Effect(refuse=Refusal.OVERLOADED, retry_after=10, done=False),
    Effect(refuse=Refusal.TIMEOUT, done=True),
    Effect(drop=True, done=False),
    Effect(drop=True, done=True),
    Effect(delay=5.0),
    Effect(delay=25.0),
    Effect(delay=58.0),  # nobody waits so long for the answer, and it is carried out
    Effect(delay=58.0, refuse=Refusal.UNAVAILABLE, done=False),
)
WATCH_TROUBLE = (
    Effect(watch_delay=10.0),  # and as much again, behind the bundle before
    Effect(watch_pause=0.01),
    Effect(watch_cut=20.0),
    Effect(watch_end=5.0),
    Effect(watch_duplicates=True),
    Effect(watch_bookmarks=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallsOf(Calls):
    """Calls whose body is a pod of this app."""

    app: str

    def include(self, request: Request, place: Place, verb: str) -> bool:
        if not super(_CallsOf, self).include(request, place, verb):
            return False
        labels = msgspec.json.decode(request.body)["metadata"].get("labels") or {}
        return bool(labels.get("app") == self.app)


async def trouble_for_the_updater(storm: FaultyCluster) -> None:
    """Calls are refused, lost or late for a while; some are carried out all the same."""
    for undo in storm.undo:
        undo()
    storm.undo.clear()
    for _ in range(storm.rng.randrange(4)):
        effect = storm.rng.choice(TROUBLE)
        if effect.delay:
            effect = replace(effect, delay=storm.rng.uniform(0.01, effect.delay))
        fault = ApiFault(
            calls=Calls(resource=storm.rng.choice(WRITES), user_agent=f"{MANAGER}*"),
            effect=effect,
            share=storm.rng.choice((0.1, 0.3, 0.6)),
        )
        storm.undo.append(storm.cluster.api.faults.add(fault))


async def trouble_for_its_watches(storm: FaultyCluster) -> None:
    fault = ApiFault(
        calls=Calls(verb="watch", user_agent=f"{MANAGER}*"),
        effect=storm.rng.choice(WATCH_TROUBLE),
        count=storm.rng.randrange(1, 4),
    )
    undo = storm.cluster.api.faults.add(fault)
    storm.undo.append(undo)
    if fault.effect.watch_delay:
        storm.undo_at_a_restart.append(undo)


async def updater_dies(storm: FaultyCluster) -> None:
    await storm.process.kill()
    storm.process.start()


async def updater_is_away_for_a_while(storm: FaultyCluster) -> None:
    await storm.process.kill()
    await asyncio.sleep(storm.rng.uniform(0, 2 * INTERVAL))
    storm.process.start()


async def api_server_restarts(storm: FaultyCluster) -> None:
    """What a slow watch still held is lost, and comes with the next one: that one is not slow.

    Else news would be later than ``LAG``, which the judge believes.
    """
    for undo in storm.undo_at_a_restart:
        undo()
    storm.undo_at_a_restart.clear()
    await asyncio.shield(storm.cluster.restart_api_server())  # or the storm's end would stop it


async def history_is_forgotten(storm: FaultyCluster) -> None:
    await asyncio.shield(storm.cluster.forget_history())


async def kubelet_trouble(storm: FaultyCluster) -> None:
    """What becomes of resizes of a pod from now on, and the end of that for others."""
    told = storm.rng.choice((*KUBELET_FAULTS, *(None,) * 2 * len(KUBELET_FAULTS)))
    await storm.annotate(storm.some_pod(), {KUBELET_FAULT: told})


async def memory_runs_out(storm: FaultyCluster) -> None:
    name = storm.some_pod()
    await storm.annotate(name, {"usage.sandbox/memory": "1000Gi"})
    await asyncio.sleep(INTERVAL)
    await storm.annotate(name, {"usage.sandbox/memory": None})


async def node_shrinks_or_grows(storm: FaultyCluster) -> None:
    node = storm.rng.choice(sorted(storm.cluster.kubelets.nodes))
    await storm.node_is(node, storm.rng.choice((0.5, 0.75, 1.0, 1.0)))


async def kubelet_dies_for_a_while(storm: FaultyCluster) -> None:
    node = storm.rng.choice(sorted(storm.cluster.kubelets.nodes))
    storm.cluster.kubelets.freeze(node)
    await asyncio.sleep(storm.rng.uniform(INTERVAL / 4, 4 * INTERVAL))
    storm.cluster.kubelets.thaw(node)


async def pod_is_deleted(storm: FaultyCluster) -> None:
    with contextlib.suppress(KubeError):
        await storm.admin.delete(
            PODS,
            storm.some_pod(),
            namespace=NAMESPACE,
            grace_period_seconds=storm.rng.choice((0, None)),
        )


async def pod_changes_owner(storm: FaultyCluster) -> None:
    """It is let go, and its controller makes another one; it ends later."""
    name = storm.some_pod()
    await storm.merge(PODS.as_dicts(), name, {"metadata": {"ownerReferences": None}})
    await storm.merge(PODS.as_dicts(), name, {"metadata": {"labels": {"app": "nobody"}}})
    await asyncio.sleep(storm.rng.uniform(0, 2 * INTERVAL))
    with contextlib.suppress(KubeError):
        await storm.admin.delete(PODS, name, namespace=NAMESPACE)


async def vpa_goes_and_comes(storm: FaultyCluster) -> None:
    one = storm.some_workload()
    with contextlib.suppress(KubeError):
        await storm.admin.delete(VPAS, one.name, namespace=NAMESPACE)
        await asyncio.sleep(storm.rng.uniform(0, 2 * INTERVAL))
    with contextlib.suppress(KubeError):
        await storm.create_vpa(one)


async def webhook_patches_nothing_for_a_while(storm: FaultyCluster) -> None:
    assert storm.webhook is not None
    storm.webhook.patches = False
    await asyncio.sleep(storm.rng.uniform(INTERVAL, 8 * INTERVAL))
    storm.webhook.patches = True


async def scaled(storm: FaultyCluster) -> None:
    one = storm.some_workload()
    if one.kind != "DaemonSet":
        replicas = max(1, one.replicas + storm.rng.choice((-1, 0, 0, 1, 2)))
        await storm.merge(one.endpoint, one.name, {"spec": {"replicas": replicas}})


async def rolled_out(storm: FaultyCluster) -> None:
    """A Deployment gets another template; nothing is wrong with it."""
    one = _some_deployment(storm)
    async with _out_of_range_perhaps(storm, one):
        await storm.roll_out(one)
        await asyncio.sleep(storm.rng.uniform(0, 8 * INTERVAL))


async def rollout_is_stuck_for_a_while(storm: FaultyCluster) -> None:
    """Its new pods never become Ready, find no node, or are refused; it is repaired later."""
    one = _some_deployment(storm)
    before = storm.revisions[one.name]
    async with _out_of_range_perhaps(storm, one):
        await storm.roll_out(one, obstacle=storm.rng.choice(list(Obstacle)))
        await asyncio.sleep(storm.rng.uniform(INTERVAL, 12 * INTERVAL))
        await storm.roll_out(one, revision=storm.rng.choice((before, None)))


async def quota_is_tight_for_a_while(storm: FaultyCluster) -> None:
    """Of the namespace: there is room for what runs, and for little more, or for less."""
    names = storm.rng.sample(("requests.cpu", "requests.memory", "pods"), 2)
    await storm.limit_namespace(names, storm.rng.uniform(0.97, 1.03))
    await asyncio.sleep(storm.rng.uniform(INTERVAL, 20 * INTERVAL))
    await storm.lift_quota()


async def policy_refuses_pods_for_a_while(storm: FaultyCluster) -> None:
    """Those of one workload, as another program's policy or webhook does."""
    one = storm.some_workload()
    async with _out_of_range_perhaps(storm, one):
        await _refused_for_a_while(storm, _CallsOf(app=one.name, verb="create", resource="pods"))


async def policy_refuses_resizes_for_a_while(storm: FaultyCluster) -> None:
    name = f"{storm.some_workload().name}-*"
    await _refused_for_a_while(storm, Calls(verb="patch", resource="pods/resize", name=name))


async def _refused_for_a_while(storm: FaultyCluster, calls: Calls) -> None:
    text = 'admission webhook "policy.example.com" denied the request: not today'
    effect = Effect(refuse=Refusal.FORBIDDEN, message=text, done=False)
    undo = storm.cluster.api.faults.add(ApiFault(calls=calls, effect=effect))
    storm.undo_at_the_end.append(undo)
    await asyncio.sleep(storm.rng.uniform(INTERVAL, 20 * INTERVAL))
    undo()


@contextlib.asynccontextmanager
async def _out_of_range_perhaps(storm: FaultyCluster, one: Workload) -> AsyncIterator[None]:
    """All pods of the workload may be out of range meanwhile."""
    drifts = storm.rng.random() < 0.6
    if drifts:
        cpu, memory = storm.rng.randrange(50, 700, 50), storm.rng.randrange(64, 1024, 64)
        await storm.recommend(one.name, cpu, memory)
    yield
    if drifts:
        await storm.recommend(one.name, 200, 256, exact=False)


def _some_deployment(storm: FaultyCluster) -> Workload:
    return storm.rng.choice([one for one in storm.workloads if one.kind == "Deployment"])


async def new_recommendation(storm: FaultyCluster) -> None:
    """For one VPA; now and then more than any node has."""
    cpu = storm.rng.choice((*range(50, 700, 50), 20_000))
    memory = storm.rng.choice(range(64, 1024, 64))
    await storm.recommend(storm.some_workload().name, cpu, memory)


async def out_of_range_for_a_while(storm: FaultyCluster) -> None:
    """All pods of one workload; resized ones come into it, evicted ones come back as before."""
    one = storm.some_workload()
    cpu = storm.rng.choice((*range(50, 700, 50), 20_000))
    await storm.recommend(one.name, cpu, storm.rng.choice(range(64, 1024, 64)))
    await asyncio.sleep(storm.rng.uniform(INTERVAL, 10 * INTERVAL))
    await storm.recommend(one.name, 200, 256, exact=False)
