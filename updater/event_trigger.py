"""The trigger that starts a pass before its interval is over (``--event-driven``)."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection
from typing import TypeVar

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.kube.cache import Change
from common.recommendation.scaled_containers import scaled_statuses
from common.runtime import service
from updater.evaluate.quick_oom_kills import ContainerOomKill, is_oom_kill
from updater.plan.pod_readiness import is_ready
from updater.resize.resize_status import ResizeStatus, resize_status
from updater.snapshot.cluster_snapshot import acts
from updater.snapshot.live_node import LiveNode, has_improved, node_capacity

V = TypeVar("V", bound=VerticalPodAutoscaler)
P = TypeVar("P", bound=Pod)

_SHORTEST_REST = 1.0  # seconds
_REST_PER_WORK = 9.0  # so passes take a tenth of the time at most


def is_event_of_vpa(change: Change[V]) -> bool:
    """Return whether the recommendation or the spec of a VPA that acts has changed.

    A deleted VPA, or one that no longer acts, can wait for the next pass.
    """
    old, new = change.old, change.new
    if new is None or not acts(new):
        return False
    if old is None:
        return new.status.recommendation is not None
    return old.status.recommendation != new.status.recommendation or old.spec != new.spec


def is_event_of_pod(change: Change[P]) -> bool:
    """Return whether a pod became Ready, was OOM-killed, or ended a resize.

    A deleted pod doesn't count: it frees the budget when its replacement is Ready.
    """
    old, new = change.old, change.new
    if new is None or new.metadata.deletion_timestamp is not None:
        return False
    return (
        (is_ready(new) and (old is None or not is_ready(old)))
        or _was_killed(old, new)
        or (old is not None and _was_resized(old, new))
    )


def is_event_of_node(change: Change[LiveNode]) -> bool:
    """Return whether a known node has more capacity, so that resizes may fit now (X101)."""
    if change.old is None or change.new is None:
        return False
    return has_improved(node_capacity(change.old), node_capacity(change.new))


def gives_room(change: Change[LiveNode]) -> bool:
    """Return whether a node may take pods that it couldn't take before.

    It is new or Ready again, or it has more capacity, or other labels or taints. Pods that end give
    room, too, but a large cluster has so many of them that they can wait for the next pass.
    """
    old, new = change.old, change.new
    if new is None or not new.takes_pods:
        return False
    if old is None or not old.takes_pods:
        return True
    return (
        old.metadata.labels != new.metadata.labels
        or old.spec.taints != new.spec.taints
        or has_improved(node_capacity(old), node_capacity(new))
    )


def _was_killed(old: Pod | None, new: Pod) -> bool:
    if old is not None and _reports_same(old, new):
        return False
    return bool(_kills(new) - (frozenset() if old is None else _kills(old)))


def _reports_same(old: Pod, new: Pod) -> bool:
    before, after = old.status, new.status
    return (
        before.container_statuses is after.container_statuses
        and before.init_container_statuses is after.init_container_statuses
    )


def _kills(pod: Pod) -> frozenset[ContainerOomKill]:
    found = []
    for status in scaled_statuses(pod):
        ended = None if status.last_state is None else status.last_state.terminated
        if ended is not None and is_oom_kill(ended):
            found.append(ContainerOomKill(status.name, ended.finished_at))
    return frozenset(found)


def _was_resized(old: Pod, new: Pod) -> bool:
    """Return whether a resize ended; the conditions may not have shown a quick one."""
    before, after = resize_status(old), resize_status(new)
    if after is ResizeStatus.NONE:
        return before is not ResizeStatus.NONE or _has_others(old, new)
    return after is ResizeStatus.INFEASIBLE and before is not ResizeStatus.INFEASIBLE


def _has_others(old: Pod, new: Pod) -> bool:
    """Return whether the kubelet reports other resources of a container."""
    if _reports_same(old, new):
        return False
    before = {each.name: each.resources for each in scaled_statuses(old)}
    return any(
        before.get(each.name) is not None and before[each.name] != each.resources
        for each in scaled_statuses(new)
    )


def rest_after(seconds: float) -> float:
    """Return the minimum pause in seconds after a pass of the given duration.

    With constant events, as in the largest clusters, passes take at most a tenth of the time.
    """
    return max(_SHORTEST_REST, _REST_PER_WORK * seconds)


class EventTrigger:
    """Ends the pause between passes after a relevant event.

    A pass handles all events from before its start. A pass that is skipped because the caches
    aren't fresh also clears them; then the interval decides. Events in ignored namespaces, and in
    namespaces without a VPA that acts, don't count. ``waits_for_room`` returns whether some pod
    waits for room on a node.
    """

    def __init__(
        self,
        interval: float,
        *,
        ignored: Collection[str] = (),
        waits_for_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self._interval = interval
        self._ignored = frozenset(ignored)
        self._acting: Counter[str] = Counter()  # VPAs, by namespace
        self._event = asyncio.Event()
        self._waits_for_room = waits_for_room

    def on_vpa(self, change: Change[V]) -> None:
        """Handle a change of the cache."""
        namespace = ""
        for vpa, number in ((change.old, -1), (change.new, 1)):
            if vpa is not None:
                namespace = vpa.metadata.namespace
                self._acting[namespace] += number * acts(vpa)
        if namespace not in self._ignored and is_event_of_vpa(change):
            self._event.set()

    def on_pod(self, change: Change[P]) -> None:
        """Handle a change of the cache."""
        if self._event.is_set() or change.new is None:
            return
        namespace = change.new.metadata.namespace
        if self._acting[namespace] and namespace not in self._ignored and is_event_of_pod(change):
            self._event.set()

    def on_node(self, change: Change[LiveNode]) -> None:
        """Handle a change of the cache."""
        if self._event.is_set() or not any(self._acting.values()):
            return
        if is_event_of_node(change) or (self._waits_for_room() and gives_room(change)):
            self._event.set()

    def clear(self) -> None:
        """Drop the events so far, at the start of a pass."""
        self._event.clear()

    async def rest(self, due: float, *, stop: asyncio.Event) -> None:
        """Wait for an event, ``due`` or ``stop``; ``due`` is an interval after the last start."""
        now = asyncio.get_running_loop().time()
        took = now - (due - self._interval)
        await service.pause_until(min(due, now + rest_after(took)), stop=stop)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await service.unless_stopped(self._wait, stop=stop)

    async def _wait(self) -> None:
        await self._event.wait()
