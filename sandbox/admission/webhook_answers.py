"""Parsing of the responses of admission webhooks.

Source: k8s.io/apiserver pkg/admission/plugin/webhook (request/admissionreview.go,
errors/statuserror.go).
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from sandbox.errors import ApiError, shown

_GOOD: Final = range(200, 207)  # HTTP codes
_LONGEST_TEXT: Final = 2048  # bytes of a text that an error shows


class CallError(Exception):
    """A webhook call failed or returned no valid response; failurePolicy decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A valid answer that allows the request; ``operations`` is the decoded JSON patch."""

    operations: tuple[Any, ...] = ()
    warnings: tuple[str, ...] = ()


class _Response(msgspec.Struct, rename="camel"):
    """``response`` of an AdmissionReview."""

    uid: str
    allowed: bool = False
    patch: str | None = None  # base64
    patch_type: str | None = None
    status: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()


class _Review(msgspec.Struct, rename="camel", tag_field="kind", tag="AdmissionReview"):
    """The AdmissionReview of a response."""

    response: _Response
    api_version: Literal["admission.k8s.io/v1"]


def read_answer(webhook: str, status: int, body: bytes, uid: str) -> Answer:
    """Parse the response of a webhook.

    Raises:
        CallError: the response is invalid.
        ApiError: the webhook refused the request.
    """
    if status not in _GOOD:
        text = body[:_LONGEST_TEXT].decode(errors="replace").strip()
        raise failed_call(webhook, f"failed to call webhook: status {status}: {text}")
    try:
        answer = msgspec.json.decode(body, type=_Review)
        response = answer.response
        operations = _operations(response)
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        text = f"received invalid webhook response: {error}"
        raise failed_call(webhook, text) from error
    if response.uid != uid:
        text = f"expected response.uid={shown(uid)}, got {shown(response.uid)}"
        raise failed_call(webhook, f"received invalid webhook response: {text}")
    if not response.allowed:
        denied = _denied(webhook, response.status or {})
        denied.warnings = response.warnings
        raise denied
    return Answer(operations=operations, warnings=response.warnings)


def failed_call(webhook: str, text: str) -> CallError:
    """Return the error of a failed webhook call."""
    return CallError(f'failed calling webhook "{webhook}": {text}')


def _operations(response: _Response) -> tuple[Any, ...]:
    if not response.patch:
        return ()
    if response.patch_type != "JSONPatch":
        raise ValueError(f"unsupported patch type {shown(response.patch_type)}")
    encoded = base64.b64decode(response.patch, validate=True)
    return msgspec.json.decode(encoded, type=tuple[Any, ...])


def _denied(webhook: str, status: Mapping[str, Any]) -> ApiError:
    message = status.get("message") or status.get("reason") or ""
    denied = f'admission webhook "{webhook}" denied the request'
    return ApiError(
        max(status.get("code") or 0, 400),
        status.get("reason") or "",
        f"{denied}: {message}" if message else f"{denied} without explanation",
        details=status.get("details"),
    )
