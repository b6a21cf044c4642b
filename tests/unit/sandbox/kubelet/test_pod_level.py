"""Resizes of pods with a block of their own, as from 1.36 on: kubernetes-resize.md 0, 3.2, 3.5."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kubelet_driver import MIB, Kubelet, merged, pod
from sandbox.kubelet.pod_resources import Totals
from sandbox.kubelet.usage import Constant
from sandbox.kubelet.wire import RunnablePod

RESTARTS = [("memory", "RestartContainer")]


def block(cpu: str, memory: str = "300Mi") -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": "200Mi"}, "limits": {"memory": memory}}


def started(kubelet: Kubelet, **keywords: Any) -> None:
    kubelet.post(**keywords)
    kubelet.wait(2)


def told(kubelet: Kubelet) -> tuple[str, str]:
    """CPU requests of the pod as a whole: actual, and allocated."""
    status = kubelet.status()
    return status["resources"]["requests"]["cpu"], status["allocatedResources"]["cpu"]


def test_a_block_is_allocated_first_and_actual_later() -> None:
    kubelet = Kubelet()
    started(kubelet, whole=block("300m"))
    assert told(kubelet) == ("300m", "300m")
    kubelet.post(whole=block("500m"))
    assert kubelet.resize() == [("PodResizeInProgress", "")]
    assert told(kubelet) == ("300m", "500m")
    kubelet.wait(1)
    assert kubelet.resize() == []
    assert told(kubelet) == ("500m", "500m")
    assert kubelet.container()["restartCount"] == 0


def test_a_block_counts_on_its_node_until_it_is_lowered_really() -> None:
    kubelet = Kubelet()
    started(kubelet, whole=block("600m"))
    kubelet.post(whole=block("200m"))
    run = kubelet.node.pods["uid-web"]
    assert run.occupied == Totals(600, 200 * MIB)
    kubelet.wait(1)
    assert run.occupied == Totals(200, 200 * MIB)


def test_a_block_that_does_not_fit_is_deferred() -> None:
    kubelet = Kubelet()
    started(kubelet, whole=block("300m"))
    kubelet.post(whole=block("1200m"))
    assert kubelet.resize() == [("PodResizePending", "Deferred")]
    assert told(kubelet) == ("300m", "300m")


def test_the_memory_limit_of_a_block_is_not_lowered_below_usage() -> None:
    kubelet = Kubelet(memory=Constant(200 * MIB))
    started(kubelet, whole=block("300m"))
    kubelet.post(whole=block("300m", memory="150Mi"))
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
        pytest.param(RESTARTS, {}, block("300m", "400Mi"), 1, id="inherited, and asked for"),
        pytest.param([], {}, block("300m", "400Mi"), 0, id="inherited, and not asked for"),
        pytest.param(RESTARTS, {"memory": "200Mi"}, block("300m", "400Mi"), 0, id="not inherited"),
        pytest.param(RESTARTS, {}, block("500m"), 0, id="a limit that doesn't change"),
    ],
)
def test_a_limit_of_the_block_restarts_a_container_where_it_is(
    policy: list[tuple[str, str]], limits: dict[str, str], change: dict[str, Any], want: int
) -> None:
    kubelet = Kubelet()
    started(kubelet, whole=block("300m"), policy=policy, limits=limits)
    kubelet.post(whole=change, policy=policy, limits=limits)
    kubelet.wait(3)
    assert kubelet.container()["restartCount"] == want
    assert kubelet.resize() == []
    assert kubelet.status()["resources"] == change


def test_a_new_kubelet_knows_the_block_of_the_old_one() -> None:
    kubelet = Kubelet()
    started(kubelet, whole=block("300m"))
    raw = pod("web", generation=1, whole=block("300m"))
    later = Kubelet()
    later.now = kubelet.now + timedelta(minutes=5)
    found = {**raw, "status": merged(kubelet.status())}
    later.node.observe(msgspec.convert(found, RunnablePod, strict=False), later.now, new_ip="")
    later.settle()
    assert later.resize() == []
    assert told(later) == ("300m", "300m")
    later.objects["web"] = raw
    later.post(whole=block("400m"))
    later.wait(1)
    assert told(later) == ("400m", "400m")
