"""The fields of a node that the updater caches, and when its capacity has improved (X101)."""

import json
from typing import Any

import msgspec
import pytest

from common.resources import parse_quantities
from common.scheduling.eligibility import NodeTraits
from updater.snapshot.live_node import LiveNode, NodeCapacity, has_improved, node_capacity


def served_node(**status: Any) -> LiveNode:
    """Return the fields of a node that matter here, as an API server serves them."""
    node = {
        "metadata": {
            "name": "node-1",
            "uid": "uid-1",
            "resourceVersion": "7",
            "labels": {"zone": "a"},
            "annotations": {"team": "blue"},
        },
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"images": [{"names": ["shop:1"]}], **status},
    }
    return msgspec.json.decode(json.dumps(node).encode(), type=LiveNode)


def test_what_decides_on_pods_is_kept() -> None:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]
    node = served_node(
        allocatable={**allocatable, "ephemeral-storage": "1Gi"}, conditions=conditions
    )
    assert node.status.allocatable == allocatable
    assert (node.metadata.name, node.metadata.resource_version) == ("node-1", "7")
    assert node.metadata.annotations is None
    assert node.traits == NodeTraits(name="node-1", labels={"zone": "a"})
    assert [each.type for each in node.status.conditions or ()] == ["Ready"]
    assert node.takes_pods
    assert not served_node(allocatable=allocatable).takes_pods


def test_a_node_with_invalid_quantities_has_no_known_capacity() -> None:
    assert node_capacity(served_node(allocatable={"cpu": "lots"})) is None
    assert node_capacity(None) is None
    found = node_capacity(served_node())
    assert found == NodeCapacity(node="node-1", allocatable={})


def capacity(cpu: str, memory: str = "8Gi", node: str = "node-1") -> NodeCapacity:
    return NodeCapacity(node=node, allocatable=parse_quantities({"cpu": cpu, "memory": memory}))


THEN = capacity("4")
IMPROVED = {
    "equal": (THEN, capacity("4"), False),
    "equal by value": (THEN, capacity("4000m", "8192Mi"), False),
    "more cpu": (THEN, capacity("4001m"), True),
    "more memory": (THEN, capacity("4", "8193Mi"), True),
    "less": (THEN, capacity("3", "4Gi"), False),
    "more of one, less of the other": (THEN, capacity("8", "4Gi"), True),
    "another node": (THEN, capacity("2", node="node-2"), True),
    "another resource is reported": (
        NodeCapacity(node="node-1", allocatable=parse_quantities({"cpu": "4"})),
        THEN,
        True,
    ),
    "no longer known": (THEN, None, False),
    "not known before": (None, THEN, True),
    "not known before and now": (None, None, False),
}


@pytest.mark.parametrize(("then", "now", "want"), IMPROVED.values(), ids=IMPROVED)
def test_has_improved(then: NodeCapacity | None, now: NodeCapacity | None, *, want: bool) -> None:
    assert has_improved(then, now) is want
