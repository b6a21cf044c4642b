"""Tables: the columns that the API server gives to ``kubectl get``.

Pods, nodes, workloads, Events and custom resources have columns of their own, other kinds their
name and age. Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, and
k8s.io/apiextensions-apiserver pkg/registry/customresource/tableconvertor for custom resources.
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
    """One column; ``priority`` above 0 shows with ``-o wide`` only."""

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
        if column.type == "string":
            return value if isinstance(value, str) else plain(value)
        return value

    return Column(
        name=column.name,
        cell=cell,
        type=column.type,
        format=column.format,
        description=column.description,
        priority=column.priority,
    )


def plain(value: Any) -> str:
    """Return a value that is no text as Go's ``%v`` prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{' '.join(plain(item) for item in value)}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{plain(value[key])}' for key in sorted(value))}]"
    return str(value)


def _column(name: str, cell: Cell, type: str = "string", *, wide: bool = False) -> Column:
    return Column(name=name, cell=cell, type=type, priority=1 if wide else 0)


def _at(path: str, default: Any = "<none>") -> Cell:
    def cell(obj: Json, _now: datetime) -> Any:
        value = find(obj, path)
        return default if value in (None, "") else value

    return cell


def _count(path: str) -> Cell:
    return _at(path, 0)


def _age_since(text: Any, now: datetime) -> str:
    try:
        return human_age(now - datetime.fromisoformat(str(text)))
    except ValueError:
        return "<unknown>"


def _age(obj: Json, now: datetime) -> str:
    return _age_since(obj["metadata"].get("creationTimestamp"), now)


def _pod_ready(pod: Json, _now: datetime) -> str:
    """Ready containers of all: ``1/2``."""
    statuses = find(pod, ".status.containerStatuses") or ()
    ready = sum(1 for one in statuses if one.get("ready"))
    return f"{ready}/{len(find(pod, '.spec.containers') or ())}"


def _pod_status(pod: Json, _now: datetime) -> str:
    """The reason of the first container that doesn't run, or the phase."""
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


def _node_status(node: Json, _now: datetime) -> str:
    ready = find(node, ".status.conditions[?(@.type=='Ready')].status")
    shown = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if find(node, ".spec.unschedulable") else shown


def _ready_of_desired(obj: Json, _now: datetime) -> str:
    ready = find(obj, ".status.readyReplicas") or 0
    return f"{ready}/{find(obj, '.spec.replicas') or 0}"


def _last_seen(event: Json, now: datetime) -> str:
    last = (event.get("series") or {}).get("lastObservedTime")
    return _age_since(last or event.get("lastTimestamp") or event.get("eventTime"), now)


def _event_object(event: Json, _now: datetime) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


_NAME = Column(name="Name", cell=lambda obj, _now: obj["metadata"]["name"], format="name")
_AGE = _column("Age", _age)
_REPLICAS = (
    _NAME,
    _column("Desired", _count(".spec.replicas"), "integer"),
    _column("Current", _count(".status.replicas"), "integer"),
    _column("Ready", _count(".status.readyReplicas"), "integer"),
    _AGE,
)
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
    "nodes": (
        _NAME,
        _column("Status", _node_status),
        _AGE,
        _column("Version", _at(".status.nodeInfo.kubeletVersion", "")),
    ),
    "events": (
        _column("Last Seen", _last_seen),
        _column("Type", _at(".type", "")),
        _column("Reason", _at(".reason", "")),
        _column("Object", _event_object),
        _column("Message", _at(".message", "")),
    ),
    "deployments.apps": (
        _NAME,
        _column("Ready", _ready_of_desired),
        _column("Up-to-date", _count(".status.updatedReplicas")),
        _column("Available", _count(".status.availableReplicas")),
        _AGE,
    ),
    "replicasets.apps": _REPLICAS,
    "replicationcontrollers": _REPLICAS,
    "statefulsets.apps": (_NAME, _column("Ready", _ready_of_desired), _AGE),
    "daemonsets.apps": (
        _NAME,
        _column("Desired", _count(".status.desiredNumberScheduled"), "integer"),
        _column("Ready", _count(".status.numberReady"), "integer"),
        _AGE,
    ),
    "poddisruptionbudgets.policy": (
        _NAME,
        _column("Min Available", _at(".spec.minAvailable", "N/A")),
        _column("Max Unavailable", _at(".spec.maxUnavailable", "N/A")),
        _column("Allowed Disruptions", _count(".status.disruptionsAllowed"), "integer"),
        _AGE,
    ),
}
