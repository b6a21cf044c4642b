"""Tables: the columns that the API server gives to ``kubectl get``.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, and
k8s.io/apiextensions-apiserver pkg/registry/customresource/tableconvertor for custom resources.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox.apiserver import pod_cells
from sandbox.apiserver import table_cells as cells
from sandbox.objects.crds import CustomVersion, PrinterColumn
from sandbox.objects.json_paths import find
from sandbox.objects.resources import Resource

Json = Mapping[str, Any]
Cell = Callable[[Json, datetime], Any]

_NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name "
    "automatically. Name is primarily intended for creation idempotence and configuration "
    "definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)


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
    """``columnDefinitions`` of a Table."""
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
    """The cells of one object."""
    return [column.cell(obj, now) for column in columns]


def columns_of(resource: Resource, custom: CustomVersion | None) -> Sequence[Column]:
    """The columns of a kind; the name and the time of the creation where there are no others."""
    if custom is not None:
        return [_NAME, *(_custom_column(column) for column in custom.columns)]
    return _BUILTIN.get(resource.group_resource, (_NAME, _CREATED))


def _custom_column(column: PrinterColumn) -> Column:
    def cell(obj: Json, now: datetime) -> Any:
        value = find(obj, column.path)
        if value is None:
            return None
        if column.type == "date":
            return cells.age_since(value, now)
        if column.type == "string":
            return value if isinstance(value, str) else cells.plain(value)
        return value

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


def _count(path: str) -> Cell:
    return _at(path, 0)


_NAME = Column(
    name="Name",
    cell=lambda obj, _now: obj["metadata"]["name"],
    format="name",
    description=_NAME_DESCRIPTION,
)
_AGE = _column("Age", cells.age)
_SELECTOR = _column("Selector", cells.selector(".spec.selector"), wide=True)


def _containers(template: str = ".spec.template") -> tuple[Column, Column]:
    return (
        _column("Containers", cells.containers(template), wide=True),
        _column("Images", cells.images(template), wide=True),
    )


_CONTAINERS = _containers()
_EVENTS = (
    _column("Last Seen", cells.event_last_seen),
    _column("Type", _at(".type", "")),
    _column("Reason", _at(".reason", "")),
    _column("Object", cells.event_object),
    _column("Subobject", _at(".involvedObject.fieldPath", ""), wide=True),
    _column("Source", cells.event_source, wide=True),
    _column("Message", cells.event_message),
    _column("First Seen", cells.event_first_seen, wide=True),
    _column("Count", cells.event_count, wide=True),
    Column(name="Name", cell=_NAME.cell, format="name", priority=1),
)
_BINDINGS = (
    _NAME,
    _column("Role", cells.bound_role),
    _AGE,
    _column("Users", cells.subjects("User"), wide=True),
    _column("Groups", cells.subjects("Group"), wide=True),
    _column("ServiceAccounts", cells.subjects("ServiceAccount"), wide=True),
)
_CREATED = _column("Created At", _at(".metadata.creationTimestamp", ""), "date")

_BUILTIN: Mapping[str, Sequence[Column]] = {
    "pods": (
        _NAME,
        _column("Ready", pod_cells.ready),
        _column("Status", pod_cells.status),
        _column("Restarts", pod_cells.restarts),
        _AGE,
        _column("IP", pod_cells.address, wide=True),
        _column("Node", _at(".spec.nodeName"), wide=True),
        _column("Nominated Node", _at(".status.nominatedNodeName"), wide=True),
        _column("Readiness Gates", pod_cells.gates, wide=True),
    ),
    "nodes": (
        _NAME,
        _column("Status", cells.node_status),
        _column("Roles", cells.node_roles),
        _AGE,
        _column("Version", _at(".status.nodeInfo.kubeletVersion", "")),
        _column(
            "Internal-IP", _at(".status.addresses[?(@.type=='InternalIP')].address"), wide=True
        ),
        _column(
            "External-IP", _at(".status.addresses[?(@.type=='ExternalIP')].address"), wide=True
        ),
        _column("OS-Image", _at(".status.nodeInfo.osImage", "<unknown>"), wide=True),
        _column("Kernel-Version", cells.node_kernel, wide=True),
        _column(
            "Container-Runtime",
            _at(".status.nodeInfo.containerRuntimeVersion", "<unknown>"),
            wide=True,
        ),
    ),
    "namespaces": (_NAME, _column("Status", _at(".status.phase", "")), _AGE),
    "services": (
        _NAME,
        _column("Type", _at(".spec.type", "")),
        _column("Cluster-IP", _at(".spec.clusterIP")),
        _column("External-IP", cells.service_outside),
        _column("Port(s)", cells.service_ports),
        _AGE,
        _SELECTOR,
    ),
    "endpoints": (_NAME, _column("Endpoints", cells.endpoints), _AGE),
    "events": _EVENTS,
    "events.events.k8s.io": _EVENTS,
    "configmaps": (_NAME, _column("Data", cells.data_count), _AGE),
    "secrets": (
        _NAME,
        _column("Type", _at(".type", "")),
        _column("Data", cells.data_count),
        _AGE,
    ),
    "persistentvolumeclaims": (
        _NAME,
        _column("Status", cells.claim_status),
        _column("Volume", _at(".spec.volumeName", "")),
        _column("Capacity", cells.claim_capacity),
        _column("Access Modes", cells.claim_access),
        _column("StorageClass", _at(".spec.storageClassName", "")),
        _column("VolumeAttributesClass", _at(".spec.volumeAttributesClassName", "<unset>")),
        _AGE,
        _column("VolumeMode", _at(".spec.volumeMode", "<unset>"), wide=True),
    ),
    "resourcequotas": (
        _NAME,
        _column("Request", cells.quota("requests")),
        _column("Limit", cells.quota("limits")),
        _AGE,
    ),
    "replicationcontrollers": (
        _NAME,
        _column("Desired", _count(".spec.replicas"), "integer"),
        _column("Current", _count(".status.replicas"), "integer"),
        _column("Ready", _count(".status.readyReplicas"), "integer"),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "deployments.apps": (
        _NAME,
        _column("Ready", cells.ready_of_desired),
        _column("Up-to-date", _count(".status.updatedReplicas")),
        _column("Available", _count(".status.availableReplicas")),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "replicasets.apps": (
        _NAME,
        _column("Desired", _count(".spec.replicas"), "integer"),
        _column("Current", _count(".status.replicas"), "integer"),
        _column("Ready", _count(".status.readyReplicas"), "integer"),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "statefulsets.apps": (_NAME, _column("Ready", cells.ready_of_desired), _AGE, *_CONTAINERS),
    "daemonsets.apps": (
        _NAME,
        _column("Desired", _count(".status.desiredNumberScheduled"), "integer"),
        _column("Current", _count(".status.currentNumberScheduled"), "integer"),
        _column("Ready", _count(".status.numberReady"), "integer"),
        _column("Up-to-date", _count(".status.updatedNumberScheduled"), "integer"),
        _column("Available", _count(".status.numberAvailable"), "integer"),
        _column("Node Selector", cells.node_selector),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "jobs.batch": (
        _NAME,
        _column("Status", cells.job_status),
        _column("Completions", cells.job_completions),
        _column("Duration", cells.job_duration),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "cronjobs.batch": (
        _NAME,
        _column("Schedule", _at(".spec.schedule", "")),
        _column("Timezone", _at(".spec.timeZone")),
        _column("Suspend", cells.suspended, "boolean"),
        _column("Active", cells.length("status.active"), "integer"),
        _column("Last Schedule", cells.age_at(".status.lastScheduleTime")),
        _AGE,
        *_containers(".spec.jobTemplate.spec.template"),
        _column("Selector", cells.selector(".spec.jobTemplate.spec.selector"), wide=True),
    ),
    "poddisruptionbudgets.policy": (
        _NAME,
        _column("Min Available", _at(".spec.minAvailable", "N/A")),
        _column("Max Unavailable", _at(".spec.maxUnavailable", "N/A")),
        _column("Allowed Disruptions", _count(".status.disruptionsAllowed"), "integer"),
        _AGE,
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "serviceaccounts": (_NAME, _AGE),
    "leases.coordination.k8s.io": (_NAME, _column("Holder", _at(".spec.holderIdentity", "")), _AGE),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        _NAME,
        _column("Webhooks", cells.length("webhooks"), "integer"),
        _AGE,
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        _NAME,
        _column("Webhooks", cells.length("webhooks"), "integer"),
        _AGE,
    ),
    "controllerrevisions.apps": (
        _NAME,
        _column("Controller", cells.controller),
        _column("Revision", _count(".revision")),
        _AGE,
    ),
    "endpointslices.discovery.k8s.io": (
        _NAME,
        _column("AddressType", _at(".addressType", "")),
        _column("Ports", cells.slice_ports),
        _column("Endpoints", cells.slice_addresses),
        _AGE,
    ),
    "apiservices.apiregistration.k8s.io": (
        _NAME,
        _column("Service", cells.api_service),
        _column("Available", cells.api_service_available),
        _AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        _NAME,
        _column("Value", _count(".value"), "integer"),
        _column("Global-Default", lambda obj, _now: bool(obj.get("globalDefault")), "boolean"),
        _AGE,
        _column("PreemptionPolicy", _at(".preemptionPolicy", "")),
    ),
}
