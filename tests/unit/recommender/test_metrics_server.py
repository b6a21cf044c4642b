"""PodMetrics converted to samples: accepted, skipped and unreadable ones."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from common.api.metrics import PodMetrics
from recommender.model.keys import PodKey
from recommender.model.pods import PodFacts
from recommender.model.timestamps import NEVER, instant
from recommender.model.usage import Usage
from recommender.sources.metrics_server import ContainerSamples, batch

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=2)
CONTAINERS = ("app", "log")


def pod_metrics(name: str = "web-1", **fields: Any) -> PodMetrics:
    """Decode the metrics of a pod in the namespace ``shop`` from JSON."""
    metadata = {"namespace": "shop", "name": name}
    found = {"metadata": metadata, "timestamp": NOW.isoformat(), "window": "15s", **fields}
    return msgspec.json.decode(msgspec.json.encode(found), type=PodMetrics)


def of_containers(**usage: Any) -> list[Any]:
    return [{"name": name, "usage": used} for name, used in usage.items()]


def usage_of_pods(*names: str) -> Usage:
    usage = Usage()
    for name in names:
        key = PodKey("shop", name)
        facts = PodFacts(key=key, uid=name, labels={}, active=True, containers=CONTAINERS)
        usage.put_pod(facts, NEVER)
    return usage


def amounts(usage: Usage, samples: ContainerSamples) -> dict[str, int]:
    """Return the amounts by pod and container."""
    places = {
        row: f"{key.name}/{container}"
        for key, pod in usage.pods.items()
        for container, row in pod.containers.items()
    }
    columns = samples.rows.tolist(), samples.amounts.tolist()
    return {places[row]: amount for row, amount in zip(*columns, strict=True)}


def test_an_unreadable_value_is_skipped_alone() -> None:
    usage = usage_of_pods("web-1", "web-2")
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


SOME = of_containers(app={"cpu": "100m", "memory": "2"})


@pytest.mark.parametrize(
    ("window", "seconds", "counts"),
    [
        pytest.param("15s", 75, True, id="15s: its window and a minute ahead"),
        pytest.param("15s", 76, False, id="15s: a second more"),
        pytest.param("90s", 150, True, id="a longer window, and a minute"),
        pytest.param("90s", 151, False, id="a longer window, and a second more"),
        pytest.param("1h", 660, True, id="a window of an hour: eleven minutes"),
        pytest.param("1h", 661, False, id="a window of an hour: a second more"),
        pytest.param(None, 120, True, id="no window: two minutes"),
        pytest.param(None, 121, False, id="no window: a second more"),
        pytest.param(15, 120, True, id="a window of another type: two minutes"),
        pytest.param(15, 121, False, id="a window of another type: a second more"),
        pytest.param("15s", 3300, False, id="55 minutes"),
        pytest.param("15s", 0, True, id="now"),
        pytest.param("15s", -86400, True, id="a day ago"),
    ],
)
def test_samples_from_the_future_are_skipped(window: object, seconds: int, *, counts: bool) -> None:
    usage = usage_of_pods("web-1", "web-2")
    at = NOW + timedelta(seconds=seconds)
    odd = pod_metrics("web-1", timestamp=at.isoformat(), window=window, containers=SOME)
    right = pod_metrics("web-2", timestamp=LONG_AGO.isoformat(), containers=SOME)
    found = batch([odd, right], usage.pods, now=instant(NOW))
    wanted = {"web-1/app", "web-2/app"} if counts else {"web-2/app"}
    assert amounts(usage, found.cpu).keys() == amounts(usage, found.memory).keys() == wanted
    assert found.ahead == (0 if counts else 1)
    assert found.newest == (at if counts else LONG_AGO)
    assert found.unreadable == 0


def test_each_pod_counts_by_its_own_window() -> None:
    usage = usage_of_pods("web-1", "web-2", "web-3")
    at = (NOW + timedelta(seconds=100)).isoformat()
    windows = {"web-1": "40s", "web-2": "39s", "web-3": "41s"}
    metrics = [
        pod_metrics(name, timestamp=at, window=window, containers=SOME)
        for name, window in windows.items()
    ]
    found = batch(metrics, usage.pods, now=instant(NOW))
    assert amounts(usage, found.cpu).keys() == {"web-1/app", "web-3/app"}
    assert found.ahead == 1
