"""Dry runs of replacements: the meaning of answers, and the frequency of requests."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from msgspec import structs

from builders import container, pod, recommendation, vpa
from common.annotations import OBSERVED_CONTAINERS
from common.api.autoscaling import (
    ContainerPolicy,
    RecommendedPodResources,
    UpdateMode,
    VerticalPodAutoscaler,
    VpaStatus,
)
from common.api.core import Pod
from common.errors import (
    BadRequestError,
    ConflictError,
    DecodeError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from common.runtime.rate_limit import RateLimiter
from common.target.owners import Controller
from fixed_clock import FixedClock
from updater.actuation import TemplatePods
from updater.decision import Reason
from updater.eviction.dry_run_answer import after_answer, after_error, refusal_after
from updater.execute import RateLimits
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.state import UpdaterState
from updater_harness import NAMES, NOW, OPEN, WEB, FakeActuator, preview, snapshot
from updater_harness import run as run_pass

# Answers

QUOTA = (
    'pods "web-x" is forbidden: exceeded quota: team, requested: requests.cpu=200m, '
    "used: requests.cpu={}, limited: requests.cpu=500m"
)
DEVICES = (
    'pods "web-x" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=1, '
    "used: requests.nvidia.com/gpu={}, limited: requests.nvidia.com/gpu=8"
)
ERRORS: dict[str, tuple[KubeError | DecodeError, Reason | None]] = {
    "a policy": (InvalidError("pods is forbidden: policy"), Reason.REPLACEMENT_WOULD_BE_REFUSED),
    "a webhook": (BadRequestError("denied"), Reason.REPLACEMENT_WOULD_BE_REFUSED),
    "no right to create pods": (ForbiddenError("no"), Reason.REPLACEMENT_WOULD_BE_REFUSED),
    "a quota, also without the old pod": (
        ForbiddenError(QUOTA.format("401m")),
        Reason.REPLACEMENT_WOULD_BE_REFUSED,
    ),
    "a quota, only beside the old pod": (ForbiddenError(QUOTA.format("400m")), None),
    "a quota of a device, only beside the old pod": (
        ForbiddenError(DEVICES.format(8)),
        None,
    ),
    "a quota of a device that was lowered": (
        ForbiddenError(DEVICES.format(9)),
        Reason.REPLACEMENT_WOULD_BE_REFUSED,
    ),
    "another code": (KubeError("I'm a teapot"), Reason.REPLACEMENT_WOULD_BE_REFUSED),
    "the controller is gone": (NotFoundError("no"), Reason.EVICTION_FAILED),
    "a conflict": (ConflictError("no"), Reason.EVICTION_FAILED),
    "throttled": (TooManyRequestsError("slow down"), Reason.EVICTION_FAILED),
    "a webhook that fails": (ServerError("failed calling webhook"), Reason.EVICTION_FAILED),
    "an expired token": (UnauthorizedError("who?"), Reason.EVICTION_FAILED),
    "no answer": (UnreachableError("away"), Reason.EVICTION_FAILED),
    "an answer that can't be read": (DecodeError("what?"), Reason.EVICTION_FAILED),
}


@pytest.mark.parametrize(("error", "want"), ERRORS.values(), ids=ERRORS)
def test_errors(error: KubeError | DecodeError, want: Reason | None) -> None:
    old = pod(containers=(container(requests={"cpu": "100m"}, limits={"nvidia.com/gpu": "1"}),))
    found = after_error(old, error)
    assert (None if found is None else found.reason) is want
    if found is not None:
        assert str(error) in found.detail, "the API server's sentence"


def test_a_quota_refusal_of_an_unreadable_pod_counts() -> None:
    broken = pod(containers=(container(requests={"cpu": "many"}),))
    found = after_error(broken, ForbiddenError(QUOTA.format("400m")))
    assert found is not None


RIGHT = {"cpu": "250m", "memory": "256Mi"}
WRONG = "its requests would not be those recommended; app would request {}"
PATCHED = {OBSERVED_CONTAINERS: "app"}
ANSWERS: dict[str, tuple[Mapping[str, str], Mapping[str, str], str]] = {
    "as recommended": (RIGHT, PATCHED, ""),
    "not patched": (
        {"cpu": "100m"},
        {},
        "the VPA webhook would not patch it; app would request cpu 100m",
    ),
    "patched, and changed by another webhook": (
        {"cpu": "100m", "memory": "256Mi"},
        PATCHED,
        "its requests would not be those recommended; app would request cpu 100m and memory 256Mi",
    ),
    "no requests": (
        {},
        PATCHED,
        WRONG.format("nothing"),
    ),
}


@pytest.mark.parametrize(("requests", "annotations", "want"), ANSWERS.values(), ids=ANSWERS)
def test_answers(requests: Mapping[str, str], annotations: Mapping[str, str], want: str) -> None:
    created = pod(containers=(container(requests=requests),), annotations=annotations)
    bounded = recommendation(lower=RIGHT, upper=RIGHT)
    found = after_answer(created, vpa(recommendations=(bounded,)), ())
    assert (found.detail if found else "") == want
    if found:
        assert found.reason is Reason.REPLACEMENT_LACKS_RECOMMENDATION


def test_without_a_recommendation_there_is_no_refusal() -> None:
    assert after_answer(pod(), vpa(), ()) is None


# The frequency of dry runs


def recommended_pod() -> Pod:
    return pod(containers=(container(requests=RIGHT),), annotations=PATCHED)


@dataclass(slots=True)
class FakeReplacements(TemplatePods):
    """Returns ``answer`` to each dry run, and records the pods."""

    answer: Callable[[], Pod] = recommended_pod
    current: int = 1  # generation of the controller
    supported: bool = True
    asked: list[str] = field(default_factory=list)

    def supports(self, controller: Controller) -> bool:
        return self.supported

    def generation(self, controller: Controller) -> int:
        return self.current

    async def create(self, pod: Pod, controller: Controller) -> Pod:
        self.asked.append(pod.metadata.name)
        return self.answer()


def unpatched() -> Pod:
    return pod()


def refused() -> Pod:
    raise InvalidError("policy says no")


def unreachable() -> Pod:
    raise UnreachableError("away")


async def run(
    replacements: FakeReplacements | None,
    actuator: FakeActuator,
    *,
    state: UpdaterState | None = None,
    minutes: float = 0,
    given: ClusterSnapshot | None = None,
    names: Sequence[str] = NAMES,
    stop: asyncio.Event | None = None,
    limits: RateLimits | None = None,
) -> UpdaterState:
    return await run_pass(
        given or snapshot(UpdateMode.RECREATE, names=names),
        actuator,
        state=state,
        clock=FixedClock(NOW + timedelta(minutes=minutes)),
        limits=limits,
        replacements=replacements,
        seconds=math.inf,
        stop=stop,
    )


async def test_a_workload_has_one_dry_run_in_a_pass() -> None:
    replacements, actuator = FakeReplacements(), FakeActuator()
    state = await run(replacements, actuator)
    assert len(replacements.asked) == 1
    assert sorted(actuator.evicted) == NAMES
    assert not state.dry_runs
    await run(replacements, actuator, names=["next-0", "next-1"])
    assert len(replacements.asked) == 2, "an accepted replacement counts for one pass"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refused, Reason.REPLACEMENT_WOULD_BE_REFUSED),
        (unpatched, Reason.REPLACEMENT_LACKS_RECOMMENDATION),
    ],
)
async def test_after_a_refusal_no_pod_is_evicted(answer: Callable[[], Pod], reason: Reason) -> None:
    replacements, actuator = FakeReplacements(answer), FakeActuator()
    state = await run(replacements, actuator)
    assert not actuator.evicted
    assert len(replacements.asked) == 1
    assert set(actuator.refused) == set(NAMES), "an Event for each pod that stays"
    for name in NAMES:
        decision = state.of(f"uid-{name}").decision
        assert decision is not None
        assert decision.reason is reason
        assert decision.until == NOW + OPEN.interval
    assert state.refused_evictions == {WEB}
    second = FakeActuator()
    state = await run(replacements, second, state=state, minutes=0.9)
    assert len(replacements.asked) == 1, "repeated only after a delay"
    assert not second.evicted
    assert not second.refused, "an Event once per change"
    assert state.refused_evictions == {WEB}, "as long as the refusal stands"
    planned = await preview(snapshot(UpdateMode.RECREATE), state)
    assert {each.reason for each in planned.values()} == {reason}
    assert len(replacements.asked) == 1, "a plan sends no dry run"


async def test_delays_grow_and_the_end_of_a_refusal_is_detected() -> None:
    replacements, actuator = FakeReplacements(refused), FakeActuator()
    state = await run(replacements, actuator)
    for minutes, times in ((1, 2), (2, 2), (2.9, 2), (3, 3), (6.9, 3), (7, 4)):
        state = await run(replacements, actuator, state=state, minutes=minutes)
        assert len(replacements.asked) == times, minutes
    assert not actuator.evicted
    replacements.answer = recommended_pod
    state = await run(replacements, actuator, state=state, minutes=15)
    assert sorted(actuator.evicted) == NAMES
    assert not state.dry_runs


def snapshot_with(autoscaler: VerticalPodAutoscaler) -> ClusterSnapshot:
    given = snapshot(UpdateMode.RECREATE)
    (scaled,) = given.autoscaled
    return replace(given, autoscaled=(replace(scaled, vpa=autoscaler),))


async def test_another_recommendation_policy_or_template_is_tried_immediately() -> None:
    replacements, actuator = FakeReplacements(refused), FakeActuator()
    state = await run(replacements, actuator)
    same = snapshot(UpdateMode.RECREATE).autoscaled[0].vpa
    other = RecommendedPodResources(
        container_recommendations=(recommendation(target={"cpu": "280m"}, lower={"cpu": "200m"}),)
    )
    state = await run(
        replacements,
        actuator,
        state=state,
        given=snapshot_with(structs.replace(same, status=VpaStatus(recommendation=other))),
    )
    assert len(replacements.asked) == 2
    bounded = vpa(policies=(ContainerPolicy(container_name="app", max_allowed={"cpu": "1"}),)).spec
    policy = structs.replace(same.spec, resource_policy=bounded.resource_policy)
    state = await run(
        replacements, actuator, state=state, given=snapshot_with(structs.replace(same, spec=policy))
    )
    assert len(replacements.asked) == 3
    replacements.current = 2
    await run(
        replacements, actuator, state=state, given=snapshot_with(structs.replace(same, spec=policy))
    )
    assert len(replacements.asked) == 4
    assert not actuator.evicted


async def test_a_dry_run_without_an_answer_counts_for_one_pass() -> None:
    replacements, actuator = FakeReplacements(unreachable), FakeActuator()
    state = await run(replacements, actuator)
    assert not actuator.evicted
    assert not actuator.refused
    assert len(replacements.asked) == 1
    decision = state.of("uid-web-0").decision
    assert decision is not None
    assert (decision.reason, decision.until) == (Reason.EVICTION_FAILED, None)
    replacements.answer = recommended_pod
    await run(replacements, actuator, state=state)
    assert sorted(actuator.evicted) == NAMES


async def test_nothing_is_evicted_if_the_pass_ends_during_the_dry_run() -> None:
    stop, actuator = asyncio.Event(), FakeActuator()

    def stop_and_answer() -> Pod:
        stop.set()
        return recommended_pod()

    state = await run(FakeReplacements(stop_and_answer), actuator, stop=stop)
    assert not actuator.evicted
    decision = state.of("uid-web-0").decision
    assert decision is not None
    assert decision.reason is Reason.NO_TURN


class CountingLimiter(RateLimiter):
    passed = 0

    async def acquire(self) -> None:
        self.passed += 1


@pytest.mark.parametrize(("answer", "want"), [(refused, 0), (recommended_pod, len(NAMES))])
async def test_dry_runs_do_not_use_the_eviction_rate_limit(
    answer: Callable[[], Pod], want: int
) -> None:
    limiter, actuator = CountingLimiter(0, 0), FakeActuator()
    await run(FakeReplacements(answer), actuator, limits=RateLimits(evictions=limiter))
    assert (limiter.passed, len(actuator.evicted)) == (want, want)


async def test_controllers_without_a_template_have_no_dry_run() -> None:
    replacements, actuator = FakeReplacements(refused, supported=False), FakeActuator()
    await run(replacements, actuator)
    assert not replacements.asked
    assert sorted(actuator.evicted) == NAMES


async def test_without_the_flag_there_is_no_dry_run() -> None:
    actuator = FakeActuator()
    await run(None, actuator)
    assert sorted(actuator.evicted) == NAMES


async def test_refusals_of_deleted_controllers_are_dropped() -> None:
    state = await run(FakeReplacements(refused), FakeActuator())
    assert set(state.dry_runs) == {WEB}
    empty = ClusterSnapshot(autoscaled=(), living=frozenset())
    assert not (await run(FakeReplacements(), FakeActuator(), state=state, given=empty)).dry_runs


def test_a_delay_is_at_most_thirty_two_intervals() -> None:
    decision = after_error(pod(), InvalidError("no"))
    assert decision is not None
    minute, found = timedelta(minutes=1), None
    pauses = []
    for _ in range(8):
        found = refusal_after(decision, vpa(), before=found, generation=1, interval=minute, now=NOW)
        pauses.append((found.until - NOW) / minute)
    assert pauses == [1, 2, 4, 8, 16, 32, 32, 32]
