"""PodMetrics as samples: what counts, what is left out, and what is counted as unreadable."""

from typing import Any

import msgspec

from common.api.metrics import PodMetrics
from recommender.instants import NEVER
from recommender.model.keys import PodKey
from recommender.model.pods import PodFacts
from recommender.model.usage import Usage
from recommender.sources.metrics_server import Samples, batch

AT = "2026-01-02T12:00:00Z"
CONTAINERS = ("app", "log")


def pod_metrics(name: str = "web-1", **fields: Any) -> PodMetrics:
    """Decode the metrics of a pod of the namespace ``shop``, as they arrive."""
    metadata = {"namespace": "shop", "name": name}
    found = {"metadata": metadata, "timestamp": AT, "window": "15s", **fields}
    return msgspec.json.decode(msgspec.json.encode(found), type=PodMetrics)


def of_containers(**usage: Any) -> list[Any]:
    return [{"name": name, "usage": used} for name, used in usage.items()]


def followed(*names: str) -> Usage:
    usage = Usage()
    for name in names:
        key = PodKey("shop", name)
        facts = PodFacts(key=key, uid=name, labels={}, active=True, containers=CONTAINERS)
        usage.put_pod(facts, NEVER)
    return usage


def amounts(usage: Usage, samples: Samples) -> dict[str, int]:
    """The amounts by pod and container."""
    places = {
        row: f"{key.name}/{container}"
        for key, pod in usage.pods.items()
        for container, row in pod.containers.items()
    }
    columns = samples.rows.tolist(), samples.amounts.tolist()
    return {places[row]: amount for row, amount in zip(*columns, strict=True)}


def test_an_unreadable_value_costs_that_value_alone() -> None:
    usage = followed("web-1", "web-2")
    found = batch(
        [
            pod_metrics(
                "web-1",
                containers=of_containers(
                    app={"cpu": "100m", "memory": "much"},
                    log={"cpu": {"value": 1}, "memory": "2"},
                ),
            ),
            pod_metrics("web-2", containers=of_containers(app={"cpu": "3m", "memory": "3"}, log=7)),
        ],
        usage.pods,
    )
    assert amounts(usage, found.cpu) == {"web-1/app": 100, "web-2/app": 3}
    assert amounts(usage, found.memory) == {"web-1/log": 2, "web-2/app": 3}
    assert found.unreadable == 3
