"""Logs of decisions: each change once, and no line for pods that need no update."""

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

# Consecutive decisions about one pod, and those that are logged at the default verbosity.
ROWS = [
    pytest.param([YOUNG, YOUNG, SMALL], [], id="a pod that needs no update"),
    pytest.param([YOUNG, BUSY, BUSY, GONE], [BUSY, GONE], id="a pod that waits is logged once"),
    pytest.param([BUSY, SMALL, SMALL], [BUSY, SMALL], id="a pod that no longer needs an update"),
    pytest.param([BUSY, wait(Reason.NO_TURN), BUSY], [BUSY], id="a pod that a pass did not reach"),
    pytest.param([leave(Reason.UNREADABLE)], [leave(Reason.UNREADABLE)], id="an unreadable pod"),
]


def decide(decision: Decision, before: UpdaterState) -> UpdaterState:
    """Record this decision in a pass; return the state after the pass."""
    given = snapshot(UpdateMode.RECREATE, names=["web-0"])
    results = PassResults(context_of(given, before))
    subject = Subject(given.autoscaled[0].vpa)
    outcome = PodOutcome(live_pod("web-0"), decision, before.of("uid-web-0"), subject)
    results.decide(outcome, given.autoscaled[0])
    return results.state(complete=True)


@pytest.mark.parametrize(("decisions", "logged"), ROWS)
def test_which_decisions_are_logged(
    decisions: list[Decision], logged: list[Decision], caplog: pytest.LogCaptureFixture
) -> None:
    state = UpdaterState({"uid-web-0": NO_MEMORY})
    with caplog.at_level(logging.INFO):
        for decision in decisions:
            state = decide(decision, state)
    lines = [(vars(line)["decision"], vars(line)["reason"]) for line in caplog.records]
    assert lines == [(each.action.value, each.reason.value) for each in logged]


def test_a_line_has_the_time_until_which_the_decision_holds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    until = NOW + timedelta(milliseconds=1500)
    with caplog.at_level(logging.INFO):
        for decision in (wait(Reason.RESIZE_DEFERRED, until=until), BUSY):
            decide(decision, UpdaterState())
    assert [vars(line).get("until") for line in caplog.records] == ["2026-03-01T12:00:01Z", None]
