"""The free room of nodes, and places for replacements."""

import asyncio
from collections.abc import Sequence

import pytest

from common.api.core import Container, PodStatus, ResourceRequirements
from common.api.meta import ObjectMeta
from common.api.scheduling import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    SchedulablePodSpec,
    Taint,
)
from common.api.workloads import Condition
from common.runtime.pausing import in_steps
from common.scheduling.room import Room
from updater.snapshot.live_node import LiveNode, NodeSpec, NodeStatus
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.snapshot.node_rooms import NodeRooms

READY = Condition(type="Ready", status="True")
SMALL, LARGE = Room(500, 0, 1), Room(1500, 0, 1)


def node(
    name: str,
    *,
    cpu: str = "2",
    pods: str = "110",
    cordoned: bool = False,
    ready: bool = True,
    taints: tuple[Taint, ...] = (),
    **labels: str,
) -> LiveNode:
    return LiveNode(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(unschedulable=cordoned, taints=taints),
        status=NodeStatus(
            allocatable={"cpu": cpu, "memory": "8Gi", "pods": pods},
            conditions=(READY,) if ready else (Condition(type="Ready", status="Unknown"),),
        ),
    )


def pod(
    name: str,
    on: str,
    cpu: str = "1",
    *,
    selector: dict[str, str] | None = None,
    affinity: Affinity | None = None,
) -> LivePod:
    app = Container(name="app", resources=ResourceRequirements(requests={"cpu": cpu}))
    return LivePod(
        metadata=LivePodMeta(name=name, namespace="default", uid=name),
        spec=SchedulablePodSpec(
            containers=(app,), node_name=on, node_selector=selector, affinity=affinity
        ),
        status=PodStatus(phase="Running"),
    )


def for_node(name: str) -> Affinity:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
    terms = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    return Affinity(
        node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=terms)
    )


def rooms(nodes: Sequence[LiveNode], pods: Sequence[LivePod]) -> NodeRooms:
    steps = NodeRooms.measure(
        {each.metadata.name: each for each in nodes},
        {"default": {each.metadata.name: each for each in pods}},
    )
    return asyncio.run(in_steps(steps))


WEB = pod("web", "a")
TAINTED = (Taint(key="gpu", effect="NoSchedule"),)
PLACES = [
    ("its own place", [node("a", cpu="1")], [WEB], Room(1000, 0, 1), "a"),
    ("its own place and the rest of its node", [node("a", cpu="1500m")], [WEB], LARGE, "a"),
    ("too little on its own node", [node("a", cpu="1499m")], [WEB], LARGE, None),
    ("neighbours take room", [node("a")], [WEB, pod("db", "a", "600m")], LARGE, None),
    ("another node", [node("a", cpu="1"), node("b")], [WEB], LARGE, "b"),
    (
        "another node that is full",
        [node("a", cpu="1"), node("b")],
        [WEB, pod("db", "b")],
        LARGE,
        None,
    ),
    (
        "another node without a free pod",
        [node("a", cpu="1"), node("b", pods="0")],
        [WEB],
        LARGE,
        None,
    ),
    ("a cordoned node", [node("a", cpu="1"), node("b", cordoned=True)], [WEB], LARGE, None),
    ("its own node is cordoned", [node("a", cordoned=True)], [WEB], SMALL, None),
    ("a node that isn't Ready", [node("a", cpu="1"), node("b", ready=False)], [WEB], LARGE, None),
    ("a tainted node", [node("a", cpu="1"), node("b", taints=TAINTED)], [WEB], LARGE, None),
    (
        "a node with another label",
        [node("a", cpu="1", disk="ssd"), node("b", disk="hdd")],
        [pod("web", "a", selector={"disk": "ssd"})],
        LARGE,
        None,
    ),
    (
        "a node with the label",
        [node("a", cpu="1", disk="ssd"), node("b", disk="ssd")],
        [pod("web", "a", selector={"disk": "ssd"})],
        LARGE,
        "b",
    ),
    (
        "the pod of a DaemonSet stays on its node",
        [node("a", cpu="1"), node("b")],
        [pod("web", "a", affinity=for_node("a"))],
        LARGE,
        None,
    ),
    (
        "the pod of a DaemonSet has its own place",
        [node("a")],
        [pod("web", "a", affinity=for_node("a"))],
        LARGE,
        "a",
    ),
    ("its node is unknown", [node("b")], [WEB], LARGE, "b"),
    ("an unreadable node has no room", [node("a", cpu="many")], [WEB], SMALL, None),
]


@pytest.mark.parametrize(
    ("nodes", "pods", "need", "place"), [pytest.param(*case, id=name) for name, *case in PLACES]
)
def test_the_place_of_a_replacement(
    nodes: Sequence[LiveNode], pods: Sequence[LivePod], need: Room, place: str | None
) -> None:
    assert rooms(nodes, pods).find(pods[0], need) == place


def test_planned_replacements_take_room() -> None:
    pods = [pod(f"web-{number}", "a", "500m") for number in range(3)]
    measured = rooms([node("a", cpu="1500m"), node("b", cpu="2100m")], pods)
    places = []
    for each in pods:
        place = measured.find(each, Room(1000, 0, 1))
        places.append(place)
        if place is not None:
            measured.take(place, each, Room(1000, 0, 1))
    assert places == ["b", "b", None]
    assert measured.free("b") == Room(100, 8 * 2**30, 108)


def test_in_its_own_place_a_replacement_takes_the_difference() -> None:
    measured = rooms([node("a")], [WEB])
    measured.take("a", WEB, LARGE)
    assert measured.free("a") == Room(500, 8 * 2**30, 109)
    assert measured.free("b") is None


def test_a_small_need_fits_where_a_large_one_did_not() -> None:
    measured = rooms([node("a", cpu="1"), node("b", cpu="1")], [WEB, pod("db", "c")])
    assert measured.find(WEB, LARGE) is None
    assert measured.find(pod("db", "c"), SMALL) == "b"
