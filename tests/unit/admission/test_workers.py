"""What a supervisor decides, and what it tells its workers."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from admission.metrics import AskedGauge
from admission.workers import FIRST_PAUSE, LONGEST_PAUSE, Worker, pause_after


@pytest.mark.parametrize(
    ("lived", "last", "pause"),
    [
        pytest.param(0.1, 0.0, FIRST_PAUSE, id="the first end"),
        pytest.param(0.1, 1.0, 2.0, id="again, at once"),
        pytest.param(29.0, 8.0, 16.0, id="again, before it ran for long"),
        pytest.param(0.1, 16.0, LONGEST_PAUSE, id="never longer than half a minute"),
        pytest.param(0.1, LONGEST_PAUSE, LONGEST_PAUSE, id="again and again"),
        pytest.param(31.0, LONGEST_PAUSE, FIRST_PAUSE, id="after it ran for longer than that"),
    ],
)
def test_a_worker_that_ends_stays_away(lived: float, last: float, pause: float) -> None:
    assert pause_after(lived, last) == pause


def test_a_worker_that_never_lives_is_tried_for_ever_and_ever_more_seldom() -> None:
    pauses = [0.0]
    for _ in range(7):
        pauses.append(pause_after(0.0, pauses[-1]))
    assert pauses[1:] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@pytest.mark.parametrize("again", [False, True])
def test_a_worker_reads_what_its_supervisor_wrote(again: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter of a table
    worker = Worker(number=1, again=again, listening=5, lifeline=7)
    environ = worker.environ(str(tmp_path))
    assert Worker.of(environ) == worker
    assert environ["PROMETHEUS_MULTIPROC_DIR"] == str(tmp_path)


def test_without_a_supervisor_nobody_is_a_worker() -> None:
    assert Worker.of({"NAMESPACE": "kube-system"}) is None


def test_a_gauge_that_is_asked_has_no_label_of_a_process() -> None:
    registry = CollectorRegistry()
    gauge = AskedGauge("left_seconds", "What is left.", "of", registry)
    left = iter([2.0, 1.0])
    gauge.ask("life", lambda: next(left))
    want = "# HELP left_seconds What is left.\n# TYPE left_seconds gauge\nleft_seconds{of="
    assert generate_latest(registry).decode() == f'{want}"life"}} 2.0\n'
    assert generate_latest(registry).decode() == f'{want}"life"}} 1.0\n'
