"""Errors made from an API server's answers; the bodies were recorded from a real one."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from common.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from common.kube.status_errors import answer_error

DATA = Path(__file__).parents[3] / "conformance" / "data" / "answers.json"
RECORDED: dict[str, dict[str, Any]] = {
    each["case"]: each for each in json.loads(DATA.read_text(encoding="utf-8"))
}


@dataclass(frozen=True, kw_only=True)
class Want:
    error: type[KubeError]
    reason: str
    causes: tuple[str, ...] = ()  # their reasons
    about: tuple[str, str] = ("", "")  # kind and name
    retry_after: float | None = None


POD = "pods"
CASES = {
    "overload-429": Want(error=TooManyRequestsError, reason="TooManyRequests", retry_after=1),
    "eviction-pdb-exhausted": Want(
        error=TooManyRequestsError, reason="TooManyRequests", causes=("DisruptionBudget",)
    ),
    "eviction-pdb-controller-behind": Want(
        error=TooManyRequestsError,
        reason="TooManyRequests",
        causes=("DisruptionBudget",),
        retry_after=10,
    ),
    "eviction-two-pdbs": Want(error=ServerError, reason="InternalError"),
    "eviction-not-found": Want(error=NotFoundError, reason="NotFound", about=(POD, "nope")),
    "eviction-wrong-uid": Want(error=ConflictError, reason="Conflict", about=("Pod", "p1")),
    "eviction-rbac-denied": Want(error=ForbiddenError, reason="Forbidden", about=(POD, "p77")),
    "eviction-name-mismatch": Want(error=BadRequestError, reason="BadRequest"),
    "resize-403-node-capacity-both": Want(
        error=ForbiddenError, reason="Forbidden", causes=("NodeCapacity",), about=(POD, "p65")
    ),
    "resize-rbac-denied": Want(error=ForbiddenError, reason="Forbidden", about=(POD, "p77")),
    "resize-quota-exceeded": Want(error=ForbiddenError, reason="Forbidden", about=(POD, "p1")),
    "resize-422-several": Want(
        error=InvalidError,
        reason="Invalid",
        causes=("FieldValueInvalid", "FieldValueForbidden"),
        about=("Pod", "p34"),
    ),
    "resize-unsupported-media-type": Want(error=KubeError, reason="UnsupportedMediaType"),
    "resize-json-patch-too-many-operations": Want(error=KubeError, reason="RequestEntityTooLarge"),
    "resize-json-patch-missing-path": Want(error=InvalidError, reason="Invalid"),
    "resize-vap-denied-invalid": Want(
        error=InvalidError, reason="Invalid", causes=("",), about=(POD, "p1")
    ),
    "resize-vap-denied-forbidden": Want(
        error=ForbiddenError, reason="Forbidden", causes=("",), about=(POD, "p1")
    ),
    "resize-patch-stale-version": Want(error=ConflictError, reason="Conflict", about=(POD, "p12")),
    "list-expired-continue": Want(error=GoneError, reason="Expired"),
    "list-future-version": Want(
        error=ServerError, reason="Timeout", causes=("ResourceVersionTooLarge",), retry_after=1
    ),
    "list-bad-continue": Want(error=BadRequestError, reason="BadRequest"),
    "unauthorized": Want(error=UnauthorizedError, reason="Unauthorized"),
    "not-found-path": Want(error=NotFoundError, reason="NotFound"),
    "lease-put-conflict": Want(error=ConflictError, reason="Conflict", about=("leases", "l")),
    "lease-create-exists": Want(error=ConflictError, reason="AlreadyExists", about=("leases", "l")),
    "lease-no-fraction": Want(error=BadRequestError, reason="BadRequest"),
    "webhook-denied-403": Want(error=ForbiddenError, reason="Forbidden"),
    "vpa-status-strategic-refused": Want(error=KubeError, reason="UnsupportedMediaType"),
}


@pytest.mark.parametrize(("case", "want"), CASES.items(), ids=CASES)
def test_recorded_answers(case: str, want: Want) -> None:
    recorded = RECORDED[case]
    response = recorded["response"]
    body = response if isinstance(response, str) else json.dumps(response)

    error = answer_error(recorded["status"], recorded["headers"], body.encode())

    assert type(error) is want.error
    assert error.status == recorded["status"]
    assert error.reason == want.reason
    assert tuple(cause.reason for cause in error.causes) == want.causes
    assert (error.kind, error.name) == want.about
    assert error.retry_after == want.retry_after
    if isinstance(response, dict):
        assert str(error) == response["message"]


def test_the_cause_distinguishes_a_disruption_budget_from_an_overload() -> None:
    budget, overload = RECORDED["eviction-pdb-exhausted"], RECORDED["overload-429"]
    refused = answer_error(429, budget["headers"], json.dumps(budget["response"]).encode())
    throttled = answer_error(429, overload["headers"], overload["response"].encode())

    assert refused.has_cause("DisruptionBudget")
    assert not throttled.has_cause("DisruptionBudget")
    assert str(throttled) == "Too many requests, please try again later."


def test_every_field_of_a_cause_is_kept() -> None:
    recorded = RECORDED["resize-422-several"]["response"]
    error = answer_error(422, {}, json.dumps(recorded).encode())

    assert error.causes[1].field == "spec.containers[0].resources.requests"
    assert error.causes[1].message == "Forbidden: resource requests cannot be removed"


@pytest.mark.parametrize(
    ("status", "body", "text", "reason"),
    [
        pytest.param(404, b"404 page not found\n", "the server could not find", "NotFound"),
        pytest.param(503, b"", "HTTP status 503", "ServiceUnavailable", id="empty body"),
        pytest.param(
            502, b"<html>bad gateway", "<html>bad gateway", "Unknown", id="an HTML page of a proxy"
        ),
        pytest.param(500, b'{"kind":"Pod"}', '{"kind":"Pod"}', "InternalError", id="other JSON"),
        pytest.param(302, b"", "HTTP status 302", "Unknown", id="redirects are not followed"),
        pytest.param(418, b"\xff\xfe", "\ufffd", "Unknown", id="not UTF-8"),
    ],
)
def test_an_answer_without_a_status_object(
    status: int, body: bytes, text: str, reason: str
) -> None:
    error = answer_error(status, {}, body)

    assert str(error).startswith(text)
    assert (error.status, error.reason) == (status, reason)


@pytest.mark.parametrize(
    ("header", "want"),
    [("7", 7.0), ("", None), ("Fri, 21 Nov 2026 09:00:00 GMT", None), ("-1", None)],
)
def test_retry_after(header: str, want: float | None) -> None:
    assert answer_error(429, {"Retry-After": header}, b"").retry_after == want
