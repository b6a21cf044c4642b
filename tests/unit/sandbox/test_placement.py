"""Placement of pods: selectors, readiness and free resources."""

from collections import Counter
from typing import Any

import pytest

from common.resources import parse_quantities
from sandbox.controllers.placement import Obstacle, Placements, node_obstacle
from sandbox.controllers.scheduler import unschedulable_message


def node(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "labels": {"zone": "a", "size": "8"}},
        "spec": {},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "2"}},
        **changes,
    }


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


CORDONED = node(spec={"unschedulable": True})
UNREADY = node(status={"conditions": [{"type": "Ready", "status": "Unknown"}]})

CASES: list[tuple[str, dict[str, Any], dict[str, Any], Obstacle | None]] = [
    ("no constraints", {}, node(), None),
    ("selected", {"nodeSelector": {"zone": "a"}}, node(), None),
    ("not selected", {"nodeSelector": {"zone": "b"}}, node(), Obstacle.AFFINITY),
    (
        "by name",
        affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
        node(),
        None,
    ),
    (
        "by another name",
        affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}),
        node(),
        Obstacle.AFFINITY,
    ),
    ("cordoned", {}, CORDONED, Obstacle.UNSCHEDULABLE),
    ("not ready", {}, UNREADY, Obstacle.NOT_READY),
    (
        "tolerated",
        {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
        UNREADY,
        None,
    ),
    (
        "another effect",
        {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
        CORDONED,
        Obstacle.UNSCHEDULABLE,
    ),
    ("all taints tolerated", {"tolerations": [{"operator": "Exists"}]}, CORDONED, None),
]


@pytest.mark.parametrize(("name", "spec", "node_", "want"), CASES, ids=[case[0] for case in CASES])
def test_node_obstacle(
    name: str, spec: dict[str, Any], node_: dict[str, Any], want: Obstacle | None
) -> None:
    assert node_obstacle(spec, node_) is want


def requests(**amounts: str) -> Any:
    return parse_quantities(amounts)


def test_placements_take_and_release_resources() -> None:
    placements = Placements()
    placements.describe(node())
    room = placements.room("n")
    assert room.obstacle(requests(cpu="2", memory="4Gi")) is None, "exactly enough"
    assert room.obstacle(requests(cpu="2001m")) is Obstacle.CPU
    assert not placements.place("a", "n", requests(cpu="1500m", memory="1Gi"))
    assert room.obstacle(requests(cpu="501m")) is Obstacle.CPU
    assert room.obstacle(requests(memory="3.1Gi")) is Obstacle.MEMORY
    assert room.obstacle(requests(cpu="500m", gpu="1")) is Obstacle.OTHER
    assert placements.place("a", "n", requests(cpu="1", memory="1Gi")), "fewer resources"
    assert not placements.place("a", "n", requests(cpu="1", memory="1Gi")), "no change"
    assert room.obstacle(requests(cpu="1")) is None
    placements.place("b", "n", requests())
    assert room.obstacle(requests()) is Obstacle.PODS
    assert placements.release("a")
    assert not placements.release("a")
    assert room.obstacle(requests(cpu="2")) is None


def test_the_message_of_the_scheduler() -> None:
    obstacles = Counter({Obstacle.CPU: 2, Obstacle.UNSCHEDULABLE: 1})
    assert unschedulable_message(obstacles) == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
    )
    assert unschedulable_message({}) == "no nodes available to schedule pods"
