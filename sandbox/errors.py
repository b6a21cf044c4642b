"""Errors of the API server, each of which carries a ``Status`` object.

Shapes and sentences are those of a real API server (k8s.io/apimachinery
``pkg/api/errors/errors.go`` and ``pkg/util/validation/field/errors.go``). Clients classify errors
by ``code``, ``reason`` and the causes; users read ``message``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from common.errors import Cause
from sandbox.objects.resources import Resource


class ApiError(Exception):
    """A refused request. It becomes the ``Status`` and HTTP code of the response.

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
        self.warnings: tuple[str, ...] = ()  # of webhooks, for the response headers

    def status_object(self) -> dict[str, Any]:
        """Return the body of the response, a ``v1`` Status with status ``Failure``."""
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
    """Return ``details`` that name an object by its plural resource name."""
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> ApiError:
    """Return a 404: the object doesn't exist."""
    return ApiError(
        404,
        "NotFound",
        f'{resource.group_resource} "{name}" not found',
        details=details_of(resource, name),
    )


def no_such_path() -> ApiError:
    """Return a 404 for a subresource, or a resource of a known group, that isn't served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: Resource, name: str) -> ApiError:
    """Return a 409 for a create."""
    return ApiError(
        409,
        "AlreadyExists",
        f'{resource.group_resource} "{name}" already exists',
        details=details_of(resource, name),
    )


def conflict(resource: Resource, name: str, text: str = "") -> ApiError:
    """Return a 409: the object changed after the client read it."""
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
    """Return a 409: the UID or version of the object differs from the request's."""
    key = "/".join(filter(None, ("/registry", resource.plural, namespace, name)))
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {text}",
    )


def plain(text: str) -> ApiError:
    """Return a 500 without a reason, as a real server does for errors that it doesn't expect."""
    return ApiError(500, "", text)


def forbidden(
    resource: Resource, name: str, text: str, *, causes: Sequence[Cause] = ()
) -> ApiError:
    """Return a 403 of an admission plugin."""
    subject = f'{resource.group_resource} "{name}"' if name else resource.group_resource
    return ApiError(
        403,
        "Forbidden",
        f"{subject} is forbidden: {text}",
        causes=causes,
        details=details_of(resource, name),
    )


def bad_request(text: str) -> ApiError:
    """Return a 400: a body, parameter or selector is invalid."""
    return ApiError(400, "BadRequest", text)


def cannot_be_handled(resource: Resource, text: str) -> ApiError:
    """Return a 400: the body isn't an object of this kind."""
    return ApiError(
        400,
        "BadRequest",
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {text}",
    )


def unauthorized() -> ApiError:
    """Return a 401: the token is missing or unknown."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def invalid(kind: str, name: str, causes: Sequence[Cause], *, group: str = "") -> ApiError:
    """Return a 422 with a cause for each broken rule. ``kind`` isn't the plural name.

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
    """Return a 422 for a well-formed JSON patch that can't be applied."""
    return ApiError(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        details={},
    )


def unreachable_service(text: str) -> ApiError:
    """Return a 503: the API server can't reach the pod that a request is for."""
    return ApiError(503, "ServiceUnavailable", f"error trying to reach service: {text}")


def method_not_allowed() -> ApiError:
    """Return a 405: the resource doesn't support the verb."""
    return ApiError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        details={},
    )


def not_acceptable(text: str) -> ApiError:
    """Return a 406: no accepted media type is served."""
    return ApiError(406, "NotAcceptable", text)


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    """Return a 415: the content type isn't one of the ``accepted`` ones."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def too_many_requests(
    text: str, *, causes: Sequence[Cause] = (), retry_after: int | None = None
) -> ApiError:
    """Return a 429 as a JSON Status, which is the response of a disruption budget."""
    return ApiError(
        429, "TooManyRequests", text, causes=causes, details={}, retry_after=retry_after
    )


def expired(text: str) -> ApiError:
    """Return a 410: the version is older than the history."""
    return ApiError(410, "Expired", text)


def internal(text: str) -> ApiError:
    """Return a 500 with the prefix of a real API server."""
    return ApiError(
        500,
        "InternalError",
        f"Internal error occurred: {text}",
        causes=(Cause(message=text),),
        details={},
    )


def field_forbidden(field: str, text: str) -> Cause:
    """Return the cause for a field that must not be set or changed."""
    return Cause(reason="FieldValueForbidden", message=f"Forbidden: {text}", field=field)


def field_invalid(field: str, value: object, text: str) -> Cause:
    """Return the cause for a value that breaks a rule. The value is shown as JSON."""
    message = f"Invalid value: {shown(value)}"
    if text:
        message += f": {text}"
    return Cause(reason="FieldValueInvalid", message=message, field=field)


def field_type_invalid(field: str, value: object, text: str) -> Cause:
    """Return the cause for a value of the wrong JSON type."""
    return Cause(
        reason="FieldValueTypeInvalid",
        message=f"Invalid value: {shown(value)}: {text}",
        field=field,
    )


def field_required(field: str, text: str = "") -> Cause:
    """Return the cause for a missing value."""
    message = f"Required value: {text}" if text else "Required value"
    return Cause(reason="FieldValueRequired", message=message, field=field)


def field_not_supported(field: str, value: object, supported: Iterable[object]) -> Cause:
    """Return the cause for a value that isn't one of the enumerated ones."""
    values = ", ".join(shown(item) for item in supported)
    return Cause(
        reason="FieldValueNotSupported",
        message=f"Unsupported value: {shown(value)}: supported values: {values}",
        field=field,
    )


def field_duplicate(field: str, value: object) -> Cause:
    """Return the cause for two list entries with the same key."""
    return Cause(
        reason="FieldValueDuplicate", message=f"Duplicate value: {shown(value)}", field=field
    )


def shown(value: object) -> str:
    """Return a value as the causes show it."""
    return msgspec.json.encode(value).decode()
