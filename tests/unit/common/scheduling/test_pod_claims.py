"""The room that a pod needs for given targets, and targets that fit a room."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from common.api.core import PodSpec
from common.api.workloads import ResourcesTemplate
from common.scheduling.pod_claims import PodClaims, Targets, claims_of, shape_of_template, slim_spec
from common.scheduling.room import Room

MIB = 1 << 20


def container(name: str, cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def spec(*containers: Any, init: tuple[Any, ...] = (), **more: Any) -> PodSpec:
    given = {"containers": containers, "initContainers": init, **more}
    return msgspec.convert(given, PodSpec)


def claims(*containers: Any, init: tuple[Any, ...] = (), **more: Any) -> PodClaims:
    return claims_of(spec(*containers, init=init, **more))


APP = container("app", "1", "100Mi")
LOG = container("log", "200m", "50Mi")
FIRST = container("first", "3", "10Mi")
PROXY = container("proxy", "300m", "60Mi", restartPolicy="Always")
TARGETS = {"app": {"cpu": 2000, "memory": 300 * MIB}}

NEEDS = [
    ("a target replaces the request", claims(APP), Room(2000, 300 * MIB, 1)),
    ("a container without a target keeps its request", claims(APP, LOG), Room(2200, 350 * MIB, 1)),
    (
        "a resource without a target keeps its request",
        claims(container("app", "1", "100Mi"), LOG),
        Room(2200, 350 * MIB, 1),
    ),
    (
        "a native sidecar runs beside the others",
        claims(APP, init=(PROXY,)),
        Room(2300, 360 * MIB, 1),
    ),
    (
        "a larger init container counts instead",
        claims(APP, init=(FIRST,)),
        Room(3000, 300 * MIB, 1),
    ),
    (
        "an init container runs beside sidecars before it",
        claims(APP, init=(PROXY, FIRST)),
        Room(3300, 360 * MIB, 1),
    ),
    (
        "the overhead of the runtime class",
        claims(APP, overhead={"cpu": "250m", "memory": "64Mi"}),
        Room(2250, 364 * MIB, 1),
    ),
    (
        "smaller pod-level requests change nothing",
        claims(APP, resources={"requests": {"cpu": "1"}}),
        Room(2000, 300 * MIB, 1),
    ),
    (
        "larger pod-level requests count",
        claims(APP, resources={"requests": {"cpu": "4"}}),
        Room(4000, 300 * MIB, 1),
    ),
    (
        "a limit without a request is the request",
        claims({"name": "log", "resources": {"limits": {"cpu": "1"}}}, APP),
        Room(3000, 300 * MIB, 1),
    ),
]


@pytest.mark.parametrize(
    ("pod", "room"), [pytest.param(pod, room, id=name) for name, pod, room in NEEDS]
)
def test_the_room_of_a_pod(pod: PodClaims, room: Room) -> None:
    assert pod.needed(TARGETS) == room


TWO = {"app": {"cpu": 3000, "memory": 300 * MIB}, "log": {"cpu": 1000, "memory": 100 * MIB}}

CAPS: list[tuple[str, PodClaims, Targets, Room, Targets | None]] = [
    ("all fits exactly", claims(APP, LOG), {}, Room(4000, 400 * MIB, 1), TWO),
    (
        "CPU is lowered in proportion, and memory stays",
        claims(APP, LOG),
        {},
        Room(2000, 400 * MIB, 1),
        {"app": {"cpu": 1500, "memory": 300 * MIB}, "log": {"cpu": 500, "memory": 100 * MIB}},
    ),
    (
        "a minimum stays",
        claims(APP, LOG),
        {"log": {"cpu": 800}},
        Room(2000, 400 * MIB, 1),
        {"app": {"cpu": 1200, "memory": 300 * MIB}, "log": {"cpu": 800, "memory": 100 * MIB}},
    ),
    (
        "the minimums just fit",
        claims(APP, LOG),
        {"app": {"cpu": 1200}, "log": {"cpu": 800}},
        Room(2000, 400 * MIB, 1),
        {"app": {"cpu": 1200, "memory": 300 * MIB}, "log": {"cpu": 800, "memory": 100 * MIB}},
    ),
    (
        "the minimums don't fit",
        claims(APP, LOG),
        {"app": {"cpu": 1201}, "log": {"cpu": 800}},
        Room(2000, 400 * MIB, 1),
        None,
    ),
    (
        "an init container is too large",
        claims(APP, LOG, init=(FIRST,)),
        {},
        Room(2999, 400 * MIB, 1),
        None,
    ),
    ("no place for another pod", claims(APP, LOG), {}, Room(4000, 400 * MIB, 0), None),
    (
        "the sidecar's request stays",
        claims(APP, LOG, init=(PROXY,)),
        {},
        Room(2300, 460 * MIB, 1),
        {"app": {"cpu": 1500, "memory": 300 * MIB}, "log": {"cpu": 500, "memory": 100 * MIB}},
    ),
    (
        "a scaled sidecar is lowered for an init container beside it",
        claims(APP, init=({**LOG, "restartPolicy": "Always"}, FIRST)),
        {},
        Room(3500, 400 * MIB, 1),
        {"app": {"cpu": 2625, "memory": 300 * MIB}, "log": {"cpu": 500, "memory": 100 * MIB}},
    ),
    (
        "the overhead stays",
        claims(APP, LOG, overhead={"cpu": "1"}),
        {},
        Room(3000, 400 * MIB, 1),
        {"app": {"cpu": 1500, "memory": 300 * MIB}, "log": {"cpu": 500, "memory": 100 * MIB}},
    ),
]


@pytest.mark.parametrize(
    ("pod", "minimums", "room", "want"),
    [pytest.param(*case, id=name) for name, *case in CAPS],
)
def test_capped_targets(
    pod: PodClaims,
    minimums: Mapping[str, Mapping[str, int]],
    room: Room,
    want: Mapping[str, Mapping[str, int]] | None,
) -> None:
    assert pod.capped(TWO, minimums, room) == want


def test_a_template_has_the_claims_and_rules_of_its_pods() -> None:
    given = {
        "containers": [APP],
        "initContainers": [PROXY, FIRST],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "overhead": {"cpu": "100m"},
    }
    shape = shape_of_template(msgspec.convert({"spec": given}, ResourcesTemplate))
    assert claims_of(shape.spec).needed(TARGETS) == Room(3400, 360 * MIB, 1)
    assert shape.rules.node_selector == (("disk", "ssd"),)
    assert [each.key for each in shape.rules.tolerations] == ["gpu"]


def test_a_slim_spec_has_the_same_claims() -> None:
    whole = spec(
        {**APP, "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]},
        init=(PROXY, {**FIRST, "restartPolicy": "Never"}),
        overhead={"cpu": "1"},
        nodeName="n1",
    )
    assert claims_of(slim_spec(whole)) == claims_of(whole)
    assert slim_spec(whole).node_name == ""
