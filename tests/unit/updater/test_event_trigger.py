"""Events that start a pass early, the pause between passes, and pods that are becoming ready."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

import node_drafts as rooms
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
from common.api.scheduling import Taint
from common.errors import ServerError
from common.kube.cache import Change
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from updater.event_trigger import (
    EventTrigger,
    gives_room,
    is_event_of_node,
    is_event_of_pod,
    is_event_of_vpa,
    rest_after,
)
from updater.plan.pod_readiness import is_becoming_ready
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_node import LiveNode, NodeStatus
from updater.snapshot.live_pod import LivePod
from updater.state import NO_MEMORY, PodMemory, SentResize, UpdaterState
from updater_harness import HALF, NAMES, NOW, OPEN, FakeActuator, live_pod, run, snapshot

SMALL, LARGE = recommendation(target={"cpu": "100m"}), recommendation(target={"cpu": "1"})


def vpa_with(*amounts: ContainerRecommendation, mode: str = "Recreate") -> VerticalPodAutoscaler:
    return vpa(mode=mode, recommendations=amounts or None)


VPA_CHANGES = {
    "another recommendation": (vpa_with(SMALL), vpa_with(LARGE), True),
    "its first recommendation": (vpa_with(), vpa_with(SMALL), True),
    "the same recommendation": (vpa_with(SMALL), vpa_with(SMALL), False),
    "another mode": (vpa_with(SMALL), vpa_with(SMALL, mode="InPlace"), True),
    "new, without a recommendation": (None, vpa_with(), False),
    "new, with a recommendation": (None, vpa_with(SMALL), True),
    "another recommendation in mode Off": (
        vpa_with(SMALL, mode="Off"),
        vpa_with(LARGE, mode="Off"),
        False,
    ),
    "mode changed to Initial": (
        vpa_with(SMALL),
        vpa_with(SMALL, mode="Initial"),
        False,
    ),
    "mode changed from Off": (
        vpa_with(SMALL, mode="Off"),
        vpa_with(SMALL),
        True,
    ),
    "gone": (vpa_with(SMALL), None, False),
}


@pytest.mark.parametrize(("old", "new", "want"), VPA_CHANGES.values(), ids=VPA_CHANGES)
def test_events_of_a_vpa(
    old: VerticalPodAutoscaler | None, new: VerticalPodAutoscaler | None, *, want: bool
) -> None:
    assert is_event_of_vpa(Change(old, new)) is want


# Pods


def pod(
    *conditions: tuple[str, str, str],
    killed: str = "",
    minute: int = 0,
    has: str = "100m",
    going: bool = False,
) -> Pod:
    """Return a pod with conditions of type, status and reason, and reported cpu."""
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

POD_CHANGES = {
    "became Ready": (pod(UNREADY), pod(READY), True),
    "new and Ready": (None, pod(READY), True),
    "is still Ready": (pod(READY), pod(READY), False),
    "is no longer Ready": (pod(READY), pod(UNREADY), False),
    "new and not Ready": (None, pod(UNREADY), False),
    "became Ready, and is being deleted": (pod(UNREADY), pod(READY, going=True), False),
    "was OOM-killed": (pod(), pod(killed=OOM), True),
    "was OOM-killed before": (pod(killed=OOM), pod(killed=OOM), False),
    "was OOM-killed again": (pod(killed=OOM), pod(killed=OOM, minute=1), True),
    "a container failed": (pod(), pod(killed="Error"), False),
    "new and OOM-killed": (None, pod(killed=OOM), True),
    "a resize started": (pod(), pod(WORKING), False),
    "a resize is deferred": (pod(WORKING), pod(DEFERRED), False),
    "a deferred resize started": (pod(DEFERRED), pod(WORKING), False),
    "a resize ended": (pod(WORKING), pod(has="200m"), True),
    "a deferred resize was withdrawn": (pod(DEFERRED), pod(), True),
    "a resize is infeasible": (pod(), pod(INFEASIBLE), True),
    "a deferred resize is infeasible": (pod(DEFERRED), pod(INFEASIBLE), True),
    "a resize is still infeasible": (pod(INFEASIBLE), pod(INFEASIBLE), False),
    "a quick resize without a condition": (pod(), pod(has="200m"), True),
    "the first report of its resources": (pod(has=""), pod(), False),
    "an unrelated condition": (pod(READY), pod(READY, ("Other", "True", "")), False),
    "gone": (pod(READY), None, False),
}


@pytest.mark.parametrize(("old", "new", "want"), POD_CHANGES.values(), ids=POD_CHANGES)
def test_events_of_a_pod(old: Pod | None, new: Pod | None, *, want: bool) -> None:
    assert is_event_of_pod(Change(old, new)) is want


# Nodes


def node(cpu: str) -> LiveNode:
    return LiveNode(
        metadata=ObjectMeta(name="node-1"),
        status=NodeStatus(allocatable={"cpu": cpu, "memory": "8Gi"}),
    )


NODE_CHANGES = {
    "grew": (node("4"), node("8"), True),
    "shrank": (node("4"), node("2"), False),
    "equal by value": (node("4"), node("4000m"), False),
    "new": (None, node("4"), False),
    "gone": (node("4"), None, False),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_CHANGES.values(), ids=NODE_CHANGES)
def test_events_of_a_node(old: LiveNode | None, new: LiveNode | None, *, want: bool) -> None:
    assert is_event_of_node(Change(old, new)) is want


LABELLED = msgspec.structs.replace(
    rooms.node("b"), metadata=ObjectMeta(name="b", labels={"disk": "ssd"})
)
TAINT = (Taint(key="gpu", effect="NoSchedule"),)
ROOM_CHANGES = {
    "new and Ready": (None, rooms.node("b"), True),
    "new, not Ready yet": (None, rooms.node("b", ready=False), False),
    "became Ready": (rooms.node("b", ready=False), rooms.node("b"), True),
    "is no longer Ready": (rooms.node("b"), rooms.node("b", ready=False), False),
    "uncordoned": (rooms.node("b", cordoned=True), rooms.node("b"), True),
    "cordoned": (rooms.node("b"), rooms.node("b", cordoned=True), False),
    "grew": (rooms.node("b"), rooms.node("b", cpu="4"), True),
    "shrank": (rooms.node("b"), rooms.node("b", cpu="1"), False),
    "without its taint": (rooms.node("b", taints=TAINT), rooms.node("b"), True),
    "with another label": (rooms.node("b"), LABELLED, True),
    "unchanged": (rooms.node("b"), rooms.node("b"), False),
    "gone": (rooms.node("b"), None, False),
}


@pytest.mark.parametrize(("old", "new", "want"), ROOM_CHANGES.values(), ids=ROOM_CHANGES)
def test_changes_that_give_room(old: LiveNode | None, new: LiveNode | None, *, want: bool) -> None:
    assert gives_room(Change(old, new)) is want


@pytest.mark.parametrize("waits", [True, False])
def test_a_new_node_starts_a_pass_if_a_pod_waits_for_room(*, waits: bool) -> None:
    async def main(clock: VirtualClock) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        trigger = EventTrigger(60.0, waits_for_room=lambda: waits)
        trigger.on_vpa(Change(None, vpa_with()))
        due = loop.time() + 60
        loop.call_later(10, trigger.on_node, Change(None, rooms.node("b")))
        await trigger.rest(due, stop=stop)
        assert due - loop.time() == pytest.approx(50 if waits else 0)

    virtual_time.run(main)


# Pauses between passes


@pytest.mark.parametrize(
    ("took", "rest"), [(0.0, 1.0), (0.01, 1.0), (0.1, 1.0), (0.5, 4.5), (2.0, 18.0)]
)
def test_passes_take_at_most_a_tenth_of_the_time(took: float, rest: float) -> None:
    assert rest_after(took) == pytest.approx(rest)


VPA_EVENT = Change(vpa_with(SMALL), vpa_with(LARGE))

# Duration of the pass, times of events after its end, and the duration of the pause, in seconds.
PAUSES = {
    "no events: until the end of the interval": (2, (), 58),
    "an immediate event: nine times the duration of the pass": (2, (0,), 18),
    "an event during the minimum pause": (2, (5,), 18),
    "an event after the minimum pause": (2, (30,), 30),
    "an event during the pass": (2, (-1,), 18),
    "an event before the pass": (2, (-3,), 58),
    "a short pass": (0.01, (0,), 1),
    "a pass that took half of the interval": (30, (0,), 30),
    "a pass that took longer than the interval": (90, (0,), 0),
}


@pytest.mark.parametrize(("took", "events", "want"), PAUSES.values(), ids=PAUSES)
def test_the_pause_after_a_pass(took: float, events: tuple[float, ...], want: float) -> None:
    async def main(clock: VirtualClock) -> None:
        trigger, stop, loop = EventTrigger(60), asyncio.Event(), asyncio.get_running_loop()
        for each in events:
            loop.call_later(5 + took + each, trigger.on_vpa, VPA_EVENT)
        await asyncio.sleep(5)
        trigger.clear()
        due = loop.time() + 60
        await asyncio.sleep(took)
        began = loop.time()
        await trigger.rest(due, stop=stop)
        assert loop.time() - began == pytest.approx(want, abs=0.01)

    virtual_time.run(main)


# Changes of a VPA, and whether a pod that becomes Ready then ends the pause.
ACTING = {
    "no VPA": ((), True, False),
    "a VPA that updates pods": ((Change(None, vpa_with(SMALL)),), True, True),
    "a VPA of mode Off": ((Change(None, vpa_with(SMALL, mode="Off")),), True, False),
    "a VPA changed to mode Off": (
        (Change(None, vpa_with()), Change(vpa_with(), vpa_with(mode="Off"))),
        True,
        False,
    ),
    "a deleted VPA": ((Change(None, vpa_with()), Change(vpa_with(), None)), True, False),
    "a VPA that updates pods, in an ignored namespace": (
        (Change(None, vpa_with(SMALL)),),
        False,
        False,
    ),
}


@pytest.mark.parametrize(("changes", "heeded", "want"), ACTING.values(), ids=ACTING)
def test_events_of_pods_count_in_namespaces_with_active_vpas(
    changes: tuple[Change[VerticalPodAutoscaler], ...], *, heeded: bool, want: bool
) -> None:
    async def main(clock: VirtualClock) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        trigger = EventTrigger(60, ignored=() if heeded else ("default",))
        for change in changes:
            trigger.on_vpa(change)
        trigger.clear()
        trigger.on_pod(Change(live_pod("web-0"), ready_live_pod("web-0")))
        began = loop.time()
        await trigger.rest(began + 60, stop=stop)
        assert (loop.time() - began < 2) is want

    virtual_time.run(main)


def ready_live_pod(name: str) -> LivePod:
    plain = live_pod(name)
    ready = (PodCondition(type="Ready", status="True"),)
    return msgspec.structs.replace(
        plain, status=msgspec.structs.replace(plain.status, conditions=ready)
    )


def test_a_signal_ends_a_pause() -> None:
    async def main(clock: VirtualClock) -> None:
        trigger, stop, loop = EventTrigger(60), asyncio.Event(), asyncio.get_running_loop()
        loop.call_later(0.5, stop.set)
        trigger.on_vpa(VPA_EVENT)
        began = loop.time()
        await trigger.rest(began + 60, stop=stop)
        assert loop.time() - began == pytest.approx(0.5, abs=0.01)

    virtual_time.run(main)


# Pods that are becoming ready

MINUTE = timedelta(minutes=1)


def memory_of_resize(*, seconds: float, generation: int = 1) -> PodMemory:
    return PodMemory(
        sent=SentResize(
            at=NOW - timedelta(seconds=seconds),
            generation=generation,
            resource_version="1",
            restarts=False,
        )
    )


def with_start_time(given: Pod, *, seconds: float) -> Pod:
    at = NOW - timedelta(seconds=seconds)
    status = msgspec.structs.replace(given.status, start_time=at)
    meta = msgspec.structs.replace(given.metadata, generation=1)
    return msgspec.structs.replace(given, status=status, metadata=meta)


AS_ASKED = ResourceRequirements(requests={"cpu": "10m", "memory": "10Mi"})


def resized(*conditions: tuple[str, str, str], done: bool) -> Pod:
    given = with_start_time(pod(READY, *conditions), seconds=999)
    (status,) = given.status.container_statuses or ()
    reported = msgspec.structs.replace(status, resources=AS_ASKED if done else status.resources)
    status_after = msgspec.structs.replace(given.status, container_statuses=(reported,))
    return msgspec.structs.replace(given, status=status_after)


SETTLING = {
    "young and not Ready": (with_start_time(pod(UNREADY), seconds=59), NO_MEMORY, True),
    "not Ready for an interval": (with_start_time(pod(UNREADY), seconds=60), NO_MEMORY, False),
    "young and Ready": (with_start_time(pod(READY), seconds=1), NO_MEMORY, False),
    "resized, not yet by the kubelet": (resized(done=False), memory_of_resize(seconds=59), True),
    "resized, not by the kubelet for an interval": (
        resized(done=False),
        memory_of_resize(seconds=60),
        False,
    ),
    "resized by the kubelet": (resized(done=True), memory_of_resize(seconds=1), False),
    "resized, not yet in the cache": (
        resized(done=True),
        memory_of_resize(seconds=1, generation=2),
        True,
    ),
    "resized, and deferred": (resized(DEFERRED, done=False), memory_of_resize(seconds=1), True),
    "resized, and infeasible": (
        resized(INFEASIBLE, done=False),
        memory_of_resize(seconds=1),
        False,
    ),
}


@pytest.mark.parametrize(("given", "memory", "want"), SETTLING.values(), ids=SETTLING)
def test_which_pods_are_becoming_ready(given: Pod, memory: PodMemory, *, want: bool) -> None:
    assert is_becoming_ready(given, memory, within=MINUTE, now=NOW) is want
    assert not is_becoming_ready(given, memory, within=timedelta(), now=NOW)


async def test_without_pauses_transient_errors_count_once_per_interval() -> None:
    actuator = FakeActuator(resize_errors=dict.fromkeys(NAMES, ServerError("trouble")))
    given, state = snapshot(UpdateMode.IN_PLACE_OR_RECREATE), UpdaterState()
    for _ in range(4):
        state = await run(given, actuator, state=state, rules=replace(OPEN, pace=MINUTE))
    assert actuator.resized == NAMES
    assert actuator.evicted == []


async def test_without_pauses_a_replacement_counts_once_it_is_ready() -> None:
    """One of three pods may be unavailable; a replacement that isn't Ready yet counts as one."""
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
