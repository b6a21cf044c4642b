"""Requests of a pod, its QoS class, and the changes of a resize."""

from typing import Any

import msgspec
import pytest

from sandbox.kubelet.pod_resources import (
    WHOLE_POD,
    Totals,
    changed,
    desired,
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


ONE = container(cpu="100m", memory="10Mi")
SIDECAR = container("proxy", cpu="50m", memory="5Mi", restartPolicy="Always")


def test_granted_resources_replace_those_of_the_spec() -> None:
    pod = spec(ONE, initContainers=[SIDECAR], overhead={"cpu": "10m", "memory": "1Mi"})
    assert total_requests(pod) == Totals(160, 16 * MIB)
    granted = {"app": spec(container(cpu="1", memory="1Mi")).containers[0].wanted}
    assert total_requests(pod, granted) == Totals(1060, 7 * MIB)


def test_the_granted_block_replaces_the_pods_own() -> None:
    pod = spec(ONE, resources={"requests": {"cpu": "3"}})
    assert total_requests(pod) == Totals(3000, 10 * MIB)
    granted = spec(ONE, resources={"requests": {"cpu": "2"}}).resources
    assert granted is not None
    assert total_requests(pod, {WHOLE_POD: granted}) == Totals(2000, 10 * MIB)


def test_amounts_are_compared_by_value() -> None:
    one = spec(container(cpu="0.1", memory="1024Ki")).containers[0].wanted
    other = spec(container(cpu="100m", memory="1Mi")).containers[0].wanted
    assert same(one, other)
    assert not changed(one, other)


def test_an_added_limit_is_a_change() -> None:
    one = spec(container(cpu="100m")).containers[0].wanted
    other = spec(container(cpu="100m", limits={"memory": "1Mi"})).containers[0].wanted
    assert not same(one, other)
    assert changed(one, other) == {"memory"}


@pytest.mark.parametrize(
    ("minor", "want"),
    [(35, {"app", "proxy"}), (36, {"app", "proxy", "init"})],
    ids=["without plain init containers before 1.36", "with plain init containers from 1.36 on"],
)
def test_containers_that_a_resize_can_change(minor: int, want: set[str]) -> None:
    pod = spec(ONE, initContainers=[SIDECAR, container("init")])
    assert set(desired(pod, minor=minor)) == want


def test_pod_level_resources_are_resizable_beside_the_containers() -> None:
    pod = spec(ONE, resources={"requests": {"cpu": "3"}})
    assert set(desired(pod, minor=36)) == {"app", WHOLE_POD}
