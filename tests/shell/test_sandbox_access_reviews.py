"""Tokens of service accounts and reviews on the sandbox's API server."""

from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from sandbox.apiserver.protobuf import PROTOBUF
from sandbox.apiserver.tokens import ISSUER
from sandbox_client import Answer, Api, api_server, pod

ACCOUNTS = "/api/v1/namespaces/golden/serviceaccounts"
PODS = "/api/v1/namespaces/golden/pods"
ROBOT = "system:serviceaccount:golden:robot"
TOKENS = f"{ACCOUNTS}/robot/token"
REVIEWS = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
HOUR = 3600


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_server() as found:
        await found.make(ACCOUNTS, {"metadata": {"name": "robot"}})
        await found.make(PODS, pod(serviceAccountName="robot"))
        yield found


async def token_of(api: Api, **spec: Any) -> str:
    answer = await api("POST", TOKENS, {"spec": spec})
    assert answer.status == 201, answer.body
    token: str = answer.json["status"]["token"]
    return token


async def status_with(api: Api, token: str) -> int:
    """401 for a token that is worth nothing; 200 for any user."""
    return (await api("GET", "/apis", authorization=f"Bearer {token}")).status


def claims_of(token: str) -> Any:
    text = token.split(".")[1]
    return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def reference(kind: str, name: str, **fields: str) -> dict[str, str]:
    return {"kind": kind, "apiVersion": "v1", "name": name, **fields}


async def test_a_token_says_what_a_real_one_says(api: Api) -> None:
    answer = await api("POST", TOKENS, {"spec": {"boundObjectRef": reference("Pod", "web")}})
    assert answer.json["spec"] == {
        "audiences": [ISSUER],
        "expirationSeconds": HOUR,
        "boundObjectRef": reference("Pod", "web"),
    }
    claims = claims_of(answer.json["status"]["token"])
    now = int(api.clock.now().timestamp())
    account = await api.read(f"{ACCOUNTS}/robot")
    bound = await api.read(f"{PODS}/web")
    assert len(claims.pop("jti")) == 36
    assert claims == {
        "aud": [ISSUER],
        "exp": now + HOUR,
        "iat": now,
        "iss": ISSUER,
        "kubernetes.io": {
            "namespace": "golden",
            "pod": {"name": "web", "uid": bound["metadata"]["uid"]},
            "serviceaccount": {"name": "robot", "uid": account["metadata"]["uid"]},
        },
        "nbf": now,
        "sub": ROBOT,
    }
    assert answer.json["status"]["expirationTimestamp"] == "2026-11-21T09:25:00Z"


async def test_a_token_ends_with_its_time(api: Api) -> None:
    token = await token_of(api)
    api.clock.advance(HOUR - 1)
    assert await status_with(api, token) == 200
    api.clock.advance(1)
    assert await status_with(api, token) == 401


async def test_a_kubelets_token_is_good_for_longer_than_it_says(api: Api) -> None:
    token = await token_of(api, expirationSeconds=3607)
    api.clock.advance(10 * HOUR)
    assert await status_with(api, token) == 200
    assert claims_of(token)["kubernetes.io"]["warnafter"] < api.clock.now().timestamp()


async def test_a_token_ends_with_its_account(api: Api) -> None:
    token = await token_of(api)
    await api("DELETE", f"{ACCOUNTS}/robot")
    assert await status_with(api, token) == 401
    await api.make(ACCOUNTS, {"metadata": {"name": "robot"}})
    assert await status_with(api, token) == 401, "the new one has another UID"


async def test_a_token_ends_with_the_pod_that_it_is_bound_to(api: Api) -> None:
    token = await token_of(api, boundObjectRef=reference("Pod", "web"))
    assert await status_with(api, token) == 200
    await api("DELETE", f"{PODS}/web?gracePeriodSeconds=0")
    assert await status_with(api, token) == 401
    await api.make(PODS, pod(serviceAccountName="robot"))
    assert await status_with(api, token) == 401


