"""Reasons caused by refusals, other actors or time are remembered, logged and counted.

test_vpa_plan.py covers the reasons of the pass itself, in random clusters.
"""

import logging
from dataclasses import dataclass, replace

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry

from common.annotations import startup_boost_key
from common.api.autoscaling import GenericStartupBoost, StartupBoost, UpdateMode
from common.api.core import PodCondition
from common.errors import (
    ConflictError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from common.features import FeatureGates
from common.runtime.rate_limit import RateLimiter
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from updater.decision import Action, Decision, Reason, evict, leave, wait
from updater.execute import RateLimits
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_pod import LivePod
from updater.state import UpdaterState
from updater_harness import NAMES, OPEN, FakeActuator, Present, run, snapshot

BOOSTING = replace(OPEN, features=FeatureGates(in_place=True, cpu_startup_boost=True))
TRANSIENT = ServerError("try later", reason="InternalError")
BUDGET = TooManyRequestsError("no", reason="TooManyRequests")
OTHER_UID = ConflictError("the UID in the precondition (a) does not match", reason="Conflict")
NO_SUCH_PATH = NotFoundError("404 page not found", reason="NotFound")
GONE = NotFoundError("pods not found", reason="NotFound", kind="pods", name="web-0")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pass over five pods that need an update; ``want`` is the decision about ``pod``."""

    id: str
    want: Decision
    mode: UpdateMode = UpdateMode.RECREATE
    resize: KubeError | None = None  # the error of every resize
    eviction: KubeError | None = None  # the error of every eviction
    gone: bool = False  # web-0 is deleted after the start of the pass
    vpa_changed: bool = False  # after the start of the pass
    passes: int = 1
    limited: bool = False  # one eviction in a thousand seconds
    seconds: float = 60
    boosted: bool = False
    pod: str = "web-0"


EITHER, ALONE = UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE
CASES = [
    Case(
        id="the third transient error in a row",
        mode=EITHER,
        resize=TRANSIENT,
        passes=3,
        want=evict(Reason.RESIZE_FAILED_REPEATEDLY),
    ),
    Case(
        id="no resize subresource",
        mode=EITHER,
        resize=NO_SUCH_PATH,
        want=evict(Reason.RESIZE_NOT_SERVED),
    ),
    Case(
        id="no resize subresource, mode InPlace",
        mode=ALONE,
        resize=NO_SUCH_PATH,
        want=wait(Reason.RESIZE_NOT_SERVED),
    ),
    Case(id="gone before the call", gone=True, want=leave(Reason.GONE)),
    Case(id="gone in the answer", mode=ALONE, resize=GONE, want=leave(Reason.GONE)),
    Case(
        id="replaced by another pod of the same name", eviction=OTHER_UID, want=leave(Reason.GONE)
    ),
    Case(id="the VPA changed", vpa_changed=True, want=wait(Reason.VPA_CHANGED)),
    Case(id="a disruption budget", eviction=BUDGET, want=wait(Reason.EVICTION_REFUSED)),
    Case(id="a failure", eviction=TRANSIENT, want=wait(Reason.EVICTION_FAILED)),
    Case(
        id="a boost that cannot be removed",
        mode=UpdateMode.OFF,
        boosted=True,
        resize=InvalidError("refused", reason="Invalid"),
        want=wait(Reason.UNBOOST_FAILED),
    ),
    Case(id="not within the rate limit", limited=True, pod="web-1", want=wait(Reason.RATE_LIMITED)),
    Case(id="no time left", seconds=0, want=wait(Reason.NO_TURN)),
]


def boosted(given: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot with Ready pods whose boost has expired."""
    (scaled,) = given.autoscaled
    boost = StartupBoost(cpu=GenericStartupBoost(type="Factor", factor=2, duration_seconds=0))
    spec = structs.replace(scaled.vpa.spec, startup_boost=boost)
    note = {startup_boost_key("app"): '{"requests":{"cpu":"5m"},"limits":{}}'}

    def with_boost(pod: LivePod) -> LivePod:
        ready = PodCondition(type="Ready", status="True")
        return structs.replace(
            pod,
            metadata=structs.replace(pod.metadata, annotations=note),
            status=structs.replace(pod.status, conditions=(ready,)),
        )

    pods = tuple(map(with_boost, scaled.pods))
    after = replace(scaled, vpa=structs.replace(scaled.vpa, spec=spec), pods=pods)
    return replace(given, autoscaled=(after,))


def one_pass(
    case: Case, given: ClusterSnapshot, state: UpdaterState, registry: CollectorRegistry
) -> UpdaterState:
    actuator = FakeActuator(
        resize_errors=dict.fromkeys(NAMES, case.resize) if case.resize else {},
        eviction_errors=dict.fromkeys(NAMES, case.eviction) if case.eviction else {},
    )

    async def main(_: VirtualClock) -> UpdaterState:
        return await run(
            given,
            actuator,
            state=state,
            rules=BOOSTING,
            present=Present(gone_pods={"web-0"} if case.gone else (), vpa_changed=case.vpa_changed),
            limits=RateLimits(evictions=RateLimiter(0.001, 1) if case.limited else None),
            seconds=case.seconds,
            registry=registry,
        )

    return virtual_time.run(main)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_reason_is_remembered_logged_and_counted(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    given = snapshot(case.mode)
    if case.boosted:
        given = boosted(given)
    state, registry = UpdaterState(), CollectorRegistry()
    caplog.set_level(logging.DEBUG, "updater.decision_log")
    for _ in range(case.passes):
        caplog.clear()
        registry = CollectorRegistry()
        state = one_pass(case, given, state, registry)
    assert state.of(f"uid-{case.pod}").decision == case.want
    mine = f"default/{case.pod}"
    decided = [line for line in caplog.records if line.getMessage() == "pod decided"]
    lines = [vars(line) for line in decided if vars(line).get("pod") == mine]
    expected = (case.want.action.value, case.want.reason.value)
    assert [(line["decision"], line["reason"]) for line in lines] == [expected]
    labels = {"decision": expected[0], "reason": expected[1]}
    assert (registry.get_sample_value("vpa_updater_candidate_pods", labels) or 0) >= 1


def test_the_cases_cover_all_reasons_with_external_causes() -> None:
    assert {case.want.reason for case in CASES} == {
        *(Reason.RESIZE_FAILED_REPEATEDLY, Reason.RESIZE_NOT_SERVED, Reason.GONE),
        *(Reason.VPA_CHANGED, Reason.UNBOOST_FAILED, Reason.EVICTION_REFUSED),
        *(Reason.EVICTION_FAILED, Reason.RATE_LIMITED, Reason.NO_TURN),
    }
    assert {case.want.action for case in CASES} == set(Action) - {Action.RESIZE}
