"""Plans are shared by candidates that are alike in all that counts, and by no others."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec
import pytest

from builders import container, pod, recommendation, vpa
from common.api.core import ContainerStatus, Pod, PodCondition, ResourceRequirements
from updater.decision import Decision, Reason, leave
from updater.evaluate.recommendation_fit import Measured, measure_pod
from updater.evaluate.update_order import ContainerOomKill, Verdict
from updater.plan.candidate import Candidate
from updater.plan.candidate_resize import Planner, plan_candidate

VPA = vpa(recommendations=(recommendation(target={"cpu": "200m"}),))
WEB = pod(containers=(container(requests={"cpu": "100m"}),))
KILL = ContainerOomKill("app", datetime(2026, 1, 1, tzinfo=UTC))


def candidate(of: Pod = WEB) -> Candidate:
    measured = measure_pod(of, VPA, ())
    assert isinstance(measured, Measured)
    return Candidate(
        pod=of,
        processed=measured.processed,
        requests=measured.requests,
        drift=measured.drift,
        verdict=Verdict.OOMED_QUICKLY,
        ooms=(),
    )


FIRST = candidate()


def changed(**status: object) -> Candidate:
    """The first candidate, but for what the kubelet says."""
    given = msgspec.structs.replace(WEB.status, **status)
    return replace(FIRST, pod=msgspec.structs.replace(WEB, status=given))


DEFERRED = PodCondition(type="PodResizePending", status="True", reason="Deferred")
REPORTED = (ContainerStatus(name="app", resources=ResourceRequirements(limits={"cpu": "1"})),)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A candidate after the first one."""

    id: str
    candidate: Candidate
    shares: bool


CASES = [
    Case(id="the same", candidate=FIRST, shares=True),
    Case(id="a replica", candidate=changed(phase="Pending"), shares=True),
    Case(id="a report", candidate=changed(container_statuses=REPORTED), shares=False),
    Case(id="a QoS class", candidate=changed(qos_class="Guaranteed"), shares=False),
    Case(id="a resize that is pending", candidate=changed(conditions=(DEFERRED,)), shares=False),
    Case(
        id="one that is not worth an update",
        candidate=replace(FIRST, left=leave(Reason.TOO_YOUNG)),
        shares=False,
    ),
    Case(id="a verdict", candidate=replace(FIRST, verdict=Verdict.DRIFTED), shares=False),
    Case(id="an OOM kill", candidate=replace(FIRST, ooms=(KILL,)), shares=False),
    Case(
        id="a spec",
        candidate=candidate(pod(containers=(container(requests={"cpu": "150m"}),))),
        shares=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_plan_is_the_one_that_would_be_made_anew(case: Case) -> None:
    planner = Planner(VPA, ())
    first = planner.plan(FIRST)
    plan = planner.plan(case.candidate)
    assert plan == plan_candidate(case.candidate, VPA, ())
    assert not isinstance(plan, Decision)
    assert (plan is first) is case.shares
