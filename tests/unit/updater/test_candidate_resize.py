"""Resize plans are shared by candidates that are equal in the inputs of the plan."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec
import pytest

from builders import container, pod, recommendation, vpa
from common.api.core import ContainerStatus, Pod, PodCondition, ResourceRequirements
from updater.decision import Decision, Reason, leave
from updater.evaluate.quick_oom_kills import ContainerOomKill
from updater.evaluate.recommendation_fit import Measured, measure_pod
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
        why=Reason.OOMED_QUICKLY,
        ooms=(),
    )


FIRST = candidate()


def with_status(**status: object) -> Candidate:
    """Return the first candidate with another status."""
    given = msgspec.structs.replace(WEB.status, **status)
    return replace(FIRST, pod=msgspec.structs.replace(WEB, status=given))


DEFERRED = PodCondition(type="PodResizePending", status="True", reason="Deferred")
REPORTED = (ContainerStatus(name="app", resources=ResourceRequirements(limits={"cpu": "1"})),)


@dataclass(frozen=True, kw_only=True)
class Case:
    """The next candidate, and whether it shares the plan."""

    id: str
    candidate: Candidate
    shares: bool


CASES = [
    Case(id="the same candidate", candidate=FIRST, shares=True),
    Case(id="a replica", candidate=with_status(phase="Pending"), shares=True),
    Case(
        id="another report of the kubelet",
        candidate=with_status(container_statuses=REPORTED),
        shares=False,
    ),
    Case(id="another QoS class", candidate=with_status(qos_class="Guaranteed"), shares=False),
    Case(id="a pending resize", candidate=with_status(conditions=(DEFERRED,)), shares=False),
    Case(
        id="a candidate that is left alone",
        candidate=replace(FIRST, left=leave(Reason.TOO_YOUNG)),
        shares=False,
    ),
    Case(id="another verdict", candidate=replace(FIRST, why=Reason.DRIFTED), shares=False),
    Case(id="another OOM kill", candidate=replace(FIRST, ooms=(KILL,)), shares=False),
    Case(
        id="another spec",
        candidate=candidate(pod(containers=(container(requests={"cpu": "150m"}),))),
        shares=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_shared_plan_equals_a_new_plan(case: Case) -> None:
    planner = Planner(VPA, ())
    first = planner.plan(FIRST)
    plan = planner.plan(case.candidate)
    assert plan == plan_candidate(case.candidate, VPA, ())
    assert not isinstance(plan, Decision)
    assert (plan is first) is case.shares
