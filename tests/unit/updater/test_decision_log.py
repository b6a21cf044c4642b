"""What is logged about decisions: each change once, and no line for each pod that is fine."""

import logging
from datetime import timedelta

import pytest

from common.api.autoscaling import UpdateMode
from updater.decision import Decision, Reason, evict, leave, wait
from updater.pass_results import PassResults
from updater.plan.pod_outcome import PodOutcome, Subject
from updater.state import NO_MEMORY, UpdaterState
from updater_harness import NOW, context_of, live_pod, snapshot

YOUNG, SMALL = leave(Reason.TOO_YOUNG), leave(Reason.TOO_SMALL)
BUSY, GONE = wait(Reason.BUDGET_EXHAUSTED), evict(Reason.OUTSIDE_RANGE)

# Decisions about one pod in a row, and those that are told at the default verbosity.
ROWS = [
    pytest.param([YOUNG, YOUNG, SMALL], [], id="a pod that is fine all its life"),
    pytest.param([YOUNG, BUSY, BUSY, GONE], [BUSY, GONE], id="one that is waiting, once"),
    pytest.param([BUSY, SMALL, SMALL], [BUSY, SMALL], id="one that needs nothing any more"),
    pytest.param([BUSY, wait(Reason.NO_TURN), BUSY], [BUSY], id="one without a turn in between"),
    pytest.param(
        [leave(Reason.UNREADABLE)], [leave(Reason.UNREADABLE)], id="one that can not be read"
    ),
]


def decide(decision: Decision, before: UpdaterState) -> UpdaterState:
    """Run a pass that comes to this decision; what it remembers."""
    given = snapshot(UpdateMode.RECREATE, names=["web-0"])
    results = PassResults(context_of(given, before))
    subject = Subject(given.autoscaled[0].vpa)
    results.decide(PodOutcome(live_pod("web-0"), decision, before.of("uid-web-0"), subject))
    return results.state(given, complete=True)


@pytest.mark.parametrize(("decisions", "told"), ROWS)
def test_what_is_told(
    decisions: list[Decision], told: list[Decision], caplog: pytest.LogCaptureFixture
) -> None:
    state = UpdaterState({"uid-web-0": NO_MEMORY})
    with caplog.at_level(logging.INFO):
        for decision in decisions:
            state = decide(decision, state)
    lines = [(vars(line)["decision"], vars(line)["reason"]) for line in caplog.records]
    assert lines == [(each.action.value, each.reason.value) for each in told]


def test_a_line_says_until_when_where_that_is_known(caplog: pytest.LogCaptureFixture) -> None:
    until = NOW + timedelta(milliseconds=1500)
    with caplog.at_level(logging.INFO):
        for decision in (wait(Reason.RESIZE_DEFERRED, until=until), BUSY):
            decide(decision, UpdaterState())
    assert [vars(line).get("until") for line in caplog.records] == ["2026-03-01T12:00:01Z", None]
