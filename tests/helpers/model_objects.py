"""Pods, OOM kills and policies of a random stream, as API objects."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from reference_model import Policy

_CPU_EDGES = (0, 1, 9, 10, 20, 21, 32, 1_000_000, 2_000_000, -1)
_MEMORY_EDGES = (0, 0, 1, 10_000_000, 20_500_000, 31_525_000, 43_101_250, 2 * 10**12, -1)
_BUMPS = {"0": 0.0, "20Mi": 20.0 * 2**20, "1Gi": 2.0**30}


@dataclass
class LivePod:
    """A pod in the API server."""

    uid: str
    born: datetime
    place: tuple[str, str]
    labels: dict[str, str]
    requests: dict[str, int]  # memory by container
    phase: str = "Running"
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    kills: dict[str, list[datetime]] = field(default_factory=dict)  # in its status, by container

    def shown(self) -> dict[str, Any]:
        containers = [
            {"name": name, "resources": {"requests": {"memory": str(memory)}}}
            for name, memory in self.requests.items()
        ]
        namespace, name = self.place
        return {
            "metadata": {
                "namespace": namespace,
                "name": name,
                "uid": self.uid,
                "labels": dict(self.labels),
            },
            "spec": {"containers": containers},
            "status": {"phase": self.phase, "containerStatuses": list(self.statuses.values())},
        }


@dataclass
class Kill:
    pod: LivePod
    container: str
    at: datetime
    memory: int
    labels: Mapping[str, str] | None  # of the version with the kill; None: of the last one
    initial: bool = False  # seen at the start


def some_usage(rng: random.Random, place: tuple[str, str], at: datetime) -> dict[str, Any]:
    """Return PodMetrics of a pod; a resource may be missing (Q8), a container may be unknown."""
    containers = []
    for name in ("app", "sidecar"):
        used = {"cpu": f"{_cpu(rng)}m", "memory": str(_memory(rng))}
        for resource in ("cpu", "memory"):
            if rng.random() < 0.1:
                del used[resource]
        containers.append({"name": name, "usage": used})
    namespace, pod = place
    return {
        "metadata": {"namespace": namespace, "name": pod},
        "timestamp": at.isoformat(),
        "window": "15s",
        "containers": containers,
    }


def _cpu(rng: random.Random) -> int:
    if rng.random() < 0.1:
        return rng.choice(_CPU_EDGES)
    return int(math.exp(rng.uniform(0, math.log(50_000))))


def _memory(rng: random.Random) -> int:
    if rng.random() < 0.15:
        return rng.choice(_MEMORY_EDGES)
    return int(math.exp(rng.uniform(math.log(10**6), math.log(10**11))))


def eviction(pod: LivePod, container: str, at: datetime, used: int, number: int) -> dict[str, Any]:
    """Return the kubelet's Event."""
    namespace, name = pod.place
    return {
        "metadata": {
            "namespace": namespace,
            "name": f"{name}.{number}",
            "uid": f"event-{number}",
            "creationTimestamp": at.isoformat(),
            "annotations": {
                "offending_containers": container,
                "offending_containers_usage": str(used),
                "starved_resource": "memory",
            },
        },
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name, "uid": pod.uid},
        "reason": "Evicted",
    }


def some_policy(rng: random.Random) -> dict[str, Any]:
    """Return a container policy with some of the overrides of PerVPAConfig."""
    chosen = {
        "containerName": rng.choice(("app", "sidecar", "*", "*")),
        "memoryAggregationIntervalSeconds": rng.choice((300, 3_600, 86_400)),
        "memoryAggregationIntervalCount": rng.choice((8, 300)),
        "oomBumpUpRatio": rng.choice(("1", "1.5", "3")),
        "oomMinBumpUp": rng.choice(tuple(_BUMPS)),
    }
    kept = [name for name in chosen if name == "containerName" or rng.random() < 0.4]
    return {name: chosen[name] for name in kept}


def plain_policy(policy: Mapping[str, Any]) -> Policy:
    """Return the policy for the reference model."""
    seconds = policy.get("memoryAggregationIntervalSeconds")
    bump = policy.get("oomMinBumpUp")
    ratio = policy.get("oomBumpUpRatio")
    return Policy(
        container=policy["containerName"],
        interval=None if seconds is None else timedelta(seconds=seconds),
        interval_count=policy.get("memoryAggregationIntervalCount"),
        ratio=None if ratio is None else float(ratio),
        min_bump_up=None if bump is None else _BUMPS[bump],
    )
