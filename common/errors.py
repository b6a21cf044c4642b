"""Every error that this project raises on purpose.

VpaError
├── ConfigError               flags or environment unusable: exit code 2 before anything starts
├── DecodeError               an object has an unexpected shape: skip it, count it
├── LeadershipLostError       another replica leads: this process ends, exit code 1
└── KubeError                 the API server refused a request, or is unreachable
    ├── BadRequestError       400: the request itself was wrong
    ├── UnauthorizedError     401: our credentials are not, or no longer, valid
    ├── ForbiddenError        403: RBAC, an admission plugin, a quota or a policy refused
    ├── NotFoundError         404: the object is gone; most callers expect this
    │   └── NoSubresourceError  404: the object exists, its definition lacks the subresource
    ├── ConflictError         409: another client changed it; read again and decide again
    ├── GoneError             410: the version of the watch is too old; list again
    ├── InvalidError          422: the object violates a validation rule
    ├── TooManyRequestsError  429: a disruption budget refused, or we are throttled
    ├── ServerError           5xx: the API server failed
    ├── UnreachableError      no answer: connection, TLS, timeout; it may have been carried out
    ├── InvalidRequestError   the URL or a header is malformed: nothing was sent
    └── NotLeadingError       our Lease may have run out: nothing was sent

Any other exception is a bug: nothing catches it, and the process restarts.
"""

from dataclasses import dataclass
from typing import Any


class VpaError(Exception):
    """Root of the hierarchy; catch the most specific class instead if possible."""


class ConfigError(VpaError):
    """Flags or environment can't be used."""


class DecodeError(VpaError):
    """An object from the API server has an unexpected shape."""


class LeadershipLostError(VpaError):
    """The Lease could not be renewed in time, so another replica may lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One entry of ``status.details.causes``; a policy's cause may lack the reason."""

    reason: str = ""
    message: str = ""
    field: str = ""


class KubeError(VpaError):
    """The API server refused a request.

    ``reason`` is the server's ``status.reason``, which can be a metric label;
    ``str(error)`` is the sentence for the log. ``causes``, ``kind`` and ``name`` are those of
    ``status.details``, ``kind`` being a plural resource name such as ``pods``.
    ``retry_after`` is in seconds, None where the server gave no hint.
    """

    status: int = 0

    def __init__(
        self,
        message: str,
        *,
        reason: str = "Unknown",
        causes: tuple[Cause, ...] = (),
        kind: str = "",
        name: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.causes = causes
        self.kind = kind
        self.name = name
        self.retry_after = retry_after

    def has_cause(self, reason: str) -> bool:
        return any(cause.reason == reason for cause in self.causes)


class BadRequestError(KubeError):
    """The request itself was wrong."""

    status = 400


class UnauthorizedError(KubeError):
    """Our credentials are not, or no longer, valid."""

    status = 401


class ForbiddenError(KubeError):
    """RBAC, an admission plugin, a quota or a policy refused; ``causes`` may state which."""

    status = 403


class NotFoundError(KubeError):
    """The object, or the resource itself, does not exist."""

    status = 404


class NoSubresourceError(NotFoundError):
    """The object exists, but its CustomResourceDefinition lacks the subresource."""


class ConflictError(KubeError):
    """Another client changed or created the object first."""

    status = 409


class GoneError(KubeError):
    """The resource version is too old; list again."""

    status = 410


class InvalidError(KubeError):
    """The object, or the patch, breaks a rule; ``causes`` name the fields."""

    status = 422


class TooManyRequestsError(KubeError):
    """A disruption budget refused (cause ``DisruptionBudget``), or we are throttled."""

    status = 429


class ServerError(KubeError):
    """The API server failed (5xx); ``status`` of the instance is the exact one."""

    def __init__(self, message: str, *, status: int = 500, **details: Any) -> None:
        super().__init__(message, **details)
        self.status = status


class UnreachableError(KubeError):
    """There was no answer; the request may or may not have been carried out."""


class InvalidRequestError(KubeError):
    """The URL or a header of the request is malformed; nothing was sent."""


class NotLeadingError(KubeError):
    """The Lease may have run out, so another replica may act; nothing was sent."""


_NAMED = (
    BadRequestError,
    UnauthorizedError,
    ForbiddenError,
    NotFoundError,
    ConflictError,
    GoneError,
    InvalidError,
    TooManyRequestsError,
)
_BY_STATUS: dict[int, type[KubeError]] = {error.status: error for error in _NAMED}


def kube_error(status: int, message: str, **details: Any) -> KubeError:
    """Return the error of the class for an HTTP status.

    ``details`` are the keyword arguments of :class:`KubeError`.
    """
    if status >= 500:
        return ServerError(message, status=status, **details)
    named = _BY_STATUS.get(status)
    if named is not None:
        return named(message, **details)
    error = KubeError(message, **details)
    error.status = status
    return error
