"""What need not be looked at again: a pass that leaves VPAs alone ends like one that doesn't."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry

from builders import container, recommendation
from common.api.autoscaling import RecommendedPodResources, UpdateMode, VpaStatus
from common.api.core import PodCondition
from common.target.owners import Controller
from random_cluster import random_cluster
from updater.eviction.breaker import Breaker, Open
from updater.pass_context import Rules
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot
from updater.snapshot.live_pod import LivePod
from updater.snapshot.workload_size import GroupSize
from updater.state import IdleVpa, UpdaterState
from updater_harness import NOW, WEB, RecordingActuator, run, snapshot

SEEDS = 60
PASSES = 12


class MovingClock:
    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> datetime:
        return self.at


ADVICE = recommendation(
    target={"cpu": "100m", "memory": "100Mi"}, lower={"cpu": "60m"}, upper={"cpu": "400m"}
)


def calm(scaled: AutoscaledPods, random: Random) -> AutoscaledPods:
    """The VPA with pods in their ranges; some of them have drifted once they are old enough."""
    pods = tuple(
        calm_pod(
            pod,
            cpu=random.choice(("100m", "100m", "100m", "130m")),
            hours=random.choice((None, 24 * random.random(), 24 * random.random())),
        )
        for pod in scaled.pods
    )
    return calmed(scaled, pods, recommends=random.random() < 0.9)


def calmed(
    scaled: AutoscaledPods, pods: tuple[LivePod, ...], *, recommends: bool = True
) -> AutoscaledPods:
    found = RecommendedPodResources(container_recommendations=(ADVICE,)) if recommends else None
    vpa = structs.replace(scaled.vpa, status=VpaStatus(recommendation=found))
    return replace(scaled, vpa=vpa, pods=pods)


def calm_pod(pod: LivePod, *, cpu: str = "100m", hours: float | None = 24) -> LivePod:
    status = structs.replace(
        pod.status,
        phase="Running",
        start_time=None if hours is None else NOW - timedelta(hours=hours),
        conditions=(PodCondition(type="Ready", status="True"),),
        container_statuses=None,
    )
    meta = structs.replace(pod.metadata, annotations=None)
    asked = container(requests={"cpu": cpu, "memory": "100Mi"})
    return structs.replace(
        pod, metadata=meta, spec=structs.replace(pod.spec, containers=(asked,)), status=status
    )


def drawn(seed: int, random: Random) -> list[AutoscaledPods]:
    given = random_cluster(seed, now=NOW).snapshot.autoscaled
    return [calm(each, random) if random.random() < 0.9 else each for each in given]


def snapshot_of(autoscaled: list[AutoscaledPods]) -> ClusterSnapshot:
    living = frozenset(pod.metadata.uid for each in autoscaled for pod in each.pods)
    return ClusterSnapshot(autoscaled=tuple(autoscaled), living=living)


def figures(registry: CollectorRegistry) -> Mapping[tuple[str, str], float]:
    return {
        (sample.name, str(sorted(sample.labels.items()))): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
        if sample.value or not sample.name.endswith("_total")  # they exist since an earlier pass
    }


def remembered(state: UpdaterState) -> object:
    """All of it, with the times that equality leaves out."""
    pods = {
        uid: (memory, None if memory.decision is None else memory.decision.until)
        for uid, memory in state.pods.items()
    }
    return pods, state.breakers, state.observed_daemons


async def rested(seed: int) -> int:
    """Two updaters in one cluster, one of which always looks at all; how often one did not."""
    random, clock = Random(seed), MovingClock()
    given = random_cluster(seed, now=NOW)
    autoscaled = drawn(seed, random)
    before = UpdaterState(given.state.pods, given.state.breakers)
    resting, awake = before, before
    count = 0
    for _ in range(PASSES):
        registries = CollectorRegistry(), CollectorRegistry()
        asked, done = RecordingActuator(), RecordingActuator()
        ready = random.random() < 0.9
        now = snapshot_of(autoscaled)
        rests = resting.idle_vpas
        resting = await run(
            now,
            done,
            state=resting,
            rules=given.rules,
            admission_ready=ready,
            registry=registries[0],
            clock=clock,
        )
        awake = await run(
            now,
            asked,
            state=replace(awake, idle_vpas={}),
            rules=given.rules,
            admission_ready=ready,
            registry=registries[1],
            clock=clock,
        )
        assert remembered(resting) == remembered(awake)
        assert Counter(map(str, done.calls)) == Counter(map(str, asked.calls))
        assert figures(registries[0]) == figures(registries[1])
        count += sum(rests.get(key) is rest for key, rest in resting.idle_vpas.items())
        clock.at += random.choice((timedelta(minutes=1), timedelta(hours=1), timedelta(hours=6)))
        if random.random() < 0.1:
            clock.at -= timedelta(hours=3)
        for number, each in enumerate(drawn(random.randrange(1000), random)):
            if random.random() < 0.1:
                autoscaled[number] = each
            elif random.random() < 0.1 and autoscaled[number].pods:
                left = autoscaled[number].pods[1:]
                autoscaled[number] = replace(autoscaled[number], pods=left)
    return count


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_pass_that_leaves_vpas_alone_ends_like_one_that_looks_at_all(seed: int) -> None:
    await rested(seed)


async def test_the_clusters_are_worth_it() -> None:
    assert sum([await rested(seed) for seed in range(12)]) > 50


SCALED = snapshot(UpdateMode.RECREATE).autoscaled[0]


@pytest.mark.parametrize(
    ("until", "minutes", "want"),
    [
        (None, 0, True),
        (None, 10_000, True),
        (5, 4, True),
        (5, 5, False),  # a pod has become old enough
        (None, -1, False),  # the clock was set back: pods may be too young again
    ],
)
def test_how_long_a_rest_lasts(until: int | None, minutes: int, *, want: bool) -> None:
    ends = None if until is None else NOW + timedelta(minutes=until)
    rest = IdleVpa(scaled=SCALED, since=NOW, until=ends, decisions=())
    assert rest.goes_on(SCALED, now=NOW + timedelta(minutes=minutes)) is want


def test_an_equal_picture_is_not_the_same_one() -> None:
    """Equality would cost more than looking again."""
    rest = IdleVpa(scaled=SCALED, since=NOW, until=None, decisions=())
    assert not rest.goes_on(replace(SCALED), now=NOW)


@pytest.mark.parametrize(
    ("kind", "breaker", "want"),
    [
        ("ReplicaSet", Breaker(), 1),
        ("ReplicaSet", Breaker(state=Open(NOW)), 0),  # each new pod may close it
        ("DaemonSet", Breaker(), 0),  # each pass counts its pods
    ],
)
async def test_who_is_looked_at_in_each_pass(kind: str, breaker: Breaker, want: int) -> None:
    owner = Controller("default", kind, "web", "apps/v1")
    scaled = calmed(SCALED, tuple(map(calm_pod, SCALED.pods)))
    scaled = replace(
        scaled,
        controllers=dict.fromkeys(scaled.controllers, owner),
        replicas={owner: scaled.replicas[WEB]},
        sizes={owner: GroupSize(wanted=len(scaled.pods), existing=len(scaled.pods))},
    )
    uid = scaled.vpa.metadata.uid
    after = UpdaterState(breakers={uid: breaker})
    for _ in range(2):
        before = after
        after = await run(snapshot_of([scaled]), RecordingActuator(), state=before, rules=Rules())
    assert sum(before.idle_vpas.get(key) is rest for key, rest in after.idle_vpas.items()) == want
