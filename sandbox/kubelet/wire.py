"""What a kubelet reads of a pod."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from common.api.base import QuantityJson, Wire
from common.api.core import (
    ContainerResizePolicy,
    ContainerStatus,
    PodCondition,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta

NO_RESOURCES = ResourceRequirements()


class Probe(Wire, frozen=True, kw_only=True):
    """A readiness probe; it succeeds once its initial delay is over."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10


class ContainerSpec(Wire, frozen=True, kw_only=True):
    """A container to run."""

    name: str
    image: str = ""
    resources: ResourceRequirements | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] | None = None
    restart_policy: str | None = None
    readiness_probe: Probe | None = None

    @property
    def wanted(self) -> ResourceRequirements:
        """The resources; an absent block is an empty one."""
        return self.resources or NO_RESOURCES

    @property
    def is_sidecar(self) -> bool:
        """Of an init container: it keeps running beside the others."""
        return self.restart_policy == "Always"


class RunnablePodSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a pod, as far as it matters to running it."""

    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] | None = None
    node_name: str = ""
    restart_policy: str = "Always"
    host_network: bool = False
    priority: int | None = None
    overhead: Mapping[str, QuantityJson] | None = None
    resources: ResourceRequirements | None = None  # of the whole pod


class RunnableStatus(ContainerStatus, frozen=True, kw_only=True):
    """What an earlier kubelet reported of a container."""

    container_id: str = msgspec.field(default="", name="containerID")


class RunnableMeta(ObjectMeta, frozen=True, kw_only=True):
    """``metadata`` with the deletion that is under way."""

    deletion_grace_period_seconds: int | None = None


class RunnablePodStatus(Wire, frozen=True, kw_only=True):
    """``status`` of a pod; read when a kubelet takes over pods that already run."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: datetime | None = None
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[RunnableStatus, ...] | None = None
    init_container_statuses: tuple[RunnableStatus, ...] | None = None


class RunnablePod(Wire, frozen=True, kw_only=True):
    """A pod that is bound to a node."""

    metadata: RunnableMeta
    spec: RunnablePodSpec = RunnablePodSpec()
    status: RunnablePodStatus = RunnablePodStatus()


def resources_json(resources: ResourceRequirements) -> dict[str, dict[str, QuantityJson]]:
    """Requests and limits as they stand in a status: empty parts left out, ``{}`` for none."""
    parts = {"limits": resources.limits, "requests": resources.requests}
    return {name: dict(amounts) for name, amounts in parts.items() if amounts}
