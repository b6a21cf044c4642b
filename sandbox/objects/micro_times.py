"""The strictness of MicroTime: six digits and a zone, or the whole object is refused."""

import re
from datetime import datetime
from typing import Any

from sandbox.errors import cannot_be_handled
from sandbox.objects.resources import Resource
from sandbox.times import micro_time

_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_WHOLE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(.*)", re.DOTALL)
_FRACTION = re.compile(r"\.\d{6}")
_ZONE = re.compile(r"Z|[+-]\d\d:\d\d")
_FIELDS = {
    "Lease": (("spec", "acquireTime"), ("spec", "renewTime")),
    "Event": (("eventTime",),),
}


def normalize(resource: Resource, obj: dict[str, Any]) -> None:
    """Check the MicroTimes of a Lease or an Event, and write them in UTC, in place.

    Raises:
        ApiError: 400, with the sentence of Go's time parser.

    Source: kubernetes-resize.md section 9.
    """
    for *parents, last in _FIELDS.get(resource.kind, ()):
        holder: Any = obj
        for parent in parents:
            holder = holder.get(parent) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and holder.get(last) is not None:
            holder[last] = _parsed(resource, holder[last])


def _parsed(resource: Resource, text: Any) -> str:
    if not isinstance(text, str):
        raise cannot_be_handled(resource, "json: cannot unmarshal a time that is no string")
    match = _WHOLE.fullmatch(text)
    left, layout = (match[2], "") if match else (text, "2006")
    if match is not None:
        if _FRACTION.match(left) is None:
            layout = ".000000"
        elif _ZONE.fullmatch(left[7:]) is None:
            left, layout = left[7:], "Z07:00"
    if layout:
        raise cannot_be_handled(
            resource,
            f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{left}" as "{layout}"',
        )
    try:
        return micro_time(datetime.fromisoformat(text))
    except ValueError as error:
        raise cannot_be_handled(resource, f'parsing time "{text}": {error}') from error
