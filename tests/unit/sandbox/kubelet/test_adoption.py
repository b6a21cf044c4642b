"""A new kubelet takes over pods by their status: what runs again, and what has ended for good."""

from datetime import timedelta
from typing import Any

import msgspec

from kubelet_driver import Kubelet, merged
from sandbox.kubelet.wire import RunnablePod

INIT = ({"name": "first", "image": "shop:1"},)


def taken_over(kubelet: Kubelet, *, after: float = 60) -> Kubelet:
    """Another kubelet, a while later, that knows of the pod what the API server does."""
    later = Kubelet()
    later.now = kubelet.now + timedelta(seconds=after)
    raw = {**kubelet.objects["web"], "status": merged(kubelet.status())}
    later.node.observe(msgspec.convert(raw, RunnablePod, strict=False), later.now, new_ip="")
    later.settle()
    return later


def crashing(kubelet: Kubelet, **keywords: Any) -> None:
    """A pod in its back-off."""
    kubelet.post(annotations={"exit-after": "1s", "exit-code": "1"}, **keywords)
    while "waiting" not in kubelet.container()["state"] or not kubelet.container()["restartCount"]:
        kubelet.wait(1)


def test_an_init_container_that_has_done_its_work_does_not_run_again() -> None:
    kubelet = Kubelet()
    kubelet.post(init=INIT)
    kubelet.wait(10)
    later = taken_over(kubelet)
    later.wait(10)
    (first,) = later.status()["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 0
    assert (first["restartCount"], first["ready"]) == (0, True)
    assert later.conditions()["Ready"]["status"] == "True"


def test_a_container_in_its_back_off_runs_again() -> None:
    kubelet = Kubelet()
    crashing(kubelet)
    before = kubelet.container()
    later = taken_over(kubelet)
    later.wait(0.5)
    after = later.container()
    assert "running" in after["state"]
    assert after["restartCount"] == before["restartCount"] + 1
    assert after["lastState"] == before["lastState"]


def test_a_container_that_is_done_stays_so_where_the_policy_says() -> None:
    kubelet = Kubelet()
    sidecar = {"name": "proxy", "image": "shop:1", "restartPolicy": "Always"}
    kubelet.post(restart_policy="OnFailure", annotations={"exit-after": "1s"}, init=(sidecar,))
    kubelet.wait(1)
    assert kubelet.status()["phase"] == "Running"
    status = merged(kubelet.status())
    kubelet.wait(5)
    done = merged(kubelet.status())
    done["phase"] = status["phase"]  # the pod itself goes on, as with a second container
    later = Kubelet()
    later.now = kubelet.now
    raw = {**kubelet.objects["web"], "status": done}
    later.node.observe(msgspec.convert(raw, RunnablePod, strict=False), later.now, new_ip="")
    later.settle()
    later.wait(30)
    assert later.container()["state"]["terminated"]["exitCode"] == 0
    assert later.container()["restartCount"] == 0
