"""Errors of an object's fields, worded as the API server words them.

Source: k8s.io/apimachinery/pkg/util/validation/field/errors.go.
"""

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST_SENTENCE = 2000  # characters


class ErrorType(enum.StrEnum):
    """The type of a field's error; the value is the ``reason`` of the status cause."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One broken rule."""

    type: ErrorType
    field: str  # spec.updatePolicy.updateMode
    message: str  # begins with the type: "Required value: ..."


def required(field: str, detail: str = "") -> FieldError:
    """Return the error for a field that is missing or empty."""
    message = f"Required value: {detail}" if detail else "Required value"
    return FieldError(type=ErrorType.REQUIRED, field=field, message=message)


def invalid(field: str, value: object, detail: str) -> FieldError:
    """Return the error for a value that breaks a rule; ``value`` is shown as JSON."""
    message = f"Invalid value: {quoted(value)}: {detail}"
    return FieldError(type=ErrorType.INVALID, field=field, message=message)


def unsupported(field: str, value: str, supported: Sequence[str]) -> FieldError:
    """Return the error for a value outside of ``supported``."""
    names = ", ".join(map(quoted, supported))
    message = f"Unsupported value: {quoted(value)}: supported values: {names}"
    return FieldError(type=ErrorType.NOT_SUPPORTED, field=field, message=message)


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error for a field that must not be set."""
    return FieldError(type=ErrorType.FORBIDDEN, field=field, message=f"Forbidden: {detail}")


def too_many(field: str, count: int, most: int) -> FieldError:
    """Return the error for a list that is too long."""
    noun = "item" if most == 1 else "items"
    message = f"Too many: {count}: must have at most {most} {noun}"
    return FieldError(type=ErrorType.TOO_MANY, field=field, message=message)


def undecodable(error: Exception) -> FieldError:
    """Return the error for an object that can't be decoded."""
    return FieldError(type=ErrorType.INTERNAL, field=".", message=f"Internal error: {error}")


def brief(text: str) -> str:
    """Return ``text`` cut to 2,000 characters; values in it can be megabytes long."""
    if len(text) <= _LONGEST_SENTENCE:
        return text
    return f"{text[:_LONGEST_SENTENCE]}... ({len(text) - _LONGEST_SENTENCE} characters more)"


def quoted(value: object) -> str:
    """Return a value as JSON, as messages show values of the object."""
    return json.dumps(value, ensure_ascii=False)
