"""What the updater's last pass adds to the status of a VPA, and what it doesn't change."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

import builders
from common.read_model.page import PassInfo
from common.read_model.updater import PlannedPod
from kubectl_vpa.judge.last_pass import LastPass
from kubectl_vpa.judge.pod_groups import PodGroups
from kubectl_vpa.judge.updater_view import UpdaterView
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.results.status import ResourceStatus, State, StatusReason, VpaResult
from scripted_components import TIME, planned, planned_pod
from updater.decision import Reason

R = StatusReason
NOW = datetime(2026, 1, 2, tzinfo=UTC)
FACTS_VPA = builders.vpa(mode="Recreate")


def status(reason: StatusReason, message: str = "derived") -> VpaResult:
    return VpaResult(
        namespace="shop",
        name="web",
        workload_kind="Deployment",
        workload_name="web",
        mode="Recreate",
        state=State.WAITING,
        reason=reason,
        message=message,
        cpu=ResourceStatus(),
        memory=ResourceStatus(),
        drift=None,
        pods=2,
        pods_due=2,
    )


def facts(*names: str) -> VpaFacts:
    made = builders.pod()
    groups = PodGroups()
    groups.add(replace(made, metadata=replace(made.metadata, name=name)) for name in names)
    return VpaFacts(vpa=FACTS_VPA, groups=list(groups.groups.values()))


def wait(name: str, reason: Reason) -> PlannedPod:
    return planned_pod(name, "wait", reason)


@dataclass(frozen=True)
class Case:
    id: str
    reason: StatusReason
    state: State
    message: str
    _: KW_ONLY
    derived: StatusReason = R.UPDATE_DUE
    plan: Sequence[PlannedPod] = ()


BLOCKED, _, _, WAITING, OK = State
UNCHANGED = "derived"
CASES = [
    Case("a reason that only the updater knows, which needs a person", R.HELD_UP, BLOCKED,
         "2 pods: replacements came up wrong, or not at all; one probe an hour",
         plan=[wait("web-1", Reason.ACTUATION_SUSPENDED),
               wait("web-2", Reason.ACTUATION_SUSPENDED)]),
    Case("a reason that only the updater knows, which passes", R.POSTPONED, WAITING,
         "1 pod: no turn before the end of the pass",
         plan=[planned_pod("web-0", "evict", Reason.DRIFTED), wait("web-2", Reason.RATE_LIMITED)]),
    Case("pods that the updater acts on, and others that wait", R.UPDATE_DUE, WAITING, UNCHANGED,
         plan=[planned_pod("web-1", "evict", Reason.DRIFTED), wait("web-2", Reason.RATE_LIMITED)]),
    Case("no room for a replacement, which needs a node", R.HELD_UP, BLOCKED,
         "1 pod: no Ready, eligible node has room for the pod that follows (--capacity-check): it "
         "needs cpu 3",
         plan=[replace(wait("web-1", Reason.NO_CAPACITY), detail="it needs cpu 3"),
               planned_pod("web-2", "evict", Reason.DRIFTED)]),
    Case("capacity that is requested", R.POSTPONED, WAITING,
         "1 pod: room for the pod that follows is requested from the cluster's autoscaler",
         plan=[wait("web-1", Reason.CAPACITY_REQUESTED)]),
    Case("capacity that was refused", R.HELD_UP, BLOCKED,
         "1 pod: the request for room was refused, or timed out; it is made again later",
         plan=[wait("web-1", Reason.CAPACITY_REFUSED)]),
    Case("a reason of a newer version", R.HELD_UP, BLOCKED, "1 pod: full moon",
         plan=[replace(wait("web-1", Reason.RATE_LIMITED), reason="moon", meaning="Full moon.")]),
    Case("the worst of two reasons", R.HELD_UP, BLOCKED,
         "1 pod: admission shows no sign of life: a replacement would stay as is",
         plan=[wait("web-1", Reason.BUDGET_EXHAUSTED), wait("web-2", Reason.ADMISSION_NOT_READY)]),
    Case("the same reason keeps the words of the status", R.BELOW_MIN_REPLICAS, WAITING, UNCHANGED,
         derived=R.BELOW_MIN_REPLICAS, plan=[wait("web-1", Reason.BELOW_MIN_REPLICAS)]),
    Case("a flag that allows what the default forbids", R.UPDATE_DUE, WAITING,
         "1 pod: a request is outside lower and upper bound",
         derived=R.BELOW_MIN_REPLICAS, plan=[planned_pod("web-1", "evict", Reason.OUTSIDE_RANGE)]),
    Case("a flag that forbids what the default allows", R.CLOSE_TO_TARGET, OK,
         "1 pod: in its range, and closer to the target than --pod-update-threshold",
         plan=[planned_pod("web-1", "leave", Reason.TOO_SMALL)]),
    Case("a pass before the recommendation", R.UPDATE_DUE, WAITING, UNCHANGED,
         plan=[planned_pod("web-1", "leave", Reason.NO_CHANGE)]),
    Case("a pod that is gone", R.UPDATE_DUE, WAITING, UNCHANGED,
         plan=[wait("web-0", Reason.ACTUATION_SUSPENDED)]),
    Case("pods that have the target already", R.AT_TARGET, WAITING, UNCHANGED,
         derived=R.AT_TARGET, plan=[wait("web-1", Reason.ACTUATION_SUSPENDED)]),
    Case("another VPA controls the pods", R.OTHER_VPA, WAITING, UNCHANGED,
         derived=R.OTHER_VPA, plan=[wait("web-1", Reason.ACTUATION_SUSPENDED)]),
    Case("no plan", R.UPDATE_DUE, WAITING, UNCHANGED),
]  # fmt: skip  # a table: a row or two for each case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_status_after_a_pass(case: Case) -> None:
    view = UpdaterView()
    view.add([planned("web", each) for each in case.plan])
    view.add([planned("other", wait("web-1", Reason.NO_CONTROLLER))])
    result = view.refine(status(case.derived), facts("web-1", "web-2"))
    assert (result.reason, result.state, result.message) == (case.reason, case.state, case.message)


def test_times_and_the_remedy_are_those_of_the_pass() -> None:
    view = UpdaterView()
    later = TIME + timedelta(hours=1)
    first = replace(wait("web-1", Reason.RATE_LIMITED), since=later, until=NOW)
    view.add([planned("web", first, wait("web-2", Reason.RATE_LIMITED))])
    result = view.refine(status(R.UPDATE_DUE), facts("web-1", "web-2"))
    assert (result.since, result.until) == (TIME, NOW)
    assert result.updater_reason == "rate_limited"
    assert result.unblock == "A higher --eviction-rate-limit; the next pass tries again."


@pytest.mark.parametrize(
    ("interval", "seconds", "age", "want"),
    [
        ("1m", 0.0, 180, True),
        ("1m", 0.0, 181, False),
        ("10s", 0.0, 31, False),
        ("1m", 30.0, 300, True),
        ("1m", 30.0, 301, False),
        ("", 0.0, 180, True),
        ("often", 0.0, 181, False),
        ("1m", 0.0, -60, True),
    ],
)
def test_a_pass_is_fresh_for_three_more(
    interval: str, seconds: float, age: int, *, want: bool
) -> None:
    at = NOW - timedelta(seconds=age)
    found = LastPass.of(PassInfo(number=1, at=at, seconds=seconds), interval)
    assert found.is_fresh(NOW) == want
