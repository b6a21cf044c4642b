"""Conversion of an error answer (HTTP status, headers, body) to an exception."""

from collections.abc import Mapping

import msgspec

from common.api.base import Wire
from common.api.decoding import decode
from common.errors import Cause, KubeError, kube_error

_MESSAGE_LIMIT = 1000  # characters of a body that is no Status: a proxy may send a whole page

# The message of client-go instead of "404 page not found"; conditions of VPAs contain it.
_NO_RESOURCE = "the server could not find the requested resource"

# The reasons of an API server, for answers that lack one.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class _StatusCause(Wire, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class _StatusDetails(Wire, frozen=True, kw_only=True):
    name: str = ""
    kind: str = ""
    causes: tuple[_StatusCause, ...] | None = None
    retry_after_seconds: float = 0


class Status(Wire, frozen=True, kw_only=True):
    """``meta/v1`` Status: the API server's description of a failure."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _StatusDetails | None = None


_status_decoder = msgspec.json.Decoder(Status)


def status_error(status: Status, *, code: int, retry_after: float | None = None) -> KubeError:
    """Return the error for a Status; ``code`` applies if the Status has none.

    ``retry_after`` is the header's hint in seconds; it precedes the one in the details.
    """
    code = status.code or code
    details = status.details or _StatusDetails()
    return kube_error(
        code,
        status.message or f"HTTP status {code}",
        reason=status.reason or _REASONS.get(code, "Unknown"),
        causes=tuple(
            Cause(reason=cause.reason, message=cause.message, field=cause.field)
            for cause in details.causes or ()
        ),
        kind=details.kind,
        name=details.name,
        retry_after=retry_after if retry_after is not None else details.retry_after_seconds or None,
    )


def answer_error(status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """Return the error of an HTTP answer with a status of 300 or more.

    The body is a JSON Status, or, from filters and proxies, plain text.

    Source: kubernetes-resize.md 5 and 8; ``k8s.io/apimachinery`` NewGenericServerResponse.
    """
    retry_after = _seconds(_header(headers, "retry-after"))
    try:
        parsed = decode(_status_decoder, body)
    except msgspec.DecodeError:
        parsed = Status()
    if parsed.kind != "Status":
        text = body[:_MESSAGE_LIMIT].decode("utf-8", "replace").strip()
        parsed = Status(message=_NO_RESOURCE if status == 404 else text)
    return status_error(parsed, code=status, retry_after=retry_after)


def _header(headers: Mapping[str, str], name: str) -> str:
    """Return the value of a header, whose name is case-insensitive; empty without it."""
    return next((value for key, value in headers.items() if key.lower() == name), "")


def _seconds(retry_after: str) -> float | None:
    """Return the header's seconds; its other form, a date, is not used by API servers."""
    return float(retry_after) if retry_after.isdigit() else None
