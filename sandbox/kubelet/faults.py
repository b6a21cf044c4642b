"""Faults of a simulated kubelet, which annotations ``kubelet.sandbox/<switch>`` of a pod set.

An example is ``kubelet.sandbox/resize: stuck``.
"""

import enum
import logging
from typing import Any

from common.errors import ConfigError
from sandbox.description import Described, Seconds, SecondsOrNever, read
from sandbox.kubelet.wire import RunnablePod

logger = logging.getLogger(__name__)

PREFIX = "kubelet.sandbox/"


class ResizeFault(enum.StrEnum):
    """A fault that every resize of the pod has."""

    STUCK = "stuck"  # admitted, but never actuated
    ERROR = "error"  # admitted, but the runtime fails each time
    DEFERRED = "deferred"
    INFEASIBLE = "infeasible"
    SILENT = "silent"  # the kubelet ignores the resize
    UNKNOWN_REASON = "unknown-reason"  # pending, for a reason that no kubelet writes


class Faults(Described, frozen=True, kw_only=True):
    """The switches of one pod. None is ordinary behaviour."""

    start_delay: Seconds | None = None
    stop_delay: Seconds | None = None
    resize_delay: Seconds | None = None
    ready_delay: SecondsOrNever | None = None  # infinite (never): runs, but never becomes ready
    resize: ResizeFault | None = None


NO_FAULTS = Faults()


def faults_of(pod: RunnablePod) -> Faults:
    """Return the faults that the pod's annotations set. An invalid annotation is ignored."""
    chosen: dict[str, Any] = {}
    for key, text in (pod.metadata.annotations or {}).items():
        switch = key.removeprefix(PREFIX)
        if switch == key:
            continue
        try:
            found = read({switch: text}, Faults)
        except ConfigError as error:
            logger.warning(
                "annotation ignored", extra={"pod": pod.metadata.name, "error": str(error)}
            )
            continue
        name = switch.replace("-", "_")
        chosen[name] = getattr(found, name)
    return Faults(**chosen)
