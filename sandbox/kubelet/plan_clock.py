"""Timers of kubelets that are independent of jumps of the clock."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from common.runtime.clock import Clock
from sandbox.kubelet.node import Node
from sandbox.kubelet.pod_lifecycle import PodRun

_JUMP = timedelta(seconds=1)  # smaller differences are granularity or slewing


class PlanClock:
    """The time of day for kubelets, whose timers follow the event loop.

    A real kubelet waits by a monotonic clock, and takes timestamps from one that may jump.
    """

    def __init__(self, clock: Clock, nodes: Mapping[str, Node]) -> None:
        self._clock = clock
        self._nodes = nodes
        self._begin: tuple[datetime, float] | None = None  # clock time, loop time

    def now(self) -> datetime:
        """Return the clock's time. After a jump, move all timers of all pods with it."""
        now, elapsed = self._clock.now(), asyncio.get_running_loop().time()
        if self._begin is None:
            self._begin = (now, elapsed)
        began, since = self._begin
        jump = now - began - timedelta(seconds=elapsed - since)
        if abs(jump) > _JUMP:
            self._begin = (now, elapsed)
            postpone((pod for node in self._nodes.values() for pod in node.pods.values()), jump)
        return now


def postpone(pods: Iterable[PodRun], by: timedelta) -> None:
    """Move all timers. Past times are not changed."""
    for pod in pods:
        pod.starts_at = _moved(pod.starts_at, by)
        pod.ends_at = _moved(pod.ends_at, by)
        pod.actuate_at = _moved(pod.actuate_at, by)
        for container in pod.containers.values():
            container.ready_at = _moved(container.ready_at, by)
            container.restart_at = _moved(container.restart_at, by)
            container.exit_at = _moved(container.exit_at, by)


def _moved(moment: datetime | None, by: timedelta) -> datetime | None:
    return None if moment is None else moment + by
