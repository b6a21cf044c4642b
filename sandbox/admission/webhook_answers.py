"""What the answers of admission webhooks mean, and what is said of those that are none.

Source: k8s.io/apiserver pkg/admission/plugin/webhook (request/admissionreview.go,
errors/statuserror.go), k8s.io/client-go rest/request.go, and ``NewGenericServerResponse`` of
k8s.io/apimachinery pkg/api/errors/errors.go.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from sandbox.admission.webhook_rules import REVIEW
from sandbox.errors import ApiError, shown
from sandbox.objects.go_decoding import syntax_problem, type_meta_problem

_GROUP: Final = "admission.k8s.io"
_KNOWN: Final = ((f"{_GROUP}/v1", "AdmissionReview"), (f"{_GROUP}/v1beta1", "AdmissionReview"))
_GOOD: Final = range(200, 207)  # HTTP codes
_LONGEST_TEXT: Final = 2048  # bytes that are quoted of a text
_NOT_UNDERSTOOD: Final = "couldn't get version/kind; json parse error: "
_PROBLEMS: Final[Mapping[int, str]] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: (
        "the server was unable to return a response in the time allotted, but may still be "
        "processing the request"
    ),
}


class CallError(Exception):
    """A webhook could not be asked, or gave no valid answer; failurePolicy decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back over HTTP; ``content_type`` is empty where there was none."""

    status: int
    content_type: str
    body: bytes

    @property
    def problem(self) -> str:
        """What its code says, or a Status in its body; empty when the code is good."""
        if self.status in _GOOD:
            return ""
        text = "unknown"
        if not self.content_type or self.content_type.startswith("text/"):
            text = self.body[:_LONGEST_TEXT].decode(errors="replace").strip()
        if told := _message_of(self.body):
            return told
        if self.status in (403, 415) or (self.status == 406 and text not in ("", "unknown")):
            return text
        if self.status == 406:
            return "the server was unable to respond with a content type that the client supports"
        if self.status in _PROBLEMS:
            return _PROBLEMS[self.status]
        if self.status >= 500:
            return (
                f"an error on the server ({shown(text)}) has prevented the request from succeeding"
            )
        return (
            f"the server responded with the status code {self.status} but did not return more "
            "information"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A valid answer that allows the request; ``operations`` is the decoded JSON patch."""

    operations: tuple[Any, ...] = ()
    warnings: tuple[str, ...] = ()


def read_answer(webhook: str, reply: Reply, uid: str, *, mutating: bool) -> Answer:
    """What the webhook said.

    Raises:
        CallError: it is no valid answer.
        ApiError: the webhook refused the request.
    """
    try:
        answer = _decoded(reply)
    except ValueError as error:
        raise failed_call(webhook, f"failed to call webhook: {error}") from error
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _invalid(webhook, "webhook response was absent")
    if response.get("uid") != uid:
        raise _invalid(
            webhook, f"expected response.uid={shown(uid)}, got {shown(response.get('uid', ''))}"
        )
    if (answer.get("apiVersion"), answer.get("kind")) != (REVIEW["apiVersion"], REVIEW["kind"]):
        raise _invalid(
            webhook,
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got "
            f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}",
        )
    operations = _operations(webhook, response, mutating=mutating)
    warnings = tuple(response.get("warnings") or ())
    if not response.get("allowed"):
        denied = _denied(webhook, response.get("status") or {})
        denied.warnings = warnings
        raise denied
    return Answer(operations=operations, warnings=warnings)


def failed_call(webhook: str, text: str) -> CallError:
    """The error of a webhook that could not be asked."""
    return CallError(f'failed calling webhook "{webhook}": {text}')


def _decoded(reply: Reply) -> dict[str, Any]:
    """The review in a reply, which is JSON when it begins like an object, YAML otherwise.

    Raises:
        ValueError: there is none.
    """
    if not reply.body:
        raise ValueError(
            f"0-length response with status code: {reply.status} and content type: "
            f"{reply.content_type}"
        )
    answer: Any = None
    try:
        if reply.body.lstrip().startswith(b"{"):
            answer = msgspec.json.decode(reply.body)
        else:
            answer = yaml.safe_load(reply.body)
    except msgspec.DecodeError as error:
        problem = syntax_problem(reply.body) or str(error)
        raise ValueError(f"{_NOT_UNDERSTOOD}{problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"yaml: {error}") from error
    if answer is not None and (problem := type_meta_problem(answer)):
        raise ValueError(f"{_NOT_UNDERSTOOD}{problem}")
    head = answer or {}
    version, kind = str(head.get("apiVersion") or ""), str(head.get("kind") or "")
    for name, value in (("Kind", kind), ("apiVersion", version)):
        if not value:
            text = reply.body.decode(errors="replace")
            raise ValueError(f"Object '{name}' is missing in '{text}'")
    if (version, kind) not in _KNOWN:
        raise ValueError(
            f'no kind "{kind}" is registered for version "{version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    return head


def _message_of(body: bytes) -> str:
    """The message of a Status that says failure; empty when the body is none."""
    try:
        status = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ""
    if not isinstance(status, dict) or status.get("status") != "Failure":
        return ""
    return str(status.get("message") or "")


def _operations(webhook: str, response: Mapping[str, Any], *, mutating: bool) -> tuple[Any, ...]:
    patch, kind = response.get("patch"), response.get("patchType")
    if not mutating:
        if patch or kind is not None:
            text = f"validating webhook may not return response.{'patch' if patch else 'patchType'}"
            raise _invalid(webhook, text)
        return ()
    if patch and kind is None:
        raise _invalid(webhook, "webhook returned response.patch but not response.patchType")
    if kind is not None and not patch:
        raise _invalid(webhook, "webhook returned response.patchType but not response.patch")
    if not patch:
        return ()
    if kind != "JSONPatch":
        raise failed_call(webhook, f"unsupported patch type {shown(kind)}")
    try:
        operations = msgspec.json.decode(base64.b64decode(patch, validate=True))
    except (binascii.Error, msgspec.DecodeError, TypeError) as error:
        raise _invalid(webhook, str(error)) from error
    if not isinstance(operations, list):
        raise _invalid(webhook, "the patch is no JSON patch")
    return tuple(operations)


def _denied(webhook: str, status: Mapping[str, Any]) -> ApiError:
    message = status.get("message") or status.get("reason") or ""
    denied = f'admission webhook "{webhook}" denied the request'
    return ApiError(
        max(status.get("code") or 0, 400),
        status.get("reason") or "",
        f"{denied}: {message}" if message else f"{denied} without explanation",
        details=status.get("details"),
    )


def _invalid(webhook: str, text: str) -> CallError:
    return failed_call(webhook, f"received invalid webhook response: {text}")
