"""The distinct shapes of the nodes of a cluster."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from common.scheduling.room import Room
from node_objects import GIB, MIB, by_name, node
from recommender.nodes.cached_node import CachedNode
from recommender.nodes.node_shapes import DEPARTURE, HOSTNAME, NodeIndex

NOW = datetime(2026, 1, 2, 12, 5, tzinfo=UTC)
SSD = {"disk": "ssd", "zone": "a"}


def index_of(*nodes: CachedNode, keys: tuple[str, ...] = ()) -> NodeIndex:
    index = NodeIndex()
    index.update(by_name(*nodes), NOW)
    index.name_keys(keys)
    return index


def known(index: NodeIndex) -> list[int]:
    """Return the millicores of the nodes that are there."""
    return [each.room.cpu for each in index.shapes if not each.guess]


def cordoned(index: NodeIndex) -> list[int]:
    return [each.room.cpu for each in index.shapes if each.is_cordoned]


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


CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
CORDONED_LARGE = node("n2", cpu="8", labels=SSD, taints=[CORDONED])
M5 = {"node.kubernetes.io/instance-type": "m5.2xlarge"}

LEAVING = [
    ("cordoned", CORDONED, True),
    ("disrupted by Karpenter", {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, True),
    (
        "to be deleted by the cluster autoscaler",
        {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"},
        True,
    ),
    ("not ready", {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, False),
]


@pytest.mark.parametrize(
    ("taint", "leaves"), [pytest.param(*case, id=name) for name, *case in LEAVING]
)
def test_a_node_that_takes_no_new_pods_has_gone(
    taint: dict[str, str],
    leaves: bool,  # noqa: FBT001 - a column of the table
) -> None:
    index = index_of(SMALL, LARGE)
    tainted = node("n2", cpu="8", labels=SSD, taints=[taint])
    index.update(by_name(SMALL, tainted), NOW)
    assert (known(index), departed(index)) == (([4000], [8000]) if leaves else ([4000, 8000], []))
    nodes = by_name(SMALL, tainted)
    index.update(nodes, NOW + DEPARTURE)
    assert (known(index), departed(index)) == (([4000], []) if leaves else ([4000, 8000], []))
    index.update(by_name(SMALL, LARGE), NOW + DEPARTURE)
    assert (known(index), departed(index)) == ([4000, 8000], [])


def test_a_node_that_is_cordoned_at_the_start_goes_then() -> None:
    index = index_of(SMALL, node("n2", cpu="8", taints=[CORDONED]))
    assert (known(index), departed(index)) == ([4000], [8000])
    index.update(by_name(SMALL, node("n2", cpu="8", taints=[CORDONED])), NOW + DEPARTURE)
    assert (known(index), departed(index)) == ([4000], [])


@pytest.mark.parametrize(
    ("later", "want"),
    [
        pytest.param([SMALL, CORDONED_LARGE], [8000], id="it is still there"),
        pytest.param([SMALL], [], id="it is deleted"),
        pytest.param([SMALL, LARGE], [], id="it takes pods again"),
    ],
)
def test_a_node_that_is_cordoned_for_long_stays_as_the_last_resort(
    later: list[CachedNode], want: list[int]
) -> None:
    index = index_of(SMALL, LARGE)
    there = by_name(SMALL, CORDONED_LARGE)
    index.update(there, NOW)
    assert cordoned(index) == []
    index.update(there, NOW + DEPARTURE)
    assert cordoned(index) == [8000]
    index.name_keys({"disk"})
    assert cordoned(index) == [8000]
    before = index.version
    index.update(by_name(*later), NOW + DEPARTURE)
    assert cordoned(index) == want
    assert (index.version == before) == bool(want)


def test_the_host_of_a_node_that_is_cordoned_for_long_is_known() -> None:
    other = node("n3", cpu="8", labels=SSD)
    index = index_of(SMALL, LARGE, other)
    there = by_name(SMALL, CORDONED_LARGE, other)
    index.update(there, NOW)
    index.update(there, NOW + DEPARTURE)
    hosts = {
        (shape.room.cpu, shape.is_cordoned): sorted(map(str, traits.choices[HOSTNAME]))
        for shape, traits in index.by_host
    }
    assert hosts == {(4000, False): ["n1"], (8000, False): ["n3"], (8000, True): ["n2"]}


def test_spec_unschedulable_counts_without_the_taint() -> None:
    given = {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}}
    assert msgspec.convert(given, CachedNode).is_leaving


ALIKE = [
    ("a slightly smaller one of its type", ("8", "30512Mi"), ("8", "30440Mi"), M5, ["30432"]),
    ("exactly nine tenths", ("10", "32000Mi"), ("9", "28800Mi"), M5, ["28800"]),
    ("less than nine tenths", ("10", "32000Mi"), ("10", "28784Mi"), M5, ["28784", "32000"]),
    ("less CPU, more memory", ("8", "32000Mi"), ("7900m", "32016Mi"), M5, ["32016", "32000"]),
    ("without a type", ("8", "32000Mi"), ("8", "31984Mi"), {}, ["31984"]),
]


@pytest.mark.parametrize(
    ("one", "other", "labels", "want"), [pytest.param(*case, id=name) for name, *case in ALIKE]
)
def test_of_nodes_that_are_meant_to_be_equal_the_smallest_counts(
    one: tuple[str, str], other: tuple[str, str], labels: dict[str, str], want: list[str]
) -> None:
    sizes = (("n1", one), ("n2", other))
    index = index_of(
        *(node(name, cpu=cpu, memory=memory, labels=labels) for name, (cpu, memory) in sizes)
    )
    assert [str(each.room.memory // MIB) for each in index.shapes] == want


def test_nodes_of_other_types_and_labels_are_not_compared() -> None:
    large = node("n1", memory="32000Mi", labels={**M5, "disk": "ssd"})
    small = node("n2", memory="31984Mi", labels=M5)
    other = node("n3", memory="31968Mi")
    assert len(index_of(large, small, other, keys=("disk",)).shapes) == 3
    assert len(index_of(large, small, other).shapes) == 2


def test_drained_pods_fit_the_new_nodes_of_a_type() -> None:
    old = [node(f"old{n}", cpu="8", memory="30512Mi", labels=M5) for n in range(3)]
    new = [node(f"new{n}", cpu="8", memory="30448Mi", labels=M5) for n in range(3)]
    drained = [
        node(each.metadata.name, cpu="8", memory="30512Mi", labels=M5, taints=[CORDONED])
        for each in old
    ]
    index = index_of(*old)
    for nodes in ([*old, *new], [*drained, *new], new):
        index.update(by_name(*nodes), NOW)
        assert [each.room.memory // MIB for each in index.shapes] == [30448]


def test_static_pods_take_room() -> None:
    index, nodes = NodeIndex(), by_name(node("n1"), node("n2", memory="64Gi"))
    index.update(nodes, NOW, {"n1": Room(100, GIB, 1)})
    assert index.shapes[0].room == Room(3900, 15 * GIB, 109)
    index.update(nodes, NOW, {"n1": Room(400, GIB, 2)})
    assert index.shapes[0].room == Room(3600, 15 * GIB, 108)
    assert index.shapes[1].room == Room(4000, 64 * GIB, 110)


def test_hosts_of_nodes_that_are_there_and_of_those_that_have_gone() -> None:
    index = index_of(node("n1"), node("n2"), node("n3", cpu="8"))
    index.update(by_name(node("n1")), NOW)
    found = {
        (shape.room.cpu, shape.has_departed): sorted(map(str, traits.choices[HOSTNAME]))
        for shape, traits in index.by_host
    }
    assert found == {(4000, False): ["n1"], (4000, True): ["n2"], (8000, True): ["n3"]}
    assert departed(index) == [8000]
    index.update(by_name(node("n1")), NOW + DEPARTURE)
    assert [shape.room.cpu for shape, _ in index.by_host] == [4000]


def disks(index: NodeIndex) -> list[str | None]:
    found = [each.traits.labels.get("disk") for each in index.shapes]
    return sorted(found, key=str)


def test_a_key_that_no_node_has_is_named_once_a_node_has_it() -> None:
    index = index_of(node("n1"), keys=("disk", "kubernetes.io/hostname"))
    before = index.shapes
    index.name_keys({f"key{n}" for n in range(10)})
    assert index.shapes is before
    index.update(by_name(node("n1"), node("n2", labels=SSD)), NOW)
    assert disks(index) == [None]
    index.name_keys({"disk"})
    assert disks(index) == [None, "ssd"]
    assert index.label_keys == {"disk", "zone"}


def test_a_key_that_no_node_has_any_more_is_forgotten() -> None:
    index = index_of(node("n1"), node("n2", labels=SSD), keys=("disk",))
    index.update(by_name(node("n1")), NOW)
    assert index.label_keys == {"disk", "zone"}, "the node may come back"
    index.update(by_name(node("n1")), NOW + DEPARTURE)
    assert index.label_keys == frozenset()
    index.update(by_name(node("n1"), node("n2", labels=SSD)), NOW + DEPARTURE)
    assert len(index.shapes) == 1
