"""The state of a VPA in ``kubectl vpa status``."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

import builders
from common.api.autoscaling import (
    ContainerPolicy,
    ContainerRecommendation,
    EvictionRequirement,
    TargetReference,
    UpdatePolicy,
    VerticalPodAutoscaler,
    VpaCondition,
    VpaStatus,
)
from common.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
)
from common.api.horizontal_autoscaling import (
    HorizontalPodAutoscaler,
    HpaSpec,
    MetricSpec,
    MetricTarget,
    ResourceMetric,
)
from common.api.meta import LabelSelector, ObjectMeta
from kubectl_vpa.judge.competitors import BudgetSpec, BudgetStatus, PodDisruptionBudget
from kubectl_vpa.judge.pod_groups import PodGroups
from kubectl_vpa.judge.vpa_status import VpaFacts, judge_vpa, worst_first
from kubectl_vpa.results.status import ResourceStatus, State, StatusReason, VpaResult

NOW = datetime(2026, 1, 2, tzinfo=UTC)  # pods of the builder started a day before
LARGE = {"cpu": "500m", "memory": "1000Mi"}
SMALL = {"cpu": "50m", "memory": "250Mi"}
OLD = timedelta(hours=12)
WIDE = {"lower": {"cpu": "10m", "memory": "10Mi"}, "upper": {"cpu": "2", "memory": "2Gi"}}
NARROW = {"lower": SMALL, "upper": SMALL}


def pods(count: int = 2, *, requests: Mapping[str, str] = LARGE, **more: object) -> list[Pod]:
    made = builders.pod(containers=(builders.container(requests=requests),))
    if age := more.get("age"):
        assert isinstance(age, timedelta)
        made = replace(made, status=replace(made.status, start_time=NOW - age))
    if resize := more.get("resize"):
        assert isinstance(resize, PodCondition)
        made = replace(made, status=replace(made.status, conditions=(resize,)))
    if statuses := more.get("statuses"):
        made = replace(made, status=replace(made.status, container_statuses=statuses))
    return [
        replace(made, metadata=replace(made.metadata, name=f"web-{number}"))
        for number in range(count)
    ]


def recommended(
    *,
    target: Mapping[str, str] = SMALL,
    lower: Mapping[str, str] | None = None,
    upper: Mapping[str, str] | None = None,
) -> tuple[ContainerRecommendation, ...]:
    return (builders.recommendation(target=target, lower=lower, upper=upper),)


def vpa(
    mode: str = "Recreate",
    *,
    numbers: tuple[ContainerRecommendation, ...] | None = recommended(**NARROW),
    conditions: Sequence[tuple[str, str]] = (("RecommendationProvided", ""),),
    policy: UpdatePolicy | None = None,
    containers: tuple[ContainerPolicy, ...] = (),
    age: timedelta = timedelta(days=1),
) -> VerticalPodAutoscaler:
    made = builders.vpa(mode=mode, recommendations=numbers, policies=containers, created=NOW - age)
    status = VpaStatus(
        recommendation=made.status.recommendation,
        conditions=tuple(
            VpaCondition(type=kind, status="True", message=message, last_transition_time=NOW)
            for kind, message in conditions
        ),
    )
    spec = made.spec if policy is None else replace(made.spec, update_policy=policy)
    return replace(made, spec=spec, status=status)


def hpa(resource: str = "cpu", type: str = "Utilization") -> HorizontalPodAutoscaler:
    metric = ResourceMetric(name=resource, target=MetricTarget(type=type))
    return HorizontalPodAutoscaler(
        metadata=ObjectMeta(name="web-hpa"),
        spec=HpaSpec(
            scale_target_ref=TargetReference(kind="Deployment", name="web"),
            metrics=(MetricSpec(type="Resource", resource=metric),),
        ),
    )


def budget(allowed: int, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="guard"),
        spec=BudgetSpec(selector=LabelSelector(match_labels=labels or {"app": "web"})),
        status=BudgetStatus(disruptions_allowed=allowed),
    )


def resizing(type: str, reason: str = "") -> PodCondition:
    return PodCondition(type=type, status="True", reason=reason)


def killed(after: timedelta) -> tuple[ContainerStatus, ...]:
    started = NOW - timedelta(hours=1)
    ended = ContainerStateTerminated(
        reason="OOMKilled", started_at=started, finished_at=started + after
    )
    return (ContainerStatus(name="app", last_state=ContainerState(terminated=ended)),)


USUAL = vpa()
UNSET = UpdatePolicy(update_mode="Recreate")
ONLY_UP = EvictionRequirement(resources=("cpu",), change_requirement="TargetHigherThanRequests")
MEMORY_ONLY = ContainerPolicy(container_name="*", controlled_resources=("memory",))


@dataclass(frozen=True)
class Case:
    id: str
    state: State
    want: StatusReason
    message: str
    _: KW_ONLY
    vpa: VerticalPodAutoscaler = USUAL
    pods: Sequence[Pod] | None = tuple(pods())
    controlled_by: str = ""
    hpas: Sequence[HorizontalPodAutoscaler] = ()
    budgets: Sequence[PodDisruptionBudget] = ()


BLOCKED, CONFLICTING, NO_DATA, WAITING, OK = State
R = StatusReason
CASES = [
    Case("target isn't supported", BLOCKED, R.UNSUPPORTED_TARGET, "Deployment web does not exist",
         vpa=vpa(conditions=[("ConfigUnsupported", "Deployment web does not exist")])),
    Case("no targetRef", BLOCKED, R.UNSUPPORTED_TARGET, "the VPA has no targetRef",
         vpa=replace(vpa(), spec=replace(vpa().spec, target_ref=None))),
    Case("a quantity can't be read", BLOCKED, R.UNREADABLE,
         "a quantity of the pods or the VPA can't be read",
         vpa=vpa(numbers=recommended(target={"cpu": "many"}))),
    Case("one replica, two are needed by default", BLOCKED, R.BELOW_MIN_REPLICAS,
         "1 running, minReplicas is 2", pods=pods(1)),
    Case("the VPA's own minReplicas", BLOCKED, R.BELOW_MIN_REPLICAS, "2 running, minReplicas is 3",
         vpa=vpa(policy=UpdatePolicy(update_mode="Recreate", min_replicas=3))),
    Case("minReplicas 1 allows the only replica", WAITING, R.UPDATE_DUE,
         "1 pod outside of the recommended range",
         vpa=vpa(policy=UpdatePolicy(update_mode="Recreate", min_replicas=1)), pods=pods(1)),
    Case("a resize needs no second replica", WAITING, R.UPDATE_DUE,
         "1 pod outside of the recommended range", vpa=vpa("InPlaceOrRecreate"), pods=pods(1)),
    Case("evictionRequirements want an increase", BLOCKED, R.REQUIREMENTS_NOT_MET,
         "evictionRequirements don't hold",
         vpa=vpa(policy=replace(UNSET, eviction_requirements=(ONLY_UP,)))),
    Case("a disruption budget allows nothing", BLOCKED, R.DISRUPTION_BUDGET,
         "PodDisruptionBudget guard allows no eviction", budgets=[budget(0)]),
    Case("a disruption budget allows one eviction", WAITING, R.UPDATE_DUE,
         "2 pods outside of the recommended range", budgets=[budget(1)]),
    Case("a disruption budget of other pods", WAITING, R.UPDATE_DUE,
         "2 pods outside of the recommended range", budgets=[budget(0, app="other")]),
    Case("a resize in mode InPlace doesn't fit the node", BLOCKED, R.RESIZE_INFEASIBLE,
         "2 pods too large for the node", vpa=vpa("InPlace"),
         pods=pods(resize=resizing("PodResizePending", "Infeasible"))),
    Case("the kubelet fails to resize", BLOCKED, R.RESIZE_ERROR, "the kubelet can't resize 2 pods",
         vpa=vpa("InPlaceOrRecreate"), pods=pods(resize=resizing("PodResizeInProgress", "Error"))),
    Case("another VPA controls the pods", CONFLICTING, R.OTHER_VPA,
         "VPA older controls the same pods", controlled_by="older"),
    Case("another VPA controls the pods of a VPA without recommendation", CONFLICTING, R.OTHER_VPA,
         "VPA older controls the same pods", vpa=vpa(numbers=None, conditions=()),
         controlled_by="older"),
    Case("an HPA scales on the utilization of a controlled resource", CONFLICTING,
         R.AUTOSCALED_HORIZONTALLY, "HPA web-hpa scales on cpu utilization, too", hpas=[hpa()]),
    Case("an HPA scales on an average value, which requests don't change", WAITING, R.UPDATE_DUE,
         "2 pods outside of the recommended range", hpas=[hpa(type="AverageValue")]),
    Case("an HPA scales on a resource that the VPA leaves alone", WAITING, R.UPDATE_DUE,
         "2 pods outside of the recommended range",
         vpa=vpa(containers=(MEMORY_ONLY,)),
         hpas=[hpa()]),
    Case("an HPA beside a VPA that only recommends", OK, R.RECOMMENDATION_ONLY, "only recommends",
         vpa=vpa("Off"), hpas=[hpa()]),
    Case("a new VPA", NO_DATA, R.NEW, "new; no recommender has processed it yet",
         vpa=vpa(numbers=None, conditions=(), age=timedelta(minutes=4, seconds=59))),
    Case("no status after five minutes", NO_DATA, R.NOT_PROCESSED,
         "no recommender processes it; is one running?",
         vpa=vpa(numbers=None, conditions=(), age=timedelta(minutes=5))),
    Case("a condition that no pods match", NO_DATA, R.NO_PODS, "the workload has no pods",
         vpa=vpa(numbers=None, conditions=[("NoPodsMatched", "No pods match")]), pods=None),
    Case("no pods and no recommendation", NO_DATA, R.NO_PODS, "the workload has no pods",
         vpa=vpa(numbers=None), pods=()),
    Case("history is being loaded", NO_DATA, R.FETCHING_HISTORY,
         "the recommender is still loading history",
         vpa=vpa(numbers=None, conditions=[("FetchingHistory", "…")])),
    Case("no usage, as our recommender words it", NO_DATA, R.NO_SAMPLES, "app: no usage is known.",
         vpa=vpa(numbers=None, conditions=[("NoSamples", "app: no usage is known.")])),
    Case("no usage, without a condition of ours", NO_DATA, R.NO_SAMPLES,
         "no usage has been measured yet", vpa=vpa(numbers=None)),
    Case("the person may not list pods", NO_DATA, R.PODS_NOT_SEEN, "the pods could not be read",
         pods=None),
    Case("outside of the range", WAITING, R.UPDATE_DUE, "2 pods outside of the recommended range"),
    Case("within the range, and old enough", WAITING, R.UPDATE_DUE, "2 pods far from the target",
         vpa=vpa(numbers=recommended(**WIDE)), pods=pods(age=OLD)),
    Case("within the range, and a second too young", WAITING, R.TOO_YOUNG,
         "2 pods within the range, changed 12h after the start",
         vpa=vpa(numbers=recommended(**WIDE)), pods=pods(age=OLD - timedelta(seconds=1))),
    Case("OOM-killed soon after the start", WAITING, R.UPDATE_DUE,
         "2 pods OOM-killed soon after the start",
         vpa=vpa(numbers=recommended(target={"cpu": "500m", "memory": "2000Mi"}, **WIDE)),
         pods=pods(age=timedelta(hours=1), statuses=killed(timedelta(minutes=9)))),
    Case("OOM-killed after ten minutes", WAITING, R.TOO_YOUNG,
         "2 pods within the range, changed 12h after the start",
         vpa=vpa(numbers=recommended(target={"cpu": "500m", "memory": "2000Mi"}, **WIDE)),
         pods=pods(age=timedelta(hours=1), statuses=killed(timedelta(minutes=10)))),
    Case("mode Initial", WAITING, R.NEXT_POD, "applies to pods that are created",
         vpa=vpa("Initial")),
    Case("a resize waits for room", WAITING, R.RESIZE_DEFERRED,
         "2 pods waiting for room on the node", vpa=vpa("InPlaceOrRecreate"),
         pods=pods(resize=resizing("PodResizePending", "Deferred"))),
    Case("a resize goes on", WAITING, R.RESIZE_IN_PROGRESS, "2 pods being resized",
         vpa=vpa("InPlace"), pods=pods(resize=resizing("PodResizeInProgress"))),
    Case("a resize that doesn't fit leads to an eviction", WAITING, R.UPDATE_DUE,
         "2 pods too large for the node, to be evicted", vpa=vpa("InPlaceOrRecreate"),
         pods=pods(resize=resizing("PodResizePending", "Infeasible"))),
    Case("some pods are updated already", WAITING, R.UPDATE_DUE,
         "1 pod outside of the recommended range", pods=[*pods(3, requests=SMALL), *pods(1)]),
    Case("mode Off", OK, R.RECOMMENDATION_ONLY, "only recommends", vpa=vpa("Off")),
    Case("every container has mode Off", OK, R.NOTHING_SCALED,
         "no container of the pods is scaled",
         vpa=vpa(containers=(ContainerPolicy(container_name="*", mode="Off"),))),
    Case("a recommendation, and no pods now", OK, R.NO_PODS_NOW,
         "no pods now; new ones get the target", pods=()),
    Case("within the range, nine percent from the target", OK, R.CLOSE_TO_TARGET,
         "close to the target", vpa=vpa(numbers=recommended(target={"cpu": "455m"}, **WIDE))),
    Case("a target that nodes cap", OK, R.RECOMMENDATION_ONLY,
         "only recommends; the target is lowered to fit a node",
         vpa=vpa("Off", conditions=[("CappedByNodes", "")])),
    Case("a target above all nodes", OK, R.RECOMMENDATION_ONLY,
         "only recommends; the target fits no known node",
         vpa=vpa("Off", conditions=[("ExceedsKnownNodes", "")])),
    Case("a target that a quota bounds", OK, R.RECOMMENDATION_ONLY,
         "only recommends; a ResourceQuota bounds the target",
         vpa=vpa("Off", conditions=[("CappedByQuota", "")])),
    Case("a condition of nodes without a recommendation", NO_DATA, R.NO_SAMPLES,
         "no usage has been measured yet",
         vpa=vpa("Off", numbers=None, conditions=[("ExceedsKnownNodes", "")])),
    Case("at the target", OK, R.AT_TARGET, "all pods have the target", pods=pods(requests=SMALL)),
]  # fmt: skip  # a table: a row or two for each case


def judged(case: Case) -> VpaResult:
    groups = PodGroups()
    groups.add(case.pods or ())
    return judge_vpa(
        VpaFacts(
            vpa=case.vpa,
            groups=None if case.pods is None else list(groups.groups.values()),
            controlled_by=case.controlled_by,
            hpas=case.hpas,
            budgets=case.budgets,
        ),
        now=NOW,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_state_of_a_vpa_and_its_reason(case: Case) -> None:
    result = judged(case)
    assert (result.reason, result.state, result.message) == (case.want, case.state, case.message)


def test_every_reason_has_a_case_but_those_of_the_updater_and_of_a_special_pod() -> None:
    assert set(StatusReason) - {case.want for case in CASES} == {
        StatusReason.NO_ROOM_IN_POD,
        StatusReason.HELD_UP,
        StatusReason.POSTPONED,
    }


def test_the_numbers_are_those_of_the_pods_that_differ_most() -> None:
    result = judged(CASES[-1])
    assert result.cpu == ResourceStatus(request="50m", target="50m", drift=0.0)
    (mixed,) = (case for case in CASES if case.id == "some pods are updated already")
    result = judged(mixed)
    assert result.cpu == ResourceStatus(request="500m", target="50m", drift=-0.9)
    assert result.memory == ResourceStatus(request="1000Mi", target="250Mi", drift=-0.75)
    assert (result.drift, result.pods, result.pods_due) == (-0.9, 4, 1)


def test_containers_of_a_pod_are_added_up() -> None:
    pod = builders.pod(
        containers=(
            builders.container("app", requests={"cpu": "100m"}),
            builders.container("side", requests={"cpu": "1", "memory": "64Mi"}),
        )
    )
    numbers = (
        builders.recommendation("app", target={"cpu": "150m", "memory": "100Mi"}),
        builders.recommendation("side", target={"cpu": "500m", "memory": "28Mi"}),
    )
    result = judged(Case("", WAITING, R.UPDATE_DUE, "", vpa=vpa(numbers=numbers), pods=[pod]))
    assert result.cpu == ResourceStatus(request="1100m", target="650m", drift=-0.4091)
    assert result.memory == ResourceStatus(request="64Mi", target="128Mi", drift=1.0)


def test_the_worst_comes_first_then_what_differs_most_then_by_name() -> None:
    blocked = judged(CASES[0])
    waiting = judged(next(case for case in CASES if case.id == "outside of the range"))
    ok = judged(CASES[-1])
    named = [(ok, "z"), (waiting, "b"), (waiting, "a"), (blocked, "z")]
    results = [replace(one, name=name) for one, name in named]
    further = replace(waiting, name="c", drift=5.0)
    found = sorted([*results, further], key=worst_first)
    assert [(one.state, one.name) for one in found] == [
        ("blocked", "z"),
        ("waiting", "c"),
        ("waiting", "a"),
        ("waiting", "b"),
        ("ok", "z"),
    ]


def test_until_is_when_the_oldest_pod_is_old_enough() -> None:
    (case,) = (case for case in CASES if case.id == "within the range, and a second too young")
    assert judged(case).until == NOW + timedelta(seconds=1)
