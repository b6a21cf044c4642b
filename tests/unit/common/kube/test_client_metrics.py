"""The labels of calls to the API server."""

import pytest

from common.kube.client_metrics import OTHER, resource_label
from common.kube.endpoints import CHECKPOINTS, NAMESPACES, NODES, POD_METRICS, PODS, VPAS

PATHS = [
    pytest.param(PODS.collection(), "pods", id="all objects"),
    pytest.param(PODS.collection("shop"), "pods", id="the objects of a namespace"),
    pytest.param(PODS.object("web", "shop"), "pods", id="an object"),
    pytest.param(PODS.object("web", "shop", "eviction"), "pods/eviction", id="an eviction"),
    pytest.param(PODS.object("web", "shop", "resize"), "pods/resize", id="a resize"),
    pytest.param(
        VPAS.object("web", "shop", "status"),
        "verticalpodautoscalers/status",
        id="the status of a custom resource",
    ),
    pytest.param(
        CHECKPOINTS.collection(), "verticalpodautoscalercheckpoints", id="a custom resource"
    ),
    pytest.param(NODES.object("n1"), "nodes", id="an object without a namespace"),
    pytest.param(NAMESPACES.collection(), "namespaces", id="all namespaces"),
    pytest.param(NAMESPACES.object("shop"), "namespaces", id="a namespace"),
    pytest.param(POD_METRICS.collection(), "pods.metrics.k8s.io", id="usage"),
    pytest.param(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/a_name",
        "external.metrics.k8s.io",
        id="an external metric, whose name is the operator's",
    ),
    pytest.param(
        "/apis/example.com/v1/namespaces/shop/tenants-own/a/scale", OTHER, id="a kind of a user"
    ),
    pytest.param(
        "/api/v1/namespaces/shop/pods/web/anything", "pods", id="a subresource that we don't use"
    ),
    pytest.param("/apis/apps/v1", OTHER, id="a group version"),
    pytest.param("/apis", OTHER, id="groups"),
    pytest.param("/version", OTHER, id="the version"),
    pytest.param("/", OTHER, id="the root"),
    pytest.param("", OTHER, id="no path"),
]


@pytest.mark.parametrize(("path", "label"), PATHS)
def test_a_path_has_one_of_a_few_labels(path: str, label: str) -> None:
    assert resource_label(path) == label
