"""The numbers of a replacement without room, and which nodes have the most."""

import asyncio
from collections.abc import Sequence

import pytest

from common.api.core import Container, PodStatus, ResourceRequirements
from common.api.scheduling import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    SchedulablePodSpec,
    Taint,
)
from common.runtime.pausing import in_steps
from common.scheduling.room import Room
from node_drafts import node
from updater.capacity.pass_rooms import PassRooms
from updater.capacity.room_check import Shortage, find_room
from updater.snapshot.live_node import LiveNode
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.snapshot.node_rooms import NodeRooms

GIB = 2**30
NEED = Room(3000, 4 * GIB, 1)
REPELS = Taint(key="team", effect="NoSchedule")


def pod(name: str, on: str, cpu: str, *, daemon: bool = False) -> LivePod:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(on,))
    terms = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=terms)
    app = Container(name="app", resources=ResourceRequirements(requests={"cpu": cpu}))
    return LivePod(
        metadata=LivePodMeta(name=name, namespace="default", uid=name),
        spec=SchedulablePodSpec(
            containers=(app,),
            node_name=on,
            affinity=Affinity(node_affinity=affinity) if daemon else None,
        ),
        status=PodStatus(phase="Running"),
    )


def measured(rooms: PassRooms) -> NodeRooms:
    return asyncio.run(in_steps(rooms.measured()))


def rooms_of(nodes: Sequence[LiveNode], pods: Sequence[LivePod]) -> PassRooms:
    return PassRooms(
        {each.metadata.name: each for each in nodes},
        {"default": {each.metadata.name: each for each in pods}},
    )


WEB, DAEMON = pod("web", "a", "1"), pod("web", "a", "1", daemon=True)
NEEDS = "the replacement needs cpu 3 and memory 4Gi"
LARGER = (
    "the replacement needs cpu 1m and memory 4097Mi; of 1 eligible node, a has most room: cpu 9 "
    "and memory 4Gi free"
)
SENTENCES = [
    (
        "the node that lacks least",
        [node("a"), node("b", cpu="2500m"), node("c", cpu="1")],
        WEB,
        NEED,
        f"{NEEDS}; of 3 eligible nodes, b has most room: cpu 2500m and memory 8Gi free",
    ),
    (
        "its own node without itself",
        [node("a", cpu="2"), node("b", cpu="1900m")],
        WEB,
        NEED,
        f"{NEEDS}; of 2 eligible nodes, a has most room: cpu 2 and memory 8Gi free",
    ),
    (
        "one node",
        [node("a")],
        WEB,
        NEED,
        f"{NEEDS}; of 1 eligible node, a has most room: cpu 2 and memory 8Gi free",
    ),
    (
        "no pod fits",
        [node("a", cpu="1"), node("b", cpu="9", pods="0")],
        WEB,
        NEED,
        f"{NEEDS}; of 2 eligible nodes, a has most room: cpu 1 and memory 8Gi free",
    ),
    (
        "no pod fits on any node",
        [node("b", cpu="9", pods="0")],
        WEB,
        NEED,
        f"{NEEDS}; of 1 eligible node, b has most room: no place for another pod",
    ),
    (
        "no eligible node",
        [node("a", cordoned=True), node("b", ready=False)],
        WEB,
        NEED,
        f"{NEEDS}, and no Ready node is eligible for it",
    ),
    (
        "the node of a DaemonSet's pod",
        [node("a"), node("b", cpu="9")],
        DAEMON,
        NEED,
        f"{NEEDS} on node a alone, which has cpu 2 and memory 8Gi free",
    ),
    (
        "the tainted node of a DaemonSet's pod",
        [node("a", taints=(REPELS,)), node("b", cpu="9")],
        DAEMON,
        NEED,
        f"{NEEDS}, and its node is not eligible any more",
    ),
    ("a byte is missing", [node("a", cpu="9", memory="4Gi")], WEB, Room(1, 4 * GIB + 1, 1), LARGER),
]


@pytest.mark.parametrize(
    ("nodes", "replaced", "need", "sentence"),
    [pytest.param(*case, id=name) for name, *case in SENTENCES],
)
def test_the_numbers_of_a_shortage(
    nodes: Sequence[LiveNode], replaced: LivePod, need: Room, sentence: str
) -> None:
    found = find_room(measured(rooms_of(nodes, [replaced])), replaced, need)
    assert isinstance(found, Shortage)
    assert found.sentence == sentence


CLOSED = [
    ("a cordoned node", DAEMON, node("a", cpu="9", cordoned=True), True),
    ("a node that isn't Ready", DAEMON, node("a", cpu="9", ready=False), True),
    ("a taint", DAEMON, node("a", cpu="9", taints=(REPELS,)), False),
    ("a cordoned node is none for other pods", WEB, node("a", cpu="9", cordoned=True), False),
]


@pytest.mark.parametrize(
    ("replaced", "own", "found"), [pytest.param(*case, id=name) for name, *case in CLOSED]
)
def test_taints_alone_keep_pods_of_daemon_sets_from_their_node(
    replaced: LivePod, own: LiveNode, *, found: bool
) -> None:
    rooms = measured(rooms_of([own], [replaced]))
    assert (find_room(rooms, replaced, NEED) == "a") is found


def test_rooms_are_compared_again_after_they_shrank() -> None:
    """The largest rooms are remembered, and a need that they can't hold any more fits nowhere."""
    nodes = [node("a", cpu="1"), node("b", cpu="4"), node("c", cpu="3500m")]
    pods = [WEB, *(pod(f"web-{number}", "a", "0") for number in range(3))]
    rooms = measured(rooms_of(nodes, pods))
    need, places = Room(3000, 0, 1), []
    for each in pods:
        found = find_room(rooms, each, need)
        if isinstance(found, str):
            rooms.take(found, each, need)
        places.append(found if isinstance(found, str) else found.largest)
    assert places[:2] == ["b", "c"]
    last = places[2]
    assert not isinstance(last, str)
    assert last is not None
    assert (last.node, last.free.cpu) == ("b", 1000)


@pytest.mark.parametrize("early", [True, False])
def test_resizes_of_the_same_pass_take_room(*, early: bool) -> None:
    neighbour = pod("db", "b", "500m")
    rooms = rooms_of([node("a"), node("b", cpu="3500m")], [WEB, neighbour])
    if not early:
        measured(rooms)
    rooms.grow(neighbour, Room(501, 0, 1))
    rooms.grow(pod("elsewhere", "unknown", "1"), Room(1001, 0, 1))
    found = measured(rooms)
    assert found.free("b") == Room(2999, 8 * GIB, 109)
    assert isinstance(find_room(found, WEB, Room(3000, 0, 1)), Shortage)
    assert find_room(found, WEB, Room(2999, 0, 1)) == "b"


def test_a_resize_that_lowers_requests_frees_nothing_in_its_pass() -> None:
    neighbour = pod("db", "a", "500m")
    rooms = rooms_of([node("a")], [neighbour])
    rooms.grow(neighbour, Room(100, 0, 1))
    assert measured(rooms).free("a") == Room(1500, 8 * GIB, 109)
