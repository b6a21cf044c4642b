"""The reasons that block a pod's in-place update, decision by decision."""

import pytest

from updater.decision import Decision, Reason, evict, leave, resize, wait
from updater.resize.blocked_update import blocked_by
from updater.resize.resize_status import ResizeStatus

NONE, DEFERRED = ResizeStatus.NONE, ResizeStatus.DEFERRED
INFEASIBLE, ERROR = ResizeStatus.INFEASIBLE, ResizeStatus.ERROR
IN_PROGRESS, UNKNOWN = ResizeStatus.IN_PROGRESS, ResizeStatus.UNKNOWN
SENT, BUDGET = resize(Reason.OUTSIDE_RANGE), wait(Reason.BUDGET_EXHAUSTED)


@pytest.mark.parametrize(
    ("before", "status", "decision", "after"),
    [
        pytest.param(None, NONE, SENT, None, id="a resize is sent"),
        pytest.param(None, NONE, BUDGET, None, id="a pod waits for budget"),
        pytest.param(
            Reason.RESIZE_INFEASIBLE,
            NONE,
            resize(Reason.RESIZE_PARTIAL),
            Reason.RESIZE_INFEASIBLE,
            id="a part is sent, the rest is still infeasible",
        ),
        pytest.param(
            Reason.RESIZE_DEFERRED,
            NONE,
            leave(Reason.NO_CHANGE),
            None,
            id="a deferred resize was withdrawn",
        ),
        pytest.param(
            None, DEFERRED, wait(Reason.RESIZE_DEFERRED), Reason.RESIZE_DEFERRED, id="deferred"
        ),
        pytest.param(None, DEFERRED, BUDGET, Reason.RESIZE_DEFERRED, id="deferred, no budget"),
        pytest.param(
            Reason.RESIZE_DEFERRED,
            DEFERRED,
            evict(Reason.RESIZE_DEFERRED_TOO_LONG),
            Reason.RESIZE_DEFERRED,
            id="deferred for too long: no change",
        ),
        pytest.param(
            Reason.RESIZE_DEFERRED, DEFERRED, SENT, Reason.RESIZE_DEFERRED, id="deferred, resent"
        ),
        pytest.param(
            Reason.RESIZE_DEFERRED,
            IN_PROGRESS,
            wait(Reason.RESIZE_IN_PROGRESS),
            None,
            id="deferred, then in progress",
        ),
        pytest.param(Reason.RESIZE_DEFERRED, NONE, BUDGET, None, id="deferred, then no condition"),
        pytest.param(
            Reason.RESIZE_DEFERRED,
            INFEASIBLE,
            leave(Reason.RESIZE_INFEASIBLE),
            Reason.RESIZE_INFEASIBLE,
            id="deferred, then infeasible",
        ),
        pytest.param(
            None,
            INFEASIBLE,
            evict(Reason.RESIZE_INFEASIBLE),
            Reason.RESIZE_INFEASIBLE,
            id="infeasible, and evicted instead",
        ),
        pytest.param(
            None, INFEASIBLE, BUDGET, Reason.RESIZE_INFEASIBLE, id="infeasible, no budget"
        ),
        pytest.param(
            None,
            NONE,
            leave(Reason.INFEASIBLE_CACHED),
            Reason.RESIZE_INFEASIBLE,
            id="infeasible before, nothing is lower",
        ),
        pytest.param(
            Reason.RESIZE_INFEASIBLE,
            NONE,
            leave(Reason.INFEASIBLE_CACHED),
            Reason.RESIZE_INFEASIBLE,
            id="still infeasible",
        ),
        pytest.param(Reason.RESIZE_INFEASIBLE, NONE, SENT, None, id="infeasible, less is accepted"),
        pytest.param(
            Reason.RESIZE_INFEASIBLE,
            NONE,
            leave(Reason.TOO_SMALL),
            None,
            id="infeasible, then the target is met",
        ),
        pytest.param(
            None, ERROR, wait(Reason.RESIZE_ERROR), Reason.RESIZE_ERROR, id="the kubelet fails"
        ),
        pytest.param(
            None, UNKNOWN, wait(Reason.RESIZE_UNKNOWN), None, id="an unknown state blocks nothing"
        ),
        pytest.param(
            None,
            NONE,
            wait(Reason.QUOTA_EXCEEDED),
            Reason.QUOTA_EXCEEDED,
            id="a quota refuses",
        ),
        pytest.param(
            Reason.QUOTA_EXCEEDED,
            NONE,
            BUDGET,
            Reason.QUOTA_EXCEEDED,
            id="a wait does not end a refusal",
        ),
        pytest.param(
            Reason.QUOTA_EXCEEDED,
            NONE,
            evict(Reason.RESIZE_REFUSED),
            Reason.RESIZE_REFUSED,
            id="a policy refuses after a quota",
        ),
        pytest.param(Reason.QUOTA_EXCEEDED, NONE, SENT, None, id="refused, then accepted"),
        pytest.param(
            None, NONE, wait(Reason.RESIZE_RETRY), None, id="a transient error blocks nothing"
        ),
        pytest.param(
            None,
            NONE,
            evict(Reason.QOS_WOULD_CHANGE),
            Reason.QOS_WOULD_CHANGE,
            id="the QoS class would change",
        ),
        pytest.param(
            None,
            NONE,
            leave(Reason.REPLACEMENT_WOULD_BE_REFUSED),
            Reason.RESIZE_REFUSED,
            id="the preflight refuses it in mode InPlace",
        ),
        pytest.param(
            Reason.RESIZE_REFUSED,
            NONE,
            leave(Reason.NOTHING_TO_DO),
            None,
            id="refused, then the spec has the target",
        ),
    ],
)
def test_x114_what_blocks_an_in_place_update(
    before: Reason | None, status: ResizeStatus, decision: Decision, after: Reason | None
) -> None:
    assert blocked_by(decision, status, before) == after
