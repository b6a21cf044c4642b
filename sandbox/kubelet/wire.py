"""The fields of a pod that a kubelet reads."""

from collections.abc import Mapping
from typing import Any

from common.api.base import QuantityJson, Wire
from common.api.core import (
    ContainerResizePolicy,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta

NO_RESOURCES = ResourceRequirements()


class HttpGet(Wire, frozen=True, kw_only=True):
    """The HTTP request of a probe; ``port`` is a number or a name."""

    path: str = "/"
    port: int | str = 0
    host: str = ""
    scheme: str = "HTTP"


class TcpSocket(Wire, frozen=True, kw_only=True):
    """The connection of a probe."""

    port: int | str = 0
    host: str = ""


class Probe(Wire, frozen=True, kw_only=True):
    """A probe. That of a simulated container succeeds after its initial delay."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None


class ContainerPort(Wire, frozen=True, kw_only=True):
    """A named port, for probes."""

    name: str = ""
    container_port: int = 0


class FieldRef(Wire, frozen=True, kw_only=True):
    """A field of the pod itself: ``status.podIP``."""

    field_path: str = ""


class ObjectRef(Wire, frozen=True, kw_only=True):
    """A Secret or ConfigMap in the pod's namespace."""

    name: str = ""
    optional: bool | None = None  # it may be missing


class KeyRef(ObjectRef, frozen=True, kw_only=True):
    """A key of a Secret or ConfigMap; with ``optional``, either may be missing."""

    key: str = ""


class EnvSource(Wire, frozen=True, kw_only=True):
    """The source of a variable's value; other sources aren't supported."""

    field_ref: FieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None


class EnvFrom(Wire, frozen=True, kw_only=True):
    """A whole Secret or ConfigMap as variables, whose names begin with ``prefix``."""

    prefix: str = ""
    config_map_ref: ObjectRef | None = None
    secret_ref: ObjectRef | None = None


class EnvVar(Wire, frozen=True, kw_only=True):
    """A variable of a container's environment."""

    name: str
    value: str = ""
    value_from: EnvSource | None = None


class VolumeMount(Wire, frozen=True, kw_only=True):
    """The path of a volume in a container."""

    name: str
    mount_path: str = ""
    sub_path: str = ""


class Sleep(Wire, frozen=True, kw_only=True):
    """A wait before a container is stopped."""

    seconds: int = 0


class Handler(Wire, frozen=True, kw_only=True):
    """A hook of a container; other kinds aren't supported."""

    sleep: Sleep | None = None


class Lifecycle(Wire, frozen=True, kw_only=True):
    """The hooks of a container."""

    pre_stop: Handler | None = None


class ContainerSpec(Wire, frozen=True, kw_only=True):
    """A container to run."""

    name: str
    image: str = ""
    resources: ResourceRequirements | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] | None = None
    restart_policy: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] | None = None
    env_from: tuple[EnvFrom, ...] | None = None
    ports: tuple[ContainerPort, ...] | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None
    lifecycle: Lifecycle | None = None  # of a container that is a process
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None

    @property
    def wanted(self) -> ResourceRequirements:
        """The resources; empty if the block is absent."""
        return self.resources or NO_RESOURCES

    @property
    def image_name(self) -> str:
        """``registry.example/team/app`` of ``registry.example/team/app:1.2@sha256:…``."""
        head, slash, last = self.image.partition("@")[0].rpartition("/")
        return head + slash + last.partition(":")[0]

    @property
    def is_sidecar(self) -> bool:
        """True for an init container that keeps running beside the others."""
        return self.restart_policy == "Always"


class RunnablePodSpec(Wire, frozen=True, kw_only=True):
    """The fields of a pod's ``spec`` that a kubelet reads."""

    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] | None = None
    node_name: str = ""
    restart_policy: str = "Always"
    host_network: bool = False
    priority: int | None = None
    overhead: Mapping[str, QuantityJson] | None = None
    resources: ResourceRequirements | None = None  # of the whole pod
    volumes: tuple[Mapping[str, Any], ...] | None = None
    service_account_name: str = ""
    termination_grace_period_seconds: int | None = None


class RunnableMeta(ObjectMeta, frozen=True, kw_only=True):
    """``metadata`` with the grace period of a deletion."""

    deletion_grace_period_seconds: int | None = None


class RunnablePod(Wire, frozen=True, kw_only=True):
    """A pod that is bound to a node."""

    metadata: RunnableMeta
    spec: RunnablePodSpec = RunnablePodSpec()


def resources_json(resources: ResourceRequirements) -> dict[str, dict[str, QuantityJson]]:
    """Return requests and limits as in a status: empty parts left out, ``{}`` for none."""
    parts = {"limits": resources.limits, "requests": resources.requests}
    return {name: dict(amounts) for name, amounts in parts.items() if amounts}
