"""Resizes by the rows of kubernetes-resize.md sections 0, 3 and 4, on the simulated kubelet."""

from dataclasses import replace
from typing import Any

import pytest

from kubelet_driver import MIB, Kubelet
from sandbox.kubelet.pod_resources import Totals
from sandbox.kubelet.usage import Constant, Ramp

BOTH = [("PodResizePending", "Deferred"), ("PodResizeInProgress", "")]


def start(kubelet: Kubelet, name: str = "web", **keywords: Any) -> None:
    kubelet.post(name, **keywords)
    kubelet.wait(2)


_POLICY = [("memory", "RestartContainer")]


# 3.1: the two conditions


def test_both_conditions_at_once() -> None:
    kubelet = Kubelet()
    start(kubelet)
    kubelet.post(cpu="300m")
    kubelet.post(cpu="2")
    assert kubelet.resize() == BOTH
    found = kubelet.conditions()
    assert found["PodResizePending"]["observedGeneration"] == 3
    assert found["PodResizeInProgress"]["observedGeneration"] == 2
    kubelet.wait(1)
    assert kubelet.resize() == BOTH[:1]
    assert kubelet.container()["resources"]["requests"]["cpu"] == "300m"


def test_a_revert_clears_pending_and_progress_continues() -> None:
    kubelet = Kubelet()
    start(kubelet)
    kubelet.post(cpu="300m")
    kubelet.post(cpu="2")
    kubelet.post(cpu="300m")
    assert kubelet.resize() == BOTH[1:]
    assert kubelet.node.waiting == ()


def test_a_newer_resize_supersedes_one_in_progress() -> None:
    kubelet = Kubelet()
    start(kubelet)
    kubelet.post(cpu="300m")
    kubelet.wait(0.5)
    kubelet.post(cpu="400m")
    assert kubelet.conditions()["PodResizeInProgress"]["observedGeneration"] == 3
    kubelet.wait(1)
    assert kubelet.resize() == []
    assert kubelet.container()["resources"]["requests"]["cpu"] == "400m"


def test_a_pending_condition_has_the_last_generation_and_the_first_time() -> None:
    kubelet = Kubelet()
    start(kubelet)
    kubelet.post(cpu="2")
    first = kubelet.conditions()["PodResizePending"]
    kubelet.wait(5)
    kubelet.post(cpu="3")
    second = kubelet.conditions()["PodResizePending"]
    assert (first["observedGeneration"], second["observedGeneration"]) == (2, 3)
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    assert second["lastProbeTime"] > first["lastProbeTime"]
    assert kubelet.reasons().count("ResizeDeferred") == 2  # one for each generation


def test_a_changed_reason_is_a_transition() -> None:
    kubelet = Kubelet(memory=Constant(200 * MIB))
    start(kubelet, limits={"memory": "300Mi"})
    kubelet.post(limits={"memory": "150Mi"}, annotations={"resize-delay": "1s"})
    begun = kubelet.conditions()["PodResizeInProgress"]
    kubelet.wait(1)
    failed = kubelet.conditions()["PodResizeInProgress"]
    kubelet.wait(30)
    retried = kubelet.conditions()["PodResizeInProgress"]
    assert (begun["reason"], failed["reason"]) == (None, "Error")
    assert failed["lastTransitionTime"] > begun["lastTransitionTime"]
    assert retried["lastTransitionTime"] == failed["lastTransitionTime"]
    assert retried["observedGeneration"] == 2


def test_an_admitted_resize_drops_an_older_error() -> None:
    kubelet = Kubelet(memory=Constant(200 * MIB))
    start(kubelet, limits={"memory": "300Mi"})
    kubelet.post(limits={"memory": "150Mi"})
    kubelet.wait(2)
    assert kubelet.resize() == [("PodResizeInProgress", "Error")]
    kubelet.post(limits={"memory": "300Mi"})  # reverted
    assert kubelet.resize() == [("PodResizeInProgress", "")]
    kubelet.wait(1)
    assert kubelet.resize() == []


@pytest.mark.parametrize(("minor", "want"), [(33, None), (34, 2), (35, 2), (36, 2)])
def test_conditions_carry_generations_from_1_34_on(minor: int, want: int | None) -> None:
    kubelet = Kubelet(minor=minor)
    start(kubelet, annotations={"resize": "deferred"})
    kubelet.post(cpu="2", annotations={"resize": "deferred"})
    assert kubelet.conditions()["PodResizePending"].get("observedGeneration") == want


@pytest.mark.parametrize(
    ("minor", "want"),
    [(33, []), (34, []), (35, ["ResizeDeferred"]), (36, ["ResizeDeferred"])],
)
def test_events_of_resizes_by_version(minor: int, want: list[str]) -> None:
    kubelet = Kubelet(minor=minor)
    start(kubelet, "other", cpu="500m")
    start(kubelet)
    kubelet.post(cpu="600m")
    assert kubelet.resize() == BOTH[:1]
    assert [one for one in kubelet.reasons() if one.startswith("Resize")] == want


# 3.3: the queue of deferred resizes


