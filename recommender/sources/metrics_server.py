"""Usage from metrics.k8s.io: a list of PodMetrics for the cluster, or one for each namespace.

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
from common.kube.paginated_list import Undecoded
from common.quantity import QuantityError, parse_milli, parse_value
from common.resources import CPU, MEMORY
from recommender.concurrency import run_concurrently
from recommender.model.clock_tolerance import MARGIN, tolerated
from recommender.model.column_table import Ints
from recommender.model.keys import PodKey
from recommender.model.pods import TrackedPod
from recommender.model.timestamps import NEVER, instant, span
from recommender.sources.fetch_result import OK, FetchOutcome, FetchResult

_RESOURCE = f"{POD_METRICS.resource}.{POD_METRICS.group}"  # with the group: its name is ``pods``


class MetricsServerSource:
    """Lists the usage of the whole cluster, or of the one namespace that counts.

    If the list of the cluster fails, each namespace with VPAs is listed: the permission for more
    may be missing, and an invalid response then affects only one namespace. If the first
    namespaces fail too, the others are skipped, because the metrics server is down (X70).
    """

    def __init__(self, client: KubeClient, *, namespace: str, workers: int) -> None:
        """Initialize; ``namespace`` is the only one that counts, or empty for all."""
        self._client = client
        self._namespace = namespace
        self._workers = workers
        self._undecodable: list[str] = []  # pods of this cycle
        self._known: frozenset[str] = frozenset()  # undecodable pods of the last cycle

    async def fetch(self, namespaces: Collection[str]) -> FetchResult:
        """Return the latest usage in these namespaces, which have VPAs."""
        for _ in self._undecodable:
            self._client.read_failed(_RESOURCE, UNDECODABLE)
        self._known, self._undecodable = frozenset(self._undecodable), []
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
        """Return the items, which are decoded one by one to save memory."""
        try:
            found = await self._client.list_undecoded(
                POD_METRICS, namespace=namespace, undecodable=self._undecodable, known=self._known
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

    @classmethod
    def of(cls, samples: Sequence[int]) -> "ContainerSamples":
        """Return the columns of samples, which are row, time and amount one after the other."""
        rows, times, amounts = np.array(samples, dtype=np.int64).reshape(-1, 3).T
        return cls(rows=rows, times=times, amounts=amounts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsageBatch:
    """The samples in PodMetrics, with the number of unusable ones."""

    cpu: ContainerSamples
    memory: ContainerSamples
    unknown: int  # containers that aren't tracked
    unreadable: int  # values that aren't quantities, and pods without a timestamp
    ahead: int  # pods whose timestamp is too far ahead
    newest: datetime | None  # of the other timestamps


def batch(
    metrics: Iterable[PodMetrics], pods: Mapping[PodKey, TrackedPod], *, now: int = _LATE
) -> UsageBatch:
    """Convert usage to samples, in order.

    Pods whose timestamp is ahead of the instant ``now`` by more than their window and a minute are
    left out (X33). A missing resource has no sample; the reference reads it as zero (Q8). Init
    containers are not tracked, so their usage is dropped.
    """
    cpu, memory = list[int](), list[int]()
    unknown = unreadable = ahead = 0
    newest: datetime | None = None
    accepted = now + span(MARGIN)  # with any window
    known: Mapping[str, int]
    at, time = None, NEVER
    for pod in metrics:
        # A plain tuple is equal to a key, and five times faster to create.
        tracked = pods.get(cast("PodKey", (pod.metadata.namespace, pod.metadata.name)))
        if pod.timestamp is None:
            unreadable += 1
            continue
        if pod.timestamp != at:  # many pods have the same
            at, time = pod.timestamp, instant(pod.timestamp)
        if time > accepted and time > now + span(tolerated(pod.window)):
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
                cpu += row, time, used[CPU]
            if MEMORY in used:
                memory += row, time, used[MEMORY]
    return UsageBatch(
        cpu=ContainerSamples.of(cpu),
        memory=ContainerSamples.of(memory),
        unknown=unknown,
        unreadable=unreadable,
        ahead=ahead,
        newest=newest,
    )


_PARSERS = ((CPU, parse_milli), (MEMORY, parse_value))


def usage_of(usage: object) -> tuple[dict[str, int], int]:
    """Return the usage in millicores and bytes, rounded up, and the number of invalid values.

    A ``usage`` that is not an object counts as one invalid value.
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
