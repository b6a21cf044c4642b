"""The rooms for pods on the nodes that they may run on, beside DaemonSets."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from common.scheduling.pod_claims import claims_of, shape_of_template
from common.scheduling.room import Room
from node_objects import GIB, by_name, daemon_set, node, node_pool, rules
from recommender.nodes.cached_node import CachedNode
from recommender.nodes.eligible_rooms import DaemonSetNeed, RoomFinder
from recommender.nodes.node_pools import shape_of_pool
from recommender.nodes.node_shapes import DEPARTURE, HOSTNAME

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SMALL = node("small", cpu="4", memory="16Gi")
LARGE = node("large", cpu="64", memory="256Gi", labels={"size": "large"})
CORDONED = node(
    "large",
    cpu="64",
    memory="256Gi",
    labels={"size": "large"},
    taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
)
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
TAINTED = node("gpu", cpu="128", memory="512Gi", taints=[GPU])
NARROW = node("narrow", cpu="96", memory="64Gi")
TOLERATION = {"key": "gpu", "operator": "Exists"}


def need(name: str = "agent", **given: Any) -> DaemonSetNeed:
    shape = shape_of_template(daemon_set(name, **given).spec.template)
    return DaemonSetNeed(("kube-system", name), shape.rules, claims_of(shape.spec).needed({}))


def finder(nodes: Sequence[CachedNode], *needs: DaemonSetNeed) -> RoomFinder:
    found = RoomFinder()
    found.index.update(by_name(*nodes), NOW)
    found.update((), needs)
    return found


ROOMS = [
    ("only the largest", [SMALL, LARGE], {}, [Room(64000, 256 * GIB, 110)]),
    (
        "neither is larger",
        [LARGE, NARROW],
        {},
        [Room(96000, 64 * GIB, 110), Room(64000, 256 * GIB, 110)],
    ),
    (
        "a selector leaves out nodes",
        [LARGE, NARROW],
        {"nodeSelector": {"size": "large"}},
        [Room(64000, 256 * GIB, 110)],
    ),
    ("no node matches", [LARGE, NARROW], {"nodeSelector": {"size": "huge"}}, []),
    ("a taint leaves out a node", [SMALL, TAINTED], {}, [Room(4000, 16 * GIB, 110)]),
    (
        "a toleration includes it",
        [SMALL, TAINTED],
        {"tolerations": [TOLERATION]},
        [Room(128000, 512 * GIB, 110)],
    ),
    (
        "the name of a host",
        [SMALL, LARGE],
        {"nodeSelector": {"kubernetes.io/hostname": "small"}},
        [Room(4000, 16 * GIB, 110)],
    ),
    ("the name of no host", [SMALL, LARGE], {"nodeSelector": {"kubernetes.io/hostname": "n9"}}, []),
]


@pytest.mark.parametrize(
    ("nodes", "spec", "want"), [pytest.param(*case, id=name) for name, *case in ROOMS]
)
def test_rooms(nodes: Sequence[CachedNode], spec: Any, want: Sequence[Room]) -> None:
    found = finder(nodes).rooms(rules(**spec))
    assert [each.room for each in found] == want


OVERHEAD = [
    ("a DaemonSet takes room", [need()], None, Room(3500, 15 * GIB, 109)),
    ("two of them", [need(), need("other")], None, Room(3000, 14 * GIB, 108)),
    (
        "one that doesn't run there",
        [need(nodeSelector={"size": "large"})],
        None,
        Room(4000, 16 * GIB, 110),
    ),
    ("the one that the VPA targets", [need()], ("kube-system", "agent"), Room(4000, 16 * GIB, 110)),
    ("another one than the VPA targets", [need()], ("shop", "agent"), Room(3500, 15 * GIB, 109)),
]


@pytest.mark.parametrize(
    ("needs", "without", "room"), [pytest.param(*case, id=name) for name, *case in OVERHEAD]
)
def test_daemon_sets_take_room(
    needs: Sequence[DaemonSetNeed], without: tuple[str, str] | None, room: Room
) -> None:
    (found,) = finder([SMALL], *needs).rooms(rules(), without)
    assert found.room == room


def test_a_node_that_is_full_of_daemon_sets_has_no_room_for_a_pod() -> None:
    full = node(allocatable={"cpu": "4", "memory": "16Gi", "pods": "1"})
    assert finder([full], need()).rooms(rules()) == ()


def test_rooms_follow_nodes_and_daemon_sets() -> None:
    found, anywhere = finder([SMALL]), rules()
    before, version = found.rooms(anywhere), found.version
    assert found.rooms(anywhere) is before
    found.index.update(by_name(node("small", cpu="4", memory="16Gi")), NOW)
    found.update((), ())
    assert (found.rooms(anywhere), found.version) == (before, version)
    found.index.update(by_name(SMALL, LARGE), NOW)
    found.update((), ())
    assert [each.room.cpu for each in found.rooms(anywhere)] == [64000]
    found.update((), (need(),))
    assert [each.room.cpu for each in found.rooms(anywhere)] == [63500]


def test_a_pod_that_names_a_host_sees_the_node_for_a_time_after_it_has_gone() -> None:
    found, pinned = finder([SMALL, LARGE]), rules(nodeSelector={HOSTNAME: "small"})
    other = node("small2", cpu="4", memory="16Gi")
    found.index.update(by_name(SMALL, LARGE, other), NOW)
    found.update((), ())
    for nodes, now, want in (
        ([SMALL, LARGE, other], NOW, [False]),
        ([LARGE, other], NOW, [True]),
        ([LARGE, other], NOW + DEPARTURE, []),
    ):
        found.index.update(by_name(*nodes), now)
        found.update((), ())
        assert [each.shape.has_departed for each in found.rooms(pinned)] == want
    assert [each.room.cpu for each in found.rooms(rules())] == [64000]


@pytest.mark.parametrize(
    ("nodes", "selector", "want"),
    [
        pytest.param([CORDONED], {}, [64000], id="it is the only one"),
        pytest.param([SMALL, CORDONED], {}, [4000], id="pods may run on another one"),
        pytest.param([SMALL, CORDONED], {"size": "large"}, [64000], id="the only one that matches"),
        pytest.param([SMALL], {"size": "large"}, [], id="it is deleted"),
        pytest.param([SMALL, CORDONED], {HOSTNAME: "large"}, [64000], id="pods name it"),
    ],
)
def test_a_node_that_is_cordoned_for_long_counts_for_pods_that_no_other_one_suits(
    nodes: list[CachedNode], selector: dict[str, str], want: list[int]
) -> None:
    found, there = finder([SMALL, LARGE]), by_name(*nodes)
    for now in (NOW, NOW + DEPARTURE):
        found.index.update(there, now)
        found.update((), ())
    assert [each.room.cpu for each in found.rooms(rules(nodeSelector=selector))] == want


def test_rules_see_a_label_that_a_node_gets_later() -> None:
    found, selected = finder([SMALL]), rules(nodeSelector={"disk": "ssd"})
    assert found.rooms(selected) == ()
    version = found.version
    found.index.update(by_name(node("small", labels={"disk": "ssd"})), NOW)
    found.update((), ())
    assert found.version > version
    assert [each.room.cpu for each in found.rooms(selected)] == [4000]


def test_daemon_sets_see_a_label_that_a_node_gets_later() -> None:
    agent = need(nodeSelector={"disk": "ssd"})
    found = finder([SMALL], agent)
    assert [each.room.cpu for each in found.rooms(rules())] == [4000]
    found.index.update(by_name(node("small", labels={"disk": "ssd"})), NOW)
    found.update((), (agent,))
    assert [each.room.cpu for each in found.rooms(rules()) if not each.shape.guess] == [3500]


CORES, TYPE = "karpenter.k8s.aws/instance-cpu", "node.kubernetes.io/instance-type"
SIZED = node_pool(
    (CORES, "In", ("2", "64")),
    ("karpenter.k8s.aws/instance-memory", "Lt", ("262145",)),
    ("karpenter.k8s.aws/instance-family", "In", ("m5",)),
    ("zone", "In", ("a", "b")),
)
NOT_KNOWN = "The size of the nodes of NodePool general with the {} that the pods ask for is"

NAMED = [
    ("nothing", {}, ""),
    ("one of several numbers of cores", {"nodeSelector": {CORES: "2"}}, CORES),
    ("an open type", {"nodeSelector": {TYPE: "m5.large"}}, TYPE),
    ("its only family", {"nodeSelector": {"karpenter.k8s.aws/instance-family": "m5"}}, ""),
    ("a label that is no size", {"nodeSelector": {"zone": "a"}}, ""),
    (
        "a type by affinity",
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": TYPE, "operator": "In", "values": ["m5.large"]}
                                ]
                            }
                        ]
                    }
                }
            }
        },
        TYPE,
    ),
]


@pytest.mark.parametrize(("spec", "key"), [pytest.param(*case, id=name) for name, *case in NAMED])
def test_a_pool_is_a_guess_for_pods_that_name_a_size(spec: Any, key: str) -> None:
    found = RoomFinder()
    found.update((shape_of_pool(SIZED),), ())
    (room,) = found.rooms(rules(**spec))
    assert room.shape.guess.startswith(NOT_KNOWN.format(key) if key else "")
    assert bool(room.shape.guess) is bool(key)


def test_the_node_of_a_type_that_pods_name_is_no_guess() -> None:
    found = finder([node(labels={TYPE: "m5.large"})])
    assert [each.shape.guess for each in found.rooms(rules(nodeSelector={TYPE: "m5.large"}))] == [
        ""
    ]
