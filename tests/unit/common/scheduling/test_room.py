"""The room that pods take on nodes."""

import msgspec
import pytest

from common.api.core import ContainerStatus, PodSpec, ResourceRequirements
from common.quantity import MAX_INT64, Quantity
from common.recommendation.container_resources import WantedResources
from common.scheduling.room import Room, room_of_pod, room_on

MIB = 2**20
ONE = {"name": "app", "resources": {"requests": {"cpu": "100m", "memory": "10Mi"}}}
SIDECAR = {**ONE, "name": "proxy", "restartPolicy": "Always"}
LARGE_INIT = {"name": "init", "resources": {"requests": {"cpu": "1", "memory": "5Mi"}}}


def spec(**fields: object) -> PodSpec:
    return msgspec.convert(fields, PodSpec)


PODS = [
    ("one container", spec(containers=[ONE]), Room(100, 10 * MIB, 1)),
    ("containers add up", spec(containers=[ONE, {**ONE, "name": "b"}]), Room(200, 20 * MIB, 1)),
    ("a sidecar adds up", spec(containers=[ONE], initContainers=[SIDECAR]), Room(200, 20 * MIB, 1)),
    (
        "the largest phase counts",
        spec(containers=[ONE], initContainers=[LARGE_INIT]),
        Room(1000, 10 * MIB, 1),
    ),
    (
        "overhead adds up",
        spec(containers=[ONE], overhead={"cpu": "50m", "memory": "1Mi"}),
        Room(150, 11 * MIB, 1),
    ),
    (
        "pod-level requests replace those of containers",
        spec(containers=[ONE], resources={"requests": {"cpu": "2"}}),
        Room(2000, 10 * MIB, 1),
    ),
    (
        "a limit without a request counts",
        spec(containers=[{"name": "app", "resources": {"limits": {"cpu": "3"}}}]),
        Room(3000, 0, 1),
    ),
    ("no requests", spec(containers=[{"name": "app"}]), Room(0, 0, 1)),
]


@pytest.mark.parametrize(
    ("given", "room"), [pytest.param(pod, room, id=name) for name, pod, room in PODS]
)
def test_the_room_of_a_pod(given: PodSpec, room: Room) -> None:
    assert room_of_pod(given) == room


def test_a_resize_under_way_takes_the_largest_amounts() -> None:
    actual = ResourceRequirements(requests={"cpu": "400m"})
    status = ContainerStatus(name="app", resources=actual, allocated_resources={"memory": "30Mi"})
    assert room_of_pod(spec(containers=[ONE]), [status]) == Room(400, 30 * MIB, 1)


def test_changed_amounts_replace_those_of_the_spec() -> None:
    changed = {"app": WantedResources(requests={"cpu": Quantity.parse("250m")})}
    assert room_of_pod(spec(containers=[ONE]), changed=changed) == Room(250, 10 * MIB, 1)


@pytest.mark.parametrize(
    ("node", "pod", "fits"),
    [
        pytest.param(Room(100, 10, 1), Room(100, 10, 1), True, id="exactly"),
        pytest.param(Room(99, 10, 1), Room(100, 10, 1), False, id="cpu lacks"),
        pytest.param(Room(100, 9, 1), Room(100, 10, 1), False, id="memory lacks"),
        pytest.param(Room(100, 10, 0), Room(100, 10, 1), False, id="no further pod"),
        pytest.param(Room(-5, 10, 1), Room(0, 10, 1), True, id="no request on a full node"),
        pytest.param(Room(-5, 10, 1), Room(1, 10, 1), False, id="a request on a full node"),
    ],
)
def test_room_holds_a_pod(node: Room, pod: Room, *, fits: bool) -> None:
    assert node.holds(pod) is fits


def test_room_adds_and_subtracts() -> None:
    assert Room(5, 50, 2) - Room(2, 60, 1) == Room(3, -10, 1)
    assert Room(5, 50, 2) + Room(2, 60, 1) == Room(7, 110, 3)


def test_the_room_on_an_empty_node() -> None:
    assert room_on({"cpu": "1500m", "memory": "1Gi", "pods": "110"}) == Room(1500, 1024 * MIB, 110)
    assert room_on(None) == Room(0, 0, MAX_INT64)
