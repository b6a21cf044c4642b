"""CPU time of single calls of the client: evictions, and resizes with the pod in the response.

It is run as a file, so that ``PYTHONPATH`` selects the checkout whose client is measured.
"""

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable

import uvloop

from common.api.core import Pod
from common.kube import config
from common.kube.client import KubeClient
from common.kube.endpoints import PODS
from common.patches import Operation, add

_CONCURRENT = 32
_WARM_UP = 500
_QPS = 1e6


async def _cpu(calls: int, call: Callable[[int], Awaitable[object]]) -> float:
    """Return the microseconds of CPU per call, with 32 concurrent calls."""

    async def worker(first: int) -> None:
        for number in range(first, calls, _CONCURRENT):
            await call(number)

    began = time.process_time()
    async with asyncio.TaskGroup() as group:
        for first in range(_CONCURRENT):
            group.create_task(worker(first))
    return (time.process_time() - began) / calls * 1e6


async def measure(kubeconfig: str, calls: int) -> dict[str, float]:
    """Return the figures by name."""
    connection = await config.load(kubeconfig)
    async with KubeClient(connection, user_agent="bench", qps=_QPS, burst=_QPS) as client:
        pods = (await client.list(PODS)).items[: 2 * calls + 2 * _WARM_UP]
        operations: list[Operation] = [
            add("/spec/containers/0/resources/requests/cpu", "250m"),
            add("/spec/containers/0/resources/requests/memory", "300Mi"),
        ]

        def resize(pod: Pod) -> Awaitable[object]:
            meta = pod.metadata
            return client.resize(meta.namespace, meta.name, operations)

        def evict(pod: Pod) -> Awaitable[object]:
            meta = pod.metadata
            return client.evict(meta.namespace, meta.name, uid=meta.uid)

        await _cpu(_WARM_UP, lambda at: resize(pods[at]))
        gc.collect()
        gc.freeze()  # as the components do when their caches have synced
        return {
            "resize": await _cpu(calls, lambda at: resize(pods[at % len(pods)])),
            "eviction": await _cpu(calls, lambda at: evict(pods[at])),
        }


def main() -> None:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--calls", type=int, default=4000)
    asked = parser.parse_args()
    print(json.dumps(uvloop.run(measure(asked.kubeconfig, asked.calls))))


if __name__ == "__main__":
    main()
