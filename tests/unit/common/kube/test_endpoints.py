"""Paths of resources."""

from typing import get_origin

import pytest

from common.kube.endpoints import DEPLOYMENTS, NODES, PODS, VPAS, Endpoint


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (PODS.collection(), "/api/v1/pods"),
        (PODS.collection("shop"), "/api/v1/namespaces/shop/pods"),
        (PODS.object("web", "shop"), "/api/v1/namespaces/shop/pods/web"),
        (PODS.object("web", "shop", "resize"), "/api/v1/namespaces/shop/pods/web/resize"),
        (NODES.object("n1", "ignored"), "/api/v1/nodes/n1"),
        (DEPLOYMENTS.collection("shop"), "/apis/apps/v1/namespaces/shop/deployments"),
        (VPAS.object("a", "b", "status")[:32], "/apis/autoscaling.k8s.io/v1/name"),
        (NODES.object("a/b?c"), "/api/v1/nodes/a%2Fb%3Fc"),
    ],
)
def test_path(path: str, want: str) -> None:
    assert path == want


def test_api_version() -> None:
    assert PODS.api_version == "v1"
    assert DEPLOYMENTS.api_version == "apps/v1"


def test_as_dicts_is_the_same_resource() -> None:
    whole = PODS.as_dicts()
    assert isinstance(whole, Endpoint)
    assert whole.collection("shop") == PODS.collection("shop")
    assert get_origin(whole.type) is dict
