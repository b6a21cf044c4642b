"""The switches of a pod's kubelet work as documented in sandbox/scenarios/README.md."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubelet_driver import Kubelet
from sandbox.kubelet.faults import Faults, ResizeFault

README = (Path(__file__).parents[4] / "sandbox/scenarios/README.md").read_text(encoding="utf-8")
RESIZED = {"cpu": "300m"}


def documented(heading: str) -> set[str]:
    """Return the names in the first column of the table below a heading."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([a-z-]+)`", cell)}


SWITCHES = set(Faults.__struct_encode_fields__)


def test_every_switch_is_documented() -> None:
    assert documented("Faults") == SWITCHES


def test_every_fault_of_a_resize_is_documented() -> None:
    (row,) = re.findall(r"^\| `resize` \| (.*) \|$", README, re.MULTILINE)
    assert set(re.findall(r"`([a-z-]+)`", row)) == {one.value for one in ResizeFault}


def started_after(kubelet: Kubelet) -> object:
    """Return the seconds from the pod's start time to its container's."""
    status = kubelet.status()
    began, ran = status["startTime"], kubelet.container()["state"]["running"]["startedAt"]
    return int(ran[-3:-1]) - int(began[-3:-1])


def is_ready(kubelet: Kubelet) -> object:
    return kubelet.conditions()["Ready"]["status"]


def actual_cpu(kubelet: Kubelet) -> object:
    return kubelet.container()["resources"]["requests"]["cpu"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pod with switches; ``then`` is a change of the pod after ten seconds."""

    id: str
    switches: dict[str, str]
    then: dict[str, Any] | None = None
    wait: float = 2
    observe: Callable[[Kubelet], object]
    want: object
    usual: object  # result without the switches


CASES = [
    Case(
        id="resize-delay",
        switches={"resize-delay": "30s"},
        then=RESIZED,
        wait=29,
        observe=actual_cpu,
        want="100m",
        usual="300m",
    ),
    Case(
        id="resize-delay, expired",
        switches={"resize-delay": "30s"},
        then=RESIZED,
        wait=30,
        observe=actual_cpu,
        want="300m",
        usual="300m",
    ),
    Case(id="start-delay", switches={"start-delay": "7s"}, observe=started_after, want=7, usual=1),
    Case(
        id="stop-delay",
        switches={"stop-delay": "20s"},
        then={"deleting": True},
        wait=10,
        observe=Kubelet.gone,
        want=False,
        usual=True,
    ),
    Case(
        id="stop-delay, no longer than the grace period",
        switches={"stop-delay": "20s"},
        then={"deleting": True, "grace": 5},
        wait=5,
        observe=Kubelet.gone,
        want=True,
        usual=True,
    ),
    Case(
        id="ready-delay, not expired",
        switches={"ready-delay": "30s"},
        observe=is_ready,
        want="False",
        usual="True",
    ),
    Case(
        id="ready-delay, expired",
        switches={"ready-delay": "30s"},
        wait=40,
        observe=is_ready,
        want="True",
        usual="True",
    ),
    Case(
        id="ready-delay, never",
        switches={"ready-delay": "never"},
        wait=86_400,
        observe=is_ready,
        want="False",
        usual="True",
    ),
]


def result_of(case: Case, *, switched: bool) -> object:
    kubelet = Kubelet()
    annotations = case.switches if switched else {}
    kubelet.post(annotations=annotations)
    kubelet.wait(10)
    if case.then is not None:
        kubelet.post(annotations=annotations, **case.then)
    kubelet.wait(case.wait)
    return case.observe(kubelet)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_switch(case: Case) -> None:
    assert result_of(case, switched=True) == case.want
    assert result_of(case, switched=False) == case.usual


def test_every_switch_has_a_case() -> None:
    tested = {name for case in CASES for name in case.switches}
    assert tested == SWITCHES - {"resize"}  # test_node.py
