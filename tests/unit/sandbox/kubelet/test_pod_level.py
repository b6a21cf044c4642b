"""Resizes of pods with pod-level resources, from 1.36 on: kubernetes-resize.md 0, 3.2, 3.5."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kubelet_driver import MIB, Kubelet, merged, pod
from sandbox.kubelet.pod_resources import Totals
from sandbox.kubelet.usage import Constant
from sandbox.kubelet.wire import RunnablePod

RESTARTS = [("memory", "RestartContainer")]


def pod_level_resources(cpu: str, memory: str = "300Mi") -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": "200Mi"}, "limits": {"memory": memory}}


def start(kubelet: Kubelet, **keywords: Any) -> None:
    kubelet.post(**keywords)
    kubelet.wait(2)


def pod_level_cpu(kubelet: Kubelet) -> tuple[str, str]:
    """Return the actual and the allocated pod-level CPU request."""
    status = kubelet.status()
    return status["resources"]["requests"]["cpu"], status["allocatedResources"]["cpu"]


def test_pod_level_resources_are_allocated_first_and_actuated_later() -> None:
    kubelet = Kubelet()
    start(kubelet, whole=pod_level_resources("300m"))
    assert pod_level_cpu(kubelet) == ("300m", "300m")
    kubelet.post(whole=pod_level_resources("500m"))
    assert kubelet.resize() == [("PodResizeInProgress", "")]
    assert pod_level_cpu(kubelet) == ("300m", "500m")
    kubelet.wait(1)
    assert kubelet.resize() == []
    assert pod_level_cpu(kubelet) == ("500m", "500m")
    assert kubelet.container()["restartCount"] == 0


def test_pod_level_resources_count_on_the_node_until_the_decrease_is_actuated() -> None:
    kubelet = Kubelet()
    start(kubelet, whole=pod_level_resources("600m"))
    kubelet.post(whole=pod_level_resources("200m"))
    run = kubelet.node.pods["uid-web"]
    assert run.occupied == Totals(600, 200 * MIB)
    kubelet.wait(1)
    assert run.occupied == Totals(200, 200 * MIB)


def test_pod_level_resources_that_do_not_fit_are_deferred() -> None:
    kubelet = Kubelet()
    start(kubelet, whole=pod_level_resources("300m"))
    kubelet.post(whole=pod_level_resources("1200m"))
    assert kubelet.resize() == [("PodResizePending", "Deferred")]
    assert pod_level_cpu(kubelet) == ("300m", "300m")


def test_a_pod_level_memory_limit_is_not_lowered_below_usage() -> None:
    kubelet = Kubelet(memory=Constant(200 * MIB))
    start(kubelet, whole=pod_level_resources("300m"))
    kubelet.post(whole=pod_level_resources("300m", memory="150Mi"))
    kubelet.wait(1)
    assert kubelet.resize() == [("PodResizeInProgress", "Error")]
    assert kubelet.conditions()["PodResizeInProgress"]["message"] == (
        "cannot decrease memory limits: attempting to set pod memory limit "
        f"({150 * MIB}) below current usage ({200 * MIB})"
    )
    assert kubelet.status()["resources"]["limits"]["memory"] == "300Mi"


@pytest.mark.parametrize(
    ("policy", "limits", "change", "want"),
    [
        pytest.param(
            RESTARTS,
            {},
            pod_level_resources("300m", "400Mi"),
            1,
            id="inherited, with restart policy",
        ),
        pytest.param(
            [], {}, pod_level_resources("300m", "400Mi"), 0, id="inherited, without restart policy"
        ),
        pytest.param(
            RESTARTS,
            {"memory": "200Mi"},
            pod_level_resources("300m", "400Mi"),
            0,
            id="not inherited",
        ),
        pytest.param(RESTARTS, {}, pod_level_resources("500m"), 0, id="unchanged limit"),
    ],
)
def test_a_changed_pod_level_limit_restarts_containers_that_inherit_it(
    policy: list[tuple[str, str]], limits: dict[str, str], change: dict[str, Any], want: int
) -> None:
    kubelet = Kubelet()
    start(kubelet, whole=pod_level_resources("300m"), policy=policy, limits=limits)
    kubelet.post(whole=change, policy=policy, limits=limits)
    kubelet.wait(3)
    assert kubelet.container()["restartCount"] == want
    assert kubelet.resize() == []
    assert kubelet.status()["resources"] == change


def test_a_new_kubelet_reads_pod_level_resources_from_the_status() -> None:
    kubelet = Kubelet()
    start(kubelet, whole=pod_level_resources("300m"))
    raw = pod("web", generation=1, whole=pod_level_resources("300m"))
    later = Kubelet()
    later.now = kubelet.now + timedelta(minutes=5)
    found = {**raw, "status": merged(kubelet.status())}
    later.node.observe(msgspec.convert(found, RunnablePod, strict=False), later.now, new_ip="")
    later.settle()
    assert later.resize() == []
    assert pod_level_cpu(later) == ("300m", "300m")
    later.objects["web"] = raw
    later.post(whole=pod_level_resources("400m"))
    later.wait(1)
    assert pod_level_cpu(later) == ("400m", "400m")
