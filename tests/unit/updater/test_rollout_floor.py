"""Passes during the rollout of a Deployment of eight: available pods stay available (X105)."""

from dataclasses import dataclass, replace

import pytest
from msgspec import structs

from builders import container
from common.api.autoscaling import UpdateMode
from common.api.core import ContainerResizePolicy, PodCondition
from common.errors import TooManyRequestsError
from common.target.owners import Controller
from updater.decision import Decision, Reason, evict, resize, wait
from updater.eviction.disruption_budget import DisruptionPolicy, RolloutFloor
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.snapshot.rollout import Rollout
from updater.snapshot.workload_size import GroupSize
from updater.state import PodMemory, UpdaterState
from updater_harness import HALF, OPEN, FakeActuator, run, snapshot

OLD = Controller("default", "ReplicaSet", "web-old", "apps/v1")
NEW = Controller("default", "ReplicaSet", "web-new", "apps/v1")
WEB = Controller("default", "Deployment", "web", "apps/v1")
HELD = wait(Reason.ROLLOUT_IN_PROGRESS)
OUTSIDE = Reason.OUTSIDE_RANGE
QUARTER = Rollout(replicas=8, max_unavailable=2)


def with_state(pod: LivePod, state: str) -> LivePod:
    """Return the pod; states: ``r`` Ready, ``n`` running and not Ready, ``p`` Pending on a node."""
    ready = PodCondition(type="Ready", status="True" if state == "r" else "False")
    phase = "Pending" if state == "p" else "Running"
    return structs.replace(
        pod, status=structs.replace(pod.status, phase=phase, conditions=(ready,))
    )


def during_rollout(
    old: str,
    new: str,
    *,
    rollout: Rollout | None = QUARTER,
    mode: UpdateMode = UpdateMode.RECREATE,
    restarts: bool = False,
    wanted: tuple[int, int] | None = None,
) -> ClusterSnapshot:
    """Return a snapshot of an old and a new ReplicaSet, with the states of their pods in order."""
    names = [f"old-{number}" for number in range(len(old))]
    names += [f"new-{number}" for number in range(len(new))]
    given = snapshot(mode, names=names)
    (scaled,) = given.autoscaled
    pods = tuple(with_state(pod, state) for pod, state in zip(scaled.pods, old + new, strict=True))
    if restarts:
        policy = ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer")
        app = structs.replace(
            container(requests={"cpu": "10m", "memory": "10Mi"}), resize_policy=(policy,)
        )
        pods = tuple(
            structs.replace(pod, spec=structs.replace(pod.spec, containers=(app,))) for pod in pods
        )
    owners = [OLD] * len(old) + [NEW] * len(new)
    counts = wanted or (len(old), len(new))
    scaled = replace(
        scaled,
        pods=pods,
        controllers={pod.metadata.uid: owner for pod, owner in zip(pods, owners, strict=True)},
        replicas=dict(zip((OLD, NEW), counts, strict=True)),
        sizes={WEB: GroupSize(wanted=8, existing=len(pods))},
        deployments={OLD: WEB, NEW: WEB},
        rollouts={} if rollout is None else {WEB: rollout},
    )
    return replace(given, autoscaled=(scaled,))


def floor(must_stay: int, *, out: str = "", spent: str = "") -> RolloutFloor:
    """Return a floor with five available pods, ``a`` to ``e``."""
    return RolloutFloor(
        must_stay=must_stay,
        available=frozenset("abcde"),
        out=frozenset(out),
        spent=frozenset(spent),
    )


@pytest.mark.parametrize(
    ("given", "uid", "allowed"),
    [
        pytest.param(floor(5), "a", False, id="no pod may go"),
        pytest.param(floor(4), "a", True, id="one pod may go"),
        pytest.param(floor(4, spent="a"), "b", False, id="one pod may go and is spent"),
        pytest.param(floor(5, spent="a"), "a", False, id="no pod may go, the pod itself is spent"),
        pytest.param(floor(4, spent="a"), "a", True, id="one pod may go, the pod itself is spent"),
        pytest.param(
            floor(5, out="a"),
            "a",
            False,
            id="no pod may go, the pod itself is out and may still be available",
        ),
        pytest.param(floor(4, out="a"), "a", True, id="one pod may go, the pod itself is out"),
        pytest.param(floor(4, out="a"), "b", False, id="one pod may go, another one is out"),
        pytest.param(
            floor(4, out="a", spent="b"),
            "a",
            False,
            id="one pod may go, the pod itself is out and another one is spent",
        ),
        pytest.param(floor(5), "f", True, id="the pod itself is not available"),
    ],
)
def test_the_floor(given: RolloutFloor, uid: str, *, allowed: bool) -> None:
    pod = LivePod(metadata=LivePodMeta(name=uid, uid=uid))
    assert given.allows(pod) == allowed


