"""Watches the memory usage of pods whose memory limits are to go down in place."""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from common.api.metrics import ContainerMetrics, PodMetrics
from common.errors import DecodeError, KubeError, NotFoundError
from common.kube.client import KubeClient
from common.kube.endpoints import POD_METRICS
from common.quantity import QuantityError, parse_value
from common.resources import MEMORY
from common.runtime.clock import Clock
from updater.resize.memory_decrease import WINDOW, MemoryUse

logger = logging.getLogger(__name__)

_MOST_GETS = 10  # pods of a namespace that are read one by one; more are listed
_MOST_CALLS = 20  # of a pass
_CONCURRENT = 8
_SLICE = 500  # pods

Usage: TypeAlias = Mapping[str, Mapping[str, MemoryUse]]
"""The largest usage in the window, by pod UID and container."""


@dataclass(slots=True)
class _Samples:
    """The samples of one container that cover the window, oldest first."""

    found: deque[tuple[datetime, int]] = field(default_factory=deque)

    def add(self, at: datetime, count: int) -> None:
        if not self.found or at > self.found[-1][0]:
            self.found.append((at, count))

    def drop_before(self, start: datetime) -> None:
        while self.found and self.found[0][0] < start:
            self.found.popleft()

    @property
    def use(self) -> MemoryUse:
        (oldest, _), (newest, _) = self.found[0], self.found[-1]
        return MemoryUse(most=max(count for _, count in self.found), oldest=oldest, newest=newest)


@dataclass(slots=True)
class _WatchedPod:
    """The samples of one pod, by container.

    A sample from before ``since`` may be of an earlier pod of the same name.
    """

    since: datetime  # the start of watching
    containers: defaultdict[str, _Samples] = field(default_factory=lambda: defaultdict(_Samples))

    def add(self, metrics: PodMetrics, *, now: datetime) -> None:
        if metrics.timestamp is None or metrics.timestamp < self.since:
            return
        for container in metrics.containers or ():
            count = _memory(container)
            if count is not None:
                self.containers[container.name].add(min(metrics.timestamp, now), count)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that reads usage."""

    namespace: str = ""  # empty: all
    name: str = ""  # empty: all pods of the namespace


class UsageWatch:
    """The running window of memory usage, of watched pods only.

    Each pass reads metrics.k8s.io once for the pods on which the last pass decided that a memory
    limit is to go down. A usage that can't be read stays unknown, which holds the decrease. The
    cause is logged once for each namespace while reads there fail. All samples are dropped when the
    clock is set back.
    """

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._pods: dict[str, _WatchedPod] = {}  # by UID
        self._sampled_at: datetime | None = None
        self._failing: frozenset[str] = frozenset()  # namespaces; empty: all
        self._undecodable: frozenset[str] = frozenset()  # pods of the last list

    @property
    def use(self) -> Usage:
        """Return the largest usage within the window at the last sample."""
        return {
            uid: {name: each.use for name, each in pod.containers.items() if each.found}
            for uid, pod in self._pods.items()
        }

    async def sample(self, pods: Mapping[str, tuple[str, str]], *, within: float) -> None:
        """Read the usage of these pods, by UID their namespaces and names; forget all others.

        Calls without an answer ``within`` these seconds are given up.
        """
        self._follow(pods)
        uids = {place: uid for uid, place in pods.items()}
        waiting = set(_calls(uids))
        errors: dict[str, str] = {}  # by namespace
        read = set[str]()
        slots = asyncio.Semaphore(_CONCURRENT)

        async def run(call: _Call) -> None:
            async with slots:
                try:
                    async for found in self._read(call):
                        self._add(found, uids)
                except (KubeError, DecodeError) as error:
                    errors.setdefault(call.namespace, str(error))
                else:
                    read.add(call.namespace)
            waiting.discard(call)

        try:
            async with asyncio.timeout(within), asyncio.TaskGroup() as group:
                for call in tuple(waiting):
                    group.create_task(run(call))
        except TimeoutError:
            for call in waiting:
                errors.setdefault(call.namespace, "no answer in time")
        self._log(errors, read)

    def _follow(self, uids: Collection[str]) -> None:
        """Start to watch new pods, forget those that aren't among them, and drop old samples.

        Samples stay for an interval longer than the window, so that they cover it.
        """
        now = self._clock.now()
        last = self._sampled_at or now
        if now < last:
            self._pods = {}
        self._sampled_at = now
        self._pods = {uid: self._pods.get(uid) or _WatchedPod(since=now) for uid in uids}
        for pod in self._pods.values():
            for each in pod.containers.values():
                each.drop_before(last - WINDOW)

    def _add(self, found: Sequence[PodMetrics], uids: Mapping[tuple[str, str], str]) -> None:
        now = self._clock.now()
        for each in found:
            uid = uids.get((each.metadata.namespace, each.metadata.name))
            if uid is not None:
                self._pods[uid].add(each, now=now)

    async def _read(self, call: _Call) -> AsyncIterator[Sequence[PodMetrics]]:
        """Yield the usage of a pod, a namespace or the cluster, with pauses for other tasks."""
        if call.name:
            try:
                yield (await self._get(call),)
            except NotFoundError as error:
                if not error.name:  # metrics.k8s.io isn't served
                    raise
            return  # a pod without usage yet, or a deleted one
        undecodable: list[str] = []
        listed = await self._client.list_undecoded(
            POD_METRICS,
            namespace=call.namespace,
            undecodable=undecodable,
            known=self._undecodable,
        )
        for found in listed.slices(_SLICE):
            yield found
            await asyncio.sleep(0)
        self._undecodable = frozenset(undecodable)

    async def _get(self, call: _Call) -> PodMetrics:
        return await self._client.get(POD_METRICS, call.name, namespace=call.namespace, retry=False)

    def _log(self, errors: Mapping[str, str], read: Collection[str]) -> None:
        for namespace, error in errors.items():
            if namespace not in self._failing:
                logger.warning(
                    "memory usage can't be read, so no memory limit goes down in place",
                    extra={"namespace": namespace, "error": error},
                )
        for namespace in self._failing.intersection(read).difference(errors):
            logger.info("memory usage is read again", extra={"namespace": namespace})
        self._failing = frozenset(errors)


def _calls(places: Collection[tuple[str, str]]) -> Sequence[_Call]:
    """Return the calls that read these pods, given by namespace and name.

    Up to ten pods of a namespace are read one by one. If that makes more than 20 calls, namespaces
    are listed; more than 20 namespaces become one list of the cluster.
    """
    names = defaultdict[str, list[str]](list)
    for namespace, name in places:
        names[namespace].append(name)
    calls = [
        call
        for namespace, each in names.items()
        for call in (
            [_Call(namespace)]
            if len(each) > _MOST_GETS
            else [_Call(namespace, name) for name in each]
        )
    ]
    if len(calls) <= _MOST_CALLS:
        return calls
    if len(names) <= _MOST_CALLS:
        return [_Call(namespace) for namespace in names]
    return [_Call()]


def _memory(container: ContainerMetrics) -> int | None:
    """Return the memory usage in bytes; None: it is missing or no quantity."""
    usage = container.usage
    if not isinstance(usage, dict) or usage.get(MEMORY) is None:
        return None
    try:
        return parse_value(usage[MEMORY])
    except QuantityError:
        return None
