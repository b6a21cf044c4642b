"""The distinct shapes of the nodes of a cluster."""

from datetime import UTC, datetime, timedelta

import pytest

from common.scheduling.room import Room
from node_objects import GIB, MIB, by_name, node
from recommender.nodes.cached_node import CachedNode
from recommender.nodes.node_shapes import DEPARTURE, NodeIndex

NOW = datetime(2026, 1, 2, 12, 5, tzinfo=UTC)
SSD = {"disk": "ssd", "zone": "a"}


def index_of(*nodes: CachedNode, keys: tuple[str, ...] = ()) -> NodeIndex:
    index = NodeIndex()
    index.name_keys(keys)
    index.update(by_name(*nodes), NOW)
    return index


def known(index: NodeIndex) -> list[int]:
    """Return the millicores of the nodes that are there."""
    return [each.room.cpu for each in index.shapes if not each.guess]


def departed(index: NodeIndex) -> list[int]:
    return [each.room.cpu for each in index.shapes if each.has_departed]


def test_equal_nodes_have_one_shape() -> None:
    index = index_of(node("n1"), node("n2"), node("n3", cpu="8"))
    assert [each.room for each in index.shapes] == [
        Room(4000, 16 * GIB, 110),
        Room(8000, 16 * GIB, 110),
    ]


@pytest.mark.parametrize(
    ("keys", "shapes"),
    [
        pytest.param((), 1, id="labels that no rule names make no difference"),
        pytest.param(("disk",), 2, id="a label that a rule names does"),
        pytest.param(("kubernetes.io/hostname",), 1, id="the host name never does"),
    ],
)
def test_named_labels_distinguish_shapes(keys: tuple[str, ...], shapes: int) -> None:
    index = index_of(node("n1", labels=SSD), node("n2", labels={"zone": "b"}), keys=keys)
    assert len(index.shapes) == shapes


def test_keys_may_be_named_later() -> None:
    index = index_of(node("n1", labels=SSD), node("n2"))
    index.name_keys({"disk"})
    assert sorted(len(each.traits.labels) for each in index.shapes) == [0, 1]


def test_a_few_kilobytes_make_no_difference() -> None:
    index = index_of(node("n1", memory="16008Mi"), node("n2", memory="16001Mi"))
    (shape,) = index.shapes
    assert shape.room.memory == 16000 * MIB


def test_taints_that_last_are_kept_and_passing_ones_are_not() -> None:
    unready = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    index = index_of(
        node("n1", taints=[unready]),
        node("n2"),
        node("n3", taints=[{"key": "gpu", "effect": "NoSchedule"}, unready]),
    )
    assert sorted([taint.key for taint in each.traits.taints] for each in index.shapes) == [
        [],
        ["gpu"],
    ]


def test_shapes_are_the_same_object_until_one_comes_or_goes() -> None:
    index = index_of(node("n1"))
    before, version = index.shapes, index.version
    index.update(by_name(node("n1")), NOW)  # a heartbeat
    assert (index.shapes, index.version) == (before, version)
    assert index.shapes is before
    index.update(by_name(node("n1"), node("n2")), NOW)
    assert index.shapes is before
    assert index.version > version
    index.update(by_name(node("n1"), node("n2", cpu="8")), NOW)
    assert len(index.shapes) == 2
    index.update(by_name(node("n2", cpu="8")), NOW)
    assert known(index) == [8000]


def test_a_node_whose_allocatable_is_unreadable_has_no_shape() -> None:
    assert index_of(node(cpu="many")).shapes == ()


def test_the_type_of_instance_is_named() -> None:
    (shape,) = index_of(node(labels={"node.kubernetes.io/instance-type": "m5.large"})).shapes
    assert shape.about == "of type m5.large"


SMALL, LARGE = node("n1"), node("n2", cpu="8", labels=SSD)


@pytest.mark.parametrize(
    ("later", "want"),
    [
        pytest.param(timedelta(0), [8000], id="at once"),
        pytest.param(DEPARTURE - timedelta(seconds=1), [8000], id="just before the end"),
        pytest.param(DEPARTURE, [], id="at the end"),
        pytest.param(timedelta(seconds=-1), [], id="the clock moved backwards"),
    ],
)
def test_a_shape_stays_a_guess_after_its_last_node_has_gone(
    later: timedelta, want: list[int]
) -> None:
    index = index_of(SMALL, LARGE)
    nodes = by_name(SMALL)
    index.update(nodes, NOW)
    index.update(nodes, NOW + later)
    assert (known(index), departed(index)) == ([4000], want)


def test_a_shape_that_comes_back_is_no_guess() -> None:
    index = index_of(SMALL, LARGE)
    index.update(by_name(SMALL), NOW)
    index.update(by_name(SMALL, LARGE), NOW)
    assert (known(index), departed(index)) == ([4000, 8000], [])


def test_a_departed_shape_has_labels_that_are_named_later() -> None:
    index = index_of(SMALL, LARGE)
    index.update(by_name(SMALL), NOW)
    index.name_keys({"disk"})
    (shape,) = [each for each in index.shapes if each.has_departed]
    assert shape.traits.labels == {"disk": "ssd"}
    assert shape.guess == "A node was there until 12:05 UTC and may come back"
