"""Tables: the columns that the API server returns to ``kubectl get``.

Pods, Events and custom resources have specific columns; all other kinds have name and age. Source:
k8s.io/kubernetes pkg/printers/internalversion/printers.go, and k8s.io/apiextensions-apiserver
pkg/registry/customresource/tableconvertor for custom resources.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox.objects.crds import CustomVersion, PrinterColumn
from sandbox.objects.json_paths import find
from sandbox.objects.resources import Resource
from sandbox.times import human_age

Json = Mapping[str, Any]
Cell = Callable[[Json, datetime], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. A ``priority`` above 0 is shown with ``-o wide`` only."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def definitions(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return the ``columnDefinitions`` of a Table."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns
    ]


def row_of(obj: Json, columns: Sequence[Column], now: datetime) -> list[Any]:
    """Return the cells of one object."""
    return [column.cell(obj, now) for column in columns]


def columns_of(resource: Resource, custom: CustomVersion | None) -> Sequence[Column]:
    """Return the columns of a kind."""
    if custom is not None:
        return [_NAME, *(_custom_column(column) for column in custom.columns)]
    return _BUILTIN.get(resource.group_resource, (_NAME, _AGE))


def _custom_column(column: PrinterColumn) -> Column:
    def cell(obj: Json, now: datetime) -> Any:
        value = find(obj, column.path)
        if value is None:
            return None
        if column.type == "date":
            return _age_since(value, now)
        return str(value) if column.type == "string" else value

    return Column(
        name=column.name,
        cell=cell,
        type=column.type,
        format=column.format,
        description=column.description,
        priority=column.priority,
    )


def _column(name: str, cell: Cell, type: str = "string", *, wide: bool = False) -> Column:
    return Column(name=name, cell=cell, type=type, priority=1 if wide else 0)


def _at(path: str, default: Any = "<none>") -> Cell:
    def cell(obj: Json, _now: datetime) -> Any:
        value = find(obj, path)
        return default if value in (None, "") else value

    return cell


def _age_since(text: Any, now: datetime) -> str:
    try:
        return human_age(now - datetime.fromisoformat(str(text)))
    except ValueError:
        return "<unknown>"


def _age(obj: Json, now: datetime) -> str:
    return _age_since(obj["metadata"].get("creationTimestamp"), now)


def _pod_ready(pod: Json, _now: datetime) -> str:
    """Return the number of ready containers and of all: ``1/2``."""
    statuses = find(pod, ".status.containerStatuses") or ()
    ready = sum(1 for one in statuses if one.get("ready"))
    return f"{ready}/{len(find(pod, '.spec.containers') or ())}"


def _pod_status(pod: Json, _now: datetime) -> str:
    """Return the reason of the first container that doesn't run, or the phase."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    status = pod.get("status") or {}
    for one in status.get("containerStatuses") or ():
        state = one.get("state") or {}
        reason = (state.get("waiting") or state.get("terminated") or {}).get("reason")
        if reason:
            return str(reason)
    return str(status.get("reason") or status.get("phase") or "")


def _pod_restarts(pod: Json, _now: datetime) -> str:
    statuses = find(pod, ".status.containerStatuses") or ()
    return str(sum(one.get("restartCount", 0) for one in statuses))


def _last_seen(event: Json, now: datetime) -> str:
    last = (event.get("series") or {}).get("lastObservedTime")
    return _age_since(last or event.get("lastTimestamp") or event.get("eventTime"), now)


def _event_object(event: Json, _now: datetime) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


_NAME = Column(name="Name", cell=lambda obj, _now: obj["metadata"]["name"], format="name")
_AGE = _column("Age", _age)
_BUILTIN: Mapping[str, Sequence[Column]] = {
    "pods": (
        _NAME,
        _column("Ready", _pod_ready),
        _column("Status", _pod_status),
        _column("Restarts", _pod_restarts),
        _AGE,
        _column("IP", _at(".status.podIP"), wide=True),
        _column("Node", _at(".spec.nodeName"), wide=True),
    ),
    "events": (
        _column("Last Seen", _last_seen),
        _column("Type", _at(".type", "")),
        _column("Reason", _at(".reason", "")),
        _column("Object", _event_object),
        _column("Message", _at(".message", "")),
    ),
}
