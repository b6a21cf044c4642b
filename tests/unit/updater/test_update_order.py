"""The verdicts of ``update_verdict``; cases from update_priority_calculator_test.go."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from builders import container, pod, vpa
from common.api.autoscaling import ContainerPolicy
from common.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodStatus,
)
from common.recommendation.processing import ContainerAmounts
from common.resources import ResourceQuantities, parse_quantities
from updater.decision import Reason
from updater.evaluate.drift import Drift, eligible_containers, forgive_rounding, measure
from updater.evaluate.quick_oom_kills import ContainerOomKill, quick_ooms
from updater.evaluate.update_order import rank
from updater.evaluate.update_verdict import Thresholds, judge

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
THRESHOLDS = Thresholds(min_change=0.1, min_lifetime=timedelta(hours=12))


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: Reason
    diff: float = 0.5
    outside: bool = False
    age: timedelta | None = timedelta(hours=24)
    oomed: bool = False


CASES = [
    Case(id="old and drifted", want=Reason.DRIFTED),
    Case(id="drift exactly at the threshold", diff=0.1, want=Reason.DRIFTED),
    Case(id="drift below the threshold", diff=0.09, want=Reason.TOO_SMALL),
    Case(id="age exactly at the threshold", age=timedelta(hours=12), want=Reason.DRIFTED),
    Case(id="too young", age=timedelta(hours=11, minutes=59), want=Reason.TOO_YOUNG),
    Case(id="young, out of range", age=timedelta(0), outside=True, want=Reason.OUTSIDE_RANGE),
    Case(id="out of range, hardly drifted", diff=0.01, outside=True, want=Reason.OUTSIDE_RANGE),
    Case(id="no start time", age=None, want=Reason.NOT_STARTED),
    Case(id="not started, out of range", age=None, outside=True, want=Reason.OUTSIDE_RANGE),
    Case(id="quick OOM", age=timedelta(0), oomed=True, want=Reason.OOMED_QUICKLY),
    Case(id="quick OOM, small drift", diff=0.01, oomed=True, want=Reason.OOMED_QUICKLY),
    Case(id="quick OOM, nothing to change", diff=0.0, oomed=True, want=Reason.NO_CHANGE),
    Case(id="quick OOM, no start time", age=None, oomed=True, want=Reason.OOMED_QUICKLY),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_judge(case: Case) -> None:
    verdict = judge(
        Drift(resource_diff=case.diff, outside_range=case.outside, scale_up=False),
        started_at=None if case.age is None else NOW - case.age,
        oomed_quickly=case.oomed,
        thresholds=THRESHOLDS,
        now=NOW,
    )
    assert verdict is case.want


def amounts(
    target: dict[str, str], lower: dict[str, str] | None = None, upper: dict[str, str] | None = None
) -> ContainerAmounts:
    return ContainerAmounts(
        name="app",
        target=parse_quantities(target),
        lower_bound=parse_quantities(lower),
        upper_bound=parse_quantities(upper),
    )


def requests(**values: str) -> dict[str, ResourceQuantities]:
    return {"app": parse_quantities(values)}


# updater.md 16: requests, amounts, (outside, scale up, diff)
DRIFTS = {
    "five times as much": (requests(cpu="2"), amounts({"cpu": "10"}), (False, True, 4.0)),
    "half": (requests(cpu="4"), amounts({"cpu": "2"}), (False, False, 0.5)),
    "milli": (requests(cpu="10m"), amounts({"cpu": "900m"}), (False, True, 89.0)),
    "below the lower bound": (
        requests(cpu="4"),
        amounts({"cpu": "10"}, {"cpu": "6"}, {"cpu": "14"}),
        (True, True, 1.5),
    ),
    "above the upper bound": (
        requests(cpu="8"),
        amounts({"cpu": "2"}, {"cpu": "1"}, {"cpu": "3"}),
        (True, False, 0.75),
    ),
    "at the lower bound": (
        requests(cpu="1"),
        amounts({"cpu": "2"}, {"cpu": "1"}),
        (False, True, 1.0),
    ),
    "at the upper bound": (
        requests(cpu="4"),
        amounts({"cpu": "2"}, None, {"cpu": "4"}),
        (False, False, 0.5),
    ),
    "one decrease, one increase": (
        requests(cpu="4", memory="10M"),
        amounts({"cpu": "2", "memory": "20M"}),
        (False, True, 1.5),
    ),
    "a missing request": (
        requests(cpu="1"),
        amounts({"cpu": "1", "memory": "1"}),
        (True, True, 999.0),
    ),
    "no recommendation": (requests(cpu="1"), amounts({}), (False, False, 0.0)),
}


@pytest.mark.parametrize(("present", "wanted", "want"), DRIFTS.values(), ids=DRIFTS)
def test_measure(
    present: dict[str, ResourceQuantities],
    wanted: ContainerAmounts,
    want: tuple[bool, bool, float],
) -> None:
    drift = measure(present, {"app": wanted})
    assert (drift.outside_range, drift.scale_up, drift.resource_diff) == want


OBSERVED = {
    "no annotation": (None, ["app", "proxy"]),
    "one listed": ({"vpaObservedContainers": "proxy"}, ["proxy"]),
    "an empty list": ({"vpaObservedContainers": ""}, []),
    "malformed": ({"vpaObservedContainers": "abcd;';"}, ["app", "proxy"]),
}


@pytest.mark.parametrize(("annotations", "want"), OBSERVED.values(), ids=OBSERVED)
def test_only_observed_and_recommended_containers_count(
    annotations: dict[str, str] | None, want: list[str]
) -> None:
    given = pod(
        annotations=annotations,
        containers=(container("app"), container("injected"), container("proxy")),
    )
    recommended = {name: amounts({"cpu": "1"}) for name in ("proxy", "app", "gone")}
    assert list(eligible_containers(given, recommended)) == want


# D31: a difference of up to one unit per container of the pod is ignored.
ROUNDING = {
    "one millicore": ({"cpu": "101m"}, {"cpu": "100m"}, 1, True),
    "two millicores, one container": ({"cpu": "102m"}, {"cpu": "100m"}, 1, False),
    "two millicores, two containers": ({"cpu": "98m"}, {"cpu": "100m"}, 2, True),
    "one byte": ({"memory": "1000001"}, {"memory": "1000000"}, 1, True),
    "two bytes": ({"memory": "1000002"}, {"memory": "1000000"}, 1, False),
    "another resource": ({"disk": "101m"}, {"disk": "100m"}, 1, False),
}


@pytest.mark.parametrize(
    ("present", "target", "slack", "forgiven"), ROUNDING.values(), ids=ROUNDING
)
def test_rounding_differences_are_ignored(
    present: dict[str, str], target: dict[str, str], slack: int, *, forgiven: bool
) -> None:
    wanted = {"app": amounts(target, target, target)}
    settled = forgive_rounding(requests(**present), wanted, slack=slack)
    drift = measure(settled, wanted)
    assert (drift.resource_diff == 0) is forgiven
    assert drift.outside_range is not forgiven


def oomed(
    *, ran: timedelta, finished: datetime, reason: str = "OOMKilled", name: str = "app"
) -> Pod:
    ended = ContainerStateTerminated(reason=reason, started_at=finished - ran, finished_at=finished)
    status = ContainerStatus(name=name, last_state=ContainerState(terminated=ended))
    ordinary = pod()
    return Pod(
        metadata=ordinary.metadata,
        spec=ordinary.spec,
        status=PodStatus(container_statuses=(status,)),
    )


KILLED_AT = NOW - timedelta(hours=1)
KILL = ContainerOomKill("app", KILLED_AT)
OOMS = {
    "ran two minutes": (timedelta(minutes=2), None, (), 1),
    "just below the threshold": (timedelta(minutes=9, seconds=59), None, (), 1),
    "at the threshold": (timedelta(minutes=10), None, (), 0),
    "updated before the kill": (timedelta(minutes=2), KILLED_AT - timedelta(seconds=1), (), 1),
    "updated after the kill": (timedelta(minutes=2), KILLED_AT + timedelta(seconds=1), (), 0),
    "updated at the time of the kill": (timedelta(minutes=2), KILLED_AT, (), 0),
    "answered before": (timedelta(minutes=2), None, (KILL,), 0),
}


@pytest.mark.parametrize(("ran", "updated_at", "spent", "count"), OOMS.values(), ids=OOMS)
def test_quick_ooms(
    ran: timedelta, updated_at: datetime | None, spent: tuple[ContainerOomKill, ...], count: int
) -> None:
    found = quick_ooms(
        oomed(ran=ran, finished=KILLED_AT),
        vpa(),
        threshold=timedelta(minutes=10),
        updated_at=updated_at,
        spent=spent,
    )
    assert found == (KILL,) * count


@pytest.mark.parametrize("switched_off", ["app", "*"])
def test_an_oom_kill_of_a_container_that_is_switched_off_does_not_count(switched_off: str) -> None:
    off = vpa(policies=(ContainerPolicy(container_name=switched_off, mode="Off"),))
    given = oomed(ran=timedelta(minutes=2), finished=KILLED_AT)
    limit = timedelta(minutes=10)
    assert quick_ooms(given, off, threshold=limit, updated_at=None) == ()


def test_another_termination_reason_is_no_oom_kill() -> None:
    given = oomed(ran=timedelta(minutes=2), finished=KILLED_AT, reason="Error")
    assert quick_ooms(given, vpa(), threshold=timedelta(minutes=10), updated_at=None) == ()


def test_increases_come_first_then_larger_differences_then_names() -> None:
    def drift(diff: float, *, up: bool) -> Drift:
        return Drift(resource_diff=diff, outside_range=False, scale_up=up)

    pods = {
        "less, much": rank(drift(9.0, up=False), pod("a")),
        "more, little": rank(drift(0.1, up=True), pod("b")),
        "more, much, late name": rank(drift(5.0, up=True), pod("z")),
        "more, much": rank(drift(5.0, up=True), pod("c")),
    }
    assert sorted(pods, key=lambda name: pods[name]) == [
        *("more, much", "more, much, late name", "more, little", "less, much")
    ]
