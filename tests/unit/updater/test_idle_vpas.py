"""Skipping idle VPAs: a pass that skips them has the same result as one that evaluates all."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry

from builders import container, recommendation
from common.api.autoscaling import RecommendedPodResources, UpdateMode, VpaStatus
from common.api.core import PodCondition
from common.target.owners import Controller
from fixed_clock import FixedClock
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


ADVICE = recommendation(
    target={"cpu": "100m", "memory": "100Mi"}, lower={"cpu": "60m"}, upper={"cpu": "400m"}
)


def mostly_idle(scaled: AutoscaledPods, random: Random) -> AutoscaledPods:
    """Return the VPA with pods in their ranges; some have drifted and are too young."""
    pods = tuple(
        pod_in_range(
            pod,
            cpu=random.choice(("100m", "100m", "100m", "130m")),
            hours=random.choice((None, 24 * random.random(), 24 * random.random())),
        )
        for pod in scaled.pods
    )
    return with_pods_in_range(scaled, pods, recommends=random.random() < 0.9)


def with_pods_in_range(
    scaled: AutoscaledPods, pods: tuple[LivePod, ...], *, recommends: bool = True
) -> AutoscaledPods:
    found = RecommendedPodResources(container_recommendations=(ADVICE,)) if recommends else None
    vpa = structs.replace(scaled.vpa, status=VpaStatus(recommendation=found))
    return replace(scaled, vpa=vpa, pods=pods)


def pod_in_range(pod: LivePod, *, cpu: str = "100m", hours: float | None = 24) -> LivePod:
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


def draw_vpas(seed: int, random: Random) -> list[AutoscaledPods]:
    given = random_cluster(seed, now=NOW).snapshot.autoscaled
    return [mostly_idle(each, random) if random.random() < 0.9 else each for each in given]


def snapshot_of(autoscaled: list[AutoscaledPods]) -> ClusterSnapshot:
    living = frozenset(pod.metadata.uid for each in autoscaled for pod in each.pods)
    return ClusterSnapshot(autoscaled=tuple(autoscaled), living=living)


def sample_values(registry: CollectorRegistry) -> Mapping[tuple[str, str], float]:
    return {
        (sample.name, str(sorted(sample.labels.items()))): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
        if sample.value
        or not sample.name.endswith("_total")  # counters of zero exist since an earlier pass
    }


def comparable(state: UpdaterState) -> object:
    """Return the state with the times that its equality ignores."""
    pods = {
        uid: (memory, None if memory.decision is None else memory.decision.until)
        for uid, memory in state.pods.items()
    }
    return pods, state.breakers, state.observed_daemons


async def compare_passes(seed: int) -> int:
    """Compare an updater that skips idle VPAs with one that doesn't; return the number of skips."""
    random, clock = Random(seed), FixedClock(NOW)
    given = random_cluster(seed, now=NOW)
    autoscaled = draw_vpas(seed, random)
    before = UpdaterState(given.state.pods, given.state.breakers)
    skipping, evaluating = before, before
    count = 0
    for _ in range(PASSES):
        registries = CollectorRegistry(), CollectorRegistry()
        asked, done = RecordingActuator(), RecordingActuator()
        ready = random.random() < 0.9
        now = snapshot_of(autoscaled)
        idle = skipping.idle_vpas
        skipping = await run(
            now,
            done,
            state=skipping,
            rules=given.rules,
            admission_ready=ready,
            registry=registries[0],
            clock=clock,
        )
        evaluating = await run(
            now,
            asked,
            state=replace(evaluating, idle_vpas={}),
            rules=given.rules,
            admission_ready=ready,
            registry=registries[1],
            clock=clock,
        )
        assert comparable(skipping) == comparable(evaluating)
        assert Counter(map(str, done.calls)) == Counter(map(str, asked.calls))
        assert sample_values(registries[0]) == sample_values(registries[1])
        count += sum(idle.get(key) is rest for key, rest in skipping.idle_vpas.items())
        clock.time += random.choice((timedelta(minutes=1), timedelta(hours=1), timedelta(hours=6)))
        if random.random() < 0.1:
            clock.time -= timedelta(hours=3)
        for number, each in enumerate(draw_vpas(random.randrange(1000), random)):
            if random.random() < 0.1:
                autoscaled[number] = each
            elif random.random() < 0.1 and autoscaled[number].pods:
                left = autoscaled[number].pods[1:]
                autoscaled[number] = replace(autoscaled[number], pods=left)
    return count


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_pass_that_skips_idle_vpas_equals_one_that_evaluates_all(seed: int) -> None:
    await compare_passes(seed)


async def test_the_random_clusters_have_idle_vpas() -> None:
    assert sum([await compare_passes(seed) for seed in range(12)]) > 50


SCALED = snapshot(UpdateMode.RECREATE).autoscaled[0]


@pytest.mark.parametrize(
    ("until", "minutes", "want"),
    [
        (None, 0, True),
        (None, 10_000, True),
        (5, 4, True),
        (5, 5, False),  # a pod is old enough now
        (None, -1, False),  # the clock was set back: pods may be too young again
    ],
)
def test_how_long_a_vpa_is_idle(until: int | None, minutes: int, *, want: bool) -> None:
    ends = None if until is None else NOW + timedelta(minutes=until)
    rest = IdleVpa(scaled=SCALED, since=NOW, until=ends, decisions=())
    assert rest.holds_for(SCALED, now=NOW + timedelta(minutes=minutes)) is want


def test_an_equal_snapshot_is_evaluated_again() -> None:
    """Comparing by value would cost more than evaluating again."""
    rest = IdleVpa(scaled=SCALED, since=NOW, until=None, decisions=())
    assert not rest.holds_for(replace(SCALED), now=NOW)


@pytest.mark.parametrize(
    ("kind", "breaker", "want"),
    [
        ("ReplicaSet", Breaker(), 1),
        ("ReplicaSet", Breaker(state=Open(NOW)), 0),  # each new pod may close it
        ("DaemonSet", Breaker(), 0),  # each pass counts its pods
    ],
)
async def test_which_vpas_are_evaluated_in_each_pass(
    kind: str, breaker: Breaker, want: int
) -> None:
    owner = Controller("default", kind, "web", "apps/v1")
    scaled = with_pods_in_range(SCALED, tuple(map(pod_in_range, SCALED.pods)))
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
