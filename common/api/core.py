"""The parts of ``core/v1`` that we read."""

from collections.abc import Mapping
from typing import Any, ClassVar

from common.api.base import QuantityJson, Time, Wire
from common.api.meta import ObjectMeta


class ResourceRequirements(Wire, frozen=True, kw_only=True):
    """Requests and limits; an absent map (None) differs from an empty one."""

    requests: Mapping[str, QuantityJson] | None = None
    limits: Mapping[str, QuantityJson] | None = None


NO_RESOURCES = ResourceRequirements()


class ContainerResizePolicy(Wire, frozen=True, kw_only=True):
    """The effect that a change of one resource has on the container."""

    resource_name: str = ""
    restart_policy: str = ""  # NotRequired or RestartContainer


class Container(Wire, frozen=True, kw_only=True):
    """A container, or an init container, of a pod's spec."""

    name: str
    resources: ResourceRequirements | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] | None = None
    restart_policy: str | None = None  # see is_sidecar


def is_sidecar(init_container: Container) -> bool:
    """Return True if an init container keeps running beside the regular containers."""
    return init_container.restart_policy == "Always"


class PodSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a pod.

    The type represents the gate NativeSidecar: a component chooses it where it decodes pods.
    """

    scales_sidecars: ClassVar[bool] = False  # native sidecars are scaled, too

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    resources: ResourceRequirements | None = None  # of the pod as a whole, from 1.34 on
    node_name: str = ""
    overhead: Mapping[str, QuantityJson] | None = None  # of the RuntimeClass; counts as requests


class PodSpecWithSidecars(PodSpec, frozen=True, kw_only=True):
    """``spec`` of a pod whose native sidecars are scaled, too (gate NativeSidecar)."""

    scales_sidecars: ClassVar[bool] = True


class ContainerStateRunning(Wire, frozen=True, kw_only=True):
    """The container runs."""

    started_at: Time | None = None


class ContainerStateTerminated(Wire, frozen=True, kw_only=True):
    """The container has ended; ``reason`` is OOMKilled after a kill for memory."""

    reason: str = ""
    exit_code: int = 0
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerState(Wire, frozen=True, kw_only=True):
    """The state of a container. One field is set; none means waiting."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Wire, frozen=True, kw_only=True):
    """The kubelet's report on one container."""

    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    resources: ResourceRequirements | None = None  # actual values, from Kubernetes 1.33 on
    allocated_resources: Mapping[str, QuantityJson] | None = None


class PodCondition(Wire, frozen=True, kw_only=True):
    """One condition of a pod."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: int = 0


class PodStatus(Wire, frozen=True, kw_only=True):
    """``status`` of a pod."""

    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    start_time: Time | None = None
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Wire, frozen=True, kw_only=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodWithSidecars(Pod, frozen=True, kw_only=True):
    """A pod whose native sidecars are scaled, too (gate NativeSidecar)."""

    spec: PodSpecWithSidecars = PodSpecWithSidecars()


class LimitRangeItem(Wire, frozen=True, kw_only=True):
    """One rule of a LimitRange, for ``type`` Container or Pod."""

    type: str = ""
    max: Mapping[str, QuantityJson] | None = None
    min: Mapping[str, QuantityJson] | None = None
    default: Mapping[str, QuantityJson] | None = None  # limits
    default_request: Mapping[str, QuantityJson] | None = None
    max_limit_request_ratio: Mapping[str, QuantityJson] | None = None


class LimitRangeSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a LimitRange."""

    limits: tuple[LimitRangeItem, ...] | None = None


class LimitRange(Wire, frozen=True, kw_only=True):
    """The bounds of a namespace."""

    metadata: ObjectMeta
    spec: LimitRangeSpec = LimitRangeSpec()


class ResourceQuotaSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a ResourceQuota: the fields that decide which pods count."""

    scopes: tuple[str, ...] | None = None
    scope_selector: Mapping[str, Any] | None = None


class ResourceQuotaStatus(Wire, frozen=True, kw_only=True):
    """``status`` of a ResourceQuota: the values that the API server enforces."""

    hard: Mapping[str, QuantityJson] | None = None
    used: Mapping[str, QuantityJson] | None = None


class ResourceQuota(Wire, frozen=True, kw_only=True):
    """The total amounts that the objects of a namespace may use."""

    metadata: ObjectMeta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class Namespace(Wire, frozen=True, kw_only=True):
    """A namespace."""

    metadata: ObjectMeta


class ObjectReference(Wire, frozen=True, kw_only=True):
    """A reference to the object that an Event describes."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Event(Wire, frozen=True, kw_only=True):
    """The parts of a core/v1 Event that are read; ``common.kube.events`` writes Events."""

    metadata: ObjectMeta
    involved_object: ObjectReference
    reason: str = ""
