"""URL paths of resources."""

import re
from collections.abc import Callable
from typing import get_origin
from urllib.parse import unquote

import pytest

from common.errors import InvalidRequestError
from common.kube.endpoints import (
    DEPLOYMENTS,
    NODES,
    PODS,
    VPAS,
    WORKLOADS,
    Endpoint,
    group_path,
    version_path,
)
from common.target.owners import WELL_KNOWN_KINDS
from hostile_texts import NEIGHBOURS


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


def custom(group: str = "g", version: str = "v", resource: str = "r") -> str:
    """Return the path of an object of a custom kind."""
    return Endpoint(group, version, resource, "Kind", object).object("n", "ns", "scale")


PATHS: dict[str, Callable[[str], str]] = {
    "name": lambda text: PODS.object(text, "shop"),
    "name, with a subresource": lambda text: PODS.object(text, "shop", "eviction"),
    "namespace": lambda text: PODS.object("web", text),
    "namespace of a collection": PODS.collection,
    "group": lambda text: custom(group=text),
    "version": lambda text: custom(version=text),
    "resource": lambda text: custom(resource=text),
    "group in discovery": group_path,
    "version in discovery": lambda text: version_path("g", text),
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
@pytest.mark.parametrize("text", NEIGHBOURS.values(), ids=NEIGHBOURS.keys())
def test_every_name_is_one_escaped_segment_of_the_path(
    text: str, path: Callable[[str], str]
) -> None:
    if text in (".", ".."):
        with pytest.raises(InvalidRequestError):
            path(text)
        return
    usual, found = path("usual").split("/"), path(text).split("/")
    assert [unquote(segment) for segment in found] == [
        text if segment == "usual" else segment for segment in usual
    ]
    assert all(re.fullmatch(r"([A-Za-z0-9._~-]|%[0-9A-F]{2})*", segment) for segment in found)


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_a_lone_surrogate_raises_an_error(path: Callable[[str], str]) -> None:
    """InvalidRequestError is an error that callers catch. No API server sends a lone surrogate."""
    with pytest.raises(InvalidRequestError, match=r"ud800.{0,220}$"):
        path("\ud800" + "x" * 5000)


def test_api_version() -> None:
    assert PODS.api_version == "v1"
    assert DEPLOYMENTS.api_version == "apps/v1"


def test_as_dicts_is_the_same_resource() -> None:
    whole = PODS.as_dicts()
    assert isinstance(whole, Endpoint)
    assert whole.collection("shop") == PODS.collection("shop")
    assert get_origin(whole.type) is dict


def test_workloads_are_the_well_known_kinds() -> None:
    assert {each.kind for each in WORKLOADS} == WELL_KNOWN_KINDS
