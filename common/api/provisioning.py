"""The parts of CapacityBuffer, ProvisioningRequest and PodTemplate that requests for nodes need.

Source: ``autoscaling.x-k8s.io``, k8s.io/autoscaler cluster-autoscaler/apis.
"""

from common.api.base import Time, Wire
from common.api.meta import ObjectMeta


class RequestCondition(Wire, frozen=True, kw_only=True):
    """One entry of ``status.conditions``."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class RequestStatus(Wire, frozen=True, kw_only=True):
    """``status`` of a CapacityBuffer or a ProvisioningRequest."""

    conditions: tuple[RequestCondition, ...] | None = None
    replicas: int | None = None  # of a buffer: chunks that its controller allows


class PodSet(Wire, frozen=True, kw_only=True):
    """Pods of one shape in a ProvisioningRequest."""

    count: int = 0


class RequestSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a CapacityBuffer, or of a ProvisioningRequest."""

    replicas: int | None = None  # of a buffer
    pod_sets: tuple[PodSet, ...] | None = None  # of a ProvisioningRequest


class CapacityRequestObject(Wire, frozen=True, kw_only=True):
    """A CapacityBuffer or a ProvisioningRequest."""

    metadata: ObjectMeta
    spec: RequestSpec = RequestSpec()
    status: RequestStatus = RequestStatus()


class StoredPodTemplate(Wire, frozen=True, kw_only=True):
    """A ``v1`` PodTemplate, without the template itself."""

    metadata: ObjectMeta
