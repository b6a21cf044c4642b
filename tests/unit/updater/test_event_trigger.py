"""What is news to the updater, how long it rests all the same, and who needs a moment."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from builders import container, recommendation, vpa
from common.api.autoscaling import ContainerRecommendation, UpdateMode, VerticalPodAutoscaler
from common.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.errors import ServerError
from common.kube.cache import Change
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from updater.event_trigger import (
    EventTrigger,
    is_news_of_node,
    is_news_of_pod,
    is_news_of_vpa,
    rest_after,
)
from updater.plan.readiness import is_becoming_ready
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_node import LiveNode, NodeStatus
from updater.snapshot.live_pod import LivePod
from updater.state import NO_MEMORY, PodMemory, SentResize, UpdaterState
from updater_harness import HALF, NAMES, NOW, OPEN, FakeActuator, live_pod, run, snapshot

SMALL, LARGE = recommendation(target={"cpu": "100m"}), recommendation(target={"cpu": "1"})


def recommends(*amounts: ContainerRecommendation, mode: str = "Recreate") -> VerticalPodAutoscaler:
    return vpa(mode=mode, recommendations=amounts or None)


VPA_NEWS = {
    "another recommendation": (recommends(SMALL), recommends(LARGE), True),
    "its first recommendation": (recommends(), recommends(SMALL), True),
    "the same once more": (recommends(SMALL), recommends(SMALL), False),
    "another mode": (recommends(SMALL), recommends(SMALL, mode="InPlace"), True),
    "new, and recommends nothing": (None, recommends(), False),
    "new, and recommends something": (None, recommends(SMALL), True),
    "another recommendation, and only advises": (
        recommends(SMALL, mode="Off"),
        recommends(LARGE, mode="Off"),
        False,
    ),
    "does so for new pods alone from now on": (
        recommends(SMALL),
        recommends(SMALL, mode="Initial"),
        False,
    ),
    "does more than to advise from now on": (
        recommends(SMALL, mode="Off"),
        recommends(SMALL),
        True,
    ),
    "gone": (recommends(SMALL), None, False),
}


@pytest.mark.parametrize(("old", "new", "want"), VPA_NEWS.values(), ids=VPA_NEWS)
def test_news_of_a_vpa(
    old: VerticalPodAutoscaler | None, new: VerticalPodAutoscaler | None, *, want: bool
) -> None:
    assert is_news_of_vpa(Change(old, new)) is want


# Pods


def pod(
    *conditions: tuple[str, str, str],
    killed: str = "",
    minute: int = 0,
    has: str = "100m",
    going: bool = False,
) -> Pod:
    """A pod with conditions of type, status and reason; its kubelet reports cpu."""
    plain = live_pod("web-0")
    ended = ContainerStateTerminated(reason=killed, finished_at=NOW + timedelta(minutes=minute))
    status = ContainerStatus(
        name="app",
        last_state=ContainerState(terminated=ended) if killed else None,
        resources=ResourceRequirements(requests={"cpu": has}) if has else None,
    )
    found = tuple(PodCondition(type=a, status=b, reason=c) for a, b, c in conditions)
    return Pod(
        metadata=ObjectMeta(
            name="web-0", namespace="default", uid="uid", deletion_timestamp=NOW if going else None
        ),
        spec=plain.spec,
        status=msgspec.structs.replace(
            plain.status, conditions=found, container_statuses=(status,)
        ),
    )


READY, UNREADY = ("Ready", "True", ""), ("Ready", "False", "")
WORKING = ("PodResizeInProgress", "True", "")
DEFERRED = ("PodResizePending", "True", "Deferred")
INFEASIBLE = ("PodResizePending", "True", "Infeasible")
OOM = "OOMKilled"

POD_NEWS = {
    "became Ready": (pod(UNREADY), pod(READY), True),
    "is Ready when it is first seen": (None, pod(READY), True),
    "is still Ready": (pod(READY), pod(READY), False),
    "is not Ready any more": (pod(READY), pod(UNREADY), False),
    "is new, and not Ready": (None, pod(UNREADY), False),
    "became Ready, and is to go": (pod(UNREADY), pod(READY, going=True), False),
    "was OOM-killed": (pod(), pod(killed=OOM), True),
    "was OOM-killed before": (pod(killed=OOM), pod(killed=OOM), False),
    "was OOM-killed once more": (pod(killed=OOM), pod(killed=OOM, minute=1), True),
    "ended in another way": (pod(), pod(killed="Error"), False),
    "is new, and was OOM-killed": (None, pod(killed=OOM), True),
    "a resize began": (pod(), pod(WORKING), False),
    "a resize is deferred": (pod(WORKING), pod(DEFERRED), False),
    "a deferred resize goes on": (pod(DEFERRED), pod(WORKING), False),
    "a resize ended": (pod(WORKING), pod(has="200m"), True),
    "a deferred resize was taken back": (pod(DEFERRED), pod(), True),
    "a resize never fits": (pod(), pod(INFEASIBLE), True),
    "a deferred resize never fits": (pod(DEFERRED), pod(INFEASIBLE), True),
    "a resize still doesn't fit": (pod(INFEASIBLE), pod(INFEASIBLE), False),
    "a quick resize that no condition told of": (pod(), pod(has="200m"), True),
    "the first report of its resources": (pod(has=""), pod(), False),
    "nothing that matters": (pod(READY), pod(READY, ("Other", "True", "")), False),
    "gone": (pod(READY), None, False),
}


@pytest.mark.parametrize(("old", "new", "want"), POD_NEWS.values(), ids=POD_NEWS)
def test_news_of_a_pod(old: Pod | None, new: Pod | None, *, want: bool) -> None:
    assert is_news_of_pod(Change(old, new)) is want


# Nodes


def node(cpu: str) -> LiveNode:
    return LiveNode(
        metadata=ObjectMeta(name="node-1"),
        status=NodeStatus(allocatable={"cpu": cpu, "memory": "8Gi"}),
    )


NODE_NEWS = {
    "grew": (node("4"), node("8"), True),
    "shrank": (node("4"), node("2"), False),
    "is as it was": (node("4"), node("4000m"), False),
    "is new": (None, node("4"), False),
    "gone": (node("4"), None, False),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_NEWS.values(), ids=NODE_NEWS)
def test_news_of_a_node(old: LiveNode | None, new: LiveNode | None, *, want: bool) -> None:
    assert is_news_of_node(Change(old, new)) is want


# Rests


@pytest.mark.parametrize(
    ("took", "rest"), [(0.0, 1.0), (0.01, 1.0), (0.1, 1.0), (0.5, 4.5), (2.0, 18.0)]
)
def test_passes_take_a_tenth_of_the_time_at_most(took: float, rest: float) -> None:
    assert rest_after(took) == pytest.approx(rest)


NEWS = Change(recommends(SMALL), recommends(LARGE))

# How long the pass took, when news comes (seconds after its end), and how long the rest then is.
RESTS = {
    "no news: until the interval is over": (2, (), 58),
    "news at once: what the pass has cost nine times": (2, (0,), 18),
    "news in the middle": (2, (5,), 18),
    "news later ends the rest": (2, (30,), 30),
    "news while the pass went on": (2, (-1,), 18),
    "news before the pass, which has seen it": (2, (-3,), 58),
    "a short pass": (0.01, (0,), 1),
    "a pass that took half of the interval": (30, (0,), 30),
    "a pass that took longer than the interval": (90, (0,), 0),
}


@pytest.mark.parametrize(("took", "news", "want"), RESTS.values(), ids=RESTS)
def test_a_rest(took: float, news: tuple[float, ...], want: float) -> None:
    async def main(clock: VirtualClock) -> None:
        alarm, stop, loop = EventTrigger(60), asyncio.Event(), asyncio.get_running_loop()
        for each in news:
            loop.call_later(5 + took + each, alarm.on_vpa, NEWS)
        await asyncio.sleep(5)
        alarm.silence()
        due = loop.time() + 60
        await asyncio.sleep(took)
        began = loop.time()
        await alarm.rest(due, stop=stop)
        assert loop.time() - began == pytest.approx(want, abs=0.01)

    virtual_time.run(main)


# A VPA's changes so far, and whether a pod that became Ready then ends a rest.
ACTING = {
    "no VPA": ((), True, False),
    "a VPA that acts": ((Change(None, recommends(SMALL)),), True, True),
    "one that only advises": ((Change(None, recommends(SMALL, mode="Off")),), True, False),
    "one that acts no more": (
        (Change(None, recommends()), Change(recommends(), recommends(mode="Off"))),
        True,
        False,
    ),
    "one that went": ((Change(None, recommends()), Change(recommends(), None)), True, False),
    "a VPA that acts, in a namespace that is ignored": (
        (Change(None, recommends(SMALL)),),
        False,
        False,
    ),
}


@pytest.mark.parametrize(("changes", "heeded", "want"), ACTING.values(), ids=ACTING)
def test_news_of_pods_counts_where_vpas_act(
    changes: tuple[Change[VerticalPodAutoscaler], ...], *, heeded: bool, want: bool
) -> None:
    async def main(clock: VirtualClock) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        alarm = EventTrigger(60, ignored=() if heeded else ("default",))
        for change in changes:
            alarm.on_vpa(change)
        alarm.silence()
        alarm.on_pod(Change(live_pod("web-0"), ready_live_pod("web-0")))
        began = loop.time()
        await alarm.rest(began + 60, stop=stop)
        assert (loop.time() - began < 2) is want

    virtual_time.run(main)


def ready_live_pod(name: str) -> LivePod:
    plain = live_pod(name)
    ready = (PodCondition(type="Ready", status="True"),)
    return msgspec.structs.replace(
        plain, status=msgspec.structs.replace(plain.status, conditions=ready)
    )


def test_a_signal_ends_a_rest_whatever_the_news() -> None:
    async def main(clock: VirtualClock) -> None:
        alarm, stop, loop = EventTrigger(60), asyncio.Event(), asyncio.get_running_loop()
        loop.call_later(0.5, stop.set)
        alarm.on_vpa(NEWS)
        began = loop.time()
        await alarm.rest(began + 60, stop=stop)
        assert loop.time() - began == pytest.approx(0.5, abs=0.01)

    virtual_time.run(main)


# Pods that need a moment

MINUTE = timedelta(minutes=1)


def sent(*, seconds: float, generation: int = 1) -> PodMemory:
    return PodMemory(
        sent=SentResize(
            at=NOW - timedelta(seconds=seconds),
            generation=generation,
            resource_version="1",
            restarts=False,
        )
    )


def started(given: Pod, *, seconds: float) -> Pod:
    at = NOW - timedelta(seconds=seconds)
    status = msgspec.structs.replace(given.status, start_time=at)
    meta = msgspec.structs.replace(given.metadata, generation=1)
    return msgspec.structs.replace(given, status=status, metadata=meta)


AS_ASKED = ResourceRequirements(requests={"cpu": "10m", "memory": "10Mi"})


def resized(*conditions: tuple[str, str, str], done: bool) -> Pod:
    given = started(pod(READY, *conditions), seconds=999)
    (status,) = given.status.container_statuses or ()
    reported = msgspec.structs.replace(status, resources=AS_ASKED if done else status.resources)
    status_after = msgspec.structs.replace(given.status, container_statuses=(reported,))
    return msgspec.structs.replace(given, status=status_after)


SETTLING = {
    "young and not Ready": (started(pod(UNREADY), seconds=59), NO_MEMORY, True),
    "not Ready for an interval": (started(pod(UNREADY), seconds=60), NO_MEMORY, False),
    "young and Ready": (started(pod(READY), seconds=1), NO_MEMORY, False),
    "resized, and the kubelet is not there yet": (resized(done=False), sent(seconds=59), True),
    "the same for an interval": (resized(done=False), sent(seconds=60), False),
    "resized, and done": (resized(done=True), sent(seconds=1), False),
    "resized, which the cache doesn't show": (
        resized(done=True),
        sent(seconds=1, generation=2),
        True,
    ),
    "resized, and deferred": (resized(DEFERRED, done=False), sent(seconds=1), True),
    "resized, and infeasible": (resized(INFEASIBLE, done=False), sent(seconds=1), False),
}


@pytest.mark.parametrize(("given", "memory", "want"), SETTLING.values(), ids=SETTLING)
def test_who_needs_a_moment(given: Pod, memory: PodMemory, *, want: bool) -> None:
    assert is_becoming_ready(given, memory, within=MINUTE, now=NOW) is want
    assert not is_becoming_ready(given, memory, within=timedelta(), now=NOW)


async def test_where_passes_follow_at_once_three_hiccups_in_a_row_are_three_intervals() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, ServerError("trouble")))
    given, state = snapshot(UpdateMode.IN_PLACE_OR_RECREATE), UpdaterState()
    for _ in range(4):
        state = await run(given, actuator, state=state, rules=replace(OPEN, pace=MINUTE))
    assert actuator.resized == NAMES
    assert actuator.evicted == []


async def test_where_passes_follow_at_once_a_replacement_counts_once_it_is_ready() -> None:
    """Three of three, one may be missing: a replacement that runs, and doesn't serve yet, is it."""
    given = snapshot(UpdateMode.RECREATE, names=["web-0", "web-1", "web-2"])
    (scaled,) = given.autoscaled
    status = msgspec.structs.replace(
        scaled.pods[2].status,
        start_time=NOW - timedelta(seconds=5),
        conditions=(PodCondition(type="Ready", status="False"),),
    )
    coming = msgspec.structs.replace(
        scaled.pods[2],
        status=status,
        spec=msgspec.structs.replace(
            scaled.pods[2].spec,
            containers=(container(requests={"cpu": "250m", "memory": "256Mi"}),),
        ),
    )
    one = replace(scaled, pods=(*scaled.pods[:2], coming))
    for pace, evicted in ((timedelta(), ["web-0"]), (MINUTE, [])):
        actuator = FakeActuator()
        rules = replace(HALF, pace=pace)
        await run(ClusterSnapshot(autoscaled=(one,), living=given.living), actuator, rules=rules)
        assert actuator.evicted == evicted
