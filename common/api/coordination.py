"""The parts of ``coordination.k8s.io/v1`` Leases that we read; writers use dicts."""

from common.api.base import Time, Wire
from common.api.meta import ObjectMeta


class LeaseSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a Lease."""

    holder_identity: str | None = None
    renew_time: Time | None = None


class Lease(Wire, frozen=True, kw_only=True):
    """A Lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()
