"""A critical pod that doesn't fit: kubernetes-resize.md 4, and the kubelet's own preemption."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from kubelet_driver import Kubelet

CRITICAL = 2_000_000_000
NODE_CRITICAL = CRITICAL + 1000
MESSAGE = "Preempted in order to admit critical pod"


def guaranteed(cpu: str) -> dict[str, Any]:
    return {"cpu": cpu, "memory": "100Mi", "limits": {"cpu": cpu, "memory": "100Mi"}}


BEST_EFFORT: dict[str, Any] = {"resources": {}}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A node of 1000m and 1000Mi with pods on it, and a critical one that arrives."""

    id: str
    there: dict[str, dict[str, Any]]
    wants: dict[str, Any] = field(default_factory=lambda: {"cpu": "500m"})
    pods: int = 9
    gone: set[str]


CASES = [
    Case(id="it fits", there={"a": {"cpu": "500m"}}, gone=set()),
    Case(
        id="the one that is enough alone",
        there={"a": {"cpu": "200m"}, "b": {"cpu": "500m"}, "c": {"cpu": "300m"}},
        gone={"b"},
    ),
    Case(
        id="of those that are enough the one that requests less",
        there={"a": {"cpu": "550m"}, "b": {"cpu": "450m"}},
        wants={"cpu": "300m"},
        gone={"b"},
    ),
    Case(
        id="several, where none is enough alone",
        there={"a": {"cpu": "300m"}, "b": {"cpu": "300m"}, "c": {"cpu": "300m"}},
        wants={"cpu": "600m"},
        gone={"a", "b"},
    ),
    Case(
        id="a Burstable one before a Guaranteed one",
        there={"a": guaranteed("500m"), "b": {"cpu": "500m"}},
        gone={"b"},
    ),
    Case(
        id="a Guaranteed one, where the others are not enough",
        there={"a": guaranteed("600m"), "b": {"cpu": "300m"}},
        wants={"cpu": "700m"},
        gone={"a"},
    ),
    Case(
        id="one without requests, where the number of pods is the limit",
        there={"a": {"cpu": "100m"}, "b": BEST_EFFORT},
        pods=2,
        gone={"b"},
    ),
    Case(
        id="no critical one of the same priority",
        there={"a": {"cpu": "900m", "priority": CRITICAL}, "b": {"cpu": "100m"}},
        wants={"cpu": "100m"},
        gone={"b"},
    ),
    Case(
        id="for a node's critical pod also a cluster's",
        there={"a": {"cpu": "1000m", "priority": CRITICAL}},
        wants={"cpu": "100m", "priority": NODE_CRITICAL},
        gone={"a"},
    ),
    Case(
        id="each resource weighs the same",
        there={"a": {"cpu": "500m", "memory": "10Mi"}, "b": {"cpu": "400m", "memory": "900Mi"}},
        wants={"cpu": "400m", "memory": "400Mi"},
        gone={"b"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_who_goes(case: Case) -> None:
    kubelet = Kubelet(pods=case.pods)
    for name, keywords in case.there.items():
        kubelet.post(name, **keywords)
    kubelet.wait(2)
    kubelet.post("critical", **{"priority": CRITICAL, **case.wants})
    kubelet.wait(2)
    assert kubelet.status("critical")["phase"] == "Running"
    failed = {name for name in case.there if kubelet.status(name)["phase"] == "Failed"}
    assert failed == case.gone


def test_what_is_told_of_a_pod_that_had_to_go() -> None:
    kubelet = Kubelet()
    kubelet.post("web", cpu="800m")
    kubelet.wait(2)
    kubelet.post("critical", cpu="500m", priority=CRITICAL)
    status = kubelet.status()
    assert (status["phase"], status["reason"], status["message"]) == (
        "Failed",
        "Preempting",
        MESSAGE,
    )
    condition = kubelet.conditions()["DisruptionTarget"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True",
        "TerminationByKubelet",
        MESSAGE,
    )
    assert kubelet.container()["state"]["terminated"]["exitCode"] == 143
    assert kubelet.reasons()[-2:] == ["Preempting", "Killing"]
    kubelet.wait(60)
    assert kubelet.container()["restartCount"] == 0, "it stays as it is until it is deleted"


def test_nobody_goes_where_that_would_not_help() -> None:
    kubelet = Kubelet()
    kubelet.post("critical", cpu="700m", priority=CRITICAL)
    kubelet.post("web", cpu="100m")
    kubelet.wait(2)
    kubelet.post("second", cpu="600m", priority=CRITICAL)
    assert kubelet.status()["phase"] == "Running"
    status = kubelet.status("second")
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert status["message"] == (
        "Pod was rejected: Unexpected error while attempting to recover from admission failure: "
        "preemption: error finding a set of pods to preempt: "
        "no set of running pods found to reclaim resources: [(res: cpu, q: 300), ]"
    )


def test_an_ordinary_pod_makes_nobody_go() -> None:
    kubelet = Kubelet()
    kubelet.post("web", cpu="800m")
    kubelet.wait(2)
    kubelet.post("other", cpu="500m", priority=CRITICAL - 1)
    assert kubelet.status("other")["reason"] == "OutOfcpu"
    assert kubelet.status()["phase"] == "Running"


@pytest.mark.parametrize("minor", [33, 34, 35, 36])
def test_a_resize_of_a_critical_pod_is_made_room_for(minor: int) -> None:
    kubelet = Kubelet(minor=minor)
    kubelet.post("web", cpu="500m")
    kubelet.post("critical", cpu="400m", priority=CRITICAL)
    kubelet.wait(2)
    kubelet.post("critical", cpu="800m", priority=CRITICAL)
    assert kubelet.resize("critical") == [("PodResizeInProgress", "")]
    kubelet.wait(2)
    assert kubelet.container("critical")["resources"]["requests"]["cpu"] == "800m"
    assert kubelet.status()["reason"] == "Preempting"


def test_a_resize_that_no_preemption_helps_is_deferred() -> None:
    kubelet = Kubelet()
    kubelet.post("web", cpu="500m")
    kubelet.post("critical", cpu="400m", priority=CRITICAL)
    kubelet.wait(2)
    kubelet.post("critical", cpu="1200m", priority=CRITICAL)
    assert kubelet.resize("critical") == [("PodResizePending", "Deferred")]
    message = kubelet.conditions("critical")["PodResizePending"]["message"]
    assert message.endswith("to reclaim resources: [(res: cpu, q: 200), ]")
    assert kubelet.status()["phase"] == "Running"


def test_a_resize_that_is_too_large_for_the_node_preempts_nobody_before_1_36() -> None:
    kubelet = Kubelet(minor=35)
    kubelet.post("web", cpu="500m")
    kubelet.post("critical", cpu="400m", priority=CRITICAL)
    kubelet.wait(2)
    kubelet.post("critical", cpu="1200m", priority=CRITICAL)
    assert kubelet.resize("critical") == [("PodResizePending", "Infeasible")]
    assert kubelet.status()["phase"] == "Running"


def test_the_room_of_who_had_to_go_lets_deferred_resizes_in() -> None:
    kubelet = Kubelet()
    kubelet.post("large", cpu="600m")
    kubelet.post("small", cpu="50m")
    kubelet.wait(2)
    kubelet.post("small", cpu="500m")
    assert kubelet.resize("small") == [("PodResizePending", "Deferred")]
    kubelet.post("critical", cpu="500m", priority=CRITICAL)
    kubelet.wait(2)
    assert kubelet.status("large")["reason"] == "Preempting"
    assert kubelet.container("small")["resources"]["requests"]["cpu"] == "500m"


def test_a_pod_that_had_to_go_in_the_middle_of_its_resize_waits_no_more() -> None:
    kubelet = Kubelet()
    kubelet.post("web", cpu="600m")
    kubelet.wait(2)
    kubelet.post("web", cpu="1200m")
    assert "web" in kubelet.node.waiting
    kubelet.post("critical", cpu="600m", priority=CRITICAL)
    kubelet.wait(2)
    assert kubelet.resize() == []
    assert kubelet.node.waiting == ()
