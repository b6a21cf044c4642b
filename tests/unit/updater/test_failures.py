"""Refused calls: classification, and the decisions that follow (updater.md 9, 10.3, D29)."""

from datetime import UTC, datetime, timedelta

import pytest

from common.api.autoscaling import UpdateMode
from common.errors import (
    BadRequestError,
    Cause,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    NotLeadingError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from common.resources import parse_quantities
from updater.decision import Decision, Reason, evict, leave, wait
from updater.failures import (
    after_refused_eviction,
    after_refused_resize,
    classify,
    may_have_happened,
)
from updater.resize.infeasible_resize import Infeasible, Part
from updater.resize.resize_decision import Attempt
from updater.snapshot.live_node import NodeCapacity
from updater.state import PodMemory, ResizeRefusal

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CAPACITY = (Cause(reason="NodeCapacity"),)
IN_PLACE, OR_RECREATE = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE

TOO_LARGE = ForbiddenError("does not fit", reason="Forbidden", causes=CAPACITY)
QUOTA = ForbiddenError("exceeded quota: q, requested: cpu=1", reason="Forbidden")
RBAC = ForbiddenError("may not", reason="Forbidden")
INVALID = InvalidError("QoS", reason="Invalid")
GONE = NotFoundError("not found", reason="NotFound", kind="pods", name="web-0")
NO_ROUTE = NotFoundError("the server could not find the requested resource", reason="NotFound")
NEXT_POD = ConflictError("the UID in the precondition (a) does not match the UID in record (b)")
AWAY = UnreachableError("no answer")
NOT_LEADING = NotLeadingError("may have run out", reason="NotLeading")
ONE = {"app": parse_quantities({"cpu": "1"})}

ANSWERS = {
    "conflict": (ConflictError("stale"), Reason.RESIZE_RETRY),
    "throttled": (TooManyRequestsError("slow down"), Reason.RESIZE_RETRY),
    "server error": (ServerError("trouble", status=500), Reason.RESIZE_RETRY),
    "time-out": (ServerError("timeout", status=504), Reason.RESIZE_RETRY),
    "no answer": (AWAY, Reason.RESIZE_RETRY),
    "our Lease may have run out": (NOT_LEADING, Reason.RESIZE_RETRY),
    "our token expired": (UnauthorizedError("who?"), Reason.RESIZE_RETRY),
    "node capacity": (TOO_LARGE, Reason.RESIZE_INFEASIBLE),
    "node capacity under another reason": (
        ForbiddenError("no", reason="Other", causes=CAPACITY),
        Reason.RESIZE_REFUSED,
    ),
    "another platform": (
        ForbiddenError("no", reason="Forbidden", causes=(Cause(reason="UnsupportedPlatform"),)),
        Reason.RESIZE_REFUSED,
    ),
    "a policy, whose cause has no reason": (
        ForbiddenError("no", reason="Forbidden", causes=(Cause(message="denied"),)),
        Reason.RESIZE_REFUSED,
    ),
    "quota": (QUOTA, Reason.QUOTA_EXCEEDED),
    "rbac": (RBAC, Reason.RESIZE_REFUSED),
    "validation": (INVALID, Reason.RESIZE_REFUSED),
    "a webhook": (BadRequestError("denied the request"), Reason.RESIZE_REFUSED),
    "pod is gone": (GONE, Reason.GONE),
    "no subresource": (NO_ROUTE, Reason.RESIZE_NOT_SERVED),
    "not found with node capacity": (
        NotFoundError("no", reason="NotFound", kind="pods", name="web-0", causes=CAPACITY),
        Reason.GONE,
    ),
}


@pytest.mark.parametrize(("error", "want"), ANSWERS.values(), ids=ANSWERS)
def test_classify(error: KubeError, want: Reason) -> None:
    assert classify(error) is want


DECISIONS = {
    "too large": (TOO_LARGE, leave(Reason.RESIZE_INFEASIBLE), evict(Reason.RESIZE_INFEASIBLE)),
    "quota": (QUOTA, wait(Reason.QUOTA_EXCEEDED), wait(Reason.QUOTA_EXCEEDED)),
    "rbac": (RBAC, wait(Reason.RESIZE_REFUSED), evict(Reason.RESIZE_REFUSED)),
    "validation": (INVALID, wait(Reason.RESIZE_REFUSED), evict(Reason.RESIZE_REFUSED)),
    "no answer": (AWAY, wait(Reason.RESIZE_RETRY), wait(Reason.RESIZE_RETRY)),
    "pod is gone": (GONE, leave(Reason.GONE), leave(Reason.GONE)),
    "no subresource": (
        NO_ROUTE,
        wait(Reason.RESIZE_NOT_SERVED),
        evict(Reason.RESIZE_NOT_SERVED),
    ),
}


def after_refusal(
    error: KubeError, mode: UpdateMode, memory: PodMemory | None = None
) -> tuple[Decision, PodMemory]:
    return after_refused_resize(
        error,
        memory or PodMemory(),
        mode=mode,
        targets=ONE,
        interval=MINUTE,
        now=NOW,
    )


@pytest.mark.parametrize(("error", "in_place", "or_recreate"), DECISIONS.values(), ids=DECISIONS)
def test_decisions_after_a_refusal(
    error: KubeError, in_place: Decision, or_recreate: Decision
) -> None:
    assert after_refusal(error, IN_PLACE)[0] == in_place
    assert after_refusal(error, OR_RECREATE)[0] == or_recreate


def test_an_infeasible_resize_is_remembered_only_in_mode_in_place() -> None:
    _, memory = after_refusal(TOO_LARGE, IN_PLACE)
    assert memory.infeasible is not None
    assert memory.infeasible.targets == {"app": parse_quantities({"cpu": "1"})}
    assert after_refusal(TOO_LARGE, OR_RECREATE)[1].infeasible is None


def test_a_transient_error_is_retried_twice_and_then_counts_as_failed() -> None:
    memory = PodMemory()
    decisions = []
    for _ in range(3):
        decision, memory = after_refusal(AWAY, OR_RECREATE, memory)
        decisions.append(decision)
        if decision == wait(Reason.RESIZE_RETRY):
            assert memory.held(NOW, ONE) is None
    retry = wait(Reason.RESIZE_RETRY)
    assert decisions == [retry, retry, evict(Reason.RESIZE_FAILED_REPEATEDLY)]


@pytest.mark.parametrize(("before", "minutes"), [(0, 1), (1, 2), (4, 16), (5, 32), (50, 32)])
def test_refusals_back_off(before: int, minutes: int) -> None:
    refusal = ResizeRefusal(reason=Reason.QUOTA_EXCEEDED, tries=before, until=NOW, targets=ONE)
    _, memory = after_refusal(QUOTA, IN_PLACE, PodMemory(refusal=refusal if before else None))
    pause = minutes * MINUTE
    held = memory.held(NOW + pause - timedelta(seconds=1), ONE)
    assert held is not None
    assert held.reason is Reason.QUOTA_EXCEEDED
    assert memory.held(NOW + pause, ONE) is None


LESS_WANTED = {
    "quota, the same": (QUOTA, {"cpu": "1"}, True),
    "quota, more": (QUOTA, {"cpu": "2"}, True),
    "quota, less": (QUOTA, {"cpu": "999m"}, False),
    "policy, less": (INVALID, {"cpu": "999m"}, False),
    "the node, the same": (TOO_LARGE, {"cpu": "1"}, True),
    "the node, less": (TOO_LARGE, {"cpu": "999m"}, False),
    "no resize subresource, less": (NO_ROUTE, {"cpu": "999m"}, True),
}


@pytest.mark.parametrize(("error", "wanted", "held"), LESS_WANTED.values(), ids=LESS_WANTED)
def test_a_smaller_resize_is_tried_immediately(
    error: KubeError, wanted: dict[str, str], *, held: bool
) -> None:
    _, memory = after_refusal(error, OR_RECREATE)
    assert (memory.held(NOW, {"app": parse_quantities(wanted)}) is not None) is held


NODE = NodeCapacity(node="node-1", allocatable=parse_quantities({"cpu": "1"}))
GROWN = NodeCapacity(node="node-1", allocatable=parse_quantities({"cpu": "2"}))


@pytest.mark.parametrize(("now", "held"), [(NODE, True), (GROWN, False), (None, True)])
def test_a_resize_on_a_node_that_has_grown_is_tried_immediately(
    now: NodeCapacity | None, *, held: bool
) -> None:
    attempt = Attempt(node=NODE)
    _, memory = after_refused_resize(
        TOO_LARGE,
        PodMemory(),
        mode=OR_RECREATE,
        targets=ONE,
        interval=MINUTE,
        attempt=attempt,
        now=NOW,
    )
    assert (memory.held(NOW, ONE, now) is not None) is held


REST = Infeasible(targets=ONE, reported=False, node=NODE, part=Part.SENT)
NO_EVICTION = {
    "the node, all of it": (TOO_LARGE, None, leave(Reason.RESIZE_INFEASIBLE), Part.UNTRIED),
    "the node, a part": (TOO_LARGE, REST, leave(Reason.RESIZE_INFEASIBLE), Part.REFUSED),
    "a policy": (INVALID, None, wait(Reason.RESIZE_REFUSED), None),
    "a quota": (QUOTA, REST, wait(Reason.QUOTA_EXCEEDED), None),
    "no answer": (AWAY, REST, wait(Reason.RESIZE_RETRY), None),
}


@pytest.mark.parametrize(("error", "rest", "want", "part"), NO_EVICTION.values(), ids=NO_EVICTION)
def test_a_refused_resize_without_permission_to_evict_leads_to_no_eviction(
    error: KubeError, rest: Infeasible | None, want: Decision, part: Part | None
) -> None:
    decision, memory = after_refused_resize(
        error,
        PodMemory(),
        mode=OR_RECREATE,
        targets=ONE,
        interval=MINUTE,
        attempt=Attempt(node=NODE, rest=rest, may_evict=False),
        now=NOW,
    )
    assert decision == want
    remembered = memory.infeasible
    assert (None if remembered is None else remembered.part) == part
    assert remembered is None or remembered.node is NODE


EVICTIONS = {
    "budget": (TooManyRequestsError("no"), wait(Reason.EVICTION_REFUSED)),
    "two budgets": (ServerError("two", status=500), wait(Reason.EVICTION_FAILED)),
    "gone": (GONE, leave(Reason.GONE)),
    "another pod of the same name": (NEXT_POD, leave(Reason.GONE)),
    "conflict": (ConflictError("stale"), wait(Reason.EVICTION_FAILED)),
    "no answer": (AWAY, wait(Reason.EVICTION_FAILED)),
    "our Lease may have run out": (NOT_LEADING, wait(Reason.EVICTION_FAILED)),
}


@pytest.mark.parametrize(("error", "want"), EVICTIONS.values(), ids=EVICTIONS)
def test_after_refused_eviction(error: KubeError, want: Decision) -> None:
    assert after_refused_eviction(error) == want


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (AWAY, True),
        (NOT_LEADING, False),
        (ServerError("timeout", status=504), True),
        (ServerError("a balancer lost the server", status=502), True),
        (ServerError("etcdserver: request timed out", status=500), True),
        (ServerError("trouble", status=500), False),
        (QUOTA, False),
    ],
)
def test_may_have_happened(error: KubeError, *, want: bool) -> None:
    assert may_have_happened(error) is want
