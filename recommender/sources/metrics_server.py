"""Usage from metrics.k8s.io: one list of PodMetrics for the cluster or one namespace.

Source: recommender.md 12.2;
vertical-pod-autoscaler/pkg/recommender/input/metrics/metrics_client.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from common.api.metrics import PodMetrics
from common.kube.client import KubeClient
from common.kube.endpoints import POD_METRICS
from common.quantity import QuantityError, parse_milli, parse_value
from common.resources import CPU, MEMORY
from recommender.instants import instant
from recommender.model.keys import PodKey
from recommender.model.pods import TrackedPod
from recommender.rows import Ints


async def fetch(client: KubeClient, namespace: str) -> tuple[PodMetrics, ...]:
    """The latest usage of all pods, of one namespace or of all (empty).

    Raises:
        KubeError: the metrics server is missing, or in trouble.
        DecodeError: its answer is no list.
    """
    return (await client.list(POD_METRICS, namespace=namespace)).items


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """Samples of one resource; one element each."""

    rows: Ints  # of the model's containers
    times: Ints  # instants
    amounts: Ints  # millicores or bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """What one list of PodMetrics holds for containers that we follow."""

    cpu: Samples
    memory: Samples
    unknown: int  # containers that we don't follow
    unreadable: int  # amounts that are no quantities, and pods without a time


class _Column:
    def __init__(self) -> None:
        self.rows: list[int] = []
        self.times: list[int] = []
        self.amounts: list[int] = []

    def add(self, row: int, time: int, amount: int) -> None:
        self.rows.append(row)
        self.times.append(time)
        self.amounts.append(amount)

    def samples(self) -> Samples:
        return Samples(
            rows=np.array(self.rows, dtype=np.int64),
            times=np.array(self.times, dtype=np.int64),
            amounts=np.array(self.amounts, dtype=np.int64),
        )


def batch(metrics: Iterable[PodMetrics], pods: Mapping[PodKey, TrackedPod]) -> Batch:
    """Translate usage into samples, in the list's order.

    A missing resource gives no sample; the reference reads it as zero (Q8). Init
    containers are not among the followed ones, so their usage is dropped.
    """
    cpu, memory = _Column(), _Column()
    unknown = unreadable = 0
    for pod in metrics:
        tracked = pods.get(PodKey(pod.metadata.namespace, pod.metadata.name))
        if pod.timestamp is None:
            unreadable += 1
            continue
        time = instant(pod.timestamp)
        for container in pod.containers or ():
            row = tracked.containers.get(container.name) if tracked is not None else None
            if row is None:
                unknown += 1
                continue
            try:
                used = usage_of(container.usage or {})
            except QuantityError:
                unreadable += 1
                continue
            if CPU in used:
                cpu.add(row, time, used[CPU])
            if MEMORY in used:
                memory.add(row, time, used[MEMORY])
    return Batch(cpu=cpu.samples(), memory=memory.samples(), unknown=unknown, unreadable=unreadable)


def usage_of(usage: Mapping[str, str | int | float | None]) -> dict[str, int]:
    """Millicores and bytes, rounded up, of the resources that are there.

    Raises:
        QuantityError: one of them is no quantity.
    """
    found = {}
    if usage.get(CPU) is not None:
        found[CPU] = parse_milli(usage[CPU])
    if usage.get(MEMORY) is not None:
        found[MEMORY] = parse_value(usage[MEMORY])
    return found
