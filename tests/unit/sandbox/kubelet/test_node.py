"""A simulated kubelet, step by step: starts, ends, OOM kills, resizes, deferred resizes."""

import itertools
from collections.abc import Iterator

import msgspec
import pytest

from kubelet_driver import MIB, Kubelet, pod
from sandbox.kubelet.usage import Constant, Ramp, Runs
from sandbox.kubelet.wire import RunnablePod

# Starts and ends


def test_a_pod_starts_after_its_delay() -> None:
    kubelet = Kubelet()
    kubelet.post()
    assert kubelet.status()["phase"] == "Pending"
    assert kubelet.container()["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert "resources" not in kubelet.container()
    kubelet.wait(0.9)
    assert kubelet.status()["phase"] == "Pending"
    kubelet.wait(0.1)
    status = kubelet.status()
    assert (status["phase"], status["podIP"], status["qosClass"]) == (
        "Running",
        "10.244.0.9",
        "Burstable",
    )
    assert kubelet.conditions()["Ready"]["status"] == "True"
    container = kubelet.container()
    assert container["state"] == {"running": {"startedAt": "2026-01-02T12:00:01Z"}}
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "100Mi"}}
    assert container["allocatedResources"] == {"cpu": "100m", "memory": "100Mi"}
    assert kubelet.reasons() == ["Started"]


def test_a_container_without_resources_reports_an_empty_block() -> None:
    kubelet = Kubelet()
    kubelet.post(resources={})
    kubelet.wait(1)
    assert kubelet.container()["resources"] == {}
    assert "allocatedResources" not in kubelet.container()


@pytest.mark.parametrize(("minor", "want"), [(33, None), (34, 1)])
def test_generations_are_reported_from_1_34_on(minor: int, want: int | None) -> None:
    kubelet = Kubelet(minor=minor)
    kubelet.post()
    assert kubelet.status().get("observedGeneration") == want
    assert kubelet.conditions()["Ready"].get("observedGeneration") == want


def test_readiness_waits_for_the_probe() -> None:
    kubelet = Kubelet()
    kubelet.post(readinessProbe={"initialDelaySeconds": 5})
    kubelet.wait(5.9)
    ready = kubelet.conditions()["Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "ContainersNotReady")
    kubelet.wait(0.1)
    assert kubelet.conditions()["Ready"]["status"] == "True"
    assert kubelet.conditions()["Ready"]["lastTransitionTime"] == "2026-01-02T12:00:06Z"


def test_init_containers_run_one_after_the_other_and_sidecars_stay() -> None:
    kubelet = Kubelet()
    kubelet.post(
        init=[
            {"name": "first"},
            {"name": "proxy", "restartPolicy": "Always"},
            {"name": "second"},
        ]
    )

    def states() -> Iterator[str]:
        for one in kubelet.status()["initContainerStatuses"]:
            yield from one["state"]

    kubelet.wait(1)
    assert list(states()) == ["running", "waiting", "waiting"]
    kubelet.wait(2)
    assert list(states()) == ["terminated", "running", "running"]
    assert kubelet.conditions()["Initialized"]["status"] == "False"
    assert kubelet.status()["phase"] == "Pending"
    kubelet.wait(2)
    assert list(states()) == ["terminated", "running", "terminated"]
    assert kubelet.conditions()["Initialized"]["status"] == "True"
    assert kubelet.status()["phase"] == "Running"


def test_a_pod_that_does_not_fit_fails() -> None:
    kubelet = Kubelet()
    kubelet.post("large", cpu="900m")
    kubelet.post("other", cpu="200m")
    status = kubelet.status("other")
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert "requested: 200, used: 900, capacity: 1000" in status["message"]


def test_deletion_takes_the_stop_delay() -> None:
    kubelet = Kubelet()
    kubelet.post()
    kubelet.wait(2)
    kubelet.post(deleting=True)
    assert "Killing" in kubelet.reasons()
    kubelet.wait(2.9)
    assert not kubelet.gone()
    kubelet.wait(0.1)
    assert kubelet.gone()
    assert kubelet.status()["phase"] == "Failed"
    assert kubelet.container()["state"]["terminated"]["exitCode"] == 143


def test_a_short_grace_period_shortens_the_stop_delay() -> None:
    kubelet = Kubelet()
    kubelet.post()
    kubelet.wait(2)
    kubelet.post(deleting=True, grace=1)
    kubelet.wait(1)
    assert kubelet.gone()


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        ("Never", 0, "Succeeded"),
        ("Never", 3, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 3, "Running"),
        ("Always", 0, "Running"),
    ],
)
def test_an_exit_follows_the_restart_policy(policy: str, code: int, phase: str) -> None:
    kubelet = Kubelet()
    kubelet.post(restart_policy=policy)
    kubelet.wait(6)
    kubelet.exit(code)
    assert kubelet.status()["phase"] == phase
    assert kubelet.container()["state"]["terminated"]["exitCode"] == code


