"""What the API server says when it says no: an error that carries a ``Status`` object.

Shapes and sentences are those of a real API server (k8s.io/apimachinery
``pkg/api/errors/errors.go`` and ``pkg/util/validation/field/errors.go``); clients classify
by ``code``, ``reason`` and the causes, people read ``message``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from common.errors import Cause
from sandbox.objects.resources import Resource


class ApiError(Exception):
    """A refused request; it becomes the answer's ``Status`` and HTTP code.

    ``causes`` go into ``details.causes`` without their empty fields. ``details`` are the
    other keys of ``details``; None leaves the block out, an empty mapping is written as such.
    ``retry_after`` is in whole seconds and also becomes the ``Retry-After`` header.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: Sequence[Cause] = (),
        details: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.details = details
        self.retry_after = retry_after
        self.warnings: tuple[str, ...] = ()  # of webhooks, for the headers of the answer

    def status_object(self) -> dict[str, Any]:
        """The body of the answer, a ``v1`` Status with status ``Failure``."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        details = dict(self.details or {})
        if self.causes:
            details["causes"] = [_cause(cause) for cause in self.causes]
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        if details or self.details is not None:
            status["details"] = details
        status["code"] = self.code
        return status


def _cause(cause: Cause) -> dict[str, str]:
    fields = (("reason", cause.reason), ("message", cause.message), ("field", cause.field))
    return {key: value for key, value in fields if value}


def details_of(resource: Resource, name: str = "") -> dict[str, Any]:
    """``details`` that name an object by its plural resource name."""
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> ApiError:
    """404: the object is not there."""
    return ApiError(
        404,
        "NotFound",
        f'{resource.group_resource} "{name}" not found',
        details=details_of(resource, name),
    )


def no_such_path() -> ApiError:
    """404 for a subresource or a resource of a known group that is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: Resource, name: str) -> ApiError:
    """409 on create."""
    return ApiError(
        409,
        "AlreadyExists",
        f'{resource.group_resource} "{name}" already exists',
        details=details_of(resource, name),
    )


def conflict(resource: Resource, name: str, text: str = "") -> ApiError:
    """409: the object is no longer what the client has read."""
    text = text or (
        "the object has been modified; "
        "please apply your changes to the latest version and try again"
    )
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {text}',
        details=details_of(resource, name),
    )


def precondition_failed(resource: Resource, namespace: str, name: str, text: str) -> ApiError:
    """409: the object has another UID or version than the request is about."""
    key = "/".join(filter(None, ("/registry", resource.plural, namespace, name)))
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {text}",
    )


def plain(text: str) -> ApiError:
    """500 without a reason: what a real server didn't expect, in the words that it met with."""
    return ApiError(500, "", text)


def forbidden(
    resource: Resource, name: str, text: str, *, causes: Sequence[Cause] = ()
) -> ApiError:
    """403 from an admission plugin."""
    subject = f'{resource.group_resource} "{name}"' if name else resource.group_resource
    return ApiError(
        403,
        "Forbidden",
        f"{subject} is forbidden: {text}",
        causes=causes,
        details=details_of(resource, name),
    )


def bad_request(text: str) -> ApiError:
    """400: body, parameter or selector can't be read."""
    return ApiError(400, "BadRequest", text)


def cannot_be_handled(resource: Resource, text: str) -> ApiError:
    """400: the body isn't an object of this kind."""
    return ApiError(
        400,
        "BadRequest",
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {text}",
    )


def unauthorized() -> ApiError:
    """401: no token, or an unknown one."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def invalid(kind: str, name: str, causes: Sequence[Cause], *, group: str = "") -> ApiError:
    """422: every broken rule as a cause; ``kind`` is the kind, not the plural.

    Source: ``NewInvalid``; several causes are joined as ``[a, b]``.
    """
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = kind
    qualified = f"{kind}.{group}" if group else kind
    texts = list(dict.fromkeys(f"{c.field}: {c.message}" if c.field else c.message for c in causes))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(
        422, "Invalid", f'{qualified} "{name}" is invalid: {text}', causes=causes, details=details
    )


def unprocessable_patch() -> ApiError:
    """422 for a JSON patch that is well-formed but can't be applied."""
    return ApiError(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        details={},
    )


def method_not_allowed() -> ApiError:
    """405: the resource is known, the verb isn't."""
    return ApiError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        details={},
    )


def not_acceptable(text: str) -> ApiError:
    """406: what the client accepts can't be had."""
    return ApiError(406, "NotAcceptable", text)


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    """415: the body's content type is none of the ``accepted`` ones."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def too_many_requests(
    text: str, *, causes: Sequence[Cause] = (), retry_after: int | None = None
) -> ApiError:
    """429 as a JSON Status, which is what a disruption budget answers."""
    return ApiError(
        429, "TooManyRequests", text, causes=causes, details={}, retry_after=retry_after
    )


def expired(text: str) -> ApiError:
    """410: the version is older than what the history still holds."""
    return ApiError(410, "Expired", text)


def internal(text: str) -> ApiError:
    """500, with the text that a real API server puts before it."""
    return ApiError(
        500,
        "InternalError",
        f"Internal error occurred: {text}",
        causes=(Cause(message=text),),
        details={},
    )


def field_forbidden(field: str, text: str) -> Cause:
    """The field may not be set, or not be changed."""
    return Cause(reason="FieldValueForbidden", message=f"Forbidden: {text}", field=field)


def field_invalid(field: str, value: object, text: str) -> Cause:
    """The value breaks a rule; it is shown as JSON, strings in quotes."""
    message = f"Invalid value: {shown(value)}"
    if text:
        message += f": {text}"
    return Cause(reason="FieldValueInvalid", message=message, field=field)


def field_type_invalid(field: str, value: object, text: str) -> Cause:
    """The value has the wrong JSON type."""
    return Cause(
        reason="FieldValueTypeInvalid",
        message=f"Invalid value: {shown(value)}: {text}",
        field=field,
    )


def field_required(field: str, text: str = "") -> Cause:
    """A value is missing."""
    message = f"Required value: {text}" if text else "Required value"
    return Cause(reason="FieldValueRequired", message=message, field=field)


def field_not_supported(field: str, value: object, supported: Iterable[object]) -> Cause:
    """The value is none of the enumerated ones."""
    values = ", ".join(shown(item) for item in supported)
    return Cause(
        reason="FieldValueNotSupported",
        message=f"Unsupported value: {shown(value)}: supported values: {values}",
        field=field,
    )


def field_duplicate(field: str, value: object) -> Cause:
    """Two list entries have the same key."""
    return Cause(
        reason="FieldValueDuplicate", message=f"Duplicate value: {shown(value)}", field=field
    )


def shown(value: object) -> str:
    """A value as the causes show it."""
    return msgspec.json.encode(value).decode()
