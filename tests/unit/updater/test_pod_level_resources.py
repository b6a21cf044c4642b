"""Resizes of pods with pod-level resources: their operations, and when they wait."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pytest

from builders import CREATED, container, pod, recommendation, vpa
from common.api.core import ContainerResizePolicy, Pod, ResourceRequirements
from common.features import FeatureGates
from common.recommendation.pod_level import PodLevelMode
from common.recommendation.qos import QosClass, qos_class
from updater.decision import Decision, Reason, wait
from updater.evaluate.recommendation_fit import RecommendationFit
from updater.evaluate.update_verdict import Thresholds
from updater.plan.candidate import Candidate, judge_pod
from updater.plan.candidate_resize import plan_candidate
from updater.resize.resize_plan import ResizePlan
from updater.state import PodMemory

Amounts = Mapping[str, str]

EXACT = {"cpu": "1", "memory": "1Gi"}


def pod_with_resources(*, requests: Amounts | None = None, limits: Amounts | None = None) -> Pod:
    """Return a pod with pod-level resources and containers ``app`` and ``side`` of 100m each."""
    plain = pod(
        containers=(
            container("app", requests={"cpu": "100m"}),
            container("side", requests={"cpu": "100m"}),
        )
    )
    stated = ResourceRequirements(requests=requests, limits=limits)
    return msgspec.structs.replace(
        plain, spec=msgspec.structs.replace(plain.spec, resources=stated)
    )


def plan_of(it: Pod, *, mode: PodLevelMode, side: str = "100m") -> ResizePlan | Decision:
    """Return the plan for a pod in which only ``app`` is outside its range."""
    target = {"cpu": "600m"}
    autoscaler = vpa(
        recommendations=(
            recommendation("app", target=target, lower=target, upper=target),
            recommendation("side", target={"cpu": side}, lower={"cpu": "10m"}, upper={"cpu": "1"}),
        )
    )
    candidate = judge_pod(
        it,
        RecommendationFit(autoscaler, pod_level=mode),
        memory=PodMemory(),
        resized_at=None,
        thresholds=Thresholds(),
        features=FeatureGates(),
        now=CREATED + timedelta(days=1),
    )
    if not isinstance(candidate, Candidate):
        return candidate
    return plan_candidate(candidate, autoscaler, ())


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    it: Pod
    want: dict[str, str]  # values by path
    mode: PodLevelMode = PodLevelMode.KEEP
    side: str = "100m"


APP = "/spec/containers/0/resources/requests/cpu"
SIDE = "/spec/containers/1/resources/requests/cpu"
REQUEST = "/spec/resources/requests/cpu"
LIMIT = "/spec/resources/limits/cpu"

CASES = [
    Case(
        id="no pod-level resources: only the container out of range is resized (D21)",
        it=pod(containers=pod_with_resources().spec.containers),
        side="200m",
        want={APP: "600m"},
    ),
    Case(
        id="the user's own request stays, and all containers are resized",
        it=pod_with_resources(requests={"cpu": "1"}),
        side="200m",
        want={APP: "600m", SIDE: "200m"},
    ),
    Case(
        id="a sum above the request is shared",
        it=pod_with_resources(requests={"cpu": "400m"}),
        side="200m",
        want={APP: "300m"},
    ),
    Case(
        id="a filled in request follows in the same patch",
        it=pod_with_resources(requests={"cpu": "200m"}, limits={"cpu": "1"}),
        want={APP: "600m", REQUEST: "700m"},
    ),
    Case(
        id="follow: request and limit follow in the same patch",
        it=pod_with_resources(requests={"cpu": "400m"}, limits={"cpu": "1"}),
        mode=PodLevelMode.FOLLOW,
        want={APP: "600m", REQUEST: "1400m", LIMIT: "3500m"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_operations(case: Case) -> None:
    plan = plan_of(case.it, mode=case.mode, side=case.side)
    assert isinstance(plan, ResizePlan)
    assert {each.path: each.value for each in plan.operations} == case.want


def test_without_room_the_pod_waits() -> None:
    it = pod_with_resources(requests={"cpu": "100m"})
    containers = (container("app", requests={"memory": "1"}), it.spec.containers[1])
    spec = msgspec.structs.replace(it.spec, containers=containers)
    autoscaler = vpa(recommendations=(recommendation("app", target={"cpu": "600m"}),))
    found = RecommendationFit(autoscaler).measured(msgspec.structs.replace(it, spec=spec))
    assert found == wait(
        Reason.POD_LEVEL_RESOURCES_EXHAUSTED,
        detail="the pod's own spec.resources leave no room for the recommended cpu: "
        "other containers or a minimum take all of it",
    )


QOS = [
    pytest.param(
        pod_with_resources(requests=EXACT, limits=EXACT),
        QosClass.GUARANTEED,
        id="equal: Guaranteed",
    ),
    pytest.param(pod_with_resources(requests=EXACT), QosClass.BURSTABLE, id="no limits: Burstable"),
    pytest.param(
        pod_with_resources(requests={"cpu": "1"}, limits={"cpu": "1"}),
        QosClass.BURSTABLE,
        id="no memory",
    ),
    pytest.param(
        pod_with_resources(),
        QosClass.BURSTABLE,
        id="no pod-level resources: the class of the containers",
    ),
]


@pytest.mark.parametrize(("it", "want"), QOS)
def test_pod_level_resources_determine_the_qos_class(it: Pod, want: QosClass) -> None:
    """The containers are Burstable in all cases."""
    assert qos_class(it.spec) is want


@pytest.mark.parametrize(
    ("own", "restarts"), [(None, True), ({"cpu": "1"}, False)], ids=["inherited", "own limit"]
)
def test_a_change_of_an_inherited_limit_restarts_the_container(
    own: Amounts | None, *, restarts: bool
) -> None:
    """KEP-5419: the container has no limit and restarts on changes, so the pod's limit counts."""
    it = pod_with_resources(requests={"cpu": "400m"}, limits={"cpu": "1"})
    policy = ContainerResizePolicy(resource_name="cpu", restart_policy="RestartContainer")
    side = msgspec.structs.replace(
        container("side", requests={"cpu": "100m"}, limits=own), resize_policy=(policy,)
    )
    spec = msgspec.structs.replace(it.spec, containers=(it.spec.containers[0], side))
    plan = plan_of(msgspec.structs.replace(it, spec=spec), mode=PodLevelMode.FOLLOW)
    assert isinstance(plan, ResizePlan)
    assert plan.restarts is restarts
