"""The shapes of containers and volumes, as far as this server or its clients rely on them."""

from typing import Any

import msgspec

from sandbox.objects.shapes.base import (
    Amounts,
    Flag,
    Json,
    Long,
    Number,
    Portion,
    Shape,
    Text,
    Texts,
)


class Named(Shape):
    """What is referred to by its name, and a key of it if it has some."""

    name: Text = None
    key: Text = None
    optional: Flag = None


class ResourceClaim(Shape):
    """``ResourceClaim`` of a container."""

    name: Text = None
    request: Text = None


class Resources(Shape):
    """``ResourceRequirements``."""

    limits: Amounts = None
    requests: Amounts = None
    claims: list[ResourceClaim] | None = None


class ResizePolicy(Shape):
    """``ContainerResizePolicy``."""

    resource_name: Text = None
    restart_policy: Text = None


class FieldReference(Shape):
    """``ObjectFieldSelector``."""

    api_version: Text = None
    field_path: Text = None


class EnvironmentSource(Shape):
    """``EnvVarSource``."""

    field_ref: FieldReference | None = None
    resource_field_ref: Json = None
    config_map_key_ref: Named | None = None
    secret_key_ref: Named | None = None
    file_key_ref: Json = None


class Variable(Shape):
    """``EnvVar``."""

    name: Text = None
    value: Text = None
    value_from: EnvironmentSource | None = None


class VariablesSource(Shape):
    """``EnvFromSource``."""

    prefix: Text = None
    config_map_ref: Named | None = None
    secret_ref: Named | None = None


class ContainerPort(Shape):
    """``ContainerPort``."""

    name: Text = None
    container_port: Number = None
    host_port: Number = None
    host_ip: Text = msgspec.field(default=None, name="hostIP")
    protocol: Text = None


class VolumeMount(Shape):
    """``VolumeMount``."""

    name: Text = None
    mount_path: Text = None
    sub_path: Text = None
    sub_path_expr: Text = None
    mount_propagation: Text = None
    read_only: Flag = None


class VolumeDevice(Shape):
    """``VolumeDevice``."""

    name: Text = None
    device_path: Text = None


class Execution(Shape):
    """``ExecAction``."""

    command: Texts = None


class HttpGet(Shape):
    """``HTTPGetAction``."""

    path: Text = None
    port: Portion = None
    host: Text = None
    scheme: Text = None


class Socket(Shape):
    """``TCPSocketAction`` and ``GRPCAction``."""

    port: Portion = None


class Sleep(Shape):
    """``SleepAction``."""

    seconds: Long = None


class Handler(Shape):
    """``LifecycleHandler``."""

    exec: Execution | None = None
    http_get: HttpGet | None = None
    tcp_socket: Socket | None = None
    sleep: Sleep | None = None


class Lifecycle(Shape):
    """``Lifecycle``."""

    post_start: Handler | None = None
    pre_stop: Handler | None = None


class Probe(Shape):
    """``Probe``."""

    exec: Execution | None = None
    http_get: HttpGet | None = None
    tcp_socket: Socket | None = None
    grpc: Socket | None = None
    initial_delay_seconds: Number = None
    timeout_seconds: Number = None
    period_seconds: Number = None
    success_threshold: Number = None
    failure_threshold: Number = None
    termination_grace_period_seconds: Long = None


class Container(Shape):
    """``Container``."""

    name: Text = None
    image: Text = None
    image_pull_policy: Text = None
    command: Texts = None
    args: Texts = None
    resources: Resources | None = None
    resize_policy: list[ResizePolicy] | None = None
    restart_policy: Text = None
    env: list[Variable] | None = None
    ports: list[ContainerPort] | None = None
    env_from: list[VariablesSource] | None = None
    volume_mounts: list[VolumeMount] | None = None
    volume_devices: list[VolumeDevice] | None = None
    lifecycle: Lifecycle | None = None
    termination_message_policy: Text = None
    restart_policy_rules: list[dict[str, Any]] | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    security_context: Json = None


class Item(Shape):
    """``KeyToPath``."""

    key: Text = None
    path: Text = None
    mode: Number = None


class KeyedSource(Shape):
    """``ConfigMapVolumeSource`` and ``SecretVolumeSource``."""

    name: Text = None
    secret_name: Text = None
    default_mode: Number = None
    items: list[Item] | None = None


class HostPath(Shape):
    """``HostPathVolumeSource``."""

    path: Text = None
    type: Text = None


class TokenSource(Shape):
    """``ServiceAccountTokenProjection``."""

    path: Text = None
    audience: Text = None
    expiration_seconds: Long = None


class Projection(Shape):
    """``VolumeProjection``."""

    service_account_token: TokenSource | None = None


class Projected(Shape):
    """``ProjectedVolumeSource``."""

    default_mode: Number = None
    sources: list[Projection] | None = None


class ClaimSource(Shape):
    """``PersistentVolumeClaimVolumeSource``."""

    claim_name: Text = None


class NetworkFiles(Shape):
    """``NFSVolumeSource``."""

    server: Text = None
    path: Text = None


class Volume(Shape):
    """``Volume``."""

    name: Text = None
    empty_dir: Json = None
    host_path: HostPath | None = None
    secret: KeyedSource | None = None
    nfs: NetworkFiles | None = None
    persistent_volume_claim: ClaimSource | None = None
    downward_api: Json = msgspec.field(default=None, name="downwardAPI")
    config_map: KeyedSource | None = None
    projected: Projected | None = None
    ephemeral: Json = None
