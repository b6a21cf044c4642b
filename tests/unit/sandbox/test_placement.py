"""Where pods may go: selectors, readiness and room."""

from collections import Counter
from typing import Any

import pytest

from common.resources import parse_quantities
from sandbox.controllers.placement import Ledger, Obstacle, node_obstacle
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
NOT_READY_KEY = "node.kubernetes.io/not-ready"
LATER = {"operator": "Exists", "effect": "NoExecute"}
UNREADY = node(status={"conditions": [{"type": "Ready", "status": "Unknown"}]})

CASES: list[tuple[str, dict[str, Any], dict[str, Any], Obstacle | None]] = [
    ("anything goes anywhere", {}, node(), None),
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
    ("everything tolerated", {"tolerations": [{"operator": "Exists"}]}, CORDONED, None),
]


@pytest.mark.parametrize(("name", "spec", "node_", "want"), CASES, ids=[case[0] for case in CASES])
def test_node_obstacle(
    name: str, spec: dict[str, Any], node_: dict[str, Any], want: Obstacle | None
) -> None:
    assert node_obstacle(spec, node_) is want


def requests(**amounts: str) -> Any:
    return parse_quantities(amounts)


def test_room_is_taken_and_given_back() -> None:
    ledger = Ledger()
    ledger.describe(node())
    room = ledger.room("n")
    assert room.obstacle(requests(cpu="2", memory="4Gi")) is None, "just enough"
    assert room.obstacle(requests(cpu="2001m")) is Obstacle.CPU
    assert not ledger.place("a", "n", requests(cpu="1500m", memory="1Gi"))
    assert room.obstacle(requests(cpu="501m")) is Obstacle.CPU
    assert room.obstacle(requests(memory="3.1Gi")) is Obstacle.MEMORY
    assert room.obstacle(requests(cpu="500m", gpu="1")) is Obstacle.OTHER
    assert ledger.place("a", "n", requests(cpu="1", memory="1Gi")), "it shrank"
    assert not ledger.place("a", "n", requests(cpu="1", memory="1Gi")), "nothing new"
    assert room.obstacle(requests(cpu="1")) is None
    ledger.place("b", "n", requests())
    assert room.obstacle(requests()) is Obstacle.PODS
    assert ledger.release("a")
    assert not ledger.release("a")
    assert room.obstacle(requests(cpu="2")) is None


def test_what_the_scheduler_says() -> None:
    obstacles = Counter({Obstacle.CPU: 2, Obstacle.UNSCHEDULABLE: 1})
    assert unschedulable_message(obstacles) == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
    )
    assert unschedulable_message({}) == "no nodes available to schedule pods"
