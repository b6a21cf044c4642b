"""The rules that Events keep: few in the core group, more in events.k8s.io.

Source: k8s.io/kubernetes pkg/apis/core/validation/events.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import field_invalid, field_required, fields_invalid
from sandbox.objects.rules.dns_names import subdomain_problems
from sandbox.objects.rules.metadata import key_causes, metadata_causes

Json = Mapping[str, Any]

_ANYWHERE: Final = ("default", "kube-system")  # where Events about cluster-wide objects may be
_TYPES: Final = ("Normal", "Warning")
_NEEDED: Final = ("reportingInstance", "action", "reason")
_LONGEST: Final = 128
_LONGEST_NOTE: Final = 1024
_LEAST_IN_SERIES: Final = 2
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count")
_REFERENCE: Final = (
    ("kind", "Kind"),
    ("namespace", "Namespace"),
    ("name", "Name"),
    ("uid", "UID"),
    ("apiVersion", "APIVersion"),
    ("resourceVersion", "ResourceVersion"),
    ("fieldPath", "FieldPath"),
)
_GO_NAMES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "involvedObject": _REFERENCE,
    "related": _REFERENCE,
    "source": (("component", "Component"), ("host", "Host")),
}
# What an update through events.k8s.io keeps, in the order in which a real server tells it.
_FIXED: Final = (
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)


def event_causes(event: Json, *, group: str) -> Iterator[Cause]:
    """Check a new Event, in its core form, that came in through ``group``."""
    yield from _common_causes(event, group)
    if not group:
        return
    yield from metadata_causes(event["metadata"], custom=False)
    yield from _series_causes(event)
    if not event.get("eventTime"):
        yield field_required("eventTime")
    kind = event.get("type") or ""
    if kind not in _TYPES:
        yield field_invalid("type", "", f"has invalid value: {kind}")
    for field in _UNSET:
        if event.get(field):
            yield field_invalid(field, "", "needs to be unset")
    if any((event.get("source") or {}).values()):
        yield field_invalid("source", "", "needs to be unset")


def changed_event_causes(old: Json, new: Json, *, group: str) -> Iterator[Cause]:
    """Check an update; through events.k8s.io nothing but the series changes."""
    yield from _common_causes(new, group)
    if not group:
        return
    if old.get("series") != new.get("series"):
        yield from _series_causes(new)
    for field, told_as in _FIXED:
        if (old.get(field) or None) != (new.get(field) or None):
            yield field_invalid(told_as, _shown(field, new.get(field)), "field is immutable")


def _shown(field: str, value: object) -> object:
    """A value as a real API server shows it: structs by the names that Go has for their fields."""
    names = _GO_NAMES.get(field)
    if names is None or not isinstance(value, dict):
        return value
    return {shown: value.get(name, "") for name, shown in names}


def _common_causes(event: Json, group: str) -> Iterator[Cause]:
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    if event.get("eventTime"):
        fits = bool(about) or namespace in _ANYWHERE
    else:
        fits = about == namespace or (about == "" and namespace == "default")
    if not fits:
        yield field_invalid("involvedObject.namespace", about, "does not match event.namespace")
    if event.get("eventTime"):
        yield from _new_form_causes(event, "reportingController" if group else "reportingComponent")
    yield from fields_invalid("namespace", namespace, subdomain_problems(namespace))


def _new_form_causes(event: Json, controller_field: str) -> Iterator[Cause]:
    """What an Event with an ``eventTime`` has: who reports what was done, and why."""
    controller = event.get("reportingComponent") or ""
    if not controller:
        yield field_required(controller_field)
    yield from key_causes(controller, controller_field)
    for field in _NEEDED:
        text = event.get(field) or ""
        if not text:
            yield field_required(field)
        if len(text.encode()) > _LONGEST:
            yield field_invalid(field, "", f"can have at most {_LONGEST} characters")
    if len((event.get("message") or "").encode()) > _LONGEST_NOTE:
        yield field_invalid("message", "", f"can have at most {_LONGEST_NOTE} characters")


def _series_causes(event: Json) -> Iterator[Cause]:
    series = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < _LEAST_IN_SERIES:
        yield field_invalid("series.count", "", f"should be at least {_LEAST_IN_SERIES}")
    if not series.get("lastObservedTime"):
        yield field_required("series.lastObservedTime")