def test_an_oom_kill_is_reported_and_the_container_restarts() -> None:
    kubelet = Kubelet(memory=Runs((Constant(300 * MIB), Constant(50 * MIB))))
    kubelet.post(limits={"memory": "200Mi"})
    kubelet.wait(2)
    ended = kubelet.container()["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    kubelet.wait(1)
    container = kubelet.container()
    assert "running" in container["state"]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["reason"] == "OOMKilled"
    kubelet.wait(3600)
    assert kubelet.container()["restartCount"] == 1


def test_memory_exactly_at_the_limit_is_not_killed() -> None:
    kubelet = Kubelet(memory=Runs((Constant(200 * MIB), Constant(300 * MIB))))
    kubelet.post(limits={"memory": "200Mi"})
    kubelet.wait(3600)
    assert kubelet.container()["restartCount"] == 0


def test_without_a_limit_the_capacity_of_the_node_is_the_limit() -> None:
    kubelet = Kubelet(memory=Runs((Ramp(start=0, end=2000 * MIB, after=0, over=10), Constant(1))))
    kubelet.post()
    kubelet.wait(6)  # 1000 MiB, the size of the node, in the fifth second of the run
    assert kubelet.container()["restartCount"] == 0
    kubelet.wait(2)
    assert kubelet.container()["lastState"]["terminated"]["reason"] == "OOMKilled"
    (kill,) = [n for n in kubelet.node.pods["uid-web"].notices if n.reason == "OOMKilling"]
    assert kill.message == f"Container app exceeded the memory of its node, {1000 * MIB} bytes"


def test_the_back_off_doubles_up_to_five_minutes() -> None:
    kubelet = Kubelet(memory=Constant(300 * MIB))
    kubelet.post(limits={"memory": "200Mi"})
    starts = []
    kubelet.wait(1)
    for _ in range(8):
        while "running" not in kubelet.container()["state"]:
            kubelet.wait(1)
        starts.append(kubelet.now)
        kubelet.wait(1)
    gaps = [round((b - a).total_seconds()) - 1 for a, b in itertools.pairwise(starts)]
    assert gaps == [1, 10, 20, 40, 80, 160, 300]
    waiting = kubelet.container()["state"]["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff"
    assert waiting["message"].startswith("back-off 300s restarting failed container=app pod=web_")


# Resizes


def test_a_resize_is_allocated_and_then_actuated() -> None:
    kubelet = Kubelet()
    kubelet.post()
    kubelet.wait(2)
    kubelet.post(cpu="300m")
    container = kubelet.container()
    assert container["allocatedResources"]["cpu"] == "300m"
    assert container["resources"]["requests"]["cpu"] == "100m"
    assert kubelet.resize() == [("PodResizeInProgress", "")]
    assert kubelet.conditions()["PodResizeInProgress"]["observedGeneration"] == 2
    kubelet.wait(1)
    assert kubelet.container()["resources"]["requests"]["cpu"] == "300m"
    assert kubelet.container()["restartCount"] == 0
    assert kubelet.resize() == []
    assert kubelet.conditions()["PodResizeInProgress"]["$patch"] == "delete"
    assert kubelet.reasons() == ["Started", "ResizeStarted", "ResizeCompleted"]


def test_events_of_resizes_exist_from_1_35_on() -> None:
    kubelet = Kubelet(minor=34)
    kubelet.post()
    kubelet.wait(2)
    kubelet.post(cpu="300m")
    kubelet.wait(1)
    assert kubelet.reasons() == ["Started"]


@pytest.mark.parametrize(("minor", "want"), [(35, "Infeasible"), (36, "Deferred")])
def test_a_pod_larger_than_its_node(minor: int, want: str) -> None:
    kubelet = Kubelet(minor=minor)
    kubelet.post()
    kubelet.wait(2)
    kubelet.post(cpu="1001m")
    assert kubelet.resize() == [("PodResizePending", want)]
    assert kubelet.reasons()[-1] == f"Resize{want}"
    assert kubelet.node.waiting == (("web",) if want == "Deferred" else ())
    kubelet.post(cpu="100m")
    assert kubelet.resize() == []


def test_a_deferred_resize_is_retried_when_resources_are_released() -> None:
    kubelet = Kubelet()
    kubelet.post("web", cpu="500m")
    kubelet.post("other", cpu="400m")
    kubelet.wait(2)
    kubelet.post("web", cpu="700m")
    assert kubelet.resize() == [("PodResizePending", "Deferred")]
    since = kubelet.conditions()["PodResizePending"]["lastTransitionTime"]
    kubelet.wait(10)
    kubelet.node.retry(kubelet.now)
    assert kubelet.conditions()["PodResizePending"]["lastTransitionTime"] == since
    assert kubelet.reasons().count("ResizeDeferred") == 1
    kubelet.post("other", cpu="200m")
    assert kubelet.resize() == [("PodResizePending", "Deferred")]  # until the other one is actuated
    kubelet.wait(2)
    assert kubelet.resize() == []
    assert kubelet.container()["resources"]["requests"]["cpu"] == "700m"


def test_a_deferred_resize_is_retried_after_the_deletion_of_another_pod() -> None:
    kubelet = Kubelet()
    kubelet.post("web", cpu="500m")
    kubelet.post("other", cpu="400m")
    kubelet.wait(2)
    kubelet.post("web", cpu="700m")
    kubelet.node.forget("uid-other", kubelet.now)
    kubelet.wait(1)
    assert kubelet.container()["resources"]["requests"]["cpu"] == "700m"


def test_the_resize_with_higher_priority_is_tried_first() -> None:
    kubelet = Kubelet()
    kubelet.post("low", cpu="200m")
    kubelet.post("high", cpu="200m", priority=10)
    kubelet.post("other", cpu="600m")
    kubelet.wait(2)
    kubelet.post("low", cpu="500m")
    kubelet.wait(5)
    kubelet.post("high", cpu="500m", priority=10)
    kubelet.post("other", cpu="300m")
    kubelet.wait(2)
    assert kubelet.container("high")["resources"]["requests"]["cpu"] == "500m"
    assert kubelet.resize("low") == [("PodResizePending", "Deferred")]


def test_a_restart_policy_restarts_the_container() -> None:
    kubelet = Kubelet()
    policy = [("memory", "RestartContainer")]
    kubelet.post(policy=policy)
    kubelet.wait(2)
    kubelet.post(memory="200Mi", policy=policy)
    kubelet.wait(1)
    ended = kubelet.container()["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert kubelet.resize() == [("PodResizeInProgress", "")]
    kubelet.wait(1)
    container = kubelet.container()
    assert container["resources"]["requests"]["memory"] == "200Mi"
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 137
    assert kubelet.resize() == []


def test_a_restart_policy_of_another_resource_restarts_nothing() -> None:
    kubelet = Kubelet()
    policy = [("memory", "RestartContainer")]
    kubelet.post(policy=policy)
    kubelet.wait(2)
    kubelet.post(cpu="200m", policy=policy)
    kubelet.wait(2)
    assert kubelet.container()["restartCount"] == 0
    assert kubelet.container()["resources"]["requests"]["cpu"] == "200m"


def test_a_memory_limit_is_lowered_once_usage_is_below_it() -> None:
    demand = Ramp(start=150 * MIB, end=50 * MIB, after=20, over=1)
    kubelet = Kubelet(memory=demand)
    kubelet.post(limits={"memory": "300Mi"})
    kubelet.wait(2)
    kubelet.post(limits={"memory": "150Mi"})  # equal counts as above the limit
    kubelet.wait(1)
    condition = kubelet.conditions()["PodResizeInProgress"]
    assert condition["reason"] == "Error"
    limit = 150 * MIB
    assert condition["message"] == (
        f"cannot decrease memory limits: [attempting to set pod memory limit ({limit}) below "
        f'current usage ({limit}), attempting to set container "app" memory limit ({limit}) '
        f"below current usage ({limit})]"
    )
    assert kubelet.container()["resources"]["limits"]["memory"] == "300Mi"
    kubelet.wait(30)
    assert kubelet.resize() == []
    assert kubelet.container()["resources"]["limits"]["memory"] == "150Mi"
    assert kubelet.reasons().count("ResizeError") == 1


def test_a_newer_resize_supersedes_a_deferred_one() -> None:
    kubelet = Kubelet()
    kubelet.post()
    kubelet.wait(2)
    kubelet.post(cpu="2")
    kubelet.post(cpu="500m")
    kubelet.wait(1)
    assert kubelet.resize() == []
    assert kubelet.container()["resources"]["requests"]["cpu"] == "500m"


# Faults


@pytest.mark.parametrize(
    ("fault", "want"),
    [
        ("stuck", [("PodResizeInProgress", "")]),
        ("error", [("PodResizeInProgress", "Error")]),
        ("deferred", [("PodResizePending", "Deferred")]),
        ("infeasible", [("PodResizePending", "Infeasible")]),
        ("unknown-reason", [("PodResizePending", "Puzzled")]),
        ("silent", []),
    ],
)
def test_faults_of_a_resize(fault: str, want: list[tuple[str, str]]) -> None:
    kubelet = Kubelet()
    annotations = {"resize": fault}
    kubelet.post(annotations=annotations)
    kubelet.wait(2)
    kubelet.post(cpu="300m", annotations=annotations)
    kubelet.wait(60)
    assert kubelet.resize() == want
    assert kubelet.container()["resources"]["requests"]["cpu"] == "100m"


@pytest.mark.parametrize("fault", ["stuck", "error", "deferred", "infeasible", "silent"])
def test_a_resize_completes_after_the_fault_is_removed(fault: str) -> None:
    kubelet = Kubelet()
    kubelet.post(annotations={"resize": fault})
    kubelet.wait(2)
    kubelet.post(cpu="300m", annotations={"resize": fault})
    kubelet.wait(30)
    raw = pod("web", generation=2, cpu="300m")
    kubelet.node.observe(msgspec.convert(raw, RunnablePod), kubelet.now, new_ip="")
    kubelet.wait(11)
    assert kubelet.resize() == []
    assert kubelet.container()["resources"]["requests"]["cpu"] == "300m"


def test_an_invalid_annotation_is_ignored() -> None:
    kubelet = Kubelet()
    kubelet.post(annotations={"resize": "sideways", "start-delay": "soon"})
    kubelet.wait(1)
    assert kubelet.status()["phase"] == "Running"


def test_a_frozen_kubelet_does_nothing_until_it_resumes() -> None:
    kubelet = Kubelet()
    kubelet.post()
    kubelet.wait(2)
    kubelet.node.freeze()
    kubelet.post(cpu="300m")
    kubelet.wait(60)
    assert kubelet.container()["allocatedResources"]["cpu"] == "100m"
    kubelet.node.thaw(kubelet.now)
    kubelet.wait(1)
    assert kubelet.container()["resources"]["requests"]["cpu"] == "300m"
