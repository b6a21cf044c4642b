"""The changes of an update, as Events and logs describe them."""

from typing import Any

import msgspec
import pytest

from common.api.core import Pod
from common.patches import Operation, add, remove
from common.quantity import Quantity
from common.recommendation.resource_changes import (
    ResourceChange,
    patch_changes,
    request_changes,
    summary,
)
from common.resources import ResourceQuantities


def amounts(**texts: str) -> ResourceQuantities:
    return {name: Quantity.parse(text) for name, text in texts.items()}


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        pytest.param(amounts(cpu="1"), amounts(cpu="1000m"), "", id="equal by value"),
        pytest.param(
            amounts(cpu="100m", memory="64Mi"),
            amounts(memory="1Gi", cpu="250m"),
            "app cpu 100m -> 250m, memory 64Mi -> 1Gi",
            id="cpu before memory",
        ),
        pytest.param({}, amounts(cpu="1"), "app cpu none -> 1", id="no request yet"),
        pytest.param(amounts(cpu="1", memory="1Gi"), amounts(cpu="2"), "app cpu 1 -> 2", id="one"),
    ],
)
def test_requests_and_targets(
    present: ResourceQuantities, wanted: ResourceQuantities, expected: str
) -> None:
    assert summary(request_changes({"app": present}, {"app": wanted})) == expected


POD = {
    "containers": [
        {"name": "app", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 1}}},
        {"name": "side"},
    ],
    "initContainers": [{"name": "proxy", "resources": {"requests": {"cpu": "5m"}}}],
    "resources": {"requests": {"memory": "1Gi"}},
}
APP = "/spec/containers/0/resources"


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([add(f"{APP}/requests/cpu", "250m")], "app cpu 100m -> 250m", id="a request"),
        pytest.param([add(f"{APP}/limits/cpu", "2")], "app cpu limit 1 -> 2", id="a limit"),
        pytest.param([add(f"{APP}/limits/cpu", "1000m")], "", id="equal by value"),
        pytest.param(
            [
                add("/spec/containers/1/resources", {}),
                add("/spec/containers/1/resources/requests", {}),
                add("/spec/containers/1/resources/requests/memory", "64Mi"),
            ],
            "side memory none -> 64Mi",
            id="a container without resources",
        ),
        pytest.param(
            [add("/spec/initContainers/0/resources/requests/cpu", "9m")],
            "proxy cpu 5m -> 9m",
            id="a native sidecar",
        ),
        pytest.param(
            [add("/spec/resources/requests/memory", "2Gi")],
            "pod memory 1Gi -> 2Gi",
            id="the pod as a whole",
        ),
        pytest.param(
            [add(f"{APP}/requests/example.com~1gpu", "2")],
            "app example.com/gpu none -> 2",
            id="an escaped name",
        ),
        pytest.param(
            [add("/metadata/annotations/a", "b"), remove("/metadata/annotations/c")],
            "",
            id="annotations",
        ),
    ],
)
def test_patches(operations: list[Operation], expected: str) -> None:
    raw: Any = {"metadata": {"name": "web-0"}, "spec": POD}
    pod = msgspec.convert(raw, Pod)
    assert summary(patch_changes(pod, operations)) == expected


def test_containers_are_separated_by_semicolons_and_the_text_is_bounded() -> None:
    few = [ResourceChange("app", "cpu", "1", "2"), ResourceChange("app", "memory", "1", "2")]
    assert summary([*few, ResourceChange("side", "cpu", "1", "2")]) == (
        "app cpu 1 -> 2, memory 1 -> 2; side cpu 1 -> 2"
    )
    many = summary([ResourceChange(f"container-{n}", "cpu", "1", "2") for n in range(100)])
    assert len(many) < 450
    assert many.endswith(" more")
