"""Requests: paths, parameters, versions, content types and tokens."""

import pytest

from sandbox.apiserver.auth import ADMIN, Authenticator, user_named
from sandbox.apiserver.forms import Form, negotiate
from sandbox.apiserver.requests import Place, parse_place, parse_query
from sandbox.errors import ApiError
from sandbox.version import KubernetesVersion


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/api/v1/pods", Place(group="", version="v1", plural="pods")),
        (
            "/api/v1/namespaces/n/pods/p/status",
            Place(
                group="", version="v1", plural="pods", namespace="n", name="p", subresource="status"
            ),
        ),
        (
            "/api/v1/namespaces/n/pods/p:80/proxy/api/v1/plan",
            Place(
                group="",
                version="v1",
                plural="pods",
                namespace="n",
                name="p:80",
                subresource="proxy",
                subpath="api/v1/plan",
            ),
        ),
        ("/api/v1/namespaces/n", Place(group="", version="v1", plural="namespaces", name="n")),
        (
            "/api/v1/namespaces/n/status",
            Place(group="", version="v1", plural="namespaces", name="n", subresource="status"),
        ),
        (
            "/apis/apps/v1/namespaces/n/deployments",
            Place(group="apps", version="v1", plural="deployments", namespace="n"),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
            Place(
                group="rbac.authorization.k8s.io", version="v1", plural="clusterroles", name="a:b"
            ),
        ),
        ("/apis/apps/v1", Place(group="apps", version="v1")),
        ("/apis/apps", None),
        ("/healthz", None),
    ],
)
def test_places(path: str, want: Place | None) -> None:
    assert parse_place(path) == want


@pytest.mark.parametrize(
    ("method", "name", "watch", "want"),
    [
        ("GET", "x", False, "get"),
        ("GET", "", False, "list"),
        ("GET", "", True, "watch"),
        ("POST", "", False, "create"),
        ("PUT", "x", False, "update"),
        ("PATCH", "x", False, "patch"),
        ("DELETE", "x", False, "delete"),
        ("DELETE", "", False, "deletecollection"),
    ],
)
def test_verbs(method: str, name: str, want: str, *, watch: bool) -> None:
    assert Place(group="", version="v1", plural="pods", name=name).verb(method, watch=watch) == want


def test_the_last_of_a_repeated_parameter_counts() -> None:
    assert parse_query(b"a=1&a=2&b=&c=x%20y") == {"a": "2", "b": "", "c": "x y"}


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        ("", Form.WHOLE),
        ("*/*", Form.WHOLE),
        (TABLE, Form.TABLE),
        (f"application/json;as=Table;v=v1beta1;g=meta.k8s.io,{TABLE}", Form.TABLE),
        ("application/vnd.kubernetes.protobuf,application/json", Form.WHOLE),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Form.METADATA),
        ("application/json; as=PartialObjectMetadataList; v=v1; g=meta.k8s.io", Form.METADATA),
        ("application/json;as=Nothing;v=v1;g=meta.k8s.io", None),
        ("application/yaml", None),
        (f"text/html,{TABLE}", Form.TABLE),
        ("text/html", None),
        ("application/vnd.kubernetes.protobuf", None),
    ],
)
def test_forms(accept: str, want: Form | None) -> None:
    if want is None:
        with pytest.raises(ApiError) as caught:
            negotiate(accept)
        assert caught.value.code == 406
    else:
        assert negotiate(accept) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1.33", 33),
        ("v1.36", 36),
        ("1.35.4", 35),
        ("1.32", None),
        ("1.37", None),
        ("2.33", None),
        ("1", None),
        ("1.x", None),
    ],
)
def test_versions(text: str, want: int | None) -> None:
    if want is None:
        with pytest.raises(ValueError, match=r"Kubernetes"):
            KubernetesVersion.parse(text)
    else:
        assert KubernetesVersion.parse(text) == KubernetesVersion(want)


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        (ADMIN, ("system:masters", "system:authenticated")),
        (
            "system:serviceaccount:ns:sa",
            ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        ),
        ("system:node:n1", ("system:nodes", "system:authenticated")),
        ("jane", ("system:authenticated",)),
    ],
)
def test_groups_by_user_name(name: str, groups: tuple[str, ...]) -> None:
    assert user_named(name).groups == groups


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic token", "Bearer other"])
def test_a_request_without_a_known_token_is_refused(header: str) -> None:
    with pytest.raises(ApiError) as caught:
        Authenticator().authenticate(header)
    assert caught.value.code == 401


def test_a_token_authenticates_the_user_that_it_was_issued_for() -> None:
    authenticator = Authenticator()
    authenticator.issue("jane", token="token")
    assert authenticator.authenticate("Bearer token").username == "jane"
