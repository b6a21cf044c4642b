"""The API resources that the processes use, with their paths and object types."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from common.api.autoscaling import VerticalPodAutoscaler, VerticalPodAutoscalerCheckpoint
from common.api.coordination import Lease
from common.api.core import Event, LimitRange, Namespace, Pod, ResourceQuota
from common.api.horizontal_autoscaling import HorizontalPodAutoscaler
from common.api.meta import OwnedObject
from common.api.metrics import PodMetrics
from common.api.provisioning import StoredPodTemplate
from common.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicationController,
    StatefulSet,
    Workload,
)
from common.errors import InvalidRequestError

T = TypeVar("T")

Permission: TypeAlias = tuple[str, str, str, str]
"""One RBAC permission: group, resource with its subresource, verb, name ("": any)."""


@dataclass(frozen=True, slots=True)
class Access:
    """A component's calls in the terms of RBAC; tests compare manifests with them.

    ``resource`` includes the subresource (``pods/eviction``); ``*`` means every group, or every
    resource that has the subresource. ``names`` are the only objects that are used; empty means
    all. RBAC can't restrict ``create``, ``list`` and ``watch`` to names.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def permissions(self) -> Iterator[Permission]:
        """Yield every single permission, so that two ways to group them compare equal."""
        for verb in self.verbs:
            for name in self.names or ("",):
                yield (self.group, self.resource, verb, name)


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[T]):
    """One resource of the API, and the wire type of its objects.

    ``resource`` is the plural name in paths; ``group`` is empty for core. With
    ``metadata_only`` lists and watches request only the metadata of the objects.
    """

    group: str
    version: str
    resource: str
    kind: str
    type: type[T]
    namespaced: bool = True
    metadata_only: bool = False

    @property
    def api_version(self) -> str:
        """Return ``apiVersion`` of the objects, such as ``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str = "") -> str:
        """Return the path of all objects, or of those in one namespace."""
        root, resource = version_path(self.group, self.version), _segment(self.resource)
        if namespace and self.namespaced:
            return f"{root}/namespaces/{_segment(namespace)}/{resource}"
        return f"{root}/{resource}"

    def object(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """Return the path of one object, or of a subresource such as ``scale``."""
        path = f"{self.collection(namespace)}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path

    def access(self, *verbs: str, subresource: str = "", names: tuple[str, ...] = ()) -> Access:
        """Return the permissions for calling this resource with ``verbs``."""
        resource = f"{self.resource}/{subresource}" if subresource else self.resource
        return Access(self.group, resource, verbs, names)

    def as_dicts(self) -> "Endpoint[dict[str, Any]]":
        """Return the same resource with whole objects as plain dictionaries."""
        return with_type(self, dict[str, Any])


def with_type(
    endpoint: Endpoint[Any], wire_type: type[T], *, metadata_only: bool = False
) -> Endpoint[T]:
    """Return the same resource with objects of another type."""
    return Endpoint(
        *(endpoint.group, endpoint.version, endpoint.resource, endpoint.kind),
        wire_type,
        namespaced=endpoint.namespaced,
        metadata_only=metadata_only,
    )


_LONGEST_SHOWN = 200  # characters of a name in an error
_PLAIN = re.compile(r"[A-Za-z0-9._~-]*")


def group_path(group: str) -> str:
    """Return the path of the discovery document that lists a group's versions."""
    return f"/apis/{_segment(group)}"


def version_path(group: str, version: str) -> str:
    """Return the path of one version of a group; the core group has no name."""
    return f"{group_path(group)}/{_segment(version)}" if group else f"/api/{_segment(version)}"


def _segment(name: str) -> str:
    """Quote a name for a path. A check first is cheaper, because few names need quoting.

    Raises:
        InvalidRequestError: the name is a relative path segment, or has a surrogate, which UTF-8
            can't encode.
    """
    if _PLAIN.fullmatch(name):
        if name in (".", ".."):
            raise _no_segment(name)
        return name
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:
        raise _no_segment(name) from error


def _no_segment(name: str) -> InvalidRequestError:
    shown = ascii(name)[:_LONGEST_SHOWN]
    return InvalidRequestError(f"{shown} can't be part of a path", reason="InvalidRequest")


PODS = Endpoint("", "v1", "pods", "Pod", Pod)
EVENTS = Endpoint("", "v1", "events", "Event", Event)
NAMESPACES = Endpoint("", "v1", "namespaces", "Namespace", Namespace, namespaced=False)
LIMIT_RANGES = Endpoint("", "v1", "limitranges", "LimitRange", LimitRange)
RESOURCE_QUOTAS = Endpoint("", "v1", "resourcequotas", "ResourceQuota", ResourceQuota)
REPLICATION_CONTROLLERS = Endpoint(
    "", "v1", "replicationcontrollers", "ReplicationController", ReplicationController
)
DEPLOYMENTS = Endpoint("apps", "v1", "deployments", "Deployment", Deployment)
REPLICA_SETS = Endpoint("apps", "v1", "replicasets", "ReplicaSet", Workload)
REPLICA_SET_OWNERS = with_type(REPLICA_SETS, OwnedObject, metadata_only=True)
STATEFUL_SETS = Endpoint("apps", "v1", "statefulsets", "StatefulSet", StatefulSet)
DAEMON_SETS = Endpoint("apps", "v1", "daemonsets", "DaemonSet", DaemonSet)
JOBS = Endpoint("batch", "v1", "jobs", "Job", Job)
CRON_JOBS = Endpoint("batch", "v1", "cronjobs", "CronJob", CronJob)
WORKLOADS: tuple[Endpoint[Any], ...] = (
    *(DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS),
    *(REPLICA_SETS, REPLICATION_CONTROLLERS, JOBS),
)
"""The kinds of ``common.target.owners.WELL_KNOWN_KINDS``."""

VPAS = Endpoint(
    "autoscaling.k8s.io",
    "v1",
    "verticalpodautoscalers",
    "VerticalPodAutoscaler",
    VerticalPodAutoscaler,
)
CHECKPOINTS = Endpoint(
    "autoscaling.k8s.io",
    "v1",
    "verticalpodautoscalercheckpoints",
    "VerticalPodAutoscalerCheckpoint",
    VerticalPodAutoscalerCheckpoint,
)
HPAS = Endpoint(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    HorizontalPodAutoscaler,
)
LEASES = Endpoint("coordination.k8s.io", "v1", "leases", "Lease", Lease)
POD_METRICS = Endpoint("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", PodMetrics)
NODES = Endpoint("", "v1", "nodes", "Node", dict[str, Any], namespaced=False)
POD_TEMPLATES = Endpoint("", "v1", "podtemplates", "PodTemplate", StoredPodTemplate)
SECRETS = Endpoint("", "v1", "secrets", "Secret", dict[str, Any])
MUTATING_WEBHOOKS = Endpoint(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    dict[str, Any],
    namespaced=False,
)
