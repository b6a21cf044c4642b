"""Requests and recommendations of one workload in ``kubectl vpa report``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

import builders
from common.api.autoscaling import ContainerPolicy, VerticalPodAutoscaler
from common.api.core import (
    Container,
    ContainerStatus,
    LimitRangeItem,
    LimitRangeSpec,
    Pod,
    ResourceRequirements,
)
from kubectl_vpa.judge.competitors import vpas_by_target
from kubectl_vpa.judge.pod_groups import PodGroups
from kubectl_vpa.judge.workload_report import (
    WorkloadFacts,
    report_workload,
    row_key,
    why_not_recommended,
)
from kubectl_vpa.results.report import Source, WorkloadReport

KEY = ("default", "Deployment", "web")
LARGE = {"cpu": "500m", "memory": "1Gi"}
SMALL = {"cpu": "50m", "memory": "256Mi"}

Quantities = Mapping[str, str]


def pods(
    count: int = 1, *, requests: Quantities | None = LARGE, more: Sequence[Container] = ()
) -> list[Pod]:
    containers = (builders.container(requests=requests), *more)
    return [builders.pod(containers=containers)] * count


def reported(
    found: Sequence[Pod],
    targets: Mapping[str, Quantities] | None = None,
    *,
    policies: tuple[ContainerPolicy, ...] = (),
    limit_ranges: Sequence[LimitRangeSpec] = (),
    message: str = "",
) -> WorkloadReport:
    groups = PodGroups()
    groups.add(found)
    vpa = None
    if targets is not None:
        recommendations = tuple(
            builders.recommendation(name, target=target) for name, target in targets.items()
        )
        vpa = builders.vpa(recommendations=recommendations, policies=policies)
    return report_workload(
        WorkloadFacts(
            context="",
            key=KEY,
            groups=tuple(groups.groups.values()),
            recommending=vpa,
            source=Source.NONE if vpa is None else Source.VPA,
            message=message,
            limit_ranges=limit_ranges,
        )
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    pods: list[Pod]
    targets: Mapping[str, Quantities] = field(default_factory=lambda: {"app": SMALL})
    # request and recommendation of a pod, and what all pods would give back and lack
    cpu: tuple[str | None, str | None, str, str]
    memory: tuple[str | None, str | None, str, str]


CASES = [
    Case(
        id="too large",
        pods=pods(3),
        cpu=("500m", "50m", "1350m", "0"),
        memory=("1Gi", "256Mi", "2304Mi", "0"),
    ),
    Case(
        id="too small",
        pods=pods(2, requests=SMALL),
        targets={"app": LARGE},
        cpu=("50m", "500m", "0", "900m"),
        memory=("256Mi", "1Gi", "0", "1536Mi"),
    ),
    Case(
        id="as recommended",
        pods=pods(2, requests=SMALL),
        cpu=("50m", "50m", "0", "0"),
        memory=("256Mi", "256Mi", "0", "0"),
    ),
    Case(
        id="no requests: all of the recommendation is lacking",
        pods=pods(2, requests=None),
        cpu=(None, "50m", "0", "100m"),
        memory=(None, "256Mi", "0", "512Mi"),
    ),
    Case(
        id="a request of one resource only",
        pods=pods(requests={"cpu": "500m"}),
        cpu=("500m", "50m", "450m", "0"),
        memory=(None, "256Mi", "0", "256Mi"),
    ),
    Case(
        id="a recommendation of one resource only",
        pods=pods(),
        targets={"app": {"cpu": "50m"}},
        cpu=("500m", "50m", "450m", "0"),
        memory=("1Gi", None, "0", "0"),
    ),
    Case(
        id="a container without a recommendation keeps its requests",
        pods=pods(more=[builders.container("proxy", requests=SMALL)]),
        cpu=("550m", "100m", "450m", "0"),
        memory=("1280Mi", "512Mi", "768Mi", "0"),
    ),
    Case(
        id="what one container lacks is not offset by another",
        pods=pods(more=[builders.container("proxy", requests=SMALL)]),
        targets={"app": SMALL, "proxy": LARGE},
        cpu=("550m", "550m", "450m", "450m"),
        memory=("1280Mi", "1280Mi", "768Mi", "768Mi"),
    ),
    Case(
        id="a recommendation for a container that is gone",
        pods=pods(),
        targets={"old": SMALL},
        cpu=("500m", None, "0", "0"),
        memory=("1Gi", None, "0", "0"),
    ),
    Case(
        id="pods that differ: the most frequent ones are shown, all of them count",
        pods=[*pods(1), *pods(2, requests=SMALL)],
        cpu=("50m", "50m", "450m", "0"),
        memory=("256Mi", "256Mi", "768Mi", "0"),
    ),
    Case(
        id="no pods",
        pods=[],
        cpu=(None, None, "0", "0"),
        memory=(None, None, "0", "0"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_numbers_of_a_workload(case: Case) -> None:
    found = reported(case.pods, case.targets)
    for resource, want in ((found.cpu, case.cpu), (found.memory, case.memory)):
        numbers = (resource.request, resource.recommended, resource.given_back, resource.lacking)
        assert numbers == want
    assert found.pods == len(case.pods)


def test_totals_are_those_of_all_pods() -> None:
    found = reported([*pods(1), *pods(2, requests=SMALL)], {"app": SMALL})
    assert (found.cpu.total_request, found.cpu.total_recommended) == ("600m", "150m")
    assert (found.memory.total_request, found.memory.total_recommended) == ("1536Mi", "768Mi")


def test_without_a_recommendation_requests_stay() -> None:
    found = reported(pods(2), message="no VPA")
    assert (found.source, found.message) == (Source.NONE, "no VPA")
    assert (found.cpu.recommended, found.cpu.total_recommended) == (None, "1")
    assert (found.cpu.given_back, found.cpu.lacking) == ("0", "0")


def test_the_containers_of_a_pod_are_listed() -> None:
    found = reported(pods(more=[builders.container("proxy")]), {"app": SMALL})
    app, proxy = found.containers
    assert (app.container, app.cpu.request, app.cpu.recommended) == ("app", "500m", "50m")
    assert (proxy.container, proxy.cpu.request, proxy.cpu.recommended) == ("proxy", None, None)
    assert found.message == "nothing is recommended for proxy"


def with_init_containers(*names_and_policies: tuple[str, str | None]) -> list[Pod]:
    (pod,) = pods()
    containers = tuple(
        replace(builders.container(name, requests=SMALL), restart_policy=policy)
        for name, policy in names_and_policies
    )
    return [replace(pod, spec=replace(pod.spec, init_containers=containers))]


def test_native_sidecars_count_and_other_init_containers_do_not() -> None:
    found = reported(with_init_containers(("proxy", "Always"), ("setup", None)), {"app": SMALL})
    assert (found.cpu.request, found.cpu.recommended) == ("550m", "100m")
    assert [each.container for each in found.containers] == ["app", "proxy"]
    assert found.message == ""


def test_actual_requests_count_while_a_resize_is_in_progress() -> None:
    (pod,) = pods()
    status = ContainerStatus(name="app", resources=ResourceRequirements(requests=SMALL))
    resizing = replace(pod, status=replace(pod.status, container_statuses=(status,)))
    assert reported([resizing], {"app": SMALL}).cpu.given_back == "0"


def test_a_pod_level_request_stays() -> None:
    """The scheduler counts it instead of the requests of the containers."""
    (pod,) = pods()
    of_pod = ResourceRequirements(requests={"cpu": "2"})
    found = reported([replace(pod, spec=replace(pod.spec, resources=of_pod))], {"app": SMALL})
    assert (found.cpu.request, found.cpu.recommended, found.cpu.given_back) == ("2", None, "0")
    assert (found.memory.request, found.memory.recommended) == ("1Gi", "256Mi")


def test_a_limit_range_raises_what_is_recommended() -> None:
    item = LimitRangeItem(type="Container", min={"cpu": "200m"})
    found = reported(pods(), {"app": SMALL}, limit_ranges=[LimitRangeSpec(limits=(item,))])
    assert found.cpu.recommended == "200m"


def test_a_policy_that_switches_a_container_off_recommends_nothing() -> None:
    off = ContainerPolicy(container_name="*", mode="Off")
    found = reported(pods(), {"app": SMALL}, policies=(off,))
    assert (found.source, found.message) == (Source.NONE, "nothing is recommended")
    assert found.cpu.recommended is None


def test_an_unreadable_quantity_is_named() -> None:
    found = reported(pods(requests={"cpu": "much"}), {"app": SMALL})
    assert (found.source, found.message) == (
        Source.NONE,
        "a quantity of the pods can't be read",
    )
    found = reported(pods(), {"app": {"cpu": "much"}})
    assert found.message == "a quantity of the pods or the VPA can't be read"


def test_static_pods_are_workloads_of_their_own() -> None:
    groups = PodGroups()
    groups.add([builders.pod("etcd-cp-1", owner=("Node", "cp-1"))])
    (group,) = groups.groups.values()
    assert row_key(group.controller.key, group) == ("default", "Pod", "etcd-cp-1")
    assert row_key(KEY, group) == KEY


EVERY = frozenset(Source)


@pytest.mark.parametrize(
    ("vpa", "sources", "want"),
    [
        (None, {Source.VPA, Source.CHECKPOINTS}, "no VPA"),
        (
            builders.vpa("slow"),
            {Source.VPA, Source.CHECKPOINTS},
            "VPA slow recommends nothing yet",
        ),
        (builders.vpa("slow"), {Source.CHECKPOINTS}, "VPA slow has no checkpoints with usage"),
        (None, EVERY, "no usage in Prometheus"),
        (builders.vpa("slow"), EVERY, "no usage in Prometheus"),
    ],
    ids=["no VPA", "a new VPA", "no checkpoints", "no usage", "a VPA, and no usage"],
)
def test_the_reason_without_a_recommendation(
    vpa: VerticalPodAutoscaler | None, sources: Collection[Source], want: str
) -> None:
    assert why_not_recommended(KEY, vpa, sources) == want


def test_a_bare_pod_has_no_recommendation_whatever_is_read() -> None:
    why = why_not_recommended(("default", "Pod", "by-hand"), None, EVERY)
    assert why == "no controller, so no VPA can control it"


def test_the_vpa_of_a_target_is_the_one_that_controls_it() -> None:
    old = builders.vpa("an-old-one", mode="Off")
    first, second = builders.vpa("first"), builders.vpa("second")
    assert vpas_by_target([old, second, first]) == {KEY: first}
    assert vpas_by_target([old, builders.vpa("no-target", target=None)]) == {KEY: old}
