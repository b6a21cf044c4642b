"""Usage from metrics.k8s.io: one list of PodMetrics for the cluster, or one for each namespace.

Source: recommender.md 12.2;
vertical-pod-autoscaler/pkg/recommender/input/metrics/metrics_client.go.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import numpy as np

from common.api.metrics import PodMetrics
from common.errors import DecodeError, KubeError
from common.kube.client import UNDECODABLE, KubeClient
from common.kube.endpoints import POD_METRICS
from common.kube.pages import Undecoded
from common.quantity import QuantityError, parse_milli, parse_value
from common.resources import CPU, MEMORY
from recommender.concurrency import run_concurrently
from recommender.model.clock_tolerance import MARGIN, tolerated
from recommender.model.column_table import Ints
from recommender.model.keys import PodKey
from recommender.model.pods import TrackedPod
from recommender.model.timestamps import NEVER, instant, span
from recommender.sources.fetch_result import OK, FetchOutcome, FetchResult

_RESOURCE = f"{POD_METRICS.resource}.{POD_METRICS.group}"  # differs from that of pods


class MetricsServerSource:
    """Asks for the usage of the whole cluster, or of one namespace if there is only one.

    Should the one list of the cluster fail, each namespace with VPAs is asked for on its own:
    an account may be allowed no more, and one strange answer costs one namespace. Where the
    first namespaces fail as well, the others are not asked: what serves usage is down (X70).
    """

    def __init__(self, client: KubeClient, *, namespace: str, workers: int) -> None:
        """``namespace`` is the only one that counts; empty: all do."""
        self._client = client
        self._namespace = namespace
        self._workers = workers
        self._known: frozenset[str] = frozenset()  # pods that couldn't be read the last time
        self._strange: list[str] = []  # and this time

    async def fetch(self, namespaces: Collection[str]) -> FetchResult:
        """Return the latest usage; ``namespaces`` are those that have VPAs."""
        for _ in self._strange:
            self._client.troubled(_RESOURCE, UNDECODABLE)
        self._known, self._strange = frozenset(self._strange), []
        found, answer = await self._list(self._namespace)
        if answer.outcome == OK or self._namespace or not self._client.reachable:
            return FetchResult(lists=found, answers=(answer,))
        lists: list[Undecoded[PodMetrics]] = []
        answers: list[FetchOutcome] = []

        async def fetch_one(namespace: str) -> None:
            if len(answers) >= self._workers and all(one.outcome != OK for one in answers):
                return
            found, answer = await self._list(namespace)
            lists.extend(found)
            answers.append(answer)

        await run_concurrently(sorted(namespaces), fetch_one, workers=self._workers)
        return FetchResult(lists=lists, answers=(answer, *answers))

    async def _list(self, namespace: str) -> tuple[Sequence[Undecoded[PodMetrics]], FetchOutcome]:
        """Return the items, each decoded when it is read: all of them would fill the memory."""
        try:
            found = await self._client.list_undecoded(
                POD_METRICS, namespace=namespace, strange=self._strange, known=self._known
            )
        except (KubeError, DecodeError) as error:
            return (), FetchOutcome.failed(namespace, error)
        return (found,), FetchOutcome(place=namespace)


_LATE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContainerSamples:
    """Samples of one resource; one element each."""

    rows: Ints  # of the model's containers
    times: Ints  # instants
    amounts: Ints  # millicores or bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsageBatch:
    """What one list of PodMetrics holds for containers that we follow."""

    cpu: ContainerSamples
    memory: ContainerSamples
    unknown: int  # containers that we don't follow
    unreadable: int  # values that are no quantities, and pods without a time
    ahead: int  # pods whose timestamp is too far ahead
    newest: datetime | None  # of the timestamps that are not


class _Column:
    def __init__(self) -> None:
        self.rows: list[int] = []
        self.times: list[int] = []
        self.amounts: list[int] = []

    def add(self, row: int, time: int, amount: int) -> None:
        self.rows.append(row)
        self.times.append(time)
        self.amounts.append(amount)

    def samples(self) -> ContainerSamples:
        return ContainerSamples(
            rows=np.array(self.rows, dtype=np.int64),
            times=np.array(self.times, dtype=np.int64),
            amounts=np.array(self.amounts, dtype=np.int64),
        )


def batch(
    metrics: Iterable[PodMetrics], pods: Mapping[PodKey, TrackedPod], *, now: int = _LATE
) -> UsageBatch:
    """Translate usage into samples, in the list's order.

    What is ahead of ``now``, an instant, by more than its window and a minute is left out (X33).
    A missing resource gives no sample; the reference reads it as zero (Q8). Init
    containers are not among the followed ones, so their usage is dropped.
    """
    cpu, memory = _Column(), _Column()
    unknown = unreadable = ahead = 0
    newest: datetime | None = None
    surely = now + span(MARGIN)  # not too far ahead, whatever the window
    known: Mapping[str, int]
    at, time = None, NEVER
    for pod in metrics:
        # A plain tuple is equal to a key, and made in a fifth of the time.
        tracked = pods.get(cast("PodKey", (pod.metadata.namespace, pod.metadata.name)))
        if pod.timestamp is None:
            unreadable += 1
            continue
        if pod.timestamp != at:  # many pods have one time
            at, time = pod.timestamp, instant(pod.timestamp)
        if time > surely and time > now + span(tolerated(pod.window)):
            ahead += 1
            continue
        if newest is None or pod.timestamp > newest:
            newest = pod.timestamp
        known = tracked.containers if tracked is not None else {}
        for container in pod.containers or ():
            row = known.get(container.name)
            if row is None:
                unknown += 1
                continue
            used, failed = usage_of(container.usage)
            unreadable += failed
            if CPU in used:
                cpu.add(row, time, used[CPU])
            if MEMORY in used:
                memory.add(row, time, used[MEMORY])
    return UsageBatch(
        cpu=cpu.samples(),
        memory=memory.samples(),
        unknown=unknown,
        unreadable=unreadable,
        ahead=ahead,
        newest=newest,
    )


_PARSERS = ((CPU, parse_milli), (MEMORY, parse_value))


def usage_of(usage: object) -> tuple[dict[str, int], int]:
    """Return millicores and bytes, rounded up, of the resources that are there.

    The second number counts the values that can't be read; a ``usage`` that is no object counts
    as one.
    """
    if usage is None:
        return {}, 0
    if not isinstance(usage, dict):
        return {}, 1
    found, unreadable = {}, 0
    for resource, parse in _PARSERS:
        value = usage.get(resource)
        if value is None:
            continue
        try:
            found[resource] = parse(value)
        except QuantityError:
            unreadable += 1
    return found, unreadable
