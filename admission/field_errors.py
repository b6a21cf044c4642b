"""What is wrong with a field of an object, in the API server's own words.

Source: k8s.io/apimachinery/pkg/util/validation/field/errors.go.
"""

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST_SENTENCE = 2000  # characters


class ErrorType(enum.StrEnum):
    """Why a field is refused; the value is the cause's reason."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One broken rule: of which type, where, and the sentence for the person who wrote it."""

    type: ErrorType
    field: str  # spec.updatePolicy.updateMode
    message: str  # with the type's words in front: "Required value: ..."


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a field that is missing or empty."""
    message = f"Required value: {detail}" if detail else "Required value"
    return FieldError(type=ErrorType.REQUIRED, field=field, message=message)


def invalid(field: str, value: object, detail: str) -> FieldError:
    """``value`` is shown as JSON: a text in quotes, a number bare."""
    message = f"Invalid value: {_shown(value)}: {detail}"
    return FieldError(type=ErrorType.INVALID, field=field, message=message)


def unsupported(field: str, value: str, supported: Sequence[str]) -> FieldError:
    """Return the error of a value that the field can't have."""
    names = ", ".join(map(quoted, supported))
    message = f"Unsupported value: {quoted(value)}: supported values: {names}"
    return FieldError(type=ErrorType.NOT_SUPPORTED, field=field, message=message)


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error of a field that must not be set."""
    return FieldError(type=ErrorType.FORBIDDEN, field=field, message=f"Forbidden: {detail}")


def too_many(field: str, count: int, most: int) -> FieldError:
    """Return the error of a list that is too long."""
    noun = "item" if most == 1 else "items"
    message = f"Too many: {count}: must have at most {most} {noun}"
    return FieldError(type=ErrorType.TOO_MANY, field=field, message=message)


def undecodable(error: Exception) -> FieldError:
    """Return the object as a whole could not be read."""
    return FieldError(type=ErrorType.INTERNAL, field=".", message=f"Internal error: {error}")


def brief(text: str) -> str:
    """Return the beginning of a text whose values may be megabytes."""
    if len(text) <= _LONGEST_SENTENCE:
        return text
    return f"{text[:_LONGEST_SENTENCE]}... ({len(text) - _LONGEST_SENTENCE} characters more)"


def quoted(text: str) -> str:
    """Return the text in double quotes, as messages show values that people wrote."""
    return _shown(text)


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
