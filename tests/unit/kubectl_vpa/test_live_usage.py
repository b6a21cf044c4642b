"""Usage beside requests and targets, as ``kubectl vpa top`` prints it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

import builders
from common.api.autoscaling import ContainerPolicy, VerticalPodAutoscaler
from common.api.core import Pod
from common.api.metrics import ContainerMetrics, MetricsMeta, PodMetrics
from kubectl_vpa.judge.live_usage import (
    Detail,
    UsageByPod,
    most_unequal_first,
    usage_by_pod,
    usage_of,
)
from kubectl_vpa.judge.pod_groups import PodGroups
from kubectl_vpa.judge.vpa_status import VpaFacts, judge_groups
from kubectl_vpa.results.top import UsageResult

NO_DETAIL = Detail()
NOW = datetime(2026, 1, 2, tzinfo=UTC)
TARGET = {"cpu": "50m", "memory": "250Mi"}


def pod(name: str, **containers: Mapping[str, str]) -> Pod:
    made = builders.pod(
        containers=tuple(
            builders.container(container, requests=requests)
            for container, requests in containers.items()
        )
    )
    return replace(made, metadata=replace(made.metadata, name=name))


def vpa(*names: str, **more: Any) -> VerticalPodAutoscaler:
    numbers = tuple(builders.recommendation(name, target=TARGET) for name in names)
    return builders.vpa(recommendations=numbers or None, **more)


def measured(**pods: Mapping[str, Any]) -> UsageByPod:
    return usage_by_pod(
        PodMetrics(
            metadata=MetricsMeta(name=name.replace("_", "-"), namespace="default"),
            containers=tuple(
                ContainerMetrics(name=container, usage=usage)
                for container, usage in containers.items()
            ),
        )
        for name, containers in pods.items()
    )


def found(
    autoscaler: VerticalPodAutoscaler,
    pods: list[Pod],
    usage: UsageByPod,
    detail: Detail = NO_DETAIL,
) -> list[UsageResult]:
    groups = PodGroups()
    groups.add(pods)
    facts = VpaFacts(vpa=autoscaler, groups=list(groups.groups.values()))
    return list(usage_of(facts, judge_groups(facts, now=NOW), usage, detail=detail))


BOTH = {"cpu": "100m", "memory": "1Gi"}


def test_a_row_is_the_mean_of_the_pods_with_usage() -> None:
    """The requests of the pods differ, and the third pod has no usage yet."""
    pods = [pod("web-1", app=BOTH), pod("web-2", app={"cpu": "300m"}), pod("web-3", app=BOTH)]
    usage = measured(
        web_1={"app": {"cpu": "10000001n", "memory": "1048576"}},
        web_2={"app": {"cpu": "30m", "memory": "3Mi"}},
    )
    cpu, memory = found(vpa("app"), pods, usage)
    assert (cpu.usage, cpu.request, cpu.used, cpu.pods) == ("21m", "200m", 0.1, 2)
    assert (cpu.target, cpu.lower_bound, cpu.upper_bound) == ("50m", None, None)
    assert (memory.usage, memory.target, memory.pod) == ("2Mi", "250Mi", None)


def test_containers_are_added_up_or_told_apart() -> None:
    pods = [pod("web-1", app={"cpu": "100m"}, side={"cpu": "100m"})]
    usage = measured(web_1={"app": {"cpu": "150m"}, "side": {"cpu": "10m"}})
    (both,) = found(vpa("app", "side"), pods, usage)
    assert (both.container, both.usage, both.request, both.used) == (None, "160m", "200m", 0.8)
    each = found(vpa("app", "side"), pods, usage, Detail(containers=True))
    assert [(one.container, one.used) for one in each] == [("app", 1.5), ("side", 0.1)]


def test_a_container_without_recommendation_does_not_count() -> None:
    pods = [pod("web-1", app={"cpu": "100m"}, side={"cpu": "100m"})]
    usage = measured(web_1={"app": {"cpu": "50m"}, "side": {"cpu": "90m"}})
    off = (ContainerPolicy(container_name="side", mode="Off"),)
    for one in (vpa("app", "side", policies=off), vpa("app")):
        (result,) = found(one, pods, usage)
        assert (result.usage, result.used) == ("50m", 0.5)
    (result,) = found(vpa(), pods, usage)
    assert (result.usage, result.request, result.target) == ("140m", "200m", None)


def test_pods_are_told_apart() -> None:
    pods = [pod(name, app={"cpu": "100m"}) for name in ("web-1", "web-2")]
    usage = measured(web_1={"app": {"cpu": "50m"}}, web_2={"app": {"cpu": "150m"}})
    results = found(vpa("app"), pods, usage, Detail(pods=True))
    assert [(one.pod, one.used) for one in results] == [("web-1", 0.5), ("web-2", 1.5)]
    assert {one.pods for one in results} == {1}


@pytest.mark.parametrize("usage", [None, "much", {}, {"cpu": "much"}, {"cpu": True}])
def test_usage_that_is_no_quantity_is_left_out(usage: object) -> None:
    assert found(vpa("app"), [pod("web-1", app=BOTH)], measured(web_1={"app": usage})) == []


def test_an_unreadable_request_leaves_the_usage() -> None:
    usage = measured(web_1={"app": {"cpu": "50m"}})
    (result,) = found(vpa("app"), [pod("web-1", app={"cpu": "much"})], usage)
    assert (result.usage, result.request, result.used) == ("50m", None, None)


def test_no_request_and_a_request_of_zero_have_no_share() -> None:
    for requests in ({"memory": "1Gi"}, {"cpu": "0"}):
        usage = measured(web_1={"app": {"cpu": "50m"}})
        (result,) = found(vpa("app"), [pod("web-1", app=requests)], usage)
        assert result.used is None


def test_the_most_unequal_comes_first() -> None:
    pods = [pod("web-1", app=BOTH)]
    (one,) = found(vpa("app"), pods, measured(web_1={"app": {"cpu": "50m"}}))
    shares = (0.01, 1.0, None, 1.01, 3.0)
    results = [replace(one, used=used) for used in shares]
    assert [each.used for each in sorted(results, key=most_unequal_first)] == [
        3.0,
        1.01,
        None,
        0.01,
        1.0,
    ]
