"""Checkpoints of a workload with a typical distribution of usage, for tests of the CLI."""

import math
from typing import Any

from cli_cluster import CliCluster
from common.kube.endpoints import CHECKPOINTS
from workloads import NAMESPACE

FIRST, LAST = "2026-01-01T00:00:00Z", "2026-01-02T12:00:00Z"


def _hill(*hills: tuple[int, int, float]) -> dict[str, int]:
    """Return relative weights of buckets; a hill has a center, a height and a width."""
    weights = {
        bucket: sum(
            height * math.exp(-(((bucket - center) / width) ** 2))
            for center, height, width in hills
        )
        for bucket in range(100)
    }
    return {str(bucket): round(weight) for bucket, weight in weights.items() if weight >= 1}


CPU = _hill((24, 10_000, 6.0), (38, 2_500, 3.0))
MEMORY = _hill((20, 10_000, 2.0), (27, 3_000, 1.5))


async def add_checkpoint(
    cluster: CliCluster,
    vpa: str,
    container: str = "app",
    *,
    cpu: dict[str, int] = CPU,
    memory: dict[str, int] = MEMORY,
    **status: Any,
) -> None:
    """Create a checkpoint as the reference writes it, of a day and a half with 2,160 samples."""
    await cluster.client.create(
        CHECKPOINTS.as_dicts(),
        {
            "metadata": {"name": f"{vpa}-{container}"},
            "spec": {"vpaObjectName": vpa, "containerName": container},
            "status": {
                "version": "v3",
                "lastUpdateTime": LAST,
                "cpuHistogram": {
                    "referenceTimestamp": LAST,
                    "bucketWeights": cpu,
                    "totalWeight": 200.0,
                },
                "memoryHistogram": {
                    "referenceTimestamp": LAST,
                    "bucketWeights": memory,
                    "totalWeight": 3.0,
                },
                "firstSampleStart": FIRST,
                "lastSampleStart": LAST,
                "totalSamplesCount": 2160,
                **status,
            },
        },
        namespace=NAMESPACE,
    )
