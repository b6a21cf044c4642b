"""What the answers of admission webhooks mean, and which of them are valid.

Source: k8s.io/apiserver pkg/admission/plugin/webhook (request/admissionreview.go,
errors/statuserror.go).
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sandbox.admission.webhook_rules import REVIEW
from sandbox.errors import ApiError, shown

_GOOD: Final = range(200, 207)  # HTTP codes
_LONGEST_TEXT: Final = 2048  # bytes that are quoted of a text


class CallError(Exception):
    """A webhook could not be asked, or gave no valid answer; failurePolicy decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back over HTTP."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A valid answer that allows the request; ``operations`` is the decoded JSON patch."""

    operations: tuple[Any, ...] = ()
    warnings: tuple[str, ...] = ()


def read_answer(webhook: str, reply: Reply, uid: str, *, mutating: bool) -> Answer:
    """Return what the webhook said.

    Raises:
        CallError: it is no valid answer.
        ApiError: the webhook refused the request.
    """
    if reply.status not in _GOOD:
        text = reply.body[:_LONGEST_TEXT].decode(errors="replace").strip()
        raise failed_call(webhook, f"failed to call webhook: status {reply.status}: {text}")
    try:
        answer = msgspec.json.decode(reply.body, type=dict[str, Any])
    except msgspec.DecodeError as error:
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
    """Return the error of a webhook that could not be asked."""
    return CallError(f'failed calling webhook "{webhook}": {text}')


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
        operations = msgspec.json.decode(base64.b64decode(patch, validate=True), type=list[Any])
    except (binascii.Error, msgspec.DecodeError, TypeError) as error:
        raise _invalid(webhook, str(error)) from error
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