@dataclass(frozen=True, kw_only=True)
class Case:
    """All pods are out of range, and the tolerance is 0.5."""

    id: str
    old: str
    new: str
    evicted: tuple[int, int]  # old and new pods
    rollout: Rollout | None = QUARTER
    wanted: tuple[int, int] | None = None


CASES = [
    Case(
        id="stuck at 6 old and 4 new pods that are not ready",
        old="rrrrrr",
        new="nnnn",
        evicted=(0, 2),
    ),
    Case(
        id="without a rollout: half of each ReplicaSet, as in the reference",
        old="rrrrrr",
        new="nnnn",
        rollout=None,
        evicted=(3, 2),
    ),
    Case(
        id="the new pods are Pending: all of them may go", old="rrrrrr", new="pppp", evicted=(0, 4)
    ),
    Case(id="no new pod has a node: six available pods", old="rrrrrr", new="", evicted=(0, 0)),
    Case(id="one new pod is ready: one of seven may go", old="rrrrrr", new="rnnn", evicted=(0, 2)),
    Case(
        id="all are ready: two of eight may go",
        old="rrrr",
        new="rrrr",
        evicted=(0, 2),
    ),
    Case(
        id="maxUnavailable 0",
        old="rrrrrrrr",
        new="nn",
        rollout=Rollout(replicas=8, max_unavailable=0),
        evicted=(0, 1),
    ),
    Case(
        id="maxUnavailable 8: the tolerance over both ReplicaSets",
        old="rrrrrr",
        new="nnnn",
        rollout=Rollout(replicas=8, max_unavailable=8),
        evicted=(2, 2),
    ),
    Case(
        id="Recreate: no eviction, not even of Pending pods",
        old="rr",
        new="pn",
        rollout=Rollout(replicas=8, max_unavailable=0, recreates=True),
        evicted=(0, 0),
    ),
    Case(
        id="two old pods are surplus: they don't count",
        old="rrrrrr",
        new="rrnn",
        wanted=(4, 4),
        evicted=(0, 2),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_evictions_during_a_rollout(case: Case) -> None:
    given = during_rollout(case.old, case.new, rollout=case.rollout, wanted=case.wanted)
    actuator = FakeActuator()
    after = await run(given, actuator, rules=HALF)
    kinds = [name.partition("-")[0] for name in actuator.evicted]
    assert (kinds.count("old"), kinds.count("new")) == case.evicted
    if case.rollout is not None and not kinds.count("old"):
        assert after.of("uid-old-0").decision == HELD


async def decisions(state: UpdaterState, names: int) -> list[Decision | None]:
    return [state.of(f"uid-old-{number}").decision for number in range(names)]


async def test_pods_that_were_evicted_and_are_still_in_the_cache_count_as_gone() -> None:
    """Seven pods are Ready in the cache, and one of them was evicted before."""
    before = UpdaterState({"uid-old-0": PodMemory(evicted=True)})
    actuator = FakeActuator()
    await run(during_rollout("rrrrrrr", "n"), actuator, rules=HALF, state=before)
    assert not [name for name in actuator.evicted if name.startswith("old")]


async def test_after_refused_evictions_a_pod_of_the_other_replica_set_is_evicted() -> None:
    """One of seven pods may be evicted, and the evictions of all old pods are refused."""
    errors = {f"old-{n}": TooManyRequestsError("no", reason="TooManyRequests") for n in range(6)}
    actuator = FakeActuator(eviction_errors=errors)
    await run(during_rollout("rrrrrr", "rnnn"), actuator, rules=OPEN)
    assert "new-0" in actuator.evicted


async def test_a_resize_that_restarts_containers_keeps_the_floor() -> None:
    actuator = FakeActuator()
    given = during_rollout("rrrrrr", "nnnn", mode=UpdateMode.IN_PLACE_OR_RECREATE, restarts=True)
    after = await run(given, actuator, rules=HALF)
    assert not [name for name in actuator.resized if name.startswith("old")]
    assert await decisions(after, 6) == [HELD] * 6


async def test_resizes_without_restart_continue() -> None:
    actuator = FakeActuator()
    skipping = replace(
        OPEN, disruption=DisruptionPolicy(tolerance_fraction=0.5, in_place_skips_budget=True)
    )
    given = during_rollout("rrrrrr", "nnnn", mode=UpdateMode.IN_PLACE_OR_RECREATE)
    after = await run(given, actuator, rules=skipping)
    assert await decisions(after, 6) == [resize(OUTSIDE)] * 6


async def test_the_end_of_the_rollout_permits_evictions() -> None:
    held = await run(during_rollout("rrrrrr", ""), FakeActuator(), rules=HALF)
    actuator = FakeActuator()
    after = await run(during_rollout("rrrrrr", "", rollout=None), actuator, rules=HALF, state=held)
    assert len(actuator.evicted) == 3
    assert after.of("uid-old-0").decision == evict(OUTSIDE)
