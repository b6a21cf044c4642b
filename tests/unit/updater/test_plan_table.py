"""The plan of the last pass as rows: decisions, since when, and what would unblock a pod."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from msgspec import structs

from builders import vpa
from common.api.autoscaling import UpdateMode
from common.read_model.updater import PlannedPod, PlannedVpa
from fixed_clock import FixedClock
from updater.decision import Reason
from updater.plan_table import PlanTable
from updater.remedies import REMEDIES
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.state import UpdaterState
from updater_harness import HALF, NOW, FakeActuator, run, snapshot

KEY = ("default", "web")
MINUTE = timedelta(minutes=1)


def table(given: ClusterSnapshot, state: UpdaterState) -> PlanTable:
    vpas = [scaled.vpa for scaled in given.autoscaled]
    return PlanTable(1, vpas=vpas, autoscaled=given.autoscaled, state=state)


def planned(plan: PlanTable) -> PlannedVpa:
    """Return the only VPA with all its pods."""
    (key,) = plan.keys
    rows = plan.rows(key)
    bodies = [rows.body(index) for index in range(len(rows.names))]
    assert [msgspec.json.decode(each, type=PlannedPod).name for each in bodies] == list(rows.names)
    return msgspec.json.decode(rows.item(bodies), type=PlannedVpa)


async def test_the_decisions_of_a_pass() -> None:
    given = snapshot(UpdateMode.RECREATE, names=["web-2", "web-0", "web-1"])
    found = planned(table(given, await run(given, FakeActuator(), rules=HALF)))
    assert (found.namespace, found.name, found.mode, found.why) == (
        "default",
        "web",
        "Recreate",
        None,
    )
    assert [(pod.name, pod.decision, pod.reason, pod.unblock) for pod in found.pods] == [
        ("web-0", "evict", "outside_range", None),
        ("web-1", "wait", "budget_exhausted", REMEDIES[Reason.BUDGET_EXHAUSTED]),
        ("web-2", "wait", "budget_exhausted", REMEDIES[Reason.BUDGET_EXHAUSTED]),
    ]
    pod = found.pods[1]
    assert (pod.node, pod.since, pod.until) == ("node-1", NOW, None)
    assert pod.owner is not None
    assert (pod.owner.kind, pod.owner.name) == ("ReplicaSet", "web")
    assert pod.resource_diff == pytest.approx(24 + 24.6)
    assert pod.outside_range
    (app,) = pod.containers
    assert (app.requests["cpu"], app.target["cpu"], app.lower_bound) == (
        "10m",
        "250m",
        {"cpu": "200m"},
    )


async def test_a_decision_stands_since_the_first_pass_with_it() -> None:
    given = snapshot(UpdateMode.RECREATE, names=["web-0", "web-1"], recommended=False)
    state, clock = UpdaterState(), FixedClock(NOW)
    for _ in range(3):  # in the second and the third, the VPA is idle
        state = await run(given, FakeActuator(), state=state, clock=clock)
        assert {pod.since for pod in planned(table(given, state)).pods} == {NOW}
        clock.forward(MINUTE)
    far, since = snapshot(UpdateMode.RECREATE), NOW + 3 * MINUTE
    for _ in range(2):
        state = await run(far, FakeActuator(), state=state, rules=HALF, clock=clock)
        pods = planned(table(far, state)).pods
        assert [pod.decision for pod in pods] == [*["evict"] * 2, *["wait"] * 3]
        assert {pod.since for pod in pods} == {since}
        clock.forward(MINUTE)


async def test_a_pod_without_numbers_has_its_reason() -> None:
    given = snapshot(UpdateMode.RECREATE, names=["web-0", "web-1"], recommended=False)
    pod = planned(table(given, await run(given, FakeActuator()))).pods[0]
    assert (pod.reason, pod.resource_diff, pod.containers) == ("no_recommendation", None, ())


@pytest.mark.parametrize(
    ("mode", "skipped", "why"),
    [
        pytest.param("Off", "", "mode Off changes no running pods", id="mode Off"),
        pytest.param("Initial", "", "mode Initial changes no running pods", id="mode Initial"),
        pytest.param("Recreate", "", "it controls none of the running pods", id="no pods"),
        pytest.param("InPlace", "needs a gate", "needs a gate", id="skipped"),
        pytest.param("Later", "not known", "not known", id="a mode of a newer version"),
    ],
)
def test_a_vpa_without_decisions_has_a_reason_and_counts_as_a_row(
    mode: str, skipped: str, why: str
) -> None:
    plan = PlanTable(1, vpas=[vpa(mode=mode)], skipped={KEY: skipped} if skipped else {})
    found = planned(plan)
    assert (found.mode, found.why, found.pods) == (mode, why, ())
    assert list(plan.ends) == [1]


async def test_vpas_are_sorted_and_rows_are_counted() -> None:
    given = snapshot(UpdateMode.RECREATE, names=["web-0", "web-1", "web-2"])
    (scaled,) = given.autoscaled
    others = [vpa("b", namespace="zoo"), vpa("z", namespace="bank"), vpa("a", namespace="zoo")]
    plan = PlanTable(1, vpas=[*others, scaled.vpa], autoscaled=given.autoscaled)
    assert list(plan.keys) == [("bank", "z"), KEY, ("zoo", "a"), ("zoo", "b")]
    assert list(plan.ends) == [1, 4, 5, 6]


async def test_a_pod_of_which_the_pass_decided_nothing_is_left_out() -> None:
    given = snapshot(UpdateMode.RECREATE, names=["web-0", "web-1"])
    state = await run(given, FakeActuator(), rules=HALF)
    (scaled,) = given.autoscaled
    new = structs.replace(scaled.pods[0].metadata, name="web-9", uid="uid-web-9")
    pods = (*scaled.pods, structs.replace(scaled.pods[0], metadata=new))
    later = replace(given, autoscaled=(replace(scaled, pods=pods),))
    assert [pod.name for pod in planned(table(later, state)).pods] == ["web-0", "web-1"]


ACTIONS = {Reason.OUTSIDE_RANGE, Reason.OOMED_QUICKLY, Reason.DRIFTED, Reason.STARTUP_BOOST_OVER}
FALL_BACK_TO_EVICTION = {
    *(Reason.RESIZE_DEFERRED_TOO_LONG, Reason.RESIZE_IN_PROGRESS_TOO_LONG),
    *(Reason.RESIZE_ERROR_TOO_LONG, Reason.RESIZE_UNKNOWN_TOO_LONG),
    Reason.RESIZE_FAILED_REPEATEDLY,
}
REPLACES_A_RESIZE = {Reason.RESIZE_WITHDRAWN, Reason.RESIZE_LOWERED, Reason.RESIZE_PARTIAL}
NEEDS_NOTHING = {
    *(Reason.NO_CHANGE, Reason.NOT_STARTED, Reason.TOO_YOUNG, Reason.TOO_SMALL),
    *(Reason.NOTHING_TO_DO, Reason.GONE),
}


def test_each_reason_to_wait_has_a_remedy() -> None:
    without = ACTIONS | FALL_BACK_TO_EVICTION | REPLACES_A_RESIZE | NEEDS_NOTHING
    assert REMEDIES.keys() == set(Reason) - without
    assert all(text.endswith(".") for text in REMEDIES.values())
