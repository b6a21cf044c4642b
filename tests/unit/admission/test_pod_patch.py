"""The worked examples of admission.md section 14, compared byte by byte."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from admission.pod_patch import pod_patch
from builders import container, pod, recommendation
from common.api.autoscaling import (
    ContainerPolicy,
    GenericStartupBoost,
    RecommendedPodResources,
    ResourcePolicy,
    StartupBoost,
    UpdatePolicy,
    VerticalPodAutoscaler,
    VpaSpec,
    VpaStatus,
)
from common.api.core import Container, LimitRangeItem, LimitRangeSpec
from common.api.meta import ObjectMeta
from common.errors import DecodeError
from common.features import FeatureGates
from common.quantity import ZERO, Quantity

NO_CPU_LIMIT = "cpu: limit NOT set since originalLimit is nil or 0"
NO_MEMORY_LIMIT = "memory: limit NOT set since originalLimit is nil or 0"
BOOST = FeatureGates(cpu_startup_boost=True)

Targets = Mapping[str, Mapping[str, str]]


def boost(type: str, *, factor: int | None = None, quantity: str | None = None) -> StartupBoost:
    return StartupBoost(cpu=GenericStartupBoost(type=type, factor=factor, quantity=quantity))


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: str  # operations as "path=value", without the annotations of every pod
    updates: str = ""  # vpaUpdates after "Pod resources updated by my-vpa: "
    containers: tuple[Container, ...]
    targets: Targets | None = field(default_factory=dict)
    annotations: Mapping[str, str] | None = field(default_factory=dict)
    limits: tuple[LimitRangeItem, ...] = ()
    policies: tuple[ContainerPolicy, ...] = ()
    mode: str | None = "Recreate"
    startup_boost: StartupBoost | None = None
    features: FeatureGates = BOOST
    most_boost: Quantity = ZERO


def patch(case: Case) -> list[dict[str, Any]]:
    recommendations = tuple(
        recommendation(name, target=target) for name, target in (case.targets or {}).items()
    )
    autoscaler = VerticalPodAutoscaler(
        metadata=ObjectMeta(name="my-vpa", namespace="default"),
        spec=VpaSpec(
            update_policy=UpdatePolicy(update_mode=case.mode),
            resource_policy=ResourcePolicy(container_policies=case.policies),
            startup_boost=case.startup_boost,
        ),
        status=VpaStatus(
            recommendation=None
            if case.targets is None
            else RecommendedPodResources(container_recommendations=recommendations)
        ),
    )
    operations = pod_patch(
        pod(containers=case.containers, annotations=case.annotations),
        autoscaler,
        (LimitRangeSpec(limits=case.limits),) if case.limits else (),
        features=case.features,
        most_boost=case.most_boost,
    ).operations
    decoded: list[dict[str, Any]] = json.loads(msgspec.json.encode(operations))
    return decoded


def app(
    requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None
) -> tuple[Container, ...]:
    return (container("app", requests=requests, limits=limits),)


def limit_item(type: str, **bounds: Mapping[str, str]) -> tuple[LimitRangeItem, ...]:
    return (msgspec.convert({"type": type, **bounds}, LimitRangeItem),)


SMALL = {"cpu": "100m", "memory": "100Mi"}
DOUBLE = {"cpu": "200m", "memory": "200Mi"}
TARGET = {"cpu": "250m", "memory": "262144k"}

CASES = [
    Case(
        id="1 nothing set, no annotations map",
        containers=(Container(name="app"),),
        annotations=None,
        targets={"app": {"cpu": "587m", "memory": "262144k"}},
        want="/metadata/annotations={} 0={} 0/requests={} "
        "0/requests/cpu=587m 0/requests/memory=262144k",
        updates="container 0: cpu request, memory request",
    ),
    Case(
        id="2 proportional limits, mixed suffix families",
        containers=app(SMALL, DOUBLE),
        targets={"app": TARGET},
        want="0/requests/cpu=250m 0/requests/memory=262144k "
        "0/limits/cpu=500m 0/limits/memory=500Mi",
        updates="container 0: cpu request, memory request, cpu limit, memory limit",
    ),
    Case(
        id="3 only a memory limit",
        containers=app(SMALL, {"memory": "200Mi"}),
        targets={"app": TARGET},
        want="0/requests/cpu=250m 0/requests/memory=262144k 0/limits/memory=500Mi",
        updates=f"container 0: {NO_CPU_LIMIT}, cpu request, memory request, memory limit",
    ),
    Case(
        id="4 RequestsOnly, capped by the container's limits",
        containers=app({"cpu": "1", "memory": "100Mi"}, {"cpu": "2", "memory": "200Mi"}),
        targets={"app": {"cpu": "3", "memory": "500Mi"}},
        policies=(
            ContainerPolicy(
                container_name="app",
                max_allowed={"cpu": "5", "memory": "1Gi"},
                controlled_values="RequestsOnly",
            ),
        ),
        want="0/requests/cpu=2 0/requests/memory=200Mi",
        updates="container 0: cpu capped to container limit, memory capped to container limit, "
        "cpu request, memory request",
    ),
    Case(
        id="5 wildcard policy",
        containers=app({"cpu": "1", "memory": "100Mi"}, {"cpu": "10", "memory": "100Mi"}),
        targets={"app": {"cpu": "7", "memory": "40Mi"}},
        policies=(
            ContainerPolicy(
                container_name="*", max_allowed={"cpu": "5"}, min_allowed={"memory": "64Mi"}
            ),
        ),
        want="0/requests/cpu=5 0/requests/memory=64Mi 0/limits/cpu=50 0/limits/memory=64Mi",
        updates="container 0: cpu capped to maxAllowed, memory capped to minAllowed, "
        "cpu request, memory request, cpu limit, memory limit",
    ),
    Case(
        id="6 LimitRange default limit",
        containers=app({"cpu": "2", "memory": "100Mi"}),
        annotations=None,
        limits=limit_item("Container", default={"cpu": "4", "memory": "100Mi"}),
        targets={"app": {"cpu": "3", "memory": "200Mi"}},
        want="/metadata/annotations={} 0/requests/cpu=3 0/requests/memory=200Mi "
        "0/limits={} 0/limits/cpu=6 0/limits/memory=200Mi",
        updates="container 0: cpu request, memory request, cpu limit, memory limit",
    ),
    Case(
        id="7 container LimitRange min and max",
        containers=app({"cpu": "1", "memory": "1G"}, {"cpu": "1", "memory": "1G"}),
        limits=limit_item("Container", max={"cpu": "1"}, min={"memory": "500M"}),
        targets={"app": {"cpu": "2", "memory": "200M"}},
        want="0/requests/cpu=1 0/requests/memory=500M 0/limits/cpu=1 0/limits/memory=500M",
        updates="container 0: cpu capped to fit Max in container LimitRange, "
        "memory capped to fit Min in container LimitRange, "
        "cpu request, memory request, cpu limit, memory limit",
    ),
    Case(
        id="8 pod LimitRange max over two containers",
        containers=(
            container("a", requests={"cpu": "1m"}, limits={"cpu": "1m"}),
            container("b", requests={"cpu": "1m"}, limits={"cpu": "1m"}),
        ),
        limits=limit_item("Pod", max={"cpu": "90m"}),
        targets={"a": {"cpu": "15m"}, "b": {"cpu": "100m"}},
        want="0/requests/cpu=11m 0/limits/cpu=11m 1/requests/cpu=78m 1/limits/cpu=78m",
        updates=f"container 0: {NO_MEMORY_LIMIT}, cpu request, cpu limit; "
        f"container 1: {NO_MEMORY_LIMIT}, cpu request, cpu limit",
    ),
    Case(
        id="9 no recommendation yet, no resources, no annotations (A10)",
        containers=(Container(name="app"),),
        annotations=None,
        targets=None,
        want="/metadata/annotations={} 0={}",
        updates="container 0: ",
    ),
    Case(
        id="10 second container with mode Off and no resources",
        containers=(container("app", requests={"cpu": "100m"}), Container(name="proxy")),
        annotations=None,
        policies=(ContainerPolicy(container_name="proxy", mode="Off"),),
        targets={"app": {"cpu": "200m"}},
        features=FeatureGates(),
        want="/metadata/annotations={} 0/requests/cpu=200m 1={}",
        updates="container 0: cpu request; container 1: ",
    ),
    Case(
        id="11 pod LimitRange and a container without recommendation (A13)",
        containers=tuple(
            container(
                name,
                requests={"cpu": "1", "memory": "50M"},
                limits={"cpu": "1", "memory": "100M"},
            )
            for name in "ab"
        ),
        limits=limit_item("Pod", min={"memory": "500M"}),
        targets={"a": {"cpu": "1", "memory": "200M"}},
        want="0/requests/cpu=1 0/requests/memory=450M 0/limits/cpu=1 0/limits/memory=900M",
        updates="container 0: cpu request, memory request, cpu limit, memory limit",
    ),
    Case(
        id="12 policy beats LimitRange (A9)",
        containers=app({"cpu": "500m"}, {"cpu": "1"}),
        limits=limit_item("Container", max={"cpu": "1"}),
        policies=(ContainerPolicy(container_name="*", min_allowed={"cpu": "1500m"}),),
        targets={"app": {"cpu": "2"}},
        want="0/requests/cpu=1500m 0/limits/cpu=3",
        updates="container 0: cpu capped to fit Max in container LimitRange, "
        f"cpu capped to minAllowed, {NO_MEMORY_LIMIT}, cpu request, cpu limit",
    ),
    Case(
        id="13 RequestsOnly, LimitRange min above the container's limit",
        containers=app({"cpu": "1", "memory": "50M"}, {"cpu": "1", "memory": "100M"}),
        limits=limit_item("Container", min={"memory": "500M"}),
        policies=(ContainerPolicy(container_name="*", controlled_values="RequestsOnly"),),
        targets={"app": {"cpu": "1", "memory": "200M"}},
        want="0/requests/cpu=1 0/requests/memory=100M",
        updates="container 0: memory capped to fit Min in container LimitRange, "
        "memory capped to container limit, cpu request, memory request",
    ),
    Case(
        id="14 non-integer ratio, rounding down",
        containers=app({"cpu": "1500m", "memory": "150"}, {"cpu": "2", "memory": "200"}),
        targets={"app": {"cpu": "1", "memory": "100"}},
        want="0/requests/cpu=1 0/requests/memory=100 0/limits/cpu=1333m 0/limits/memory=133",
        updates="container 0: cpu request, memory request, cpu limit, memory limit",
    ),
    Case(
        id="15 limits without requests map",
        containers=app(None, {"cpu": "2", "memory": "200Mi"}),
        targets={"app": TARGET},
        want="0/requests={} 0/requests/cpu=250m 0/requests/memory=262144k "
        "0/limits/cpu=250m 0/limits/memory=262144k",
        updates="container 0: cpu request, memory request, cpu limit, memory limit",
    ),
    Case(
        id="16 cpu-only recommendation",
        containers=app({"cpu": "1", "memory": "1M"}, {"cpu": "10", "memory": "10M"}),
        targets={"app": {"cpu": "2"}},
        want="0/requests/cpu=2 0/limits/cpu=20",
        updates="container 0: memory: limit NOT set since recommendedRequest is nil or 0, "
        "cpu request, cpu limit",
    ),
    Case(
        id="17 boost by factor",
        containers=app({"cpu": "100m"}, {"cpu": "300m"}),
        targets={"app": {"cpu": "150m"}},
        startup_boost=boost("Factor", factor=2),
        want='/metadata/annotations/vpaCpuStartupBoost~1app={"requests":{"cpu":"100m"},'
        '"limits":{"cpu":"300m"}} 0/requests/cpu=300m 0/limits/cpu=900m',
        updates=f"container 0: {NO_MEMORY_LIMIT}, cpu request, cpu limit",
    ),
    Case(
        id="18 boost in mode Off",
        containers=app({"cpu": "100m", "memory": "64Mi"}, {"cpu": "100m", "memory": "64Mi"}),
        annotations=None,
        mode="Off",
        targets={"app": {"cpu": "7", "memory": "7Gi"}},
        startup_boost=boost("Quantity", quantity="500m"),
        want="/metadata/annotations={} "
        '/metadata/annotations/vpaCpuStartupBoost~1app={"requests":{"cpu":"100m",'
        '"memory":"64Mi"},"limits":{"cpu":"100m","memory":"64Mi"}} '
        "0/requests/cpu=600m 0/limits/cpu=600m",
        updates="container 0: cpu request, cpu limit",
    ),
    Case(
        id="19 boost with RequestsOnly stays below the limit",
        containers=app({"cpu": "100m"}, {"cpu": "150m"}),
        targets={"app": {"cpu": "100m"}},
        policies=(ContainerPolicy(container_name="app", controlled_values="RequestsOnly"),),
        startup_boost=boost("Factor", factor=2),
        want='/metadata/annotations/vpaCpuStartupBoost~1app={"requests":{"cpu":"100m"},'
        '"limits":{"cpu":"150m"}} 0/requests/cpu=149m',
        updates="container 0: cpu request",
    ),
    Case(
        id="boost with RequestsOnly at a limit of 1m takes the limit itself",
        containers=app({"cpu": "1m"}, {"cpu": "1m"}),
        targets={"app": {"cpu": "1m"}},
        policies=(ContainerPolicy(container_name="app", controlled_values="RequestsOnly"),),
        startup_boost=boost("Factor", factor=2),
        want='/metadata/annotations/vpaCpuStartupBoost~1app={"requests":{"cpu":"1m"},'
        '"limits":{"cpu":"1m"}} 0/requests/cpu=1m',
        updates="container 0: cpu request",
    ),
    Case(
        id="the container's own boost takes precedence, and the flag bounds it",
        containers=app({"cpu": "100m"}),
        targets={"app": {"cpu": "100m"}},
        policies=(ContainerPolicy(container_name="*", startup_boost=boost("Factor", factor=9)),),
        startup_boost=boost("Factor", factor=2),
        most_boost=Quantity.parse("500m"),
        want='/metadata/annotations/vpaCpuStartupBoost~1app={"requests":{"cpu":"100m"},'
        '"limits":{}} 0/requests/cpu=500m',
        updates="container 0: cpu request",
    ),
    Case(
        id="no boost while the gate is off",
        containers=app({"cpu": "100m"}),
        targets={"app": {"cpu": "150m"}},
        startup_boost=boost("Factor", factor=2),
        features=FeatureGates(),
        want="0/requests/cpu=150m",
        updates="container 0: cpu request",
    ),
    Case(
        id="no boost of an unknown type (A5)",
        containers=app({"cpu": "100m"}),
        targets={"app": {"cpu": "150m"}},
        startup_boost=boost("Someday"),
        want="0/requests/cpu=150m",
        updates="container 0: cpu request",
    ),
    Case(
        id="no boost without cpu, where the reference crashes",
        containers=app({"cpu": "100m"}),
        targets={"app": {"cpu": "150m"}},
        startup_boost=StartupBoost(),
        want="0/requests/cpu=150m",
        updates="container 0: cpu request",
    ),
    Case(
        id="with the gate a container of mode Off is skipped (A4)",
        containers=(container("app", requests={"cpu": "100m"}), Container(name="proxy")),
        policies=(ContainerPolicy(container_name="proxy", mode="Off"),),
        targets={"app": {"cpu": "200m"}},
        startup_boost=boost("Factor", factor=1),
        want='/metadata/annotations/vpaCpuStartupBoost~1app={"requests":{"cpu":"100m"},'
        '"limits":{}} 0/requests/cpu=200m',
        updates="container 0: cpu request",
    ),
    Case(
        id="an extended resource is escaped and comes last",
        containers=app({"cpu": "1"}),
        targets={"app": {"example.com/gpu": "2", "cpu": "2"}},
        want="0/requests/cpu=2 0/requests/example.com~1gpu=2",
        updates="container 0: cpu request, example.com/gpu request",
    ),
    Case(
        id="nothing to change: only the observed containers are written",
        containers=app(SMALL),
        targets=None,
        want="",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_patch(case: Case) -> None:
    *resources, observed = patch(case)
    names = ", ".join(each.name for each in case.containers)
    assert observed == {
        "op": "add",
        "path": "/metadata/annotations/vpaObservedContainers",
        "value": names,
    }
    if case.updates:
        assert resources.pop() == {
            "op": "add",
            "path": "/metadata/annotations/vpaUpdates",
            "value": f"Pod resources updated by my-vpa: {case.updates}",
        }
    assert {operation["op"] for operation in resources} <= {"add"}
    assert " ".join(map(shown, resources)) == case.want


def shown(operation: dict[str, Any]) -> str:
    path = operation["path"]
    if path.startswith("/spec/containers/"):
        path = path.removeprefix("/spec/containers/").replace("/resources", "", 1)
    value = operation["value"]
    return f"{path}={value if isinstance(value, str) else json.dumps(value)}"


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(boost("Factor"), id="no factor"),
        pytest.param(boost("Factor", factor=0), id="factor below one"),
        pytest.param(boost("Quantity"), id="no quantity"),
    ],
)
def test_a_boost_without_its_number_drops_the_whole_patch(broken: StartupBoost) -> None:
    case = Case(id="", want="", containers=app(SMALL), startup_boost=broken)
    with pytest.raises(DecodeError, match="startupBoost"):
        patch(case)
