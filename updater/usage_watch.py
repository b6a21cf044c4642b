"""Watches the memory usage of pods whose memory limits are to go down in place."""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TypeAlias

from common.api.metrics import ContainerMetrics, PodMetrics
from common.errors import DecodeError, KubeError
from common.kube.client import KubeClient
from common.kube.endpoints import POD_METRICS
from common.quantity import QuantityError, parse_value
from common.resources import MEMORY
from common.runtime.clock import Clock
from updater.resize.memory_decrease import WINDOW, MemoryUse

logger = logging.getLogger(__name__)

_MOST_PODS = 5000
_MOST_GETS = 10  # pods of a namespace that are read one by one; more are listed
_MOST_CALLS = 20  # of a pass; beyond it the usage of the whole cluster is listed
_CONCURRENT = 8
_SLICE = 500  # pods
_LONGEST_SAMPLE = 10.0  # seconds for all calls of a pass

Usage: TypeAlias = Mapping[str, Mapping[str, MemoryUse]]
"""The largest usage in the window, by pod UID and container."""

Call: TypeAlias = Callable[[], AsyncIterator[Sequence[PodMetrics]]]
"""A call that reads usage, slice by slice."""


@dataclass(slots=True)
class _Samples:
    """The samples of one container within the window, oldest first."""

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


class UsageWatch:
    """The running window of memory usage, of watched pods only.

    Each pass reads metrics.k8s.io once for the pods on which the last pass decided that a memory
    limit is to go down. A usage that can't be read stays unknown, which holds the decrease. The
    cause is logged once until a read succeeds.
    """

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._samples: dict[str, defaultdict[str, _Samples]] = {}  # by pod UID, then container
        self._fails = False
        self._undecodable: frozenset[str] = frozenset()  # pods of the last list

    @property
    def use(self) -> Usage:
        """Return the largest usage within the window at the last sample."""
        return {
            uid: {name: each.use for name, each in containers.items() if each.found}
            for uid, containers in self._samples.items()
        }

    async def sample(self, pods: Mapping[str, tuple[str, str]], *, within: float) -> None:
        """Read the usage of these pods, by UID their namespaces and names; forget all others.

        Of more than 5000 pods those that were watched before come first. Calls without an answer
        ``within`` these seconds, ten at most, are given up.
        """
        order = sorted(pods, key=lambda uid: uid not in self._samples)
        watched = {uid: pods[uid] for uid in islice(order, _MOST_PODS)}
        self._samples = {uid: self._samples.get(uid) or defaultdict(_Samples) for uid in watched}
        if not watched:
            return
        uids = {place: uid for uid, place in watched.items()}
        errors: list[str] = []
        succeeded = False
        slots = asyncio.Semaphore(_CONCURRENT)

        async def read(call: Call) -> None:
            nonlocal succeeded
            async with slots:
                try:
                    async for found in call():
                        for each in found:
                            uid = uids.get((each.metadata.namespace, each.metadata.name))
                            if uid is not None:
                                self._add(uid, each)
                except (KubeError, DecodeError) as error:
                    errors.append(str(error))
                    return
            succeeded = True

        try:
            async with asyncio.timeout(min(within, _LONGEST_SAMPLE)), asyncio.TaskGroup() as group:
                for call in self._calls(uids):
                    group.create_task(read(call))
        except TimeoutError:
            errors.append("no answer in time")
        self._drop_old()
        self._log(errors, succeeded=succeeded)

    def _calls(self, places: Collection[tuple[str, str]]) -> Sequence[Call]:
        """Return the calls that read these pods, given by namespace and name."""
        names = defaultdict[str, list[str]](list)
        for namespace, name in places:
            names[namespace].append(name)
        calls: list[Call] = []
        for namespace, each in names.items():
            if len(each) > _MOST_GETS:
                calls.append(partial(self._list, namespace))
            else:
                calls += (partial(self._get, namespace, name) for name in each)
        if len(calls) > _MOST_CALLS and len(names) > 1:
            return [partial(self._list, "")]
        return calls

    async def _list(self, namespace: str) -> AsyncIterator[Sequence[PodMetrics]]:
        """Yield the usage of a namespace, or of the cluster, with pauses for other tasks."""
        undecodable: list[str] = []
        listed = await self._client.list_undecoded(
            POD_METRICS, namespace=namespace, undecodable=undecodable, known=self._undecodable
        )
        for found in listed.slices(_SLICE):
            yield found
            await asyncio.sleep(0)
        self._undecodable = frozenset(undecodable)

    async def _get(self, namespace: str, name: str) -> AsyncIterator[Sequence[PodMetrics]]:
        yield (await self._client.get(POD_METRICS, name, namespace=namespace, retry=False),)

    def _add(self, uid: str, metrics: PodMetrics) -> None:
        if metrics.timestamp is None:
            return
        at = min(metrics.timestamp, self._clock.now())
        for container in metrics.containers or ():
            count = _memory(container)
            if count is not None:
                self._samples[uid][container.name].add(at, count)

    def _drop_old(self) -> None:
        start = self._clock.now() - WINDOW
        for containers in self._samples.values():
            for each in containers.values():
                each.drop_before(start)

    def _log(self, errors: Sequence[str], *, succeeded: bool) -> None:
        if errors and not succeeded and not self._fails:
            self._fails = True
            logger.warning(
                "memory usage can't be read, so no memory limit goes down in place",
                extra={"error": errors[0]},
            )
        elif succeeded and self._fails:
            self._fails = False
            logger.info("memory usage is read again")


def _memory(container: ContainerMetrics) -> int | None:
    """Return the memory usage in bytes; None: it is missing or no quantity."""
    usage = container.usage
    if not isinstance(usage, dict) or usage.get(MEMORY) is None:
        return None
    try:
        return parse_value(usage[MEMORY])
    except QuantityError:
        return None
