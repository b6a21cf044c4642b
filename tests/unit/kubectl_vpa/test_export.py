"""What ``kubectl vpa export`` prints: objects, and resources for repositories of manifests."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

import builders
from common.api.autoscaling import ContainerPolicy, VerticalPodAutoscaler
from common.api.core import LimitRangeItem, LimitRangeSpec, ResourceRequirements
from common.api.workloads import TemplateContainer, TemplateSpec
from kubectl_vpa.judge.exported_objects import exported, recommendations
from kubectl_vpa.judge.template_resources import (
    Amounts,
    WorkloadResources,
    recommended_resources,
    workload_resources,
)
from kubectl_vpa.output.gitops import helm_values, kustomize_component, patches

TARGET = {"cpu": "250m", "memory": "256Mi"}


def vpa(*policies: ContainerPolicy) -> VerticalPodAutoscaler:
    return builders.vpa(
        recommendations=(builders.recommendation(target=TARGET),), policies=policies
    )


def template(
    requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None
) -> TemplateSpec:
    resources = ResourceRequirements(requests=requests, limits=limits)
    return TemplateSpec(
        containers=(
            TemplateContainer(name="app", resources=resources),
            TemplateContainer(name="side"),
        )
    )


ONLY_REQUESTS = ContainerPolicy(container_name="*", controlled_values="RequestsOnly")
OFF = ContainerPolicy(container_name="app", mode="Off")
MAXIMUM = LimitRangeSpec(limits=(LimitRangeItem(type="Container", max={"cpu": "200m"}),))


@pytest.mark.parametrize(
    ("autoscaler", "pods", "limit_ranges", "want"),
    [
        pytest.param(
            vpa(), template(), (), {"app": {"requests": TARGET}}, id="requests that are not set yet"
        ),
        pytest.param(
            vpa(),
            template({"cpu": "100m"}, {"cpu": "200m"}),
            (),
            {"app": {"requests": TARGET, "limits": {"cpu": "500m"}}},
            id="a limit keeps its ratio to the request",
        ),
        pytest.param(
            vpa(ONLY_REQUESTS),
            template({"cpu": "100m"}, {"cpu": "1"}),
            (),
            {"app": {"requests": TARGET}},
            id="limits are left alone with RequestsOnly",
        ),
        pytest.param(
            vpa(),
            template({"cpu": "100m"}, {"cpu": "100m"}),
            (MAXIMUM,),
            {"app": {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"cpu": "200m"}}},
            id="a LimitRange caps the request",
        ),
        pytest.param(vpa(OFF), template(), (), {}, id="a container that is not scaled"),
        pytest.param(builders.vpa(), template(), (), {}, id="no recommendation"),
    ],
)
def test_resources_are_those_that_the_webhook_would_set(
    autoscaler: VerticalPodAutoscaler,
    pods: TemplateSpec,
    limit_ranges: tuple[LimitRangeSpec, ...],
    want: Mapping[str, Amounts],
) -> None:
    assert recommended_resources(autoscaler, pods, limit_ranges) == want


@pytest.mark.parametrize(
    ("autoscaler", "pods", "want"),
    [
        pytest.param(
            builders.vpa(target=None), None, "VPA default/web has no targetRef", id="no target"
        ),
        pytest.param(
            vpa(),
            None,
            "VPA default/web: Deployment web doesn't exist, or has no known template",
            id="no workload",
        ),
        pytest.param(
            builders.vpa(),
            template(),
            "VPA default/web has no recommendation for the containers of Deployment web",
            id="no recommendation",
        ),
        pytest.param(
            vpa(),
            template({"cpu": "x"}),
            "VPA default/web: not a quantity: 'x': quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="an invalid quantity",
        ),
    ],
)
def test_a_workload_without_resources_has_a_reason(
    autoscaler: VerticalPodAutoscaler, pods: TemplateSpec | None, want: str
) -> None:
    assert workload_resources(autoscaler, pods, ()) == want


WEB = WorkloadResources(
    api_version="apps/v1",
    kind="Deployment",
    namespace="shop",
    name="web",
    containers={"app": {"requests": TARGET, "limits": {"cpu": "500m"}}},
)
RESOURCES = {"requests": TARGET, "limits": {"cpu": "500m"}}


def test_a_patch_has_the_resources_of_the_named_containers_only() -> None:
    assert list(patches([WEB])) == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "template": {"spec": {"containers": [{"name": "app", "resources": RESOURCES}]}}
            },
        }
    ]


def test_the_template_of_a_cron_job_is_deeper() -> None:
    (patch,) = patches([dataclasses.replace(WEB, kind="CronJob", api_version="batch/v1")])
    assert list(patch["spec"]) == ["jobTemplate"]
    containers = patch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert containers == [{"name": "app", "resources": RESOURCES}]


@pytest.mark.parametrize("namespaces", [False, True])
def test_a_component_names_namespaces_only_if_there_are_many(namespaces: bool) -> None:  # noqa: FBT001 - a parameter of the test
    component = kustomize_component([WEB], namespaces=namespaces)
    (entry,) = component["patches"]
    own = {"namespace": "shop"} if namespaces else {}
    assert entry["target"] == {
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
        "name": "web",
        **own,
    }
    assert yaml.safe_load(entry["patch"])["metadata"] == {"name": "web", **own}


def test_values_are_by_workload_and_container() -> None:
    assert helm_values([WEB], namespaces=False) == {"web": {"app": {"resources": RESOURCES}}}
    assert helm_values([WEB], namespaces=True) == {
        "shop": {"web": {"app": {"resources": RESOURCES}}}
    }


def test_an_exported_object_has_nothing_of_its_cluster() -> None:
    stored: dict[str, Any] = {
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "u",
            "resourceVersion": "1",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{}],
            "ownerReferences": [{"name": "x"}],
            "labels": {"team": "a"},
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "vpa-recommender/memory-windows": "w",
            },
        },
        "spec": {"containerName": "app"},
        "status": {"version": "v3"},
    }
    assert exported("autoscaling.k8s.io/v1", "Kind", stored) == {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "Kind",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "labels": {"team": "a"},
            "annotations": {"vpa-recommender/memory-windows": "w"},
        },
        "spec": {"containerName": "app"},
        "status": {"version": "v3"},
    }


def test_recommendations_are_sorted_and_have_texts() -> None:
    other = replace(vpa(), metadata=replace(vpa().metadata, name="a"))
    found = list(recommendations([vpa(), builders.vpa("none"), other]))
    assert [(each.name, each.container) for each in found] == [("a", "app"), ("web", "app")]
    assert found[0].target == TARGET
    assert found[0].workload_kind == "Deployment"