def test_a_resize_that_does_not_fit_does_not_block_others() -> None:
    kubelet = Kubelet()
    for name in ("large", "small", "other"):
        kubelet.post(name, cpu="300m", priority=10 if name == "large" else 0)
    kubelet.wait(2)
    kubelet.post("large", cpu="900m", priority=10)
    kubelet.post("small", cpu="420m")
    kubelet.node.forget("uid-other", kubelet.now)
    assert kubelet.node.waiting == ("large",)
    kubelet.wait(1)
    assert kubelet.container("small")["resources"]["requests"]["cpu"] == "420m"


def test_cpu_and_memory_are_admitted_together_or_not_at_all() -> None:
    kubelet = Kubelet()
    start(kubelet, "other", memory="600Mi")
    start(kubelet)
    kubelet.post(cpu="200m", memory="500Mi")
    assert kubelet.resize() == BOTH[:1]
    assert kubelet.container()["allocatedResources"] == {"cpu": "100m", "memory": "100Mi"}


# 3.5: RestartContainer


def test_the_exit_of_a_restart_is_not_an_oom_kill() -> None:
    kubelet = Kubelet()
    start(kubelet, policy=_POLICY)
    kubelet.post(memory="200Mi", policy=_POLICY)
    kubelet.wait(2)
    ended = kubelet.container()["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert kubelet.container()["restartCount"] == 1
    notices = kubelet.node.pods["uid-web"].notices
    assert "Container app resize requires restart" in [one.message for one in notices]


def test_a_restarted_pod_is_unready_until_its_probe_succeeds() -> None:
    keywords: dict[str, Any] = {"policy": _POLICY, "readinessProbe": {"initialDelaySeconds": 5}}
    kubelet = Kubelet()
    kubelet.post(**keywords)
    kubelet.wait(10)
    kubelet.post(memory="200Mi", **keywords)
    kubelet.wait(3)
    assert kubelet.conditions()["Ready"]["status"] == "False"
    kubelet.wait(5)
    assert kubelet.conditions()["Ready"]["status"] == "True"


# 4: lowered memory


def test_a_decrease_counts_only_after_its_actuation() -> None:
    kubelet = Kubelet(memory=Ramp(start=200 * MIB, end=10 * MIB, after=30, over=1))
    start(kubelet, "hog", memory="600Mi", limits={"memory": "600Mi"})
    start(kubelet, "web", memory="300Mi")
    kubelet.post("hog", memory="100Mi", limits={"memory": "100Mi"})
    kubelet.wait(5)
    assert kubelet.resize("hog") == [("PodResizeInProgress", "Error")]
    kubelet.post("web", memory="800Mi")
    assert kubelet.resize("web") == BOTH[:1]
    kubelet.wait(60)
    assert kubelet.resize("hog") == kubelet.resize("web") == []


# Ends, restarts and changed nodes during a resize


def test_a_pod_that_is_deleted_during_a_resize_ends() -> None:
    kubelet = Kubelet()
    start(kubelet)
    kubelet.post(cpu="2")
    kubelet.post(cpu="2", deleting=True)
    kubelet.wait(3)
    assert kubelet.gone()
    assert kubelet.resize() == []
    assert kubelet.node.waiting == ()


def test_a_pod_that_ends_loses_both_conditions_and_is_no_longer_resized() -> None:
    kubelet = Kubelet()
    start(kubelet, restart_policy="Never")
    kubelet.post(cpu="300m", restart_policy="Never")
    kubelet.post(cpu="2", restart_policy="Never")
    assert kubelet.resize() == BOTH
    kubelet.exit(0)
    assert kubelet.status()["phase"] == "Succeeded"
    assert kubelet.resize() == []
    kubelet.post(cpu="200m", restart_policy="Never")
    kubelet.wait(5)
    assert kubelet.resize() == []
    assert kubelet.container()["allocatedResources"]["cpu"] == "300m"


def test_a_container_in_a_crash_loop_is_resized_with_its_next_run() -> None:
    kubelet = Kubelet()
    start(kubelet)
    for _ in range(2):
        kubelet.wait(2)
        kubelet.exit(1)
    assert kubelet.container()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    kubelet.post(cpu="300m")
    kubelet.wait(1)
    assert kubelet.resize() == []  # no running container is affected
    assert kubelet.container()["allocatedResources"]["cpu"] == "300m"
    kubelet.wait(60)
    assert kubelet.container()["resources"]["requests"]["cpu"] == "300m"


@pytest.mark.parametrize(("minor", "want"), [(35, "Infeasible"), (36, "Deferred")])
def test_a_node_that_shrank_refuses_decreases_too(minor: int, want: str) -> None:
    kubelet = Kubelet(minor=minor)
    start(kubelet, cpu="800m")
    kubelet.node.shape = replace(kubelet.node.shape, capacity=Totals(500, 1000 * MIB))
    assert kubelet.status()["phase"] == "Running"
    kubelet.post(cpu="600m")
    assert kubelet.resize() == [("PodResizePending", want)]
    kubelet.post(cpu="400m")
    kubelet.wait(1)
    assert kubelet.resize() == []
