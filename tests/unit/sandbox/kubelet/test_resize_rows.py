"""Resizes, row by row: kubernetes-resize.md sections 0, 3 and 4 on the simulated kubelet."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kubelet_driver import BEGIN, MIB, Kubelet
from sandbox.kubelet.allocation import Waiting, retry_order
from sandbox.kubelet.pod_resources import Totals
from sandbox.kubelet.usage import Constant, Ramp, Runs

GUARANTEED = {"limits": {"cpu": "100m", "memory": "100Mi"}}
BOTH = [("PodResizePending", "Deferred"), ("PodResizeInProgress", "")]


def started(kubelet: Kubelet, name: str = "web", **keywords: Any) -> None:
    kubelet.post(name, **keywords)
    kubelet.wait(2)


_POLICY = [("memory", "RestartContainer")]


# 3.1: the two conditions


def test_both_conditions_at_once() -> None:
    kubelet = Kubelet()
    started(kubelet)
    kubelet.post(cpu="300m")
    kubelet.post(cpu="2")
    assert kubelet.resize() == BOTH
    found = kubelet.conditions()
    assert found["PodResizePending"]["observedGeneration"] == 3
    assert found["PodResizeInProgress"]["observedGeneration"] == 2
    kubelet.wait(1)
    assert kubelet.resize() == BOTH[:1]
    assert kubelet.container()["resources"]["requests"]["cpu"] == "300m"


def test_a_revert_clears_pending_and_lets_progress_go_on() -> None:
    kubelet = Kubelet()
    started(kubelet)
    kubelet.post(cpu="300m")
    kubelet.post(cpu="2")
    kubelet.post(cpu="300m")
    assert kubelet.resize() == BOTH[1:]
    assert kubelet.node.waiting == ()


def test_a_newer_resize_supersedes_one_in_progress() -> None:
    kubelet = Kubelet()
    started(kubelet)
    kubelet.post(cpu="300m")
    kubelet.wait(0.5)
    kubelet.post(cpu="400m")
    assert kubelet.conditions()["PodResizeInProgress"]["observedGeneration"] == 3
    kubelet.wait(1)
    assert kubelet.resize() == []
    assert kubelet.container()["resources"]["requests"]["cpu"] == "400m"


def test_the_pending_generation_is_that_of_the_last_attempt_and_the_time_stays() -> None:
    kubelet = Kubelet()
    started(kubelet)
    kubelet.post(cpu="2")
    first = kubelet.conditions()["PodResizePending"]
    kubelet.wait(5)
    kubelet.post(cpu="3")
    second = kubelet.conditions()["PodResizePending"]
    assert (first["observedGeneration"], second["observedGeneration"]) == (2, 3)
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    assert second["lastProbeTime"] > first["lastProbeTime"]
    assert kubelet.reasons().count("ResizeDeferred") == 2  # one for each generation


def test_a_reason_that_changes_is_a_transition() -> None:
    kubelet = Kubelet(memory=Constant(200 * MIB))
    started(kubelet, limits={"memory": "300Mi"})
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
    started(kubelet, limits={"memory": "300Mi"})
    kubelet.post(limits={"memory": "150Mi"})
    kubelet.wait(2)
    assert kubelet.resize() == [("PodResizeInProgress", "Error")]
    kubelet.post(limits={"memory": "300Mi"})  # changed back
    assert kubelet.resize() == [("PodResizeInProgress", "")]
    kubelet.wait(1)
    assert kubelet.resize() == []


@pytest.mark.parametrize(("minor", "want"), [(33, None), (34, 2), (35, 2), (36, 2)])
def test_conditions_carry_generations_from_1_34_on(minor: int, want: int | None) -> None:
    kubelet = Kubelet(minor=minor)
    started(kubelet, annotations={"resize": "deferred"})
    kubelet.post(cpu="2", annotations={"resize": "deferred"})
    assert kubelet.conditions()["PodResizePending"].get("observedGeneration") == want


@pytest.mark.parametrize(
    ("minor", "want"),
    [(33, []), (34, []), (35, ["ResizeDeferred"]), (36, ["ResizeDeferred"])],
)
def test_events_of_resizes_by_version(minor: int, want: list[str]) -> None:
    kubelet = Kubelet(minor=minor)
    started(kubelet, "other", cpu="500m")
    started(kubelet)
    kubelet.post(cpu="600m")
    assert kubelet.resize() == BOTH[:1]
    assert [one for one in kubelet.reasons() if one.startswith("Resize")] == want


# 3.2: reported values


# 3.3: the queue of deferred resizes


def test_the_order_of_retries_has_four_levels() -> None:
    usual = Waiting(
        wanted=Totals(200, 100),
        allocated=Totals(100, 100),
        priority=0,
        guaranteed=False,
        since=BEGIN + timedelta(seconds=9),
    )
    best_first = [
        replace(usual, wanted=Totals(100, 50)),  # raises no total
        replace(usual, priority=1),
        replace(usual, guaranteed=True),
        replace(usual, since=BEGIN),
        usual,
        replace(usual, since=None),  # has not waited yet
    ]
    latest = BEGIN + timedelta(seconds=60)
    mixed = [best_first[place] for place in (3, 0, 5, 1, 4, 2)]
    assert sorted(mixed, key=lambda one: retry_order(one, latest)) == best_first


def test_a_blocked_head_does_not_block_the_rest() -> None:
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


def test_both_resources_are_granted_together_or_not_at_all() -> None:
    kubelet = Kubelet()
    started(kubelet, "other", memory="600Mi")
    started(kubelet)
    kubelet.post(cpu="200m", memory="500Mi")
    assert kubelet.resize() == BOTH[:1]
    assert kubelet.container()["allocatedResources"] == {"cpu": "100m", "memory": "100Mi"}


# 3.5: RestartContainer


@pytest.mark.parametrize("code", ["143", "137"])
def test_the_exit_of_a_restart_is_no_oom_kill(code: str) -> None:
    keywords: dict[str, Any] = {"policy": _POLICY, "annotations": {"exit-code": code}}
    kubelet = Kubelet()
    started(kubelet, **keywords)
    kubelet.post(memory="200Mi", **keywords)
    kubelet.wait(2)
    ended = kubelet.container()["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (int(code), "Error")
    assert kubelet.container()["restartCount"] == 1
    notices = kubelet.node.pods["uid-web"].notices
    assert "Container app resize requires restart" in [one.message for one in notices]


def test_a_restart_makes_the_pod_unready_until_its_probe() -> None:
    keywords: dict[str, Any] = {"policy": _POLICY, "readinessProbe": {"initialDelaySeconds": 5}}
    kubelet = Kubelet()
    kubelet.post(**keywords)
    kubelet.wait(10)
    kubelet.post(memory="200Mi", **keywords)
    kubelet.wait(3)
    assert kubelet.conditions()["Ready"]["status"] == "False"
    kubelet.wait(5)
    assert kubelet.conditions()["Ready"]["status"] == "True"


# 4: memory that is taken away


def test_a_1_33_node_looks_at_the_usage_of_the_pod_only() -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always"}  # no limit: the pod has none either
    for minor, want in ((33, []), (34, [("PodResizeInProgress", "Error")])):
        kubelet = Kubelet(minor=minor, memory=Runs((Constant(200 * MIB), Constant(1))))
        started(kubelet, limits={"memory": "300Mi"}, init=[sidecar])
        run = kubelet.node.pods["uid-web"]
        kubelet.post(limits={"memory": "150Mi"}, init=[sidecar])
        kubelet.node.advance(run.uid, kubelet.now + timedelta(seconds=1))
        assert kubelet.resize() == want


def test_what_is_lowered_counts_until_it_is_lowered_really() -> None:
    kubelet = Kubelet(memory=Ramp(start=200 * MIB, end=10 * MIB, after=30, over=1))
    started(kubelet, "hog", memory="600Mi", limits={"memory": "600Mi"})
    started(kubelet, "web", memory="300Mi")
    kubelet.post("hog", memory="100Mi", limits={"memory": "100Mi"})
    kubelet.wait(5)
    assert kubelet.resize("hog") == [("PodResizeInProgress", "Error")]
    kubelet.post("web", memory="800Mi")
    assert kubelet.resize("web") == BOTH[:1]
    kubelet.wait(60)
    assert kubelet.resize("hog") == kubelet.resize("web") == []


# Ends, restarts and nodes in the middle of a resize


def test_a_pod_deleted_in_the_middle_ends_as_any_other() -> None:
    kubelet = Kubelet()
    started(kubelet)
    kubelet.post(cpu="2")
    kubelet.post(cpu="2", deleting=True)
    kubelet.wait(3)
    assert kubelet.gone()
    assert kubelet.resize() == []
    assert kubelet.node.waiting == ()


def test_a_pod_that_ends_loses_both_conditions_and_is_resized_no_more() -> None:
    keywords: dict[str, Any] = {"restart_policy": "Never", "annotations": {"exit-after": "5s"}}
    kubelet = Kubelet()
    started(kubelet, **keywords)
    kubelet.post(cpu="300m", **keywords)
    kubelet.post(cpu="2", **keywords)
    assert kubelet.resize() == BOTH
    kubelet.wait(5)
    assert kubelet.status()["phase"] == "Succeeded"
    assert kubelet.resize() == []
    kubelet.post(cpu="200m", **keywords)
    kubelet.wait(5)
    assert kubelet.resize() == []
    assert kubelet.container()["allocatedResources"]["cpu"] == "300m"


def test_a_crash_loop_is_resized_with_its_next_run() -> None:
    keywords: dict[str, Any] = {"annotations": {"exit-after": "1s", "exit-code": "1"}}
    kubelet = Kubelet()
    kubelet.post(**keywords)
    while "waiting" not in kubelet.container()["state"] or kubelet.now == BEGIN:
        kubelet.wait(1)
    assert kubelet.container()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    kubelet.post(cpu="300m", **keywords)
    kubelet.wait(1)
    assert kubelet.resize() == []  # nothing that runs is outstanding
    assert kubelet.container()["allocatedResources"]["cpu"] == "300m"
    kubelet.wait(60)
    assert kubelet.container()["resources"]["requests"]["cpu"] == "300m"


@pytest.mark.parametrize(("minor", "want"), [(35, "Infeasible"), (36, "Deferred")])
def test_a_node_that_shrank_refuses_even_less(minor: int, want: str) -> None:
    kubelet = Kubelet(minor=minor)
    started(kubelet, cpu="800m")
    kubelet.node.shape = replace(kubelet.node.shape, capacity=Totals(500, 1000 * MIB))
    assert kubelet.status()["phase"] == "Running"
    kubelet.post(cpu="600m")
    assert kubelet.resize() == [("PodResizePending", want)]
    kubelet.post(cpu="400m")
    kubelet.wait(1)
    assert kubelet.resize() == []