async def test_a_token_ends_with_the_secret_that_it_is_bound_to(api: Api) -> None:
    secrets = "/api/v1/namespaces/golden/secrets"
    await api.make(secrets, {"metadata": {"name": "key"}})
    token = await token_of(api, boundObjectRef=reference("Secret", "key"))
    assert await status_with(api, token) == 200
    await api("DELETE", f"{secrets}/key")
    assert await status_with(api, token) == 401


async def test_a_token_for_others_is_none_for_the_api_server(api: Api) -> None:
    token = await token_of(api, audiences=["vault"])
    assert await status_with(api, token) == 401


async def test_a_token_that_was_changed_is_worth_nothing(api: Api) -> None:
    head, body, signature = (await token_of(api)).split(".")
    other = (await token_of(api, audiences=["vault", ISSUER])).split(".")[1]
    for token in (f"{head}.{other}.{signature}", f"{head}.{body}.AAAA", "a.b", "a.b.c"):
        assert await status_with(api, token) == 401


REFUSED = {
    "too short": (
        {"expirationSeconds": 599},
        422,
        (
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid '
            "value: 599: may not specify a duration less than 10 minutes"
        ),
    ),
    "too long": (
        {"expirationSeconds": 2**32 + 1},
        422,
        (
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid '
            "value: 4294967297: may not specify a duration larger than 2^32 seconds"
        ),
    ),
    "a pod that is not there": (
        {"boundObjectRef": reference("Pod", "no")},
        404,
        'pods "no" not found',
    ),
    "a pod of another account": (
        {"boundObjectRef": reference("Pod", "other")},
        400,
        (
            'cannot bind token for serviceaccount "robot" to pod running with different '
            "serviceaccount name."
        ),
    ),
    "a pod with another UID": (
        {"boundObjectRef": reference("Pod", "web", uid="zz")},
        409,
        (
            'Operation cannot be fulfilled on Pod "web": the UID in the bound object reference '
            "(zz) does not match the UID in record. The object might have been deleted and then "
            "recreated"
        ),
    ),
    "another kind": (
        {"boundObjectRef": reference("ConfigMap", "x")},
        400,
        "cannot bind token to object of type /v1, Kind=ConfigMap",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_token_is_refused_for(api: Api, case: str) -> None:
    spec, code, message = REFUSED[case]
    await api.make(PODS, pod("other"))
    answer = await api("POST", TOKENS, {"spec": spec})
    assert (answer.status, answer.json["message"]) == (code, message)


async def test_token_reviews(api: Api) -> None:
    token = await token_of(api, boundObjectRef=reference("Pod", "web"))

    async def review(**spec: Any) -> Any:
        answer = await api("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": spec})
        return answer.json.get("status")

    found = await review(token=token)
    assert found["authenticated"]
    assert found["audiences"] == [ISSUER]
    assert found["user"]["username"] == ROBOT
    assert found["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["web"]
    assert await review(token="abc") == {"user": {}, "error": "invalid bearer token"}
    assert await review(token=token, audiences=["x"]) == {
        "user": {},
        "error": f'[invalid bearer token, token audiences ["{ISSUER}"] is invalid for the target '
        'audiences ["x"]]',
    }
    assert (await api("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {}})).status == 400


async def bind(api: Api, role: str, *, namespace: str = "") -> None:
    place = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
    await api.make(
        f"/apis/rbac.authorization.k8s.io/v1/{place}",
        {
            "metadata": {"name": "bound"},
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": "golden", "name": "robot"}],
        },
    )


def about(verb: str, resource: str, namespace: str = "", **fields: str) -> dict[str, Any]:
    attributes = {"verb": verb, "resource": resource, "namespace": namespace, **fields}
    return {"resourceAttributes": attributes}


async def test_subject_access_reviews(api: Api) -> None:
    await bind(api, "edit", namespace="golden")

    async def status(**spec: Any) -> Any:
        answer = await api("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
        return answer.json["status"]

    evict = about("create", "pods", "golden", subresource="eviction")
    assert await status(user=ROBOT, **evict) == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "bound/golden" of ClusterRole "edit" to '
        'ServiceAccount "robot/golden"',
    }
    resize = about("patch", "pods", "golden", subresource="resize")
    assert await status(user=ROBOT, **resize) == {"allowed": False}
    assert await status(user="jane", groups=["system:masters"], **resize) == {"allowed": True}
    path = {"nonResourceAttributes": {"verb": "get", "path": "/apis"}}
    assert not (await status(user="jane", **path))["allowed"]
    assert (await status(user="jane", groups=["system:authenticated"], **path))["allowed"]


@pytest.mark.parametrize(
    ("path", "spec", "field"),
    [
        ("subjectaccessreviews", about("list", "pods"), "spec.user"),
        ("subjectaccessreviews", {"user": "jane"}, "spec.resourceAttributes"),
        ("selfsubjectaccessreviews", {}, "spec.resourceAttributes"),
        (
            "namespaces/golden/localsubjectaccessreviews",
            {"user": "jane", **about("list", "pods", "default")},
            "spec.resourceAttributes.namespace",
        ),
    ],
)
async def test_reviews_that_ask_for_nothing(
    api: Api, path: str, spec: dict[str, Any], field: str
) -> None:
    answer = await api("POST", f"{REVIEWS}/{path}", {"spec": spec})
    assert answer.status == 422
    assert answer.json["message"].startswith('.authorization.k8s.io "" is invalid: spec.')
    assert [one["field"] for one in answer.json["details"]["causes"]] == [field]


async def test_who_asks_about_himself(api: Api) -> None:
    bearer = f"Bearer {await token_of(api)}"

    async def ask(path: str, spec: dict[str, Any]) -> Answer:
        return await api("POST", path, {"spec": spec}, authorization=bearer)

    access = f"{REVIEWS}/selfsubjectaccessreviews"
    assert not (await ask(access, about("list", "pods", "golden"))).json["status"]["allowed"]
    await bind(api, "view")
    assert (await ask(access, about("list", "pods", "golden"))).json["status"]["allowed"]
    rules = (await ask(f"{REVIEWS}/selfsubjectrulesreviews", {"namespace": "golden"})).json
    assert any("pods/log" in rule["resources"] for rule in rules["status"]["resourceRules"])
    assert any("/apis" in rule["nonResourceURLs"] for rule in rules["status"]["nonResourceRules"])
    assert (await ask(f"{REVIEWS}/selfsubjectrulesreviews", {})).status == 400
    who = (await ask(f"{AUTHENTICATION}/selfsubjectreviews", {})).json["status"]["userInfo"]
    assert who["username"] == ROBOT
    assert (await ask(f"{REVIEWS}/subjectaccessreviews", {})).status == 403
    assert (await api("GET", access)).status == 405


def text(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def message(kind: str, spec: bytes) -> bytes:
    return b"k8s\x00" + text(1, text(1, b"v1") + text(2, kind.encode())) + text(2, text(2, spec))


async def test_reviews_and_token_requests_may_come_as_protobuf(api: Api) -> None:
    body = message("SelfSubjectAccessReview", text(1, text(1, b"golden") + text(2, b"list")))
    answer = await api("POST", f"{REVIEWS}/selfsubjectaccessreviews", body, content_type=PROTOBUF)
    assert answer.json["spec"]["resourceAttributes"] == {"namespace": "golden", "verb": "list"}
    body = message("TokenRequest", text(1, b"vault") + b"\x20\xe0\x12")  # 2,400 seconds
    answer = await api("POST", TOKENS, body, content_type=PROTOBUF)
    assert answer.json["spec"]["audiences"] == ["vault"]
    assert answer.json["spec"]["expirationSeconds"] == 2400


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"k8s\x00\x12\x7fshort",
        b"k8s\x00\x13",
        b"k8s\x00\x80",
        message("Pod", b""),
        message("TokenRequest", text(1, b"\xff")),
    ],
)
async def test_malformed_protobuf_is_refused(api: Api, body: bytes) -> None:
    assert (await api("POST", TOKENS, body, content_type=PROTOBUF)).status == 400


async def test_other_kinds_may_not_come_as_protobuf(api: Api) -> None:
    assert (await api("POST", PODS, b"k8s\x00", content_type=PROTOBUF)).status == 415
