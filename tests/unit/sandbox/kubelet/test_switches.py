"""Each switch of a pod's kubelet does what sandbox/scenarios/README.md says."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from kubelet_driver import MIB, Kubelet
from sandbox.apiserver.faults import Effect
from sandbox.kubelet.faults import Faults, ResizeFault
from sandbox.kubelet.usage import Constant, Runs

README = (Path(__file__).parents[4] / "sandbox/scenarios/README.md").read_text(encoding="utf-8")
RESIZED = {"cpu": "300m"}


def documented(heading: str) -> set[str]:
    """The names in the first column of the table below a heading."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([a-z-]+)`", cell)}


def dashed(kind: type) -> set[str]:
    return {one.name.replace("_", "-") for one in fields(kind)}


def test_every_switch_is_documented() -> None:
    assert documented("Faults") == dashed(Faults)
    assert documented("Faults of the API server") == dashed(Effect)


def test_every_way_a_resize_can_go_wrong_is_documented() -> None:
    (row,) = re.findall(r"^\| `resize` \| (.*) \|$", README, re.MULTILINE)
    assert set(re.findall(r"`([a-z-]+)`", row)) == {one.value for one in ResizeFault}


def started_after(kubelet: Kubelet) -> object:
    """Seconds from the pod's start time to its container's."""
    status = kubelet.status()
    began, ran = status["startTime"], kubelet.container()["state"]["running"]["startedAt"]
    return int(ran[-3:-1]) - int(began[-3:-1])


def is_ready(kubelet: Kubelet) -> object:
    return kubelet.conditions()["Ready"]["status"]


def message(kubelet: Kubelet) -> object:
    pending = kubelet.conditions().get("PodResizePending")
    return (pending or kubelet.conditions()["PodResizeInProgress"])["message"]


def actual_cpu(kubelet: Kubelet) -> object:
    return kubelet.container()["resources"]["requests"]["cpu"]


def restarts(kubelet: Kubelet) -> object:
    return kubelet.container()["restartCount"]


def last_exit(kubelet: Kubelet) -> object:
    told = kubelet.container()
    return (told["state"].get("terminated") or told["lastState"]["terminated"])["exitCode"]


def has_resources(kubelet: Kubelet) -> object:
    return "resources" in kubelet.container()


def last_reason(kubelet: Kubelet) -> object:
    return kubelet.container()["lastState"].get("terminated", {}).get("reason")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pod with switches; ``then`` is a change of it after ten seconds."""

    id: str
    switches: dict[str, str]
    then: dict[str, Any] | None = None
    wait: float = 2
    seen: Callable[[Kubelet], object]
    want: object
    usual: object  # what is seen without the switches
    before: dict[str, Any] | None = None


HUNGRY = {"limits": {"memory": "300Mi"}}
CASES = [
    Case(
        id="resize-message, of a refusal",
        switches={"resize": "infeasible", "resize-message": "no way"},
        then=RESIZED,
        seen=lambda kubelet: kubelet.resize() and message(kubelet),
        want="no way",
        usual=[],
    ),
    Case(
        id="resize-message, of an error",
        switches={"resize": "error", "resize-message": "broken"},
        then=RESIZED,
        seen=lambda kubelet: kubelet.resize() and message(kubelet),
        want="broken",
        usual=[],
    ),
    Case(
        id="resize-delay",
        switches={"resize-delay": "30s"},
        then=RESIZED,
        wait=29,
        seen=actual_cpu,
        want="100m",
        usual="300m",
    ),
    Case(
        id="resize-delay, over",
        switches={"resize-delay": "30s"},
        then=RESIZED,
        wait=30,
        seen=actual_cpu,
        want="300m",
        usual="300m",
    ),
    Case(id="start-delay", switches={"start-delay": "7s"}, seen=started_after, want=7, usual=1),
    Case(
        id="stop-delay",
        switches={"stop-delay": "20s"},
        then={"deleting": True},
        wait=10,
        seen=Kubelet.gone,
        want=False,
        usual=True,
    ),
    Case(
        id="stop-delay, no longer than the grace period",
        switches={"stop-delay": "20s"},
        then={"deleting": True, "grace": 5},
        wait=5,
        seen=Kubelet.gone,
        want=True,
        usual=True,
    ),
    Case(
        id="ready-delay, not over",
        switches={"ready-delay": "30s"},
        seen=is_ready,
        want="False",
        usual="True",
    ),
    Case(
        id="ready-delay, over",
        switches={"ready-delay": "30s"},
        wait=40,
        seen=is_ready,
        want="True",
        usual="True",
    ),
    Case(
        id="ready-delay, never",
        switches={"ready-delay": "never"},
        wait=86_400,
        seen=is_ready,
        want="False",
        usual="True",
    ),
    Case(
        id="restart-on-resize, whatever the policy says",
        switches={"restart-on-resize": "true"},
        then=RESIZED,
        seen=restarts,
        want=1,
        usual=0,
    ),
    Case(
        id="exit-after, again and again",
        switches={"exit-after": "3s"},
        wait=20,
        seen=lambda kubelet: kubelet.container()["restartCount"] > 1,
        want=True,
        usual=False,
    ),
    Case(
        id="exit-code, of such an exit",
        switches={"exit-after": "3s", "exit-code": "7"},
        seen=lambda kubelet: kubelet.container()["restartCount"] and last_exit(kubelet),
        want=7,
        usual=0,
    ),
    Case(
        id="exit-code, of a restart by a resize",
        switches={"restart-on-resize": "true", "exit-code": "143"},
        then=RESIZED,
        seen=lambda kubelet: kubelet.container()["restartCount"] and last_exit(kubelet),
        want=143,
        usual=0,
    ),
    Case(
        id="report-resources",
        switches={"report-resources": "false"},
        seen=has_resources,
        want=False,
        usual=True,
    ),
]


def observed(case: Case, *, switched: bool) -> object:
    memory = Runs((Constant(200 * MIB), Constant(50 * MIB))) if case.before else None
    kubelet = Kubelet(memory=memory)
    annotations = case.switches if switched else {}
    kubelet.post(annotations=annotations, **(case.before or {}))
    kubelet.wait(10)
    if case.then is not None:
        kubelet.post(annotations=annotations, **case.then)
    kubelet.wait(case.wait)
    return case.seen(kubelet)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_switch(case: Case) -> None:
    assert observed(case, switched=True) == case.want
    assert observed(case, switched=False) == case.usual


def test_every_switch_is_shown() -> None:
    shown = {name for case in CASES for name in case.switches}
    assert shown == dashed(Faults)
