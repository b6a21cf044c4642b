"""The shape of every built-in kind: what a body must look like to be stored.

A value of another type is a 400, as it is for Go's decoder.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from sandbox.errors import cannot_be_handled
from sandbox.objects import null_texts
from sandbox.objects.fields import kind_key, type_of_kind
from sandbox.objects.go_decoding import type_problem
from sandbox.objects.resources import Resource
from sandbox.objects.shapes.access import Binding, Role
from sandbox.objects.shapes.base import (
    Amounts,
    Condition,
    Flag,
    Json,
    LabelSelector,
    Long,
    Map,
    Number,
    Portion,
    Shape,
    Text,
    Texts,
)
from sandbox.objects.shapes.extensions import ApiService, Definition, Webhooks
from sandbox.objects.shapes.pods import CronJob, Job, OldWorkload, Pod, Workload


class OwnerReference(Shape):
    """``metav1.OwnerReference``."""

    api_version: Text = None
    kind: Text = None
    name: Text = None
    uid: Text = None
    controller: Flag = None
    block_owner_deletion: Flag = None


class Metadata(Shape):
    """``metav1.ObjectMeta``, what a client may send of it."""

    name: Text = None
    generate_name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    generation: Long = None
    creation_timestamp: Text = None
    deletion_timestamp: Text = None
    labels: Map = None
    annotations: Map = None
    finalizers: Texts = None
    owner_references: list[OwnerReference] | None = None


class ServicePort(Shape):
    """``ServicePort``."""

    port: int
    name: Text = None
    protocol: Text = None
    node_port: Number = None
    target_port: Portion = None


class ServiceSpec(Shape):
    """``ServiceSpec``."""

    type: Text = None
    cluster_ip: Text = msgspec.field(default=None, name="clusterIP")
    external_name: Text = None
    selector: Map = None
    ports: list[ServicePort] | None = None


class Service(Shape):
    """``Service``."""

    spec: ServiceSpec | None = None
    status: Json = None


class LimitRangeItem(Shape):
    """``LimitRangeItem``."""

    type: Text = None
    max: Amounts = None
    min: Amounts = None
    default: Amounts = None
    default_request: Amounts = None
    max_limit_request_ratio: Amounts = None


class LimitRangeSpec(Shape):
    """``LimitRangeSpec``."""

    limits: list[LimitRangeItem] | None = None


class LimitRange(Shape):
    """``LimitRange``."""

    spec: LimitRangeSpec | None = None


class QuotaPart(Shape):
    """``ResourceQuotaSpec`` and ``ResourceQuotaStatus``."""

    hard: Amounts = None
    used: Amounts = None
    scopes: Texts = None
    scope_selector: Json = None


class Quota(Shape):
    """``ResourceQuota``."""

    spec: QuotaPart | None = None
    status: QuotaPart | None = None


class Data(Shape):
    """A ConfigMap or a Secret."""

    data: Map = None
    binary_data: Map = None
    string_data: Map = None
    type: Text = None


class Reference(Shape):
    """``ObjectReference``."""

    kind: Text = None
    namespace: Text = None
    name: Text = None
    uid: Text = None
    api_version: Text = None
    resource_version: Text = None
    field_path: Text = None


class EventSource(Shape):
    """``EventSource``."""

    component: Text = None
    host: Text = None


class EventSeries(Shape):
    """``EventSeries``."""

    count: Number = None
    last_observed_time: Text = None


class Event(Shape):
    """``Event`` of the core group."""

    involved_object: Reference | None = None
    related: Reference | None = None
    reason: Text = None
    message: Text = None
    type: Text = None
    action: Text = None
    count: Number = None
    source: EventSource | None = None
    series: EventSeries | None = None
    event_time: Text = None
    first_timestamp: Text = None
    last_timestamp: Text = None
    reporting_component: Text = None
    reporting_instance: Text = None


class NodeSpec(Shape):
    """``NodeSpec``."""

    unschedulable: Flag = None
    taints: list[dict[str, Any]] | None = None


class NodeAddress(Shape):
    """``NodeAddress``."""

    type: str
    address: str


class NodeStatus(Shape):
    """``NodeStatus``."""

    capacity: Amounts = None
    allocatable: Amounts = None
    conditions: list[Condition] | None = None
    addresses: list[NodeAddress] | None = None
    node_info: Map = None
    declared_features: Texts = None


class Node(Shape):
    """``Node``."""

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class NamespaceSpec(Shape):
    """``NamespaceSpec``."""

    finalizers: Texts = None


class NamespaceStatus(Shape):
    """``NamespaceStatus``."""

    phase: Text = None
    conditions: list[Condition] | None = None


class Namespace(Shape):
    """``Namespace``."""

    spec: NamespaceSpec | None = None
    status: NamespaceStatus | None = None


class LeaseSpec(Shape):
    """``LeaseSpec``."""

    holder_identity: Text = None
    lease_duration_seconds: Number = None
    acquire_time: Text = None
    renew_time: Text = None
    lease_transitions: Number = None


class Lease(Shape):
    """``Lease``."""

    spec: LeaseSpec | None = None


class BudgetSpec(Shape):
    """``PodDisruptionBudgetSpec``."""

    min_available: Portion = None
    max_unavailable: Portion = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: Text = None


class BudgetStatus(Shape):
    """``PodDisruptionBudgetStatus``."""

    observed_generation: Long = None
    disruptions_allowed: Number = None
    current_healthy: Number = None
    desired_healthy: Number = None
    expected_pods: Number = None
    disrupted_pods: Map = None
    conditions: list[Condition] | None = None


class Budget(Shape):
    """``PodDisruptionBudget``."""

    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


class EndpointAddress(Shape):
    """``EndpointAddress``."""

    ip: str


class EndpointPort(Shape):
    """``EndpointPort``."""

    port: int
    name: Text = None


class EndpointSubset(Shape):
    """``EndpointSubset``."""

    addresses: list[EndpointAddress] | None = None
    ports: list[EndpointPort] | None = None


class Endpoints(Shape):
    """``Endpoints``."""

    subsets: list[EndpointSubset] | None = None


class SliceEndpoint(Shape):
    """``Endpoint`` of a slice."""

    addresses: list[str]
    conditions: dict[str, bool] | None = None


class EndpointSlice(Shape):
    """``EndpointSlice``."""

    endpoints: list[SliceEndpoint] | None = None
    ports: list[EndpointPort] | None = None


_BY_KIND: Mapping[str, type[Shape]] = {
    "APIService": ApiService,
    "ClusterRole": Role,
    "ClusterRoleBinding": Binding,
    "ConfigMap": Data,
    "CronJob": CronJob,
    "CustomResourceDefinition": Definition,
    "DaemonSet": Workload,
    "Deployment": Workload,
    "EndpointSlice": EndpointSlice,
    "Endpoints": Endpoints,
    "Event": Event,
    "Job": Job,
    "Lease": Lease,
    "LimitRange": LimitRange,
    "MutatingWebhookConfiguration": Webhooks,
    "Namespace": Namespace,
    "Node": Node,
    "Pod": Pod,
    "PodDisruptionBudget": Budget,
    "ReplicaSet": Workload,
    "ReplicationController": OldWorkload,
    "ResourceQuota": Quota,
    "Role": Role,
    "RoleBinding": Binding,
    "Secret": Data,
    "Service": Service,
    "StatefulSet": Workload,
    "ValidatingWebhookConfiguration": Webhooks,
}


def check_shape(resource: Resource, obj: Mapping[str, Any]) -> None:
    """Check the types of what a built-in kind declares, ``metadata`` aside.

    Nulls in maps and lists of texts become empty texts, in place, as for Go's decoder.

    Raises:
        ApiError: 400 with the place of the first value that has another type.
    """
    shape = _BY_KIND.get(resource.kind)
    if shape is None or resource.custom:
        return
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        type_ = type_of_kind(kind_key(resource.api_version, resource.kind))
        if type_ is not None and null_texts.fill(obj, type_):
            check_shape(resource, obj)
            return
        text = type_problem(obj, resource.api_version, resource.kind) or str(error)
        raise cannot_be_handled(resource, text) from error


def check_metadata(resource: Resource, meta: Any) -> None:
    """Check the types of an object's metadata.

    Raises:
        ApiError: 400.
    """
    try:
        msgspec.convert(meta, Metadata)
    except msgspec.ValidationError as error:
        if null_texts.fill(meta, "ObjectMeta"):
            check_metadata(resource, meta)
            return
        told = type_problem({"metadata": meta}, resource.api_version, resource.kind)
        raise cannot_be_handled(resource, told or f"metadata: {error}") from error
