"""Defaults that the API server fills in."""

import json
from typing import Any

import pytest

from sandbox.errors import ApiError
from sandbox.objects.crds import fill_defaults as fill_crd
from sandbox.objects.defaults import fill
from sandbox.objects.resources import BUILTIN

KINDS = {resource.kind: resource for resource in BUILTIN}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def filled(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    fill(KINDS[kind], obj)
    again = {**obj}
    fill(KINDS[kind], again)
    assert again == obj  # the defaults are idempotent
    return obj


@pytest.mark.parametrize(
    ("image", "want"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry.example:5000/nginx", "Always"),
        ("registry.example:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0", "IfNotPresent"),
    ],
)
def test_images_without_a_version_are_always_pulled(image: str, want: str) -> None:
    pod = filled("Pod", {"spec": {"containers": [{"name": "c", "image": image}]}})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == want


@pytest.mark.parametrize(
    ("kind", "given", "path", "want"),
    [
        ("Deployment", {}, "replicas", 1),
        ("Deployment", {"replicas": 0}, "replicas", 0),
        ("Deployment", {}, "strategy.rollingUpdate.maxSurge", "25%"),
        ("Deployment", {"strategy": {"type": "Recreate"}}, "strategy", {"type": "Recreate"}),
        ("Deployment", {}, "revisionHistoryLimit", 10),
        ("ReplicaSet", {}, "replicas", 1),
        ("StatefulSet", {}, "updateStrategy.rollingUpdate.partition", 0),
        ("StatefulSet", {}, "podManagementPolicy", "OrderedReady"),
        ("DaemonSet", {}, "updateStrategy.rollingUpdate.maxUnavailable", 1),
        ("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, "updateStrategy.type", "OnDelete"),
    ],
)
def test_workloads(kind: str, given: dict[str, Any], path: str, want: Any) -> None:
    value: Any = filled(kind, {"spec": {"template": TEMPLATE, **given}})["spec"]
    for step in path.split("."):
        value = value.get(step)
    assert value == want


def test_templates_are_completed_but_get_no_requests_from_limits() -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "0.5"}}}]}}
    pod = filled("Deployment", {"spec": {"template": template}})["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Always"
    assert pod["containers"][0]["resources"] == {"limits": {"cpu": "500m"}}


@pytest.mark.parametrize(
    ("item", "want"),
    [
        pytest.param(
            {"max": {"cpu": "1000m"}},
            {"max": {"cpu": "1"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}},
            id="the maximum is the default limit and request",
        ),
        pytest.param(
            {"min": {"cpu": "0.1"}},
            {"min": {"cpu": "100m"}, "defaultRequest": {"cpu": "100m"}},
            id="the minimum is the default request",
        ),
        pytest.param(
            {"max": {"cpu": "4"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
            {"max": {"cpu": "4"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
            id="existing values stay",
        ),
    ],
)
def test_limit_ranges_of_containers(item: dict[str, Any], want: dict[str, Any]) -> None:
    of_container = filled("LimitRange", {"spec": {"limits": [{"type": "Container", **item}]}})
    assert of_container["spec"]["limits"] == [{"type": "Container", **want}]
    of_pod = filled("LimitRange", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}})
    assert of_pod["spec"]["limits"] == [{"type": "Pod", "max": {"cpu": "1"}}]


def test_webhooks_get_their_policies() -> None:
    hook = {
        "name": "w",
        "clientConfig": {"url": "https://localhost"},
        "rules": [{"operations": ["CREATE"]}],
    }
    [complete] = filled("MutatingWebhookConfiguration", {"webhooks": [hook]})["webhooks"]
    assert (complete["failurePolicy"], complete["timeoutSeconds"]) == ("Fail", 10)
    assert complete["reinvocationPolicy"] == "Never"
    assert complete["rules"][0]["scope"] == "*"


def test_namespaces_nodes_and_quotas() -> None:
    namespace = filled("Namespace", {"metadata": {"name": "x", "labels": {"a": "b"}}})
    assert namespace["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "x"}
    node = filled("Node", {"status": {"capacity": {"cpu": 4, "memory": "1.5Gi"}}})
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "1536Mi"}
    quota = filled("ResourceQuota", {"spec": {"hard": {"cpu": "0.5"}}})
    assert quota["spec"]["hard"] == {"cpu": "500m"}


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("Pod", {"spec": {"containers": [{"resources": {"requests": {"cpu": "AMOUNT"}}}]}}),
        ("LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "AMOUNT"}}]}}),
        ("ResourceQuota", {"spec": {"hard": {"requests.cpu": "AMOUNT"}}}),
        ("ResourceQuota", {"status": {"used": {"requests.cpu": "AMOUNT"}}}),
        ("Node", {"status": {"allocatable": {"cpu": "AMOUNT"}}}),
    ],
)
@pytest.mark.parametrize("amount", ["9" * 257, "1000e200", "1e101", "-1e101"])
def test_quantities_whose_sums_are_out_of_range_are_refused(
    kind: str, obj: dict[str, Any], amount: str
) -> None:
    def with_amount(text: str) -> Any:
        return json.loads(json.dumps(obj).replace("AMOUNT", text))

    filled(kind, with_amount("1e100"))
    with pytest.raises(ApiError) as caught:
        fill(KINDS[kind], with_amount(amount))
    assert caught.value.code == 400


def test_definitions_get_derived_names() -> None:
    crd: dict[str, Any] = {"spec": {"names": {"kind": "Thing", "plural": "things"}}}
    fill_crd(crd)
    assert crd["spec"]["names"]["singular"] == "thing"
    assert crd["spec"]["names"]["listKind"] == "ThingList"


def test_an_invalid_quantity_is_a_bad_request() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "much"}}}
    with pytest.raises(ApiError) as caught:
        fill(KINDS["Pod"], {"spec": {"containers": [container]}})
    assert caught.value.code == 400
    assert 'Pod in version "v1" cannot be handled as a Pod' in caught.value.message
