"""A VPA with the one thing more that the updater reads: when its update policy was written."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.base import Time
from common.api.meta import ObjectMeta

_RECOMMENDED = "RecommendationProvided"


class LiveVpaMeta(ObjectMeta, frozen=True, kw_only=True):
    """``metadata`` with what the managed fields tell, which no other process needs.

    The entries are dropped while decoding: all that is kept is the time. They are the business
    of the API server and other clients, so whatever they look like, they never fail the VPA.
    """

    managed_fields: Any = None  # as JSON holds it at first, then the time, or None

    def __post_init__(self) -> None:
        force_setattr(self, "managed_fields", _last_policy_write(self.managed_fields))


class LiveVpa(VerticalPodAutoscaler, frozen=True, kw_only=True):
    """A VPA as the updater's cache holds it."""

    metadata: LiveVpaMeta


def policy_written_at(vpa: VerticalPodAutoscaler) -> datetime | None:
    """When somebody last wrote to ``spec.updatePolicy``; None: nobody did, or it isn't known."""
    found = vpa.metadata.managed_fields if isinstance(vpa.metadata, LiveVpaMeta) else None
    return found if isinstance(found, datetime) else None


def recommended_since(vpa: VerticalPodAutoscaler) -> datetime | None:
    """When the condition RecommendationProvided became True; None: it isn't, or nobody wrote when.

    The recommender keeps the time while the condition stays the same.
    """
    for condition in vpa.status.conditions or ():
        if condition.type == _RECOMMENDED and condition.status == "True":
            at = condition.last_transition_time
            return at if isinstance(at, datetime) else None
    return None


def in_force_since(vpa: VerticalPodAutoscaler) -> datetime | None:
    """From when on new pods should have come up with a recommendation; None: not known.

    That is after there was one, and after the last word on how it is applied.
    """
    recommended, written = recommended_since(vpa), policy_written_at(vpa)
    return None if recommended is None or written is None else max(recommended, written)


def _last_policy_write(raw: object) -> datetime | None:
    if isinstance(raw, datetime):  # a copy of what was decoded before
        return raw
    times = list(_policy_writes(raw))
    # One of several writes without a time may be the last one.
    return None if None in times else max((time for time in times if time), default=None)


def _policy_writes(raw: object) -> Iterator[datetime | None]:
    """The times of all entries that own something of ``spec.updatePolicy``; None: can't be read.

    Source: kubernetes.io/docs/reference/using-api/server-side-apply; an entry's time moves when
    its manager changes the value of a field that it owns.
    """
    for entry in raw if isinstance(raw, list | tuple) else ():
        if not isinstance(entry, dict):
            continue
        fields = entry.get("fieldsV1")
        spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(spec, dict) and "f:updatePolicy" in spec:
            try:
                yield msgspec.convert(entry.get("time"), Time)
            except msgspec.ValidationError:
                yield None
