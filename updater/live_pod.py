"""A pod with the one thing more that the updater reads: who resized it, and when."""

from datetime import datetime

from common.api.base import Wire
from common.api.core import Pod
from common.api.meta import ObjectMeta

# The API server takes the manager's name from the User-Agent, up to the slash.
MANAGER = "vpa-updater"


class ManagedFieldsEntry(Wire, frozen=True, kw_only=True):
    """An entry of ``metadata.managedFields``, without the fields themselves."""

    manager: str = ""
    subresource: str = ""
    time: datetime | None = None


class LivePodMeta(ObjectMeta, frozen=True, kw_only=True):
    """``metadata`` with the managed fields, which no other process needs."""

    managed_fields: tuple[ManagedFieldsEntry, ...] | None = None


class LivePod(Pod, frozen=True, kw_only=True):
    """A pod as the updater's cache holds it."""

    metadata: LivePodMeta


def resized_at(pod: LivePod) -> datetime | None:
    """When we last resized the pod in place, as the API server remembers it.

    Source: updater.md 13, D18.
    """
    times = [
        entry.time
        for entry in pod.metadata.managed_fields or ()
        if entry.manager == MANAGER and entry.subresource == "resize" and entry.time is not None
    ]
    return max(times, default=None)
