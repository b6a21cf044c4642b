"""Answers of the webhook, byte by byte, and decoding of reviews."""

import json
from typing import Any

import pytest

from admission import review
from admission.field_errors import forbidden, invalid, required, undecodable
from admission.review import AdmissionRequest, GroupVersionKind, GroupVersionResource, ReviewSubject
from common.errors import DecodeError
from common.patches import add

HEAD = '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":'


def test_a_no_op() -> None:
    assert review.allow("u").decode() == HEAD + '{"uid":"u","allowed":true}}'


def test_a_patch_is_base64_and_has_its_type() -> None:
    body = review.allow("u", [add("/a", {})])
    response = '{"uid":"u","allowed":true,"patch":"%s","patchType":"JSONPatch"}}'
    assert body.decode() == HEAD + response % "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6e319XQ=="


def test_an_answer_may_have_warnings() -> None:
    body = review.allow("u", warnings=["careful"])
    assert body.decode() == HEAD + '{"uid":"u","allowed":true,"warnings":["careful"]}}'


REQUEST = AdmissionRequest(
    uid="u", name="my-vpa", request_kind=GroupVersionKind(kind="VerticalPodAutoscaler")
)


def denied(*errors: Any) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(review.deny(REQUEST, errors))["response"]["status"]
    return status


def test_a_denial_is_bounded_in_length() -> None:
    status = denied(invalid("spec." + "f" * 5000, "v" * 1_000_000, "too long"))
    (cause,) = status["details"]["causes"]
    assert len(json.dumps(status)) < 10_000
    assert cause["field"].endswith("f... (3005 characters more)")
    assert cause["message"].startswith('Invalid value: "vvv')
    assert "characters more)" in status["message"]


def test_a_denial_with_one_error() -> None:
    message = 'VerticalPodAutoscaler.autoscaling.k8s.io "my-vpa" is invalid: spec.a: Required value'
    assert denied(required("spec.a")) == {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Invalid",
        "details": {
            "name": "my-vpa",
            "group": "autoscaling.k8s.io",
            "kind": "VerticalPodAutoscaler",
            "causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"}
            ],
        },
        "code": 422,
    }


def test_a_denial_with_several_errors_lists_them() -> None:
    status = denied(invalid("spec.a", "x", "why"), forbidden("spec.b", "no"))
    assert status["message"].endswith(
        'is invalid: [spec.a: Invalid value: "x": why, spec.b: Forbidden: no]'
    )
    assert len(status["details"]["causes"]) == 2


def test_an_undecodable_object_is_an_internal_error() -> None:
    cause = denied(undecodable(DecodeError("strange")))["details"]["causes"]
    assert cause == [
        {"reason": "InternalError", "message": "Internal error: strange", "field": "."}
    ]


@pytest.mark.parametrize(
    ("group", "resource", "subject"),
    [
        ("", "pods", ReviewSubject.POD),
        ("autoscaling.k8s.io", "verticalpodautoscalers", ReviewSubject.VPA),
        ("apps", "pods", ReviewSubject.UNKNOWN),
        ("", "verticalpodautoscalers", ReviewSubject.UNKNOWN),
        ("poc.autoscaling.k8s.io", "verticalpodautoscalers", ReviewSubject.UNKNOWN),
    ],
)
def test_group_and_resource_determine_the_subject(
    group: str, resource: str, subject: ReviewSubject
) -> None:
    request = AdmissionRequest(resource=GroupVersionResource(group=group, resource=resource))
    assert request.subject is subject


@pytest.mark.parametrize("body", [b"{}", b'{"request":null}', b'{"kind":"AdmissionReview"}'])
def test_a_review_without_request(body: bytes) -> None:
    assert review.decode(body).request is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"request":7}', id="a request that is a number"),
        pytest.param(b'{"request":{"uid":7}}', id="a uid that is a number"),
        pytest.param(b"\xff", id="not JSON"),
        pytest.param(b'{"request":{"uid":"\xff"}}', id="a uid that is not UTF-8"),
        pytest.param(b'{"request":{"uid":"\\ud800"}}', id="a lone surrogate"),
        pytest.param(b'{"request":{"uid":' + b"7" * 100_000 + b"}}", id="an endless number"),
        pytest.param(b"[" * 100_000, id="deep lists"),
        pytest.param(b'{"request":' * 100_000, id="deep objects"),
    ],
)
def test_invalid_reviews(body: bytes) -> None:
    with pytest.raises(DecodeError):
        review.decode(body)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("admission.k8s.io/v1", "admission.k8s.io/v1"),
        ("admission.k8s.io/v1beta1", "admission.k8s.io/v1beta1"),
        ("", "admission.k8s.io/v1"),
        ("admission.k8s.io/v2", "admission.k8s.io/v1"),
    ],
)
def test_an_answer_has_the_version_of_the_review(asked: str, answered: str) -> None:
    question = review.decode(json.dumps({"apiVersion": asked, "request": {"uid": "u"}}).encode())
    for answer in (review.allow("u", [add("/a", {})], ["old"]), review.deny(REQUEST, [])):
        got, same = json.loads(review.in_version_of(question, answer)), json.loads(answer)
        assert got == same | {"apiVersion": answered}
