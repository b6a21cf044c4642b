"""Selection of a live pod as a candidate: updater.md 7 with D18, D28, D31, D35 and D36."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from builders import container, pod, recommendation, vpa
from common.api.autoscaling import ContainerRecommendation, UpdatePolicy, VerticalPodAutoscaler
from common.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
    ResourceRequirements,
)
from common.features import FeatureGates
from updater.decision import Decision, Reason
from updater.evaluate.recommendation_fit import RecommendationFit
from updater.evaluate.update_verdict import Thresholds
from updater.plan.candidate import Candidate, judge_pod, oom_threshold
from updater.plan.candidate_resize import plan_candidate
from updater.resize.resize_plan import ResizePlan
from updater.state import PodMemory

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
USUAL = Thresholds()
HOUR = timedelta(hours=1)
IN_RANGE = recommendation(
    target={"cpu": "200m", "memory": "100Mi"},
    lower={"cpu": "50m", "memory": "50Mi"},
    upper={"cpu": "1", "memory": "1Gi"},
)
MORE_MEMORY = recommendation(
    target={"cpu": "100m", "memory": "200Mi"},
    lower={"cpu": "50m", "memory": "50Mi"},
    upper={"cpu": "1", "memory": "1Gi"},
)
LESS_MEMORY = recommendation(target={"cpu": "200m", "memory": "60Mi"}, lower={"memory": "50Mi"})
A_BYTE_MORE = recommendation(target={"cpu": "200m", "memory": "104857601"})
NO_MEMORY = recommendation(target={"cpu": "200m"})
OUT_OF_RANGE = recommendation(target={"cpu": "200m"}, lower={"cpu": "150m"}, upper={"cpu": "1"})
BY_ONE = recommendation(target={"cpu": "101m"}, lower={"cpu": "101m"}, upper={"cpu": "101m"})
IN_PROGRESS = PodCondition(type="PodResizeInProgress", status="True")


def pod_of_age(age: timedelta, *, oomed: bool = False, resizing: bool = False) -> Pod:
    """Return a pod with 100m and 100Mi; OOM-killed two hours ago, a minute after the start."""
    ordinary = pod(containers=(container(requests={"cpu": "100m", "memory": "100Mi"}),))
    killed = NOW - 2 * HOUR
    ended = ContainerStateTerminated(
        reason="OOMKilled", started_at=killed - timedelta(minutes=1), finished_at=killed
    )
    statuses = (ContainerStatus(name="app", last_state=ContainerState(terminated=ended)),)
    return Pod(
        metadata=ordinary.metadata,
        spec=ordinary.spec,
        status=PodStatus(
            phase="Running",
            start_time=NOW - age,
            conditions=(IN_PROGRESS,) if resizing else (),
            container_statuses=statuses if oomed else (),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: Reason
    recommended: ContainerRecommendation = IN_RANGE
    age: timedelta = 24 * HOUR
    oomed: bool = False
    resizing: bool = False
    resized_ago: timedelta | None = None


CASES = [
    Case(id="old enough and drifted", want=Reason.DRIFTED),
    Case(id="too young", age=HOUR, want=Reason.TOO_YOUNG),
    Case(id="resized a while ago (D18)", resized_ago=11 * HOUR, want=Reason.TOO_YOUNG),
    Case(id="resized long ago (D18)", resized_ago=12 * HOUR, want=Reason.DRIFTED),
    Case(
        id="a resize in progress does not count",
        resized_ago=HOUR,
        resizing=True,
        want=Reason.DRIFTED,
    ),
    Case(id="out of range, young", recommended=OUT_OF_RANGE, age=HOUR, want=Reason.OUTSIDE_RANGE),
    Case(
        id="out of range, just resized",
        recommended=OUT_OF_RANGE,
        resized_ago=timedelta(0),
        want=Reason.OUTSIDE_RANGE,
    ),
    Case(id="one unit outside its range (D31)", recommended=BY_ONE, want=Reason.TOO_SMALL),
    Case(
        id="quick OOM, more memory is recommended",
        recommended=MORE_MEMORY,
        age=HOUR,
        oomed=True,
        want=Reason.OOMED_QUICKLY,
    ),
    Case(id="quick OOM, the same memory (D35)", age=HOUR, oomed=True, want=Reason.TOO_YOUNG),
    Case(
        id="quick OOM, more memory by rounding alone (D31, D35)",
        recommended=A_BYTE_MORE,
        age=HOUR,
        oomed=True,
        want=Reason.TOO_YOUNG,
    ),
    Case(
        id="quick OOM, less memory (D35)",
        recommended=LESS_MEMORY,
        age=HOUR,
        oomed=True,
        want=Reason.TOO_YOUNG,
    ),
    Case(
        id="quick OOM, no memory recommended (D35)",
        recommended=NO_MEMORY,
        age=HOUR,
        oomed=True,
        want=Reason.TOO_YOUNG,
    ),
    Case(
        id="quick OOM, out of range in CPU (D35)",
        recommended=OUT_OF_RANGE,
        age=HOUR,
        oomed=True,
        want=Reason.OUTSIDE_RANGE,
    ),
    Case(
        id="quick OOM before the last resize (D28)",
        recommended=MORE_MEMORY,
        age=3 * HOUR,
        oomed=True,
        resized_ago=HOUR,
        want=Reason.TOO_YOUNG,
    ),
    Case(
        id="quick OOM after the last resize (D28)",
        recommended=MORE_MEMORY,
        age=4 * HOUR,
        oomed=True,
        resized_ago=3 * HOUR,
        want=Reason.OOMED_QUICKLY,
    ),
    Case(
        id="quick OOM, its resize is in progress",
        recommended=MORE_MEMORY,
        age=3 * HOUR,
        oomed=True,
        resizing=True,
        resized_ago=HOUR,
        want=Reason.OOMED_QUICKLY,
    ),
]


def judge(
    given: Pod,
    autoscaler: VerticalPodAutoscaler,
    *,
    resized_at: datetime | None = None,
    thresholds: Thresholds = USUAL,
) -> Candidate | Decision:
    return judge_pod(
        given,
        RecommendationFit(autoscaler),
        memory=PodMemory(),
        resized_at=resized_at,
        thresholds=thresholds,
        features=FeatureGates(),
        now=NOW,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_judge_pod(case: Case) -> None:
    outcome = judge(
        pod_of_age(case.age, oomed=case.oomed, resizing=case.resizing),
        vpa(recommendations=(case.recommended,)),
        resized_at=None if case.resized_ago is None else NOW - case.resized_ago,
    )
    reason = outcome.why if isinstance(outcome, Candidate) else outcome.reason
    assert reason is case.want


def test_pods_of_a_vpa_without_recommendation_are_left_alone() -> None:
    outcome = judge(pod_of_age(24 * HOUR), vpa(recommendations=None))
    assert isinstance(outcome, Decision)
    assert outcome.reason is Reason.NO_RECOMMENDATION


WITHOUT_DIFFERENCE = {
    "requests equal to the target": (recommendation(target={"cpu": "100m", "memory": "100Mi"}),),
    "no recommendation for its containers": (),
}


@pytest.mark.parametrize("recommended", WITHOUT_DIFFERENCE.values(), ids=WITHOUT_DIFFERENCE)
def test_with_a_threshold_of_zero_equal_pods_are_left_alone(
    recommended: tuple[ContainerRecommendation, ...],
) -> None:
    autoscaler = vpa(recommendations=recommended)
    outcome = judge(pod_of_age(24 * HOUR), autoscaler, thresholds=Thresholds(min_change=0.0))
    assert isinstance(outcome, Decision)
    assert outcome.reason is Reason.NO_CHANGE


def test_with_a_threshold_of_zero_every_difference_counts() -> None:
    slightly = recommendation(target={"cpu": "102m", "memory": "100Mi"})
    autoscaler = vpa(recommendations=(slightly,))
    outcome = judge(pod_of_age(24 * HOUR), autoscaler, thresholds=Thresholds(min_change=0.0))
    assert isinstance(outcome, Candidate)


def test_a_pod_with_an_invalid_recommendation_is_unreadable() -> None:
    broken = recommendation(target={"cpu": "lots"})
    outcome = judge(pod_of_age(24 * HOUR), vpa(recommendations=(broken,)))
    assert isinstance(outcome, Decision)
    assert outcome.reason is Reason.UNREADABLE


@pytest.mark.parametrize(
    ("gate", "seconds", "want"), [(True, 60, 60), (False, 60, 600), (True, None, 600)]
)
def test_oom_threshold(*, gate: bool, seconds: int | None, want: int) -> None:
    plain = vpa()
    policy = UpdatePolicy(evict_after_oom_seconds=seconds)
    given = type(plain)(metadata=plain.metadata, spec=type(plain.spec)(update_policy=policy))
    threshold = oom_threshold(given, timedelta(minutes=10), FeatureGates(per_vpa_config=gate))
    assert threshold == timedelta(seconds=want)


# CPU and memory requests of the spec, and the changes of a resize to 200m and 200Mi.
PRESENT_SPECS = [
    ("200m", "200Mi", set()),
    ("150m", "200Mi", {("app", "cpu")}),
]


@pytest.mark.parametrize(("cpu", "memory", "changes"), PRESENT_SPECS)
def test_a_partly_outdated_report_does_not_reduce_a_limit(
    cpu: str, memory: str, changes: set[tuple[str, str]]
) -> None:
    """The kubelet reports the new memory request, the old limit and the old cpu request."""
    limits = {"memory": "400Mi"}
    asked = pod(containers=(container(requests={"cpu": cpu, "memory": memory}, limits=limits),))
    reported = ResourceRequirements(
        requests={"cpu": "100m", "memory": "200Mi"},
        limits={"memory": "400Mi" if changes else "200Mi"},
    )
    status = ContainerStatus(name="app", resources=reported)
    given = msgspec.structs.replace(
        asked, status=PodStatus(phase="Running", start_time=NOW, container_statuses=(status,))
    )
    exactly = {"cpu": "200m", "memory": "200Mi"}
    recommended = recommendation(target=exactly, lower=exactly, upper=exactly)
    autoscaler = vpa(recommendations=(recommended,))
    candidate = judge(given, autoscaler)
    assert isinstance(candidate, Candidate)
    plan = plan_candidate(candidate, autoscaler, ())
    assert isinstance(plan, ResizePlan)
    assert plan.changes == changes
