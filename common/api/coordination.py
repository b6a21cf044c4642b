"""``coordination.k8s.io/v1`` Leases."""

from common.api.base import Time, Wire
from common.api.meta import ObjectMeta


class LeaseSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a Lease. Times are written by ``common.kube.lease``: six fraction digits."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: int | None = None


class Lease(Wire, frozen=True, kw_only=True):
    """A Lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()
