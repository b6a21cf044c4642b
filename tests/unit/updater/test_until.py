"""The time until which a decision holds unless inputs change: just before it and just after it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from builders import container, pod, recommendation, vpa
from common.api.autoscaling import UpdateMode
from common.api.core import Pod, PodCondition
from common.errors import ForbiddenError, InvalidError, KubeError, ServerError
from common.features import FeatureGates
from updater.decision import Action, Decision, Reason, ending, leave
from updater.evaluate.recommendation_fit import RecommendationFit
from updater.evaluate.update_verdict import Thresholds
from updater.failures import after_refused_resize
from updater.plan.candidate import judge_pod
from updater.resize.resize_status import resize_status
from updater.resize.resize_timeouts import Timeouts, unfinished
from updater.resize.startup_boost_end import decide_unboost, expired_boosts, first_expiry
from updater.state import PodMemory
from updater_harness import NOW

TICK = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def pod_with_conditions(*conditions: PodCondition, started: datetime | None = None) -> Pod:
    """Return a pod in its range whose drift is above the threshold."""
    made = pod(
        annotations={
            f"vpaCpuStartupBoost/{name}": '{"requests":{"cpu":"1m"},"limits":{}}'
            for name in ("app", "side")
        },
        containers=tuple(container(name, requests={"cpu": "50m"}) for name in ("app", "side")),
    )
    status = msgspec.structs.replace(made.status, conditions=conditions, start_time=started)
    return msgspec.structs.replace(made, status=status)


def condition(kind: str, reason: str = "", *, since: datetime | None = NOW) -> PodCondition:
    return PodCondition(type=kind, status="True", reason=reason, last_transition_time=since)


def age(
    *, started: datetime = NOW, resized_at: datetime | None = None
) -> Callable[[datetime], Decision]:
    def decide(now: datetime) -> Decision:
        judged = judge_pod(
            pod_with_conditions(started=started),
            RecommendationFit(vpa(recommendations=(recommendation(target={"cpu": "100m"}),))),
            memory=PodMemory(),
            resized_at=resized_at,
            thresholds=Thresholds(),
            features=FeatureGates(),
            now=now,
        )
        return judged if isinstance(judged, Decision) else leave(judged.why)

    return decide


def kubelet(kind: str, reason: str) -> Callable[[datetime], Decision | None]:
    status = resize_status(pod_with_conditions(condition(kind, reason)))
    return lambda now: unfinished(status, since=NOW, timeouts=Timeouts(), now=now)


def boost(*, app: timedelta, side: timedelta) -> Callable[[datetime], tuple[str, ...] | Decision]:
    """Return a function for the expired boosts, or the wait for the first one."""
    given, durations = pod_with_conditions(condition("Ready")), {"app": app, "side": side}

    def decide(now: datetime) -> tuple[str, ...] | Decision:
        expired = expired_boosts(given, duration_of=durations.__getitem__, now=now)
        until = first_expiry(given, duration_of=durations.__getitem__)
        return expired or decide_unboost(given, group=None, expired=expired, until=until)

    return decide


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    decide: Callable[[datetime], object]
    reason: Reason
    until: datetime


CASES = [
    Case(
        id="too young since its start",
        decide=age(),
        reason=Reason.TOO_YOUNG,
        until=NOW + 12 * HOUR,
    ),
    Case(
        id="too young since its last resize",
        decide=age(started=NOW - 24 * HOUR, resized_at=NOW + MINUTE),
        reason=Reason.TOO_YOUNG,
        until=NOW + MINUTE + 12 * HOUR,
    ),
    Case(
        id="deferred",
        decide=kubelet("PodResizePending", "Deferred"),
        reason=Reason.RESIZE_DEFERRED,
        until=NOW + 5 * MINUTE,
    ),
    Case(
        id="in progress",
        decide=kubelet("PodResizeInProgress", ""),
        reason=Reason.RESIZE_IN_PROGRESS,
        until=NOW + HOUR,
    ),
    Case(
        id="error",
        decide=kubelet("PodResizeInProgress", "Error"),
        reason=Reason.RESIZE_ERROR,
        until=NOW + 5 * MINUTE,
    ),
    Case(
        id="unknown",
        decide=kubelet("PodResizePending", "Sulking"),
        reason=Reason.RESIZE_UNKNOWN,
        until=NOW + 5 * MINUTE,
    ),
    Case(
        id="boosted, the first of two boosts",
        decide=boost(app=2 * MINUTE, side=MINUTE),
        reason=Reason.STARTUP_BOOSTED,
        until=NOW + MINUTE,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_decision_holds_until_its_time_and_changes_after_it(case: Case) -> None:
    for now in (max(NOW, case.until - 11 * HOUR), case.until - TICK):
        decided = case.decide(now)
        assert isinstance(decided, Decision)
        assert (decided.reason, decided.until) == (case.reason, case.until)
    assert case.decide(case.until + TICK) != case.decide(case.until - TICK)


QUOTA = ForbiddenError("exceeded quota: q", reason="Forbidden")
REFUSED = InvalidError("refused", reason="Invalid")
TRANSIENT = ServerError("trouble")
IN_PLACE, OR_RECREATE = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE


@pytest.mark.parametrize(
    ("error", "mode", "tries", "pause"),
    [
        pytest.param(QUOTA, OR_RECREATE, 1, MINUTE, id="a quota"),
        pytest.param(QUOTA, IN_PLACE, 3, 4 * MINUTE, id="a quota, the third time"),
        pytest.param(REFUSED, IN_PLACE, 1, MINUTE, id="permanent"),
        pytest.param(REFUSED, OR_RECREATE, 1, None, id="permanent, with eviction"),
        pytest.param(
            TRANSIENT, IN_PLACE, 1, None, id="a transient error: retried in the next pass"
        ),
        pytest.param(TRANSIENT, IN_PLACE, 4, 8 * MINUTE, id="transient errors in a row"),
    ],
)
def test_a_refused_resize_has_the_time_of_the_next_attempt(
    error: KubeError, mode: UpdateMode, tries: int, pause: timedelta | None
) -> None:
    memory = PodMemory()
    for _ in range(tries):
        decision, memory = after_refused_resize(
            error, memory, mode=mode, targets={}, interval=MINUTE, now=NOW
        )
    assert decision.until == (None if pause is None else NOW + pause)
    if pause is not None:
        assert memory.held(NOW + pause - TICK, {}) is not None
        assert memory.held(NOW + pause, {}) is None


def test_decisions_with_other_times_are_equal() -> None:
    """Otherwise the line about a waiting pod would be logged in each pass."""
    one = Decision(Action.WAIT, Reason.RESIZE_DEFERRED, NOW)
    assert one == Decision(Action.WAIT, Reason.RESIZE_DEFERRED)
    assert hash(one) == hash(Decision(Action.WAIT, Reason.RESIZE_DEFERRED))


@pytest.mark.parametrize(
    ("since", "want"),
    [
        pytest.param(None, None, id="unknown"),
        pytest.param(NOW, NOW + HOUR, id="known"),
        pytest.param(datetime.max.replace(tzinfo=UTC), None, id="the latest time"),
        pytest.param(
            datetime.max.replace(tzinfo=timezone(-HOUR)) - HOUR,
            None,
            id="the latest time in another zone",
        ),
    ],
)
def test_ending(since: datetime | None, want: datetime | None) -> None:
    assert ending(since, HOUR) == want
