"""Requests of a pod, its QoS class, and what a resize changes."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from sandbox.kubelet.pod_resources import (
    WHOLE_POD,
    Totals,
    changed,
    desired,
    qos_class,
    same,
    total_requests,
)
from sandbox.kubelet.wire import RunnablePodSpec

MIB = 1024 * 1024


def container(
    name: str = "app",
    *,
    cpu: str = "",
    memory: str = "",
    limits: dict[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    return {"name": name, "resources": {"requests": requests, "limits": limits or {}}, **more}


def spec(*containers: dict[str, Any], **more: Any) -> RunnablePodSpec:
    return msgspec.convert({"containers": containers, **more}, RunnablePodSpec)


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    spec: RunnablePodSpec
    want: Totals


ONE = container(cpu="100m", memory="10Mi")
SIDECAR = container("proxy", cpu="50m", memory="5Mi", restartPolicy="Always")
CASES = [
    Case(id="containers add up", spec=spec(ONE, ONE), want=Totals(200, 20 * MIB)),
    Case(id="nothing said", spec=spec(container()), want=Totals(0, 0)),
    Case(
        id="a limit stands for the request",
        spec=spec(container(limits={"cpu": "1", "memory": "1Mi"})),
        want=Totals(1000, MIB),
    ),
    Case(
        id="a large init container counts instead",
        spec=spec(ONE, initContainers=[container("init", cpu="1")]),
        want=Totals(1000, 10 * MIB),
    ),
    Case(
        id="a small init container doesn't count",
        spec=spec(ONE, initContainers=[container("init", cpu="50m")]),
        want=Totals(100, 10 * MIB),
    ),
    Case(
        id="sidecars add up",
        spec=spec(ONE, initContainers=[SIDECAR]),
        want=Totals(150, 15 * MIB),
    ),
    Case(
        id="an init container beside the sidecar before it",
        spec=spec(ONE, initContainers=[SIDECAR, container("init", cpu="200m")]),
        want=Totals(250, 15 * MIB),
    ),
    Case(
        id="an init container before the sidecar",
        spec=spec(ONE, initContainers=[container("init", cpu="200m"), SIDECAR]),
        want=Totals(200, 15 * MIB),
    ),
    Case(
        id="the pod's own block decides",
        spec=spec(ONE, resources={"requests": {"cpu": "3"}}),
        want=Totals(3000, 10 * MIB),
    ),
    Case(
        id="overhead",
        spec=spec(ONE, overhead={"cpu": "10m", "memory": "1Mi"}),
        want=Totals(110, 11 * MIB),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_total_requests(case: Case) -> None:
    assert total_requests(case.spec) == case.want


FULL = {"cpu": "100m", "memory": "10Mi"}
CLASSES = [
    ("none at all", spec(container()), "BestEffort"),
    ("a request", spec(container(cpu="1m")), "Burstable"),
    ("a limit alone", spec(container(limits={"cpu": "1"})), "Burstable"),
    ("requests equal limits", spec(container(cpu="0.1", memory="10Mi", limits=FULL)), "Guaranteed"),
    ("limits alone", spec(container(limits=FULL)), "Guaranteed"),
    ("a request below its limit", spec(container(cpu="99m", limits=FULL)), "Burstable"),
    ("one container of two", spec(container(limits=FULL), container("b")), "Burstable"),
    (
        "init containers count",
        spec(container(limits=FULL), initContainers=[container("init")]),
        "Burstable",
    ),
]


@pytest.mark.parametrize(("pod", "want"), [row[1:] for row in CLASSES], ids=[r[0] for r in CLASSES])
def test_qos_class(pod: RunnablePodSpec, want: str) -> None:
    assert qos_class(pod) == want


def test_spelling_makes_no_difference() -> None:
    one = spec(container(cpu="0.1", memory="1024Ki")).containers[0].wanted
    other = spec(container(cpu="100m", memory="1Mi")).containers[0].wanted
    assert same(one, other)
    assert not changed(one, other)


def test_a_limit_that_appears_is_a_change() -> None:
    one = spec(container(cpu="100m")).containers[0].wanted
    other = spec(container(cpu="100m", limits={"memory": "1Mi"})).containers[0].wanted
    assert not same(one, other)
    assert changed(one, other) == {"memory"}


@pytest.mark.parametrize(
    ("minor", "want"),
    [(35, {"app", "proxy"}), (36, {"app", "proxy", "init"})],
    ids=["plain init containers are fixed before 1.36", "and resizable from 1.36"],
)
def test_what_a_resize_can_change(minor: int, want: set[str]) -> None:
    pod = spec(ONE, initContainers=[SIDECAR, container("init")])
    assert set(desired(pod, minor=minor)) == want


def test_the_pod_level_block_stands_beside_the_containers() -> None:
    pod = spec(ONE, resources={"requests": {"cpu": "3"}})
    assert set(desired(pod, minor=36)) == {"app", WHOLE_POD}
